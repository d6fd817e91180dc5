"""Defenses compared on the same users: frontier, hypervolume, wins, and advice in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from recveil.audits.verdicts import MARGIN
from recveil.core.study_parts import StudyFrontier, StudyFrontierPoint
from recveil.core.types import Estimate
from recveil.metrics.intervals import estimate_corrected_mean
from recveil.metrics.pareto import find_pareto_front, hypervolume
from recveil.metrics.ranking import estimate_difference
from recveil.studies.cells import UNDEFENDED
from recveil.studies.pooled_seeds import PooledCell

__all__ = ["MAX_LOSS_PERCENT", "Entrant", "WinCount", "build_frontier", "count_wins", "select_entrants", "write_advice"]

MAX_LOSS_PERCENT = 20.0
"""Loss of NDCG at the reference point of hypervolumes; a defense that costs more is worth nothing there."""

LOW_CHANCE = 0.1
"""Chance below which a small advantage is a multiple of it, and the advice says so."""

MIN_SEEDS = 3
"""Seeds from which on the advice does not warn of the choice of the seed."""


@dataclass(frozen=True, eq=False)
class Entrant:
    """One defense in one contest: its cells, the advantage it leaves and the change of NDCG in per cent."""

    name: str
    target: str
    cells: PooledCell
    advantage: Estimate
    change: Estimate

    @property
    def point(self) -> tuple[float, float]:
        """Advantage and cost in per cent of NDCG; less of both is better."""
        return self.advantage.value, -self.change.value


@dataclass
class WinCount:
    """How often a defense was better than another, worse, or neither."""

    defense: str
    won: int = 0
    lost: int = 0
    open: int = 0

    def add(self, outcome: str) -> None:
        """Count one more pair."""
        self.won += outcome == "won"
        self.lost += outcome == "lost"
        self.open += outcome == "open"


def select_entrants(cells: Sequence[PooledCell], target: str, k: int) -> list[Entrant]:
    """Select the defenses that were measured on this target."""
    measured = [(each, each.estimate_headline(target)) for each in cells if each.results]
    return [Entrant(c.at["defense"], target, c, a, c.estimate_cost(k)) for c, a in measured if a is not None]


def build_frontier(entrants: Sequence[Entrant], title: str) -> StudyFrontier:
    """Build the frontier of a contest: points with intervals, the undominated ones, hypervolumes.

    A hypervolume is a share of the rectangle from no advantage at no cost to the reference point: the advantage on the
    undefended table, at a loss of `MAX_LOSS_PERCENT`.
    """
    start = next((e.advantage.value for e in entrants if e.name == UNDEFENDED), 0.0)
    reference = (start if start > 0 else 1.0, MAX_LOSS_PERCENT)
    best = {int(i) for i in find_pareto_front([e.point for e in entrants])}
    points = [
        StudyFrontierPoint(
            defense=e.name,
            advantage=e.advantage,
            change=e.change,
            best=i in best,
            hypervolume=None if e.name == UNDEFENDED else hypervolume([e.point], reference),
        )
        for i, e in enumerate(entrants)
    ]
    together = hypervolume([e.point for e in entrants], reference)
    return StudyFrontier(title=title, reference=list(reference), points=points, hypervolume=together)


def count_wins(contests: Sequence[Sequence[Entrant]], k: int) -> list[WinCount]:
    """Count for each defense the pairs that it won: clearly better at one aim, not clearly worse at the other.

    Clearly: the 95 % interval of the paired difference excludes zero. Folds are paired for the advantage, users for
    the ranking, over the seeds that both have.
    """
    counts: dict[str, WinCount] = {}
    for entrants in contests:
        rivals = [e for e in entrants if e.name != UNDEFENDED]
        for i, first in enumerate(rivals):
            for second in rivals[i + 1 :]:
                outcome = _judge_pair(first, second, k)
                counts.setdefault(first.name, WinCount(first.name)).add(outcome)
                counts.setdefault(second.name, WinCount(second.name)).add(_REVERSED.get(outcome, outcome))
    return sorted(counts.values(), key=lambda count: (-count.won, count.lost))


_REVERSED = {"won": "lost", "lost": "won"}


def _judge_pair(first: Entrant, second: Entrant, k: int) -> str:
    """Return how the first fared: won, lost or open; empty where they cannot be paired."""
    shared = set(first.cells.seeds) & set(second.cells.seeds)
    if not shared:
        return ""
    ours, theirs = (e.cells.keep_seeds(shared) for e in (first, second))
    our_folds, their_folds = (np.array(cells.list_folds(first.target)) for cells in (ours, theirs))
    our_gain, their_gain = (cells.average_ranking("ndcg", k) for cells in (ours, theirs))
    if our_folds.shape != their_folds.shape or our_gain.shape != their_gain.shape:
        return ""
    private = estimate_corrected_mean(our_folds - their_folds, ours.test_share, first.advantage.n)
    useful = estimate_difference(our_gain, their_gain)
    better = (private.high < 0, useful.low > 0)
    worse = (private.low > 0, useful.high < 0)
    if any(better) and not any(worse):
        return "won"
    return "lost" if any(worse) and not any(better) else "open"


def write_advice(entrants: Sequence[Entrant], cells: Sequence[PooledCell], target: str, title: str) -> str:
    """Write which defense to use, what it costs and what is not known, in three or four sentences.

    Args:
        entrants: the defenses that were measured.
        cells: all combinations of the contest, measured or not.
        target: the attribute.
        title: name of the contest.
    """
    start = next((e for e in entrants if e.name == UNDEFENDED), None)
    rivals = [e for e in entrants if e.name != UNDEFENDED]
    if start and start.advantage.high < MARGIN:
        return _advise_no_defense(start, title)
    if not rivals:
        return f"{title}: no defense was measured, so none can be named."
    most_private = min(rivals, key=lambda e: e.advantage.value)
    pick = max((e for e in rivals if _is_as_private(e, most_private)), key=lambda e: e.change.value)
    undefended = f" (undefended {_format_interval(start.advantage)})" if start else ""
    sentences = [
        f"{title}: {_recommend_defense(pick)}. The best attacker is left an advantage of "
        f"{_format_interval(pick.advantage)}{undefended}, and NDCG changes by "
        f"{_format_interval(pick.change, 1, '+')} %."
    ]
    both = pick.cells.estimate_headline(target, both_tables=True)
    if both is not None and both.low > MARGIN:
        sentences.append(f"An attacker who holds the undefended table as well still has {_format_interval(both)}.")
    sentences.append(f"Not known: {'; '.join(_list_unknowns(pick, rivals, cells))}.")
    return " ".join(sentences)


def _is_as_private(entrant: Entrant, most_private: Entrant) -> bool:
    """Return whether it is not clearly less private, and shows no leak where the most private shows none."""
    if entrant is most_private:
        return True
    shows_leak = entrant.advantage.low > 0
    overlaps = entrant.advantage.value < most_private.advantage.high
    return overlaps and not (shows_leak and most_private.advantage.low <= 0)


def _advise_no_defense(start: Entrant, title: str) -> str:
    """Write the advice on a table without a leak; with many classes, say what the margin allows."""
    text = f"{title}: no defense is called for. Undefended, the best attacker has an advantage of "
    text += f"{_format_interval(start.advantage)}, under the margin of {MARGIN:g}."
    chance = start.cells.list_audits(start.target)[0].chance or 0.0  # 0 for a number: no class is more often right
    if 0 < chance < LOW_CHANCE:
        times = 1 + MARGIN * (1 / chance - 1)
        text += f" But chance is {chance:.3f}: an attacker at that margin is right {times:.1f} times as often."
    return text


def _recommend_defense(pick: Entrant) -> str:
    """Judge as the audit does: hidden, not hidden, or too few users to say."""
    if pick.advantage.high < MARGIN:
        return f"use '{pick.name}'"
    if pick.advantage.low > 0 and pick.advantage.value >= MARGIN:
        return f"nothing tried hides it; the best is '{pick.name}'"
    return f"'{pick.name}' is the best bet, but these users cannot rule out an advantage of {MARGIN:g}"


def _list_unknowns(pick: Entrant, rivals: Sequence[Entrant], cells: Sequence[PooledCell]) -> list[str]:
    """List what these cells cannot say."""
    unknowns = [f"whether a leak below {pick.advantage.high:.3f} is left (the end of the interval)"]
    seeds = len(pick.cells.results)
    if seeds < MIN_SEEDS:
        unknowns.append(f"how much the choice of the seed matters ({seeds} {'seed' if seeds == 1 else 'seeds'})")
    holes = sum(each.n_missing for each in cells)
    if holes:
        unknowns.append(f"what {holes} cells that failed or were not run would add")
    close = [
        f"'{e.name}'"
        for e in rivals
        if e is not pick and e.change.high >= pick.change.low and _overlap_in_advantage(e, pick)
    ]
    if close:
        unknowns.append(f"whether {', '.join(close)} would do as well: the intervals overlap")
    return unknowns


def _overlap_in_advantage(first: Entrant, second: Entrant) -> bool:
    return first.advantage.low <= second.advantage.high and second.advantage.low <= first.advantage.high


def _format_interval(e: Estimate, digits: int = 3, sign: str = "") -> str:
    value, low, high = (f"{round(number, digits) + 0.0:{sign}.{digits}f}" for number in (e.value, e.low, e.high))
    return f"{value} [{low}, {high}]"
