"""Ranking quality before and after a defense, overall and by class, and what the defense costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recveil.core.result_parts import DefenseSummary, Utility, UtilityChange
from recveil.report.figures import DotPlot, build_dot_plot, make_point
from recveil.report.formatting import (
    MISSING,
    ShownEstimate,
    finite_or_none,
    format_class_size,
    format_estimate,
    format_number,
    format_text,
    is_too_small,
    redact_sentence,
    select_hidden_classes,
)
from recveil.report.statements import choose_main_metric, count_class_users, format_relative_change

__all__ = ["CostTile", "UtilityRow", "UtilitySection", "build_cost_tiles", "build_utility_section"]


@dataclass(frozen=True)
class UtilityRow:
    """Before, after and paired difference of one metric, or of one class of users."""

    target: str
    label: str
    n: str
    before: ShownEstimate
    after: ShownEstimate
    difference: ShownEstimate
    relative: str


@dataclass(frozen=True)
class UtilitySection:
    """Ranking quality; `classes` are rows of the main metric."""

    metric: str
    is_compared: bool
    rows: list[UtilityRow]
    classes: list[UtilityRow]
    plots: list[DotPlot]
    note: str


@dataclass(frozen=True)
class CostTile:
    """One number of what the defense costs."""

    term: str
    value: str
    note: str


def build_utility_section(utility: Utility | None) -> UtilitySection | None:
    """Return tables and figures of the ranking; None where nothing was measured."""
    measured = {} if utility is None else {**utility.after, **utility.before}
    if utility is None or not measured:
        return None
    metric = choose_main_metric(measured)
    groups = [(name, label, part) for name, classes in utility.per_class.items() for label, part in classes.items()]
    hidden = {
        (name, label)
        for name, classes in utility.per_class.items()
        for label in select_hidden_classes({key: count_class_users(part, metric) for key, part in classes.items()})
    }
    shown = {"Everyone": utility} | {
        f"{format_text(name)}: {format_text(label)}": part
        for name, label, part in groups
        if (name, label) not in hidden
    }
    return UtilitySection(
        metric=format_text(metric).upper(),
        is_compared=bool(utility.before),
        rows=[_build_row("", format_text(name).upper(), utility, name) for name in measured],
        classes=[
            _build_hidden_row(name, label, count_class_users(part, metric))
            if (name, label) in hidden
            else _build_row(format_text(name), format_text(label), part, metric)
            for name, label, part in groups
        ],
        plots=_describe_utility(shown, metric) if utility.before else [],
        note=redact_sentence(utility.note),
    )


def _build_row(target: str, label: str, part: UtilityChange, metric: str) -> UtilityRow:
    users = count_class_users(part, metric)
    return UtilityRow(
        target=target,
        label=label,
        n=format_class_size(users),
        before=format_estimate(part.before.get(metric), 4),
        after=format_estimate(part.after.get(metric), 4),
        difference=format_estimate(part.difference.get(metric), 4, signed=True),
        relative=format_relative_change(part, metric),
    )


def _build_hidden_row(name: str, label: str, users: float | None) -> UtilityRow:
    """Return the row of a class whose numbers are not shown."""
    size = format_class_size(users) if is_too_small(users) else MISSING
    nothing = ShownEstimate()
    return UtilityRow(format_text(name), format_text(label), size, nothing, nothing, nothing, MISSING)


def _describe_utility(groups: Mapping[str, UtilityChange], metric: str) -> list[DotPlot]:
    """Describe the metric before and after, and its paired change, overall and for each class."""
    title = format_text(metric).upper()
    levels = [point for group, part in groups.items() for point in make_point(group, "before", part.before.get(metric))]
    levels += [point for group, part in groups.items() for point in make_point(group, "after", part.after.get(metric))]
    changes = [
        point for group, part in groups.items() for point in make_point(group, "after", part.difference.get(metric))
    ]
    return build_dot_plot(
        "utility",
        f"{title} before and after the defense",
        levels,
        axis=title,
        lines={},
        caption="Ranking quality by group of users. The bars are wide because users differ from each other.",
    ) + build_dot_plot(
        "utility.difference",
        f"Paired change of {title}",
        changes,
        axis=f"Change of {title} (after minus before)",
        lines={"no change": 0.0},
        caption="The same users before and after: what the defense costs each group.",
    )


def build_cost_tiles(
    defense: DefenseSummary | None, utility: Utility | None, timings: Mapping[str, float]
) -> list[CostTile]:
    """Return the cost in ranking, in displacement and in time."""
    tiles = []
    if utility is not None and utility.difference:
        metric = choose_main_metric(utility.difference)
        change = format_estimate(utility.difference[metric], 4, signed=True)
        note = f"{change.interval} paired, {format_relative_change(utility, metric)} of before, {change.n} users"
        tiles.append(CostTile(f"Change of {format_text(metric).upper()}", change.value, note.strip()))
    if defense is not None and finite_or_none(defense.displacement) is not None:
        note = "distance moved as a share of the distance from the mean (root mean squares)"
        tiles.append(CostTile("Displacement", format_number(defense.displacement), note))
    seconds = {step: time for step, time in timings.items() if finite_or_none(time) is not None}
    if seconds:
        steps = ", ".join(f"{format_text(step)} {format_number(time, 1)}" for step, time in seconds.items())
        tiles.append(CostTile("Time", f"{format_number(sum(seconds.values()), 1)} s", f"seconds: {steps}"))
    return tiles
