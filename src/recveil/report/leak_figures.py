"""Figures of where an attribute leaks: in which directions, between which classes, for which users.

Every figure stands on counts that the audit has already made coarse; nothing here can name a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from recveil.core.result_parts import ActivityGroup, ClassDistance, ClassPicture, ClassTarget, LeakMap, UserMap
from recveil.report.figures import (
    ClassMark,
    CurvePlot,
    DotPlot,
    MapPlot,
    Plot,
    ReferenceLine,
    StepPlot,
    build_dot_plot,
    list_distinct,
    make_point,
)
from recveil.report.formatting import MISSING, finite_or_none, format_count, format_number, format_text

__all__ = ["MAX_PAIRS", "DistanceRow", "LeakSection", "describe_leaks"]

MAX_PAIRS = 10
"""Pairs of classes in the table of distances, the farthest first."""

Releases = Mapping[str, ClassTarget]
LeakMaps = Mapping[str, LeakMap]


@dataclass(frozen=True)
class DistanceRow:
    """Distance of two classes in each release, and the distance expected without a leak."""

    pair: str
    cells: list[str]
    chance: str


@dataclass(frozen=True)
class LeakSection:
    """Figures and table of one attribute; `releases` are those with a leak map, in the order of the columns."""

    plots: list[Plot]
    pairs: list[DistanceRow]
    releases: list[str]


def describe_leaks(name: str, releases: Releases) -> LeakSection | None:
    """Describe where the attribute leaks; None where the audits did not measure it."""
    maps = {release: target.leak_map for release, target in releases.items() if target.leak_map is not None}
    plots: list[Plot] = [
        *_describe_histograms(name, maps),
        *_describe_activity(name, releases),
        *_describe_curve(name, releases),
        *_describe_maps(name, maps),
    ]
    pairs = _list_distances(maps)
    return LeakSection(plots, pairs, list(maps)) if plots or pairs else None


def _describe_curve(name: str, releases: Releases) -> list[CurvePlot]:
    """Describe the headline advantage over the share of users whose class the attacker knows."""
    points = [
        point
        for release, target in releases.items()
        for step in target.curve or []
        for point in make_point("", release, step.advantage, finite_or_none(step.ratio))
    ]
    names = list_distinct([point.release for point in points])
    margin = next(iter(releases.values())).margin
    if len(points) < 2:
        return []
    return [
        CurvePlot(
            id=f"{name}.curve",
            title=f"Advantage by share of disclosed users ({name})",
            caption="Advantage of the headline attacker (0 = guessing at random, 1 = certain) when it knows the class "
            "of this share of the users, with its 95 % interval.",
            points=points,
            releases=names if len(names) > 1 else (),
            lines=[ReferenceLine(f"margin {format_number(margin)}", margin)],
        )
    ]


def _describe_activity(name: str, releases: Releases) -> list[DotPlot]:
    points = [
        point
        for release, target in releases.items()
        for group in target.activity or []
        for point in make_point(_name_group(group), release, group.balanced_accuracy)
    ]
    return build_dot_plot(
        f"{name}.activity",
        f"Attack accuracy by user activity ({name})",
        points,
        axis="Balanced accuracy",
        lines={"chance": next(iter(releases.values())).chance},
        caption="Users grouped by their number of interactions, into groups of about equal size. Guesses of the attack "
        "that was chosen in most folds, with their 95 % interval.",
    )


def _name_group(group: ActivityGroup) -> str:
    if group.over is None:
        return f"up to {format_count(group.up_to)}"
    if group.up_to is None:
        return f"over {format_count(group.over)}"
    return f"{format_count(group.over + 1)} to {format_count(group.up_to)}"


def _list_classes(maps: LeakMaps) -> Iterator[tuple[str, str, ClassPicture]]:
    for release, leak_map in maps.items():
        for picture in leak_map.classes:
            yield release, format_text(picture.label), picture


def _list_labels(maps: LeakMaps) -> list[str]:
    """Return all classes, so that each has the same color in every figure."""
    return list_distinct([label for _, label, _ in _list_classes(maps)])


def _describe_histograms(name: str, maps: LeakMaps) -> list[StepPlot]:
    """Describe the classes along the direction that separates them best, one panel for each release."""
    points = []
    for release, label, picture in _list_classes(maps):
        density = picture.histogram.density
        # The last step ends at the last edge.
        for x, y in zip(picture.histogram.edges, [*density, *density[-1:]], strict=False):
            if finite_or_none(x) is not None and finite_or_none(y) is not None:
                points.append(ClassMark(release, label, x, y))
    if not points:
        return []
    return [
        StepPlot(
            id=f"{name}.histogram",
            title=f"Classes along the direction that separates them best ({name})",
            caption="Share of users of each class. Curves that coincide show no leak. "
            f"{_explain_halves(maps)} On the fitted half the first class lies to the left; if it lies to the right "
            "here, the leak is mirrored. Users beyond the ends are counted at the ends; steps of fewer than ten users "
            "are merged.",
            points=points,
            classes=_list_labels(maps),
        )
    ]


def _describe_maps(name: str, maps: LeakMaps) -> list[MapPlot]:
    """Describe each class along the two directions that separate the classes best, as a map of cells."""
    cells: list[ClassMark] = []
    means: list[ClassMark] = []
    for release, label, picture in _list_classes(maps):
        if picture.map is not None and len(picture.map.mean) == 2:
            # The mean is drawn even where no cell may be shown: a grid of panels needs something in each.
            means.append(ClassMark(release, label, *picture.map.mean))
            cells += _list_cells(release, label, picture.map, maps[release].ranges)
    if not cells:
        return []
    ranges = [pair for pair in next(iter(maps.values())).ranges if pair is not None]
    return [
        MapPlot(
            id=f"{name}.map",
            title=f"Classes in two directions ({name})",
            caption="Each class in the two directions that separate the classes best; the dot is its mean. With two "
            "classes, the second direction is the one in which users differ most otherwise. Panels that look alike "
            f"show no leak. {_explain_halves(maps)} Stronger color means more users; a cell with fewer than ten is "
            "empty.",
            cells=cells,
            means=means,
            ranges=ranges,
            classes=_list_labels(maps),
        )
    ]


def _explain_halves(maps: LeakMaps) -> str:
    """Say what keeps these figures honest, and what their unit is."""
    drawn = next(iter(maps.values())).n_drawn
    separately = ", separately for each release" if len(maps) > 1 else ""
    return (
        f"Directions were fitted on one half of the users{separately}, and are drawn for the other half "
        f"({format_count(drawn)} users); on the fitted half any table would seem to leak. Units are standard "
        "deviations within a class."
    )


def _list_cells(release: str, label: str, grid: UserMap, ranges: list[list[float] | None]) -> Iterator[ClassMark]:
    """Yield the cells that may be shown, with their corners and density."""
    corners = [end for pair in ranges for end in pair or []]
    if len(corners) != 4 or len(grid.shares) != grid.bins**2:
        return
    left, right, bottom, top = corners
    width, height = (right - left) / grid.bins, (top - bottom) / grid.bins
    for i, value in enumerate(grid.shares):
        column, row = divmod(i, grid.bins)
        if share := finite_or_none(value):
            yield ClassMark(
                release,
                label,
                x=round(left + width * column, 3),
                y=round(bottom + height * row, 3),
                x_end=round(left + width * (column + 1), 3),
                y_end=round(bottom + height * (row + 1), 3),
                density=share / (width * height),
            )


def _list_distances(maps: LeakMaps) -> list[DistanceRow]:
    """Return the squared distance of class means in each release, and how large it gets without a leak."""
    by_pair: dict[tuple[str, ...], dict[str, ClassDistance]] = {}
    for release, leak_map in maps.items():
        for distance in leak_map.distances:
            by_pair.setdefault(tuple(map(format_text, distance.classes)), {})[release] = distance
    farthest = sorted(by_pair.items(), key=lambda item: -max(distance.value for distance in item[1].values()))
    return [
        DistanceRow(
            pair=" – ".join(labels),
            cells=[format_number(parts[release].value) if release in parts else MISSING for release in maps],
            chance=format_number(max(distance.chance for distance in parts.values())),
        )
        for labels, parts in farthest[:MAX_PAIRS]
    ]
