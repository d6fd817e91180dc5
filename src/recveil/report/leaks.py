"""The part of the page that says where an attribute leaks: to whom, in which direction, between which classes.

Every figure stands on counts that `where` and `activity` have already made coarse; nothing here can name a user.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from recveil.report.figures import dots, point
from recveil.report.formatting import as_dict, count, finite, number, text

__all__ = ["where_it_leaks"]

Json = Mapping[str, Any]
Figures = list[dict[str, Any]]
PAIRS = 10
"""So many pairs of classes are told, the farthest first."""


def where_it_leaks(name: str, releases: Mapping[str, Json]) -> dict[str, Any] | None:
    """The figures and the table of class pairs; None where the document says nothing of it."""
    looked = {release: as_dict(target.get("where")) for release, target in releases.items()}
    charts = _histograms(name, looked) + _activity(name, releases) + _curve(name, releases) + _maps(name, looked)
    pairs = _pairs(looked)
    return {"charts": charts, "pairs": pairs} if charts or pairs else None


def _curve(name: str, releases: Mapping[str, Json]) -> Figures:
    """The headline advantage against the share of the users whose class the attacker knows."""
    rows = [
        {"share": finite(step.get("ratio")), **point("", release, step.get("advantage"))}
        for release, target in releases.items()
        for step in map(as_dict, target.get("curve") or [])
    ]
    rows = [row for row in rows if row["share"] is not None and row["value"] is not None]
    margin = next((m for m in (finite(target.get("margin")) for target in releases.values()) if m is not None), None)
    figure = {
        "kind": "curve",
        "id": f"{name}.curve",
        "title": f"How many must disclose {name} for the others to be guessed",
        "caption": "Advantage of the headline attacker (0 = guessing at random, 1 = certain) when it knows the class "
        "of this share of the users, with its 95 % interval.",
        "rows": rows,
        "series": _series(rows),
        "lines": [] if margin is None else [{"label": f"margin {number(margin)}", "at": margin}],
    }
    return [figure] if len(rows) > 1 else []


def _activity(name: str, releases: Mapping[str, Json]) -> Figures:
    """How well the headline attacker guesses users who did little and users who did much."""
    rows = [
        point(_span(part), release, part.get("balanced_accuracy"))
        for release, target in releases.items()
        for part in map(as_dict, target.get("activity") or [])
    ]
    chance = next((c for c in (finite(target.get("chance")) for target in releases.values()) if c is not None), None)
    return dots(
        f"{name}.activity",
        f"Who is found out: {name}, by number of interactions",
        rows,
        axis="Balanced accuracy",
        lines={"chance": chance},
        caption="Users grouped by how many interactions they have, each group about as large as the next. Guesses of "
        "the attacker that spoke for the panel most often, with their 95 % interval.",
    )


def _span(part: Json) -> str:
    over, up_to = finite(part.get("over")), finite(part.get("up_to"))
    if over is None:
        return f"up to {count(up_to)}"
    return f"over {count(over)}" if up_to is None else f"{count(over + 1)} to {count(up_to)}"


def _classes(looked: Mapping[str, Json]) -> Iterator[tuple[str, str, Json]]:
    """Release, label and place of each class that is drawn."""
    for release, where in looked.items():
        for place in map(as_dict, where.get("classes") or []):
            yield release, text(place.get("label")), place


def _histograms(name: str, looked: Mapping[str, Json]) -> Figures:
    """The classes along the direction that parts them best, as steps; one panel for each release."""
    rows = []
    for release, label, place in _classes(looked):
        histogram = as_dict(place.get("histogram"))
        edges, density = histogram.get("edges") or [], histogram.get("density") or []
        steps = zip(edges, [*density, *density[-1:]], strict=False)  # the last step ends at the last edge
        rows += [
            {"release": release, "class": label, "x": x, "y": y}
            for x, y in steps
            if finite(x) is not None and finite(y) is not None
        ]
    caption = (
        "Share of each class along the direction that parts the classes best. Curves that coincide give nothing away. "
        f"{_fairly(looked)} That half put the first class to the left; where it lies to the right, it is a leak in "
        "mirror image. Who lies beyond the ends is counted at them; steps of fewer than ten users are joined."
    )
    title = f"{name} along the direction that leaks most"
    return _drawn("steps", f"{name}.histogram", title, rows, looked, caption=caption)


def _maps(name: str, looked: Mapping[str, Json]) -> Figures:
    """Each class along the two directions that part the classes best, as a map of cells."""
    rows: Figures = []
    for release, label, place in _classes(looked):
        grid, limits = as_dict(place.get("map")), as_dict(looked[release]).get("range") or []
        mean = [at for at in map(finite, grid.get("mean") or []) if at is not None]
        at = dict(zip(("x", "y"), mean, strict=False))
        # The mean is there even where no cell may be shown: a grid of panels needs something in each.
        rows += [{"release": release, "class": label, "part": "mean", **at}] if len(at) == 2 else []
        rows += [{"release": release, "class": label, "part": "cell", **cell} for cell in _cells(grid, limits)]
    caption = (
        "Each class in the two directions that part the classes best (with two classes, the second is the one in which "
        "users differ most otherwise); the dot is its mean. Panels that look alike give nothing away. "
        f"{_fairly(looked)} Fuller colour, more users; a cell with fewer than ten is left empty."
    )
    if not any(row["part"] == "cell" for row in rows):
        return []
    title, limits = f"Where the classes of {name} lie", next(where["range"] for where in looked.values() if where)
    drawn = _drawn("maps", f"{name}.map", title, rows, looked, caption=caption)
    return [figure | {"range": limits} for figure in drawn]


def _fairly(looked: Mapping[str, Json]) -> str:
    """What keeps these figures honest, and what their unit is."""
    drawn = next((finite(where.get("drawn")) for where in looked.values() if where), None)
    own = ", found anew in each release" if len(looked) > 1 else ""
    return (
        f"Directions from one half of the users{own}, drawn for the other half ({count(drawn)} users): on its own half "
        "any table would seem to leak. Units are standard deviations within a class."
    )


def _cells(grid: Json, limits: list[Any]) -> Figures:
    """The cells that may be shown, with their corners and how dense they are."""
    bins, shares = int(finite(grid.get("bins")) or 0), grid.get("shares") or []
    corners = [end for pair in limits for end in map(finite, pair or []) if end is not None]
    if len(corners) != 4 or len(shares) != bins**2:
        return []
    left, right, bottom, top = corners
    wide, high = (right - left) / bins, (top - bottom) / bins
    return [
        {
            "x": round(left + wide * (i // bins), 3),
            "x2": round(left + wide * (i // bins + 1), 3),
            "y": round(bottom + high * (i % bins), 3),
            "y2": round(bottom + high * (i % bins + 1), 3),
            "density": share / (wide * high),
        }
        for i, share in enumerate(shares)
        if finite(share)
    ]


def _drawn(kind: str, identity: str, title: str, rows: Figures, looked: Mapping[str, Json], *, caption: str) -> Figures:
    """A figure of classes; `classes` are all of them, so that each has the same colour in every figure."""
    figure = {"kind": kind, "id": identity, "title": title, "caption": caption, "rows": rows}
    classes = list(dict.fromkeys(label for _, label, _ in _classes(looked)))
    return [{**figure, "classes": classes, "series": [], "lines": []}] if rows else []


def _series(rows: Figures) -> list[str]:
    names = list(dict.fromkeys(row["series"] for row in rows))
    return names if len(names) > 1 else []


def _pairs(looked: Mapping[str, Json]) -> list[dict[str, Any]]:
    """The squared distance of the means of two classes in each release, and how large it gets without a leak."""
    found: dict[tuple[str, ...], dict[str, Json]] = {}
    for release, where in looked.items():
        for pair in map(as_dict, where.get("distances") or []):
            found.setdefault(tuple(text(label) for label in pair.get("classes") or []), {})[release] = pair
    farthest = sorted(found.items(), key=lambda item: -max(finite(p.get("value")) or 0.0 for p in item[1].values()))
    return [
        {
            "pair": " – ".join(labels),
            "cells": [number(as_dict(parts.get(release)).get("value")) for release in looked],
            "chance": number(max(finite(part.get("chance")) or 0.0 for part in parts.values())),
        }
        for labels, parts in farthest[:PAIRS]
    ]
