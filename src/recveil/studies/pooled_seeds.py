"""Seeds pooled rightly: cells that differ in nothing but the seed, as one line of a table.

Attack scores: the folds of all seeds under one corrected interval. Ranking: for each user the mean over the seeds
first, then the interval over users. Membership, where every seed deals other users: the mean over the seeds, with the
wider of the interval within a seed (on average) and the t interval over the seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import stats

from recveil.core.types import Estimate, FloatArray
from recveil.metrics.intervals import LEVEL, estimate_advantage
from recveil.metrics.ranking import Ranks, hit_rate, mean, ndcg
from recveil.studies.attribute_cells import estimate_change
from recveil.studies.plans import Cell, Plan
from recveil.studies.rank_codec import unpack_ranks
from recveil.studies.store import Store

__all__ = ["PooledCell", "pool_advantage", "pool_plan", "pool_seeds", "average_over_seeds", "pool_intervals"]

Measure = Callable[[Ranks, int], FloatArray]
Json = Mapping[str, Any]
MEASURES: Mapping[str, Measure] = {"ndcg": ndcg, "hit_rate": hit_rate}


def pool_advantage(folds: Sequence[float], test_share: float, n: int) -> Estimate:
    """The headline advantage over these folds, of one seed or of many; like the audit's, never below zero."""
    estimate = estimate_advantage(np.asarray(folds), test_share, n)
    return replace(estimate, high=min(1.0, estimate.high))


def average_over_seeds(ranks: Iterable[str], measure: Measure = ndcg, k: int = 10) -> FloatArray:
    """For each user the mean over the seeds, from packed ranks."""
    return np.asarray(np.mean([measure(unpack_ranks(text), k) for text in ranks], axis=0))


def pool_intervals(estimates: Sequence[Estimate], folds: int, test_share: float) -> Estimate:
    """The corrected interval over the folds of all seeds, from the intervals of each: what they say of the spread."""
    values = np.array([e.value for e in estimates])
    if folds < 2 or not all(math.isfinite(e.high - e.low) for e in estimates):
        return Estimate(float(values.mean()), math.nan, math.nan, estimates[0].n)
    halves = np.array([(e.high - e.low) / 2 for e in estimates])
    within = (halves / _t_quantile(folds - 1)) ** 2 / (1 / folds + test_share)
    all_folds = folds * len(values)
    spread = ((folds - 1) * within.sum() + folds * ((values - values.mean()) ** 2).sum()) / (all_folds - 1)
    half = _t_quantile(all_folds - 1) * math.sqrt((1 / all_folds + test_share) * spread)
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half), estimates[0].n)


