"""Which figures the report has, described as plain data: kind, title, caption, axis, rows, reference lines.

A description can be tested without drawing anything; `charts` draws it. A new figure is a new description here and,
where no kind fits, one new function there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recveil.report.formatting import as_dict, finite, number, text, too_small

__all__ = ["class_size", "dots", "point", "target_figures", "utility_figures"]

Json = Mapping[str, Any]
Figures = list[dict[str, Any]]


def target_figures(name: str, labels: list[str], releases: Mapping[str, Json]) -> Figures:
    """The figures of one attribute; `releases` is the audit of each release, under "before" and "after" or just ""."""
    confusion = [figure for release, target in releases.items() for figure in _confusion(name, labels, release, target)]
    return _accuracy(name, releases) + _advantage(name, releases) + confusion


def utility_figures(utility: Json, metric: str, groups: list[tuple[str, str, Json]]) -> Figures:
    """What the recommendations are worth before and after, and the paired change, overall and for each class."""
    shown: list[tuple[str, Json]] = [("Everyone", utility)]
    shown += [(f"{name}: {label}", part) for name, label, part in groups if not too_small(class_size(part, metric))]
    title = text(metric).upper()
    levels = [
        point(group, part, as_dict(result.get(part)).get(metric))
        for part in ("before", "after")
        for group, result in shown
    ]
    changes = [point(group, "after", as_dict(result.get("difference")).get(metric)) for group, result in shown]
    popularity = finite(as_dict(as_dict(utility.get("popularity")).get(metric)).get("value"))
    return dots(
        "utility",
        f"{title} before and after the defense",
        levels,
        axis=title,
        lines={"most popular": popularity},
        caption="Who gets what out of the recommendations. The bars are wide because users differ from each other.",
    ) + dots(
        "utility.difference",
        f"Change of {title}, user by user",
        changes,
        axis=f"Change of {title} (after minus before)",
        lines={"no change": 0.0},
        caption="The same users before and after, paired: this is what the defense costs each class.",
    )


def class_size(result: Json, metric: str) -> Any:
    """How many users stand behind the utility of a class."""
    return as_dict(as_dict(result.get("after") or result.get("before")).get(metric)).get("n")


def point(group: str, series: str, estimate: Any) -> dict[str, Any]:
    """One dot with its interval; what is not a number is None."""
    part = as_dict(estimate)
    return {"group": group, "series": series, **{key: finite(part.get(key)) for key in ("value", "low", "high")}}


def dots(
    identity: str, title: str, rows: Figures, *, axis: str, lines: Mapping[str, float | None], caption: str
) -> Figures:
    """A dot-and-interval figure, or none where there is nothing to draw."""
    rows = [row for row in rows if row["value"] is not None]
    drawn = [
        {"label": f"{label} {number(at)}" if at else label, "at": at} for label, at in lines.items() if at is not None
    ]
    series = list(dict.fromkeys(row["series"] for row in rows))
    figure = {"kind": "dots", "id": identity, "title": title, "caption": caption, "axis": axis, "rows": rows}
    return [{**figure, "lines": drawn, "series": series if len(series) > 1 else []}] if rows else []


def _attack_points(releases: Mapping[str, Json], metric: str) -> Figures:
    return [
        point(text(attack), release, as_dict(result).get(metric))
        for release, target in releases.items()
        for attack, result in as_dict(target.get("attacks")).items()
    ]


def _first(releases: Mapping[str, Json], key: str) -> float | None:
    known = [finite(target.get(key)) for target in releases.values()]
    return next((value for value in known if value is not None), None)


def _accuracy(name: str, releases: Mapping[str, Json]) -> Figures:
    return dots(
        f"{name}.accuracy",
        f"How well each attacker guesses {name}",
        _attack_points(releases, "balanced_accuracy"),
        axis="Balanced accuracy",
        lines={"chance": _first(releases, "chance"), "best possible": _first(releases, "bayes")},
        caption="Balanced accuracy on users the attacker did not train on, with its 95 % interval.",
    )


def _advantage(name: str, releases: Mapping[str, Json]) -> Figures:
    return dots(
        f"{name}.advantage",
        f"Advantage over guessing {name} at random",
        _attack_points(releases, "advantage"),
        axis="Advantage (0 = guessing, 1 = certain)",
        lines={"margin": _first(releases, "margin")},
        caption="Two-sided: an attacker who is reliably wrong has an advantage too. With its 95 % interval.",
    )


def _confusion(name: str, labels: list[str], release: str, target: Json) -> Figures:
    """What the headline attack takes each class for; rows of classes with too few users are left out."""
    counts = as_dict(target.get("counts"))
    cells = [
        {
            "truth": text(truth),
            "guess": text(guess),
            "share": finite(share),
            "text": f"{100 * (finite(share) or 0):.0f} %",
        }
        for truth, row in zip(labels, target.get("confusion") or [], strict=False)
        for guess, share in zip(labels, row or [], strict=False)
        if finite(share) is not None and not too_small(counts.get(truth))
    ]
    figure = {
        "kind": "heat",
        "id": ".".join(part for part in (name, "confusion", release) if part),
        "title": f"What the headline attack takes each class of {name} for{f', {release}' if release else ''}",
        "caption": "Down: the true class. Across: what it is taken for. Rows add up to 100 %; a strong diagonal leaks.",
        "labels": [text(label) for label in labels],
        "cells": cells,
        "series": [],
        "lines": [],
    }
    return [figure] if cells else []
