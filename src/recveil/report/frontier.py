"""The privacy-utility frontier as a figure and a table: plain formatted parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recveil.report.formatting import as_dict, finite, number, text

__all__ = ["frontier"]


def frontier(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the page shows of it; None where the document has none. Every method starts at the undefended table."""
    points = [as_dict(p) for p in found.get("points") or []]
    known = [p for p in points if finite(p.get("cost")) is not None and finite(p.get("advantage")) is not None]
    if len(known) < 2:
        return None
    knee, cost = points[int(found.get("knee") or 0)], text(found.get("cost") or "cost")
    start = next((p for p in known if p.get("method") == "none"), None)
    others = [p for p in known if p.get("method") != "none"]
    begins = [{**start, "method": m} for m in dict.fromkeys(p["method"] for p in others)] if start else []
    rows = [
        {
            "method": text(p["method"]),
            "strength": finite(p.get("strength")),
            "cost": finite(p["cost"]),
            "advantage": finite(p["advantage"]),
            "knee": p is knee,
        }
        for p in [*begins, *others]
    ]
    left = [f"{text(name)} ({text(why)})" for name, why in as_dict(found.get("left_out")).items()]
    figure = {
        "kind": "frontier",
        "id": "frontier",
        "title": "How much privacy each method buys, and for how much",
        "caption": "Lower is more private, further left is cheaper. Each line starts at the table as it is and ends at "
        "the full strength of the method; the ring marks the knee.",
        "axis": cost[:1].upper() + cost[1:] + " (share)",
        "rows": rows,
        "series": [],
        "lines": [],
    }
    return {
        "charts": [figure],
        "cost": cost[:1].upper() + cost[1:],
        "left_out": f"Left out: {'; '.join(left)}." if left else "",
        "rows": [_row(p, p is knee) for p in known],
    }


def _row(point: Mapping[str, Any], knee: bool) -> dict[str, Any]:
    digits = {"strength": 2, "advantage": 3, "cost": 3, "displacement": 3, "seconds": 2}
    return {
        "method": text(point["method"]),
        "knee": knee,
        **{k: number(point.get(k), d) for k, d in digits.items()},
    }
