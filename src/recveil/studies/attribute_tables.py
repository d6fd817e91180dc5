"""Tables, frontiers and advice of a study that attacks attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from recveil.core.study_parts import StudyFrontier, StudyTable, TableValue
from recveil.studies.contests import (
    MAX_LOSS_PERCENT,
    Entrant,
    build_frontier,
    count_wins,
    select_entrants,
    write_advice,
)
from recveil.studies.pooled_seeds import PooledCell
from recveil.studies.tables import StudyContent, build_table, describe_seeds, make_column, make_row
from recveil.workflows.ranking_protocol import find_protocol

__all__ = ["build_attribute_content"]

TITLE_COORDINATES = {"panel": "{}", "surface": "surface {}", "leak_ratio": "{} of users known"}
"""Coordinates that a title names only where a plan has several of them."""

TIMED_STEPS = {"train undefended": "train undefended", "train": "train defended", "defend": "defend", "audit": "audit"}

MEASURE_LABELS = {"ndcg": "NDCG", "hit_rate": "HR"}
WHOLE_CATALOG = "Test item, whole catalog ranked."
MORE_MEASURE_LABELS = {"full_ndcg": "NDCG over k hits", "capped_recall": "hits / min(k, test items)"}
"""Measures of protocols that hold out several items."""


def build_attribute_content(pooled: Sequence[PooledCell]) -> StudyContent:
    """Build tables, frontiers, wins and advice, one contest for each combination of everything but the defense."""
    varied = [axis for axis in TITLE_COORDINATES if len({cells.at[axis] for cells in pooled}) > 1]
    k = pooled[0].settings.main_k
    content, contests = StudyContent(k=k), []
    for group in _group_by_contest(pooled):
        at = group[0].at
        place = ", ".join([at["data"], at["model"], *(TITLE_COORDINATES[axis].format(at[axis]) for axis in varied)])
        for target in _list_targets(group):
            title = f"{place}, {target}" + (f" (protected: {at['target']})" if target != at["target"] else "")
            content.tables.append(_build_attack_table(title, group, target))
            entrants = select_entrants(group, target, k)
            if entrants:
                contests.append(entrants)
                content.frontiers.append(build_frontier(entrants, title))
            content.advice.append(write_advice(entrants, group, target, title))
        content.tables.append(_build_ranking_table(f"{place}, protected: {at['target']}", group))
    return StudyContent(
        k=k,
        tables=[*content.tables, _build_time_table(pooled)],
        frontiers=content.frontiers,
        volumes=_build_volumes(content.frontiers),
        wins=_build_wins(contests, k),
        advice=content.advice,
    )


def _group_by_contest(pooled: Sequence[PooledCell]) -> list[list[PooledCell]]:
    groups: dict[tuple[str, ...], list[PooledCell]] = {}
    for cells in pooled:
        key = tuple(label for axis, label in cells.at.items() if axis != "defense")
        groups.setdefault(key, []).append(cells)
    return list(groups.values())


def _list_targets(group: Sequence[PooledCell]) -> list[str]:
    measured = [cells.targets for cells in group if cells.results]
    return measured[0] if measured else group[0].at["target"].split("+")


def _build_attack_table(title: str, group: Sequence[PooledCell], target: str) -> StudyTable:
    attackers = list(dict.fromkeys(name for cells in group for name in cells.list_attackers(target)))
    rows = []
    for cells in group:
        values: dict[str, TableValue] = {"seeds": describe_seeds(cells)}
        if cells.results and target in cells.targets:
            values["advantage"] = cells.estimate_headline(target)
            values["both"] = cells.estimate_headline(target, both_tables=True)
            for name in attackers:
                values[f"of {name}"] = cells.estimate_attack(target, name, _choose_metric(cells, target, name))
        rows.append(make_row(cells.at["defense"], values))
    chances = [audit.chance for cells in group for audit in cells.list_audits(target)[:1] if audit.chance is not None]
    chance = f" Chance is {chances[0]:.3f}." if chances else ""
    note = (
        "Advantage of the best attacker (0 = guessing, 1 = certain), of one who holds the undefended table as well, "
        f"and balanced accuracy of each attacker, with 95 % intervals.{chance}"
    )
    columns = [make_column("advantage", "advantage"), make_column("both", "with both tables")]
    columns += [make_column(f"of {name}", name) for name in attackers] + [make_column("seeds", "seeds")]
    return build_table(f"attackers: {title}", f"Attackers: {title}", note, columns, rows)


def _choose_metric(cells: PooledCell, target: str, attack: str) -> str:
    has_classes = cells.select_estimates(attack=attack, target=target, metric="balanced_accuracy")
    return "balanced_accuracy" if has_classes else "r2"


def _build_ranking_table(title: str, group: Sequence[PooledCell]) -> StudyTable:
    settings = group[0].settings
    protocol = find_protocol(settings.protocol)
    labels = MEASURE_LABELS | {name: MORE_MEASURE_LABELS[name] for name in protocol.measures}
    measures = [(measure, k) for measure in labels for k in settings.k]
    rows = []
    for cells in group:
        values: dict[str, TableValue] = {"seeds": describe_seeds(cells)}
        if cells.results:
            values |= {f"{measure}@{k}": cells.estimate_ranking(measure, k) for measure, k in measures}
            if not cells.is_undefended:
                values["change"] = cells.estimate_cost(settings.main_k)
                values["displacement"] = cells.average_metric("displacement")
        rows.append(make_row(cells.at["defense"], values))
    columns = [make_column(f"{measure}@{k}", f"{labels[measure]}@{k}", 4) for measure, k in measures]
    columns.append(make_column("change", f"NDCG@{settings.main_k} change, %", 1, signed=True))
    columns += [make_column("displacement", "displacement"), make_column("seeds", "seeds")]
    ranked = f"Held out, {protocol.split_note}. {protocol.ranking_note}" if protocol.test_share else WHOLE_CATALOG
    note = f"{ranked} The change is paired by user, mean over the seeds first."
    return build_table(f"ranking: {title}", f"Ranking: {title}", note, columns, rows)


def _build_time_table(pooled: Sequence[PooledCell]) -> StudyTable:
    """Build the table of seconds by step: the largest mean, since later cells only read the trained model."""
    groups: dict[str, list[PooledCell]] = {}
    for cells in pooled:
        label = f"{cells.at['data']}, {cells.at['model']}, {cells.at['defense']}"
        groups.setdefault(label, []).append(cells)
    rows = [make_row(label, _find_largest_seconds(group)) for label, group in groups.items()]
    note = "Mean seconds of a cell in each step, largest over targets and panels. A model trained before is only read."
    columns = [make_column(step, label, 2) for step, label in TIMED_STEPS.items()]
    return build_table("time", "Time", note, columns, rows)


def _find_largest_seconds(group: Sequence[PooledCell]) -> Mapping[str, TableValue]:
    times = {step: [cells.average_seconds(step) for cells in group] for step in TIMED_STEPS}
    measured = {step: [t for t in values if t is not None] for step, values in times.items()}
    return {step: max(values) for step, values in measured.items() if values}


def _build_volumes(frontiers: Sequence[StudyFrontier]) -> StudyTable:
    """Build the table of mean hypervolumes over the contests that each defense took part in."""
    volumes: dict[str, list[float]] = {}
    for frontier in frontiers:
        for point in frontier.points:
            if point.hypervolume is not None:
                volumes.setdefault(point.defense, []).append(point.hypervolume)
    means = {name: float(np.mean(values)) for name, values in volumes.items()}
    rows = [
        make_row(name, {"volume": means[name], "contests": str(len(volumes[name]))})
        for name in sorted(means, key=lambda name: -means[name])
    ]
    note = (
        "Share of the area between no leak at no cost and the reference point (the undefended advantage, at a loss of "
        f"{MAX_LOSS_PERCENT:g} % of NDCG) that the defense reaches; mean over data sets, models and targets."
    )
    columns = [make_column("volume", "hypervolume"), make_column("contests", "contests")]
    return build_table("volumes", "Hypervolume", note, columns, rows)


def _build_wins(contests: Sequence[Sequence[Entrant]], k: int) -> StudyTable:
    rows = [
        make_row(count.defense, {"won": str(count.won), "lost": str(count.lost), "open": str(count.open)})
        for count in count_wins(contests, k)
    ]
    note = (
        "Each pair of defenses in each contest. Won: clearly better in privacy or in ranking and clearly worse in "
        "neither (paired 95 % intervals, not corrected for their number)."
    )
    return build_table("wins", "Wins", note, [make_column(key, key) for key in ("won", "lost", "open")], rows)
