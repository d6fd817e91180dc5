"""A cell that tries one setting of a defense: attacks on the spared users, ranking of the validation items.

The numbers serve to choose a setting. The users who are attacked in a table, and the test items, are not looked at, so
an audit of the chosen setting stays honest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recveil.core.errors import DataError
from recveil.core.timing import Clock
from recveil.core.types import FloatArray, IntArray, Record, Split
from recveil.metrics import ranking
from recveil.studies.attribute_cells import (
    audit_target,
    estimate_change,
    load_split,
    release_cell,
    select_cell_targets,
    select_spared_users,
)
from recveil.studies.cell_results import Measurement, TrialDetails
from recveil.studies.cells import Cell
from recveil.workflows.defended_release import DefendedRelease

__all__ = ["K", "choose_spared_users", "make_trial_cell", "measure_trial_cell"]

K = 10
MIN_SPARED_USERS = 100
"""Spared users below which no setting can be chosen by them."""


def make_trial_cell(at: Mapping[str, Any], settings: Mapping[str, Any]) -> Cell:
    """Make the trial at these coordinates of an attribute cell; `unattacked` is the share of users to choose by."""
    return Cell("trial", at, settings, {axis: at[axis]["name"] for axis in ("model", "defense")})


def measure_trial_cell(cell: Cell, cache: Path) -> Measurement:
    """Measure the headline advantage on the spared users, and the change of NDCG on the validation items.

    Raises:
        DataError: there are too few spared users.
    """
    clock, split = Clock(), load_split(cell.data)
    targets = select_cell_targets(split.train.attributes, cell)
    users = choose_spared_users(split.train.n_users, cell.rules.unattacked)
    defended = release_cell(cell, cache, split, targets, clock)
    names = (cell.data, cell.label("model"), cell.label("defense"))
    records, folds = [], {}
    with clock.measure_step("audit"):
        for target in targets:
            audit = audit_target(cell, defended.user_vectors[users], target.take(users))
            records.append(Record(*names, "headline", target.name, cell.seed, "advantage", audit.headline.advantage))
            folds[target.name] = [float(advantage) for advantage in audit.fold_advantages]
    with clock.measure_step("rank"):
        change = estimate_change(*_rank_validation_items(defended, split))
    records.append(Record(*names, "", cell.target, cell.seed, f"ndcg_change@{K}", change))
    return Measurement(records, TrialDetails(folds=folds, users=len(users)), clock.seconds)


def choose_spared_users(n_users: int, share: float) -> IntArray:
    """Choose the users that settings are chosen on.

    Raises:
        DataError: they are too few.
    """
    users = np.sort(select_spared_users(n_users, share))
    if len(users) < MIN_SPARED_USERS:
        raise DataError(
            f"There are {len(users)} users to choose settings by, and at least {MIN_SPARED_USERS} are needed."
        )
    return users


def _rank_validation_items(defended: DefendedRelease, split: Split) -> tuple[FloatArray, FloatArray]:
    """Return NDCG of each user's validation item, undefended and defended."""
    before = ranking.rank(defended.undefended.score, split.valid, ranking.collect_seen_items(split.train))
    seen = ranking.collect_seen_items(defended.platform.train)
    assert defended.release.score is not None
    after = ranking.rank(defended.release.score, split.valid, seen)
    after = ranking.count_known_as_misses(after, split.valid, seen)
    return ranking.ndcg(before, K), ranking.ndcg(after, K)
