"""Defenses held against each other on the same users: frontier, hypervolume, wins, and advice in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recveil.audits.verdicts import MARGIN
from recveil.core.types import Estimate
from recveil.metrics.intervals import corrected_t
from recveil.metrics.pareto import hypervolume, undominated
from recveil.metrics.ranking import difference
from recveil.studies.pooled_seeds import PooledCell

__all__ = ["MAX_LOSS_PERCENT", "Entrant", "write_advice", "select_entrants", "build_frontier", "count_wins"]

MAX_LOSS_PERCENT = 20.0
"""Per cent of NDCG: the cost of the reference point. What costs more is worth nothing here."""

UNDEFENDED = "none"

LOW_CHANCE = 0.1
"""Chance with so many classes that a small advantage is a multiple of it."""


@dataclass(frozen=True, eq=False)
class Entrant:
    """One defense in one contest: its line, and what it came to in privacy and in ranking."""

    name: str
    target: str
    line: PooledCell
    advantage: Estimate
    change: Estimate

    @property
    def point(self) -> tuple[float, float]:
        """Advantage and cost in per cent of NDCG, the less of both the better."""
        return self.advantage.value, -self.change.value


def select_entrants(lines: Sequence[PooledCell], target: str, k: int) -> list[Entrant]:
    """The defenses of these lines that were measured at all."""
    found = [(line, line.headline(target)) for line in lines if line.results]
    return [Entrant(line.at["defense"], target, line, a, line.cost(k)) for line, a in found if a is not None]


def build_frontier(found: Sequence[Entrant]) -> dict[str, Any]:
    """Every defense as a point with its intervals, which of them nothing beats, and what share of the room each takes.

    The room reaches from nothing leaked at no cost to the reference point: the undefended table's advantage, at a loss
    of `MAX_LOSS_PERCENT` per cent.
    """
    start = next((e.advantage.value for e in found if e.name == UNDEFENDED), 0.0)
    reference = (start if start > 0 else 1.0, MAX_LOSS_PERCENT)
    best = {int(i) for i in undominated([e.point for e in found])}
    points = [
        {
            "defense": e.name,
            "advantage": e.advantage.to_dict(),
            "change": e.change.to_dict(),
            "best": i in best,
            "hypervolume": None if e.name == UNDEFENDED else hypervolume([e.point], reference),
        }
        for i, e in enumerate(found)
    ]
    together = hypervolume([e.point for e in found], reference)
    return {"reference": list(reference), "points": points, "hypervolume": together}


def count_wins(contests: Sequence[Sequence[Entrant]], k: int) -> list[dict[str, Any]]:
    """For each defense, how often it was clearly better than another at one thing and not clearly worse at the other.

    Clearly: the 95 % interval of the paired difference leaves out zero; folds are paired for the advantage, users for
    the ranking, over the seeds that both have.
    """
    tally: dict[str, dict[str, int]] = {}
    for found in contests:
        rivals = [e for e in found if e.name != UNDEFENDED]
        for i, one in enumerate(rivals):
            for other in rivals[i + 1 :]:
                outcome = _judge_pair(one, other, k)
                for name, word in ((one.name, outcome), (other.name, _REVERSED.get(outcome, outcome))):
                    row = tally.setdefault(name, {"won": 0, "lost": 0, "open": 0})
                    if word:
                        row[word] += 1
    return [{"defense": name, **row} for name, row in sorted(tally.items(), key=lambda t: (-t[1]["won"], t[1]["lost"]))]


_REVERSED = {"won": "lost", "lost": "won"}


def _judge_pair(one: Entrant, other: Entrant, k: int) -> str:
    """How the first fared; '' where they cannot be paired."""
    shared = set(one.line.seeds) & set(other.line.seeds)
    if not shared:
        return ""
    mine, theirs = (e.line.of_seeds(shared) for e in (one, other))
    gap = np.array(mine.folds(one.target)) - np.array(theirs.folds(one.target))
    private = corrected_t(gap, mine.test_share, one.advantage.n)
    useful = difference(mine.ranked("ndcg", k), theirs.ranked("ndcg", k))
    better = (private.high < 0, useful.low > 0)
    worse = (private.low > 0, useful.high < 0)
    if any(better) and not any(worse):
        return "won"
    return "lost" if any(worse) and not any(better) else "open"


def write_advice(found: Sequence[Entrant], lines: Sequence[PooledCell], target: str, where: str) -> str:
    """Which defense, what it costs, what is not known: three or four sentences."""
    start = next((e for e in found if e.name == UNDEFENDED), None)
    rivals = [e for e in found if e.name != UNDEFENDED]
    if start and start.advantage.high < MARGIN:
        return _advise_no_defense(start, where)
    if not rivals:
        return f"{where}: no defense was measured, so none can be named."
    most = min(rivals, key=lambda e: e.advantage.value)
    pick = max((e for e in rivals if _is_as_private(e, most)), key=lambda e: e.change.value)
    was = f" (undefended {_format_interval(start.advantage)})" if start else ""
    said = [
        f"{where}: {_recommend_defense(pick)}. The best attacker is left an advantage of {_format_interval(pick.advantage)}{was}, "
        f"and NDCG changes by {_format_interval(pick.change, 1, '+')} %."
    ]
    both = pick.line.headline(target, "two_releases")
    if both is not None and both.low > MARGIN:
        said.append(f"Who holds the table from before as well still has {_format_interval(both)}.")
    said.append(f"Not known: {'; '.join(_list_unknowns(pick, rivals, lines))}.")
    return " ".join(said)


def _is_as_private(one: Entrant, most: Entrant) -> bool:
    """Not clearly less private than the most private; and where that shows no leak, neither does it."""
    if one is most:
        return True
    shows = one.advantage.low > 0
    return one.advantage.value < most.advantage.high and not (shows and most.advantage.low <= 0)


def _advise_no_defense(start: Entrant, where: str) -> str:
    """Of a table in which nothing is to be found; with many classes, what the margin allows."""
    said = f"{where}: no defense is called for. Undefended, the best attacker has an advantage of "
    said += f"{_format_interval(start.advantage)}, under the margin of {MARGIN:g}."
    chance = start.line.told(start.target)["chance"]  # 0 where a number is guessed: no class is more often right
    if 0 < chance < LOW_CHANCE:
        times = 1 + MARGIN * (1 / chance - 1)
        said += f" But chance is {chance:.3f}: an attacker at that margin is right {times:.1f} times as often."
    return said


def _recommend_defense(pick: Entrant) -> str:
    """As the audit judges: hidden, not hidden, or too few users to say."""
    if pick.advantage.high < MARGIN:
        return f"use '{pick.name}'"
    if pick.advantage.low > 0 and pick.advantage.value >= MARGIN:
        return f"nothing tried hides it; the best is '{pick.name}'"
    return f"'{pick.name}' is the best bet, but these users cannot rule out an advantage of {MARGIN:g}"


def _list_unknowns(pick: Entrant, rivals: Sequence[Entrant], lines: Sequence[PooledCell]) -> list[str]:
    """What these cells cannot say."""
    told = [f"whether a leak below {pick.advantage.high:.3f} is left (the end of the interval)"]
    seeds = len(pick.line.results)
    if seeds < 3:
        told.append(f"how much the choice of the seed matters ({seeds} {'seed' if seeds == 1 else 'seeds'})")
    holes = sum(line.wanted - len(line.results) for line in lines)
    if holes:
        told.append(f"what {holes} cells that failed or were not run would add")
    close = [
        f"'{e.name}'"
        for e in rivals
        if e is not pick and e.change.high >= pick.change.low and _overlap_in_advantage(e, pick)
    ]
    if close:
        told.append(f"whether {', '.join(close)} would do as well: the intervals overlap")
    return told


def _overlap_in_advantage(one: Entrant, other: Entrant) -> bool:
    return one.advantage.low <= other.advantage.high and other.advantage.low <= one.advantage.high


def _format_interval(e: Estimate | Mapping[str, float], digits: int = 3, sign: str = "") -> str:
    part = e if isinstance(e, Mapping) else {"value": e.value, "low": e.low, "high": e.high}
    value, low, high = (f"{round(part[key], digits) + 0.0:{sign}.{digits}f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"
