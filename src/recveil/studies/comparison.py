"""Two folders of results side by side: the same cells, and by how much they differ, paired.

Cells are paired by id, and where that fails by what tables call them: so the same plan with another option, version or
device can be compared. Seeds are pooled: folds of all seeds under the corrected t, the ranking user by user.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from recveil.core.errors import DataError
from recveil.core.types import Estimate
from recveil.metrics.intervals import corrected_t
from recveil.metrics.ranking import difference, mean, ndcg
from recveil.studies.plans import Cell
from recveil.studies.rank_codec import unpack_ranks
from recveil.studies.store import Store

__all__ = ["compare_stores"]

Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
K = 10


def compare_stores(first: Store, second: Store) -> dict[str, Any]:
    """For each combination that both have: the numbers of both and the paired difference, second less first."""
    ours, theirs = _read_cells(first), _read_cells(second)
    pairs, alone = _pair_cells(ours, theirs)
    if not pairs:
        raise DataError(
            f"{first.folder} and {second.folder} have no finished cell in common. Compare two runs of a plan."
        )
    groups: dict[str, list[Pair]] = {}
    for a, b in pairs:
        groups.setdefault(_name_combination(a, seed=False), []).append((a, b))
    rows = [
        {"cell": place, "seeds": len(found), **row} for place, found in groups.items() for row in _compare_pairs(found)
    ]
    equal = sum(a["records"] == b["records"] for a, b in pairs)
    return {
        "paired": len(pairs),
        "equal": equal,
        "only_first": alone,
        "only_second": len(theirs) - len(pairs),
        "rows": rows,
    }


def _read_cells(store: Store) -> dict[str, dict[str, Any]]:
    return {cell: store.read_cell(cell) for cell in sorted(store.finished_ids())}


def _pair_cells(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> tuple[list[Pair], int]:
    """Pairs, and how many of ours have no partner."""
    left = {_name_combination(content): content for name, content in theirs.items() if name not in ours}
    pairs = [(content, theirs[name]) for name, content in ours.items() if name in theirs]
    for name, content in ours.items():
        partner = None if name in theirs else left.pop(_name_combination(content), None)
        if partner is not None:
            pairs.append((content, partner))
    return sorted(pairs, key=lambda pair: _name_combination(pair[0])), len(ours) - len(pairs)


def _name_combination(content: Mapping[str, Any], *, seed: bool = True) -> str:
    """The combination in the words of the tables."""
    cell = Cell.from_dict(content["cell"])
    return ", ".join(
        cell.label(key) if key != "seed" else f"seed {value}" for key, value in _list_coordinates(cell, seed)
    )


def _list_coordinates(cell: Cell, seed: bool) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in cell.at.items() if seed or key != "seed"]


def _compare_pairs(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """The numbers of one combination over all seeds that both have."""
    kind = pairs[0][0]["cell"]["kind"]
    if kind == "membership":
        return [_compare_by_seed(pairs, attack, "auc") for attack in _list_attacks(pairs[0][0])]
    targets = [t for t in pairs[0][0]["details"]["targets"] if all(t in b["details"]["targets"] for _, b in pairs)]
    return [*(_compare_advantage(pairs, target) for target in targets), _compare_ranking(pairs)]


def _compare_advantage(pairs: Sequence[Pair], target: str) -> dict[str, Any]:
    """The signed headline advantage, fold by fold; the same seed deals the same folds."""
    a, b = ([fold for p in pairs for fold in p[side]["details"]["targets"][target]["folds"]] for side in (0, 1))
    facts = pairs[0][0]["details"]
    share, n = facts["test_share"], facts["targets"][target]["n"]

    def pooled(values: Any) -> Estimate:
        return corrected_t(np.asarray(values), share, n)

    if len(a) != len(b):  # dealt otherwise: the folds have no partners
        return _make_row(target, "advantage", pooled(a), pooled(b), _subtract_unpaired(pooled(a), pooled(b)))
    return _make_row(target, "advantage", pooled(a), pooled(b), pooled(np.subtract(b, a)))


def _compare_ranking(pairs: Sequence[Pair]) -> dict[str, Any]:
    """NDCG of the test items: for each user the mean over the seeds, then the users paired."""
    a, b = (np.mean([ndcg(unpack_ranks(p[side]["details"]["ranks"]), K) for p in pairs], axis=0) for side in (0, 1))
    if a.shape != b.shape:
        return _make_row("", f"ndcg@{K}", mean(a), mean(b), _subtract_unpaired(mean(a), mean(b)))
    return _make_row("", f"ndcg@{K}", mean(a), mean(b), difference(b, a))


def _compare_by_seed(pairs: Sequence[Pair], attack: str, metric: str) -> dict[str, Any]:
    """A number without anything kept of single users: the seeds are what is paired."""
    values = np.array([[_find_value(content, attack, metric) for content in pair] for pair in pairs])
    a, b = (mean(values[:, side], bounded=False) for side in (0, 1))
    return _make_row(attack, metric, a, b, mean(values[:, 1] - values[:, 0], bounded=False))


def _list_attacks(content: Mapping[str, Any]) -> list[str]:
    return [record["attack"] for record in content["records"] if record["metric"] == "auc"]


def _find_value(content: Mapping[str, Any], attack: str, metric: str) -> float:
    wanted: Callable[[Mapping[str, Any]], bool] = lambda r: r["attack"] == attack and r["metric"] == metric  # noqa: E731
    return next((float(r["estimate"]["value"]) for r in content["records"] if wanted(r)), float("nan"))


def _subtract_unpaired(a: Estimate, b: Estimate) -> Estimate:
    """The difference of two numbers that are not paired."""
    half = float(np.hypot(a.high - a.value, b.high - b.value))
    return Estimate(b.value - a.value, b.value - a.value - half, b.value - a.value + half, min(a.n, b.n))


def _make_row(target: str, metric: str, a: Estimate, b: Estimate, gap: Estimate) -> dict[str, Any]:
    differs = bool(gap.low > 0 or gap.high < 0)
    numbers = {"first": a.to_dict(), "second": b.to_dict(), "difference": gap.to_dict()}
    return {"target": target, "metric": metric, **numbers, "differs": differs}
