"""Seeds pooled: cells that differ in nothing but the seed become one row of a table.

Attack scores: the folds of all seeds under one corrected interval. Ranking: for each user the mean over the seeds
first, then the interval over users. Membership, where every seed splits the users differently: the mean over the
seeds, with the wider of the interval within a seed (on average) and the t interval over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from recveil.core.errors import DataError
from recveil.core.types import Estimate, FloatArray
from recveil.metrics.intervals import CONFIDENCE_LEVEL, estimate_advantage
from recveil.metrics.ranking import Ranks, estimate_mean, hit_rate, ndcg
from recveil.metrics.sampled_ranking import capped_recall, full_ndcg
from recveil.studies.attribute_cells import estimate_change
from recveil.studies.cell_results import AttributeDetails, CellResult, StoredTarget
from recveil.studies.cells import UNDEFENDED, Cell, Settings
from recveil.studies.plans import Plan
from recveil.studies.rank_codec import unpack_ranks
from recveil.studies.store import Store

__all__ = [
    "MEASURES",
    "PooledCell",
    "average_over_seeds",
    "pool_advantage",
    "pool_intervals",
    "pool_plan",
    "pool_seeds",
]

Measure = Callable[[Ranks, int], FloatArray]
MEASURES: Mapping[str, Measure] = {
    "ndcg": ndcg,
    "hit_rate": hit_rate,
    "capped_recall": capped_recall,
    "full_ndcg": full_ndcg,
}
SUMMARY_ATTACKS = ("headline", "two-releases")
"""Names in records that stand for a panel, not for an attacker."""


def pool_advantage(folds: Sequence[float], test_share: float, n: int) -> Estimate:
    """Estimate the headline advantage over these folds, of one seed or of many; it lies between 0 and 1.

    Args:
        folds: signed advantage of the headline on each fold.
        test_share: attacked users of a fold as a share of the known users.
        n: attacked users.
    """
    estimate = estimate_advantage(np.asarray(folds), test_share, n)
    return replace(estimate, high=min(1.0, estimate.high))


def average_over_seeds(ranks: Iterable[str], measure: Measure = ndcg, k: int = 10, *, held_out: str = "") -> FloatArray:
    """Average a ranking measure over the seeds, for each user.

    Args:
        ranks: packed ranks, one text for each seed.
        measure: the measure.
        k: its cut-off.
        held_out: number of test items of each user, packed; the same for all seeds.

    Raises:
        DataError: the seeds rank different numbers of users.
    """
    values = [measure(unpack_ranks(text, held_out), k) for text in ranks]
    if len({len(each) for each in values}) > 1:
        raise DataError("Cells of one plan rank different numbers of users. Delete these results and run them again.")
    return np.asarray(np.mean(values, axis=0))


def pool_intervals(estimates: Sequence[Estimate], folds: int, test_share: float) -> Estimate:
    """Compute the corrected interval over the folds of all seeds from the interval of each seed.

    Args:
        estimates: one estimate for each seed, a mean over its folds.
        folds: folds of one seed.
        test_share: attacked users of a fold as a share of the known users.
    """
    values = np.array([e.value for e in estimates])
    if folds < 2 or not all(math.isfinite(e.high - e.low) for e in estimates):
        return Estimate(float(values.mean()), math.nan, math.nan, estimates[0].n)
    halves = np.array([(e.high - e.low) / 2 for e in estimates])
    within = (halves / _compute_t_quantile(folds - 1)) ** 2 / (1 / folds + test_share)
    all_folds = folds * len(values)
    spread = ((folds - 1) * within.sum() + folds * ((values - values.mean()) ** 2).sum()) / (all_folds - 1)
    half = _compute_t_quantile(all_folds - 1) * math.sqrt((1 / all_folds + test_share) * spread)
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half), estimates[0].n)


def pool_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """Average over seeds that split the users differently; a single seed is returned as it is."""
    if len(estimates) == 1:
        return estimates[0]
    values = np.array([e.value for e in estimates])
    within = float(np.mean([(e.high - e.low) / 2 for e in estimates]))
    between = _compute_t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    half = max(within, between)
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half), estimates[0].n)


def _compute_t_quantile(freedom: int) -> float:
    return float(stats.t.ppf((1 + CONFIDENCE_LEVEL) / 2, freedom))


@dataclass(eq=False)
class PooledCell:
    """One combination of a plan without its seed.

    Attributes:
        kind: attribute or membership.
        at: labels of the coordinates, without the seed.
        settings: settings of the plan.
        wanted: seeds that the plan has.
        results: results of the seeds that are done.
        seconds: seconds by step of the seeds that are done.
        errors: errors of the seeds that failed.
    """

    kind: str
    at: Mapping[str, str]
    settings: Settings
    wanted: int = 0
    results: list[CellResult] = field(default_factory=list)
    seconds: list[Mapping[str, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def is_undefended(self) -> bool:
        """Whether no defense acts."""
        return self.at["defense"] == UNDEFENDED

    @property
    def seeds(self) -> list[int]:
        """Seeds that are done."""
        return [result.cell.seed for result in self.results]

    @property
    def n_missing(self) -> int:
        """Seeds that failed or were not run."""
        return self.wanted - len(self.results)

    @property
    def details(self) -> list[AttributeDetails]:
        """Details of each seed, of a combination that attacks attributes."""
        return [result.attribute_details for result in self.results]

    @property
    def targets(self) -> list[str]:
        """Attributes that were attacked; of several, their joint classes as well."""
        return list(self.details[0].targets) if self.results and self.kind == "attribute" else []

    @property
    def test_share(self) -> float:
        """Attacked users of a fold as a share of the known users."""
        return self.details[0].test_share

    def keep_seeds(self, seeds: Iterable[int]) -> PooledCell:
        """Return the same combination with these seeds alone."""
        kept = set(seeds)
        return replace(self, results=[result for result in self.results if result.cell.seed in kept])

    def list_audits(self, target: str, *, both_tables: bool = False) -> list[StoredTarget]:
        """List the audits of a target, one for each seed that has it.

        With `both_tables`, the attackers hold the undefended table as well.
        """
        parts = [details.two_releases if both_tables else details.targets for details in self.details]
        return [part[target] for part in parts if target in part]

    def list_folds(self, target: str, *, both_tables: bool = False) -> list[float]:
        """List the signed advantage of the headline on every fold of every seed."""
        return [fold for audit in self.list_audits(target, both_tables=both_tables) for fold in audit.folds]

    def estimate_headline(self, target: str, *, both_tables: bool = False) -> Estimate | None:
        """Estimate the advantage of the headline over all seeds; None where nothing was measured."""
        folds = self.list_folds(target, both_tables=both_tables)
        if not folds:
            return None
        n = self.list_audits(target, both_tables=both_tables)[0].n
        return pool_advantage(folds, self.test_share, n)

    def estimate_attack(self, target: str, attack: str, metric: str) -> Estimate | None:
        """Estimate what one attacker reached, by a metric that is a mean over folds."""
        estimates = self.select_estimates(attack=attack, target=target, metric=metric)
        folds = self.settings.folds * self.settings.repeats
        return pool_intervals(estimates, folds, self.test_share) if estimates else None

    def list_attackers(self, target: str) -> list[str]:
        """List the attackers of this target, in the order of the panel."""
        records = self.results[0].records if self.results else []
        names = dict.fromkeys(record.attack for record in records if record.target == target and record.attack)
        return [name for name in names if name not in SUMMARY_ATTACKS]

    def select_estimates(self, *, metric: str, attack: str | None = None, target: str | None = None) -> list[Estimate]:
        """Select one estimate for each seed that has this record."""
        return [
            record.estimate
            for result in self.results
            for record in result.records
            if record.metric == metric
            and (attack is None or record.attack == attack)
            and (target is None or record.target == target)
        ]

    def average_ranking(self, measure: str, k: int) -> FloatArray:
        """Average a ranking measure over the seeds, for each user."""
        ranks, held_out = [details.ranks for details in self.details], self.details[0].held_out
        return average_over_seeds(ranks, MEASURES[measure], k, held_out=held_out)

    def estimate_ranking(self, measure: str, k: int) -> Estimate:
        """Estimate a ranking measure over users."""
        return estimate_mean(self.average_ranking(measure, k))

    def estimate_undefended(self, measure: str, k: int) -> Estimate:
        """Estimate a ranking measure of the undefended models of the same seeds."""
        return estimate_mean(self._average_undefended(measure, k))

    def estimate_cost(self, k: int = 10) -> Estimate:
        """Estimate the paired change of NDCG against the undefended models of the same seeds, in per cent."""
        return estimate_change(self._average_undefended("ndcg", k), self.average_ranking("ndcg", k))

    def _average_undefended(self, measure: str, k: int) -> FloatArray:
        packed = [details.base for details in self.details]
        return average_over_seeds(packed, MEASURES[measure], k, held_out=self.details[0].held_out)

    def average_metric(self, metric: str) -> float | None:
        """Average a number without an interval over the seeds."""
        values = [estimate.value for estimate in self.select_estimates(metric=metric)]
        return float(np.mean(values)) if values else None

    def average_seconds(self, *steps: str) -> float | None:
        """Average the seconds of these steps together, over the cells that took any."""
        totals = [sum(s[step] for step in steps if step in s) for s in self.seconds if any(step in s for step in steps)]
        return float(np.mean(totals)) if totals else None


def pool_plan(plan: Plan, stores: Sequence[Store]) -> list[PooledCell]:
    """Pool the cells of a plan; a cell is found by its id in whichever folder it was run.

    Raises:
        DataError: a file in a folder is damaged.
    """
    done = {cell_id: store for store in stores for cell_id in store.finished_ids()}
    failed = {cell_id: store for store in stores for cell_id in store.failed_ids()}
    pooled: dict[tuple[str, ...], PooledCell] = {}
    for cell in plan.cells():
        at = {axis: cell.label(axis) for axis in cell.at if axis != "seed"}
        group = pooled.setdefault(tuple(at.values()), PooledCell(cell.kind, at, cell.rules))
        group.wanted += 1
        if cell.id in done:
            _add_result(group, cell, done[cell.id])
        elif cell.id in failed:
            group.errors.append(failed[cell.id].read_failure(cell.id).error)
    return list(pooled.values())


def _add_result(group: PooledCell, cell: Cell, store: Store) -> None:
    result = store.read_cell(cell.id)
    if result.cell.kind != cell.kind:
        raise DataError(
            f"The file of cell {cell.id} in {store.folder} is of kind {result.cell.kind}, not {cell.kind}. "
            "Delete it and run the study again."
        )
    group.results.append(replace(result, cell=cell))
    group.seconds.append(store.read_timing(cell.id).seconds)
