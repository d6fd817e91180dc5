"""Two folders of results compared: the same cells, and by how much they differ, paired.

Cells are paired by id, else by their labels: so the same plan with another option, version or device can be compared.
Seeds are pooled: folds of all seeds under the corrected t, the ranking user by user.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from recveil.core.errors import DataError
from recveil.core.study_parts import ComparisonRow, StudyComparison
from recveil.core.types import Estimate
from recveil.metrics.intervals import estimate_corrected_mean
from recveil.metrics.ranking import estimate_difference, estimate_mean
from recveil.studies.cell_results import CellResult
from recveil.studies.pooled_seeds import average_over_seeds
from recveil.studies.store import Store

__all__ = ["compare_stores"]

K = 10


@dataclass(frozen=True, eq=False)
class _Pair:
    """The same cell in both folders."""

    first: CellResult
    second: CellResult

    @property
    def is_equal(self) -> bool:
        """Whether every number is equal."""
        return list(self.first.records) == list(self.second.records)


@dataclass(frozen=True)
class _Numbers:
    """A number in both folders, and the difference: second less first."""

    first: Estimate
    second: Estimate
    difference: Estimate


def compare_stores(first: Store, second: Store) -> StudyComparison:
    """Compare each combination that both folders have: second less first.

    Raises:
        DataError: they have no finished cell in common, or a file is damaged.
    """
    ours, theirs = _read_cells(first), _read_cells(second)
    pairs = _pair_cells(ours, theirs)
    if not pairs:
        raise DataError(
            f"{first.folder} and {second.folder} have no finished cell in common. Compare two runs of a plan."
        )
    groups: dict[str, list[_Pair]] = {}
    for pair in pairs:
        groups.setdefault(_name_combination(pair.first, with_seed=False), []).append(pair)
    return StudyComparison(
        paired=len(pairs),
        equal=sum(pair.is_equal for pair in pairs),
        only_first=len(ours) - len(pairs),
        only_second=len(theirs) - len(pairs),
        rows=[row for name, group in groups.items() for row in _compare_pairs(name, group)],
    )


def _read_cells(store: Store) -> dict[str, CellResult]:
    return {cell_id: store.read_cell(cell_id) for cell_id in sorted(store.finished_ids())}


def _pair_cells(ours: Mapping[str, CellResult], theirs: Mapping[str, CellResult]) -> list[_Pair]:
    by_name = {_name_combination(result): result for cell_id, result in theirs.items() if cell_id not in ours}
    pairs = [_Pair(result, theirs[cell_id]) for cell_id, result in ours.items() if cell_id in theirs]
    for cell_id, result in ours.items():
        partner = None if cell_id in theirs else by_name.pop(_name_combination(result), None)
        if partner is not None and partner.cell.kind == result.cell.kind:
            pairs.append(_Pair(result, partner))
    return sorted(pairs, key=lambda pair: _name_combination(pair.first))


def _name_combination(result: CellResult, *, with_seed: bool = True) -> str:
    """Name the combination as tables do."""
    cell = result.cell
    names = [f"seed {cell.seed}" if axis == "seed" else cell.label(axis) for axis in cell.at]
    return ", ".join(name for axis, name in zip(cell.at, names, strict=True) if with_seed or axis != "seed")


def _compare_pairs(name: str, pairs: Sequence[_Pair]) -> list[ComparisonRow]:
    """Compare the numbers of one combination over all seeds that both have."""
    kind = pairs[0].first.cell.kind

    def make_row(target: str, metric: str, numbers: _Numbers) -> ComparisonRow:
        gap = numbers.difference
        differs = bool(gap.low > 0 or gap.high < 0)
        return ComparisonRow(
            cell=name, seeds=len(pairs), target=target, metric=metric, **vars(numbers), differs=differs
        )

    if kind == "membership":
        attacks = [record.attack for record in pairs[0].first.records if record.metric == "auc"]
        return [make_row(attack, "auc", _compare_by_seed(pairs, attack, "auc")) for attack in attacks]
    if kind == "trial":
        return []
    rows = [make_row(target, "advantage", _compare_advantage(pairs, target)) for target in _list_common_targets(pairs)]
    return [*rows, make_row("", f"ndcg@{K}", _compare_ranking(pairs))]


def _list_common_targets(pairs: Sequence[_Pair]) -> list[str]:
    sides = [side.attribute_details.targets for pair in pairs for side in (pair.first, pair.second)]
    return [target for target in sides[0] if all(target in side for side in sides)]


def _compare_advantage(pairs: Sequence[_Pair], target: str) -> _Numbers:
    """Compare the signed headline advantage fold by fold; the same seed makes the same folds."""
    ours, theirs = (
        [fold for result in side for fold in result.attribute_details.targets[target].folds]
        for side in ([pair.first for pair in pairs], [pair.second for pair in pairs])
    )
    details = pairs[0].first.attribute_details

    def pool(values: Sequence[float]) -> Estimate:
        return estimate_corrected_mean(np.asarray(values), details.test_share, details.targets[target].n)

    first, second = pool(ours), pool(theirs)
    if len(ours) != len(theirs):  # other folds, which have no partners
        return _Numbers(first, second, _subtract_unpaired(first, second))
    return _Numbers(first, second, pool(list(np.subtract(theirs, ours))))


def _compare_ranking(pairs: Sequence[_Pair]) -> _Numbers:
    """Compare NDCG of the test items: for each user the mean over the seeds, then the users paired."""
    ours = average_over_seeds([pair.first.attribute_details.ranks for pair in pairs], k=K)
    theirs = average_over_seeds([pair.second.attribute_details.ranks for pair in pairs], k=K)
    first, second = estimate_mean(ours), estimate_mean(theirs)
    if ours.shape != theirs.shape:
        return _Numbers(first, second, _subtract_unpaired(first, second))
    return _Numbers(first, second, estimate_difference(theirs, ours))


def _compare_by_seed(pairs: Sequence[_Pair], attack: str, metric: str) -> _Numbers:
    """Compare a number of which nothing is stored for single users: the seeds are paired."""
    values = np.array([[_find_value(result, attack, metric) for result in (pair.first, pair.second)] for pair in pairs])
    first, second = (estimate_mean(values[:, side], bounded=False) for side in (0, 1))
    return _Numbers(first, second, estimate_mean(values[:, 1] - values[:, 0], bounded=False))


def _find_value(result: CellResult, attack: str, metric: str) -> float:
    values = (r.estimate.value for r in result.records if r.attack == attack and r.metric == metric)
    return next(values, float("nan"))


def _subtract_unpaired(first: Estimate, second: Estimate) -> Estimate:
    """Return the difference of two numbers that are not paired."""
    gap = second.value - first.value
    half = float(np.hypot(first.high - first.value, second.high - second.value))
    return Estimate(gap, gap - half, gap + half, min(first.n, second.n))
