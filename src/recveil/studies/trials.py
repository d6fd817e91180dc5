"""A cell that tries one setting of a defense: attacked on the spared users, ranked on the validation items.

What is measured here is there to choose by. The users who are attacked in a table, and the test items, are not looked
at: an audit of the chosen setting stays honest.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recveil.audits.attribute.audit import audit_attribute
from recveil.core.errors import DataError
from recveil.core.timing import Clock
from recveil.core.types import Record, Split
from recveil.metrics import ranking
from recveil.studies.attribute_cells import (
    Exposed,
    attackers,
    estimate_change,
    expose,
    load_split,
    make_folds,
    select_cell_targets,
    select_spared_users,
)
from recveil.studies.plans import Cell

__all__ = ["K", "make_trial_cell", "measure_trial_cell"]

K = 10
MIN_SPARED_USERS = 100
"""Spared users below which nothing can be chosen by them."""


def make_trial_cell(at: Mapping[str, Any], settings: Mapping[str, Any]) -> Cell:
    """The trial at these coordinates of an attribute cell; `unattacked` is the share of users to choose by."""
    return Cell("trial", at, settings, {key: at[key]["name"] for key in ("model", "defense")})


def measure_trial_cell(cell: Cell, cache: Path) -> tuple[list[Record], dict[str, Any], dict[str, float]]:
    """The headline advantage on the spared users for each target, and the change of NDCG on the validation items."""
    clock, split = Clock(), load_split(cell.at["data"])
    targets = select_cell_targets(split.train.attributes, cell)
    users = np.sort(select_spared_users(split.train.n_users, cell.settings["unattacked"]))
    if len(users) < MIN_SPARED_USERS:
        raise DataError(
            f"There are {len(users)} users to choose settings by, and at least {MIN_SPARED_USERS} are needed."
        )
    exposed = expose(cell, cache, split, targets, clock)
    names = (cell.at["data"], cell.label("model"), cell.label("defense"))
    rows, folds = [], {}
    with clock.step("audit"):
        for target in targets:
            x, panel = np.ascontiguousarray(exposed.vectors[users]), attackers(cell.at["panel"], cell.device)
            found = audit_attribute(x, target.take(users), panel, rules=make_folds(cell), seed=cell.seed)
            rows.append(Record(*names, "headline", target.name, cell.seed, "advantage", found.headline.advantage))
            folds[target.name] = [float(v) for v in found.folds]
    with clock.step("rank"):
        moved = estimate_change(*_rank_validation_items(exposed, split))
    rows.append(Record(*names, "", cell.at["target"], cell.seed, f"ndcg_change@{K}", moved))
    return rows, {"folds": folds, "users": len(users)}, clock.seconds


def _rank_validation_items(exposed: Exposed, split: Split) -> tuple[Any, Any]:
    """NDCG of each user's validation item, undefended and defended."""
    plain = ranking.rank(exposed.plain.score, split.valid, ranking.seen_items(split.train))
    known = ranking.seen_items(exposed.platform.train)
    assert exposed.release.score is not None
    after = ranking.rank(exposed.release.score, split.valid, known)
    after = ranking.known_as_misses(after, split.valid, known)
    return ranking.ndcg(plain, K), ranking.ndcg(after, K)
