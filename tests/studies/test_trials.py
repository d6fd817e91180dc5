"""A trial looks at the spared users and the validation items, and at nothing that the final audit uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.studies import trials
from recveil.studies.attribute_cells import load_split, select_spared_users
from recveil.studies.cells import Cell
from recveil.studies.measurement import run_cell


@pytest.fixture
def make_trial(make_cell: Callable[..., Cell]) -> Callable[..., Cell]:
    def make(share: float, **options: Any) -> Cell:
        like = make_cell(settings={"unattacked": share}, defense=[{"name": "noise", **options}])
        return trials.make_trial_cell(like.at, like.settings)

    return make


def test_only_spared_users_are_attacked_and_only_validation_items_ranked(
    make_trial: Callable[..., Cell], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    attacked, ranked = [], []
    audit_target, rank = trials.audit_target, trials.ranking.rank

    def watch_audit(cell: Any, x: Any, target: Any) -> Any:
        attacked.append(target.codes)
        return audit_target(cell, x, target)

    def watch_rank(score: Any, held_out: Any, seen: Any, **more: Any) -> Any:
        ranked.append(held_out)
        return rank(score, held_out, seen, **more)

    monkeypatch.setattr(trials, "audit_target", watch_audit)
    monkeypatch.setattr(trials.ranking, "rank", watch_rank)
    cell = make_trial(0.8, scale=3.0)
    result, _ = run_cell(cell, tmp_path)
    split = load_split(cell.data)
    spared = np.sort(select_spared_users(150, 0.8))
    assert np.array_equal(attacked[0], split.train.attributes["gender"].codes[spared])
    assert all(held_out is split.valid for held_out in ranked)
    assert result.details.users == 120
    change = {record.metric: record.estimate.value for record in result.records}
    assert set(change) == {"advantage", "ndcg_change@10"}
    assert change["ndcg_change@10"] < 0  # noise larger than the table costs something


def test_a_trial_has_another_id_than_the_cell_it_is_like(make_trial: Callable[..., Cell]) -> None:
    trial = make_trial(0.8)
    assert trial.id != Cell("attribute", trial.at, trial.settings, trial.labels).id
    assert trial.id != make_trial(0.8, scale=0.5).id


def test_too_few_users_to_choose_by_are_an_error(make_trial: Callable[..., Cell], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="30 users to choose settings by, and at least 100"):
        run_cell(make_trial(0.2), tmp_path)
