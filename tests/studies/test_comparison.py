"""Two folders compared: equal ones are equal, a planted difference is found with its sign and its interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.core.random import generator
from recveil.metrics.ranking import Ranks, difference, ndcg
from recveil.studies.comparison import compare_stores
from recveil.studies.plans import Plan
from recveil.studies.rank_codec import pack_ranks
from recveil.studies.store import Store, create_store, describe_plan

USERS = 200


def attribute(**options: float) -> Plan:
    model = {"name": "bprmf", "label": "BPR", **options}
    grid = {"data": ["d"], "model": [model], "target": ["gender"], "seed": [0, 1]}
    return Plan.parse({"title": "t", "kind": "attribute", "grid": grid}, name="p")


def ranks(seed: int, better: int) -> Ranks:
    users = np.arange(USERS)
    drawn = generator(seed, "ranks").integers(0, 30, USERS)
    return Ranks(users, users, np.maximum(drawn - better, 0), np.zeros(USERS, dtype=np.int64))


def filled(folder: Path, plan: Plan, *, more: float = 0.0, better: int = 0, folds: int = 5) -> Store:
    store = create_store(folder, plan)
    describe_plan(store, plan)
    for cell in plan.cells():
        drawn = (generator(cell.seed, "folds").normal(0.3, 0.02, folds) + more).tolist()
        details = {"test_share": 0.25, "targets": {"gender": {"folds": drawn, "n": USERS}}}
        details |= {"ranks": pack_ranks(ranks(cell.seed, better))}
        records = [{"metric": "x", "value": [drawn, better]}]
        store.write_cell(cell.id, {"cell": cell.to_dict(), "records": records, "details": details}, {})
    return store


def row(found: dict[str, Any], metric: str) -> dict[str, Any]:
    [one] = [r for r in found["rows"] if r["metric"] == metric]
    return one


def test_a_folder_does_not_differ_from_itself(tmp_path: Path) -> None:
    store = filled(tmp_path / "a", attribute())
    found = compare_stores(store, store)
    assert (found["paired"], found["equal"], found["only_first"], found["only_second"]) == (2, 2, 0, 0)
    assert [r["difference"]["value"] for r in found["rows"]] == [0.0, 0.0]
    assert not any(r["differs"] for r in found["rows"])


def test_cells_of_another_option_are_paired_by_label_and_differ_as_planted(tmp_path: Path) -> None:
    first = filled(tmp_path / "a", attribute())
    second = filled(tmp_path / "b", attribute(epochs=3), more=-0.1, better=4)
    assert not first.finished_ids() & second.finished_ids()
    found = compare_stores(first, second)
    assert (found["paired"], found["equal"]) == (2, 0)
    advantage, quality = row(found, "advantage"), row(found, "ndcg@10")
    assert advantage["seeds"] == 2
    assert advantage["difference"]["value"] == pytest.approx(-0.1)
    assert advantage["differs"]
    a, b = (np.mean([ndcg(ranks(seed, better), 10) for seed in (0, 1)], axis=0) for better in (0, 4))
    assert quality["difference"] == pytest.approx(difference(b, a).to_dict())
    assert quality["differs"]


def test_folds_that_do_not_match_are_compared_unpaired(tmp_path: Path) -> None:
    first, second = filled(tmp_path / "a", attribute()), filled(tmp_path / "b", attribute(epochs=3), folds=10)
    gap = row(compare_stores(first, second), "advantage")["difference"]
    assert gap["low"] < 0 < gap["high"]


def test_membership_is_paired_by_seed(tmp_path: Path) -> None:
    stores = []
    for name, shift in (("a", 0.0), ("b", 0.1)):
        grid = {"data": ["d"], "target": ["als"], "shadow": ["als"], "seed": [0, 1, 2]}
        plan = Plan.parse({"title": "t", "kind": "membership", "grid": grid}, name="p")
        store = create_store(tmp_path / name, plan)
        for cell in plan.cells():
            wobble = shift * (1 + 0.01 * cell.seed)
            auc = {"attack": "dlmia", "metric": "auc", "estimate": {"value": 0.6 + cell.seed / 50 + wobble}}
            store.write_cell(cell.id, {"cell": cell.to_dict(), "records": [auc], "details": {}}, {})
        stores.append(store)
    found = row(compare_stores(*stores), "auc")
    assert found["difference"]["value"] == pytest.approx(0.101)
    assert found["differs"]


def test_nothing_in_common_is_said(tmp_path: Path) -> None:
    first = filled(tmp_path / "a", attribute())
    with pytest.raises(DataError, match="have no finished cell in common"):
        compare_stores(first, create_store(tmp_path / "b", attribute()))