def pool_seeds(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over seeds that dealt the users anew; one seed is as it is."""
    if len(estimates) == 1:
        return estimates[0]
    values = np.array([e.value for e in estimates])
    within = float(np.mean([(e.high - e.low) / 2 for e in estimates]))
    between = _t_quantile(len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    half = max(within, between)
    return Estimate(float(values.mean()), float(values.mean() - half), float(values.mean() + half), estimates[0].n)


def _t_quantile(freedom: int) -> float:
    return float(stats.t.ppf((1 + LEVEL) / 2, freedom))


@dataclass(eq=False)
class PooledCell:
    """One combination of a plan without its seed: what tables call it, and what was measured with each seed."""

    kind: str
    at: Mapping[str, str]
    settings: Json
    wanted: int = 0
    results: list[Json] = field(default_factory=list)
    seconds: list[Json] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def seeds(self) -> list[int]:
        """Which seeds are done."""
        return [int(r["cell"]["at"]["seed"]) for r in self.results]

    def of_seeds(self, seeds: Iterable[int]) -> PooledCell:
        """The same line with these seeds alone."""
        wanted = set(seeds)
        return replace(self, results=[r for r, seed in zip(self.results, self.seeds, strict=True) if seed in wanted])

    @property
    def targets(self) -> list[str]:
        """What was attacked; of attributes protected together each, and their joint classes."""
        return list(self.results[0]["details"].get("targets", {})) if self.results else []

    def told(self, target: str) -> Json:
        """What the first seed says of a target beside its numbers: chance, users, what it could have seen."""
        found: Json = self.results[0]["details"]["targets"][target]
        return found

    def folds(self, target: str, part: str = "targets") -> list[float]:
        """The signed advantage of the headline on every fold of every seed."""
        return [v for r in self.results for v in r["details"].get(part, {}).get(target, {}).get("folds", [])]

    @property
    def test_share(self) -> float:
        """n_test / n_train of a fold."""
        return float(self.results[0]["details"]["test_share"])

    def headline(self, target: str, part: str = "targets") -> Estimate | None:
        """The pooled advantage; `two_releases` is that of who holds the earlier table too."""
        folds = self.folds(target, part)
        if not folds:
            return None
        return pool_advantage(folds, self.test_share, int(self.results[0]["details"][part][target]["n"]))

    def attacker(self, target: str, attack: str, metric: str) -> Estimate | None:
        """What one attacker reached, by a metric that is a mean over folds."""
        found = self.estimates(attack=attack, target=target, metric=metric)
        folds = int(self.settings["folds"]) * int(self.settings["repeats"])
        return pool_intervals(found, folds, self.test_share) if found else None

    def attackers(self, target: str) -> list[str]:
        """Who attacked this target, in the order of the panel."""
        rows = self.results[0]["records"] if self.results else []
        named = dict.fromkeys(r["attack"] for r in rows if r["target"] == target and r["attack"])
        return [name for name in named if name not in ("headline", "two-releases")]

    def estimates(self, **wanted: str) -> list[Estimate]:
        """One estimate for each seed that has this record."""
        return [
            Estimate.from_dict(row["estimate"])
            for result in self.results
            for row in result["records"]
            if all(row[key] == value for key, value in wanted.items())
        ]

    def ranked(self, measure: str, k: int) -> FloatArray:
        """For each user the mean over the seeds."""
        return average_over_seeds([r["details"]["ranks"] for r in self.results], MEASURES[measure], k)

    def ranking(self, measure: str, k: int) -> Estimate:
        """A ranking measure over users."""
        return mean(self.ranked(measure, k))

    def cost(self, k: int = 10) -> Estimate:
        """The paired change of NDCG against the undefended models of the same seeds, in per cent."""
        return estimate_change(
            average_over_seeds([r["details"]["base"] for r in self.results], ndcg, k), self.ranked("ndcg", k)
        )

    def plain(self, metric: str) -> float | None:
        """The mean over seeds of a number without an interval."""
        found = [e.value for e in self.estimates(metric=metric)]
        return float(np.mean(found)) if found else None

    def time(self, *steps: str) -> float | None:
        """Mean seconds of these steps together, of the cells that took any."""
        found = [sum(s[step] for step in steps if step in s) for s in self.seconds if any(step in s for step in steps)]
        return float(np.mean(found)) if found else None


def pool_plan(plan: Plan, stores: Sequence[Store]) -> list[PooledCell]:
    """The lines of a plan from one folder of results or several: a cell is found by its id, wherever it was run."""
    done = {cell: store for store in stores for cell in store.finished_ids()}
    failed = {cell: store for store in stores for cell in store.failed_ids()}
    grouped: dict[tuple[str, ...], PooledCell] = {}
    for cell in plan.cells():
        at = {key: cell.label(key) for key in cell.at if key != "seed"}
        line = grouped.setdefault(tuple(at.values()), PooledCell(cell.kind, at, cell.settings))
        line.wanted += 1
        _add_cell(line, cell, done, failed)
    return list(grouped.values())


def _add_cell(line: PooledCell, cell: Cell, done: Mapping[str, Store], failed: Mapping[str, Store]) -> None:
    if cell.id in done:
        line.results.append(done[cell.id].read_cell(cell.id))
        line.seconds.append(done[cell.id].read_timing(cell.id).get("seconds", {}))
    elif cell.id in failed:
        line.errors.append(str(failed[cell.id].read_failure(cell.id).get("error", "failed")))
