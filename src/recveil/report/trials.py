"""The frontier of a search as one SVG file: every setting that was tried, and those that nothing beats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recveil.report.charts import draw
from recveil.report.formatting import text

__all__ = ["frontier_figure", "frontier_svg"]

INK = "#1b2026"


def frontier_figure(document: Mapping[str, Any]) -> dict[str, Any]:
    """What is drawn, as plain data."""
    chosen = (document.get("chosen") or {}).get("cell")
    best = {one["cell"] for one in document["frontier"]}
    rows = [
        {
            "method": "no defense" if not t["defended"] else "chosen" if t["cell"] == chosen else "tried",
            "best": t["cell"] in best,
            "advantage": t["advantage"],
            "cost": t["loss"],
            **dict.fromkeys(("low", "high", "cost_low", "cost_high")),
        }
        for t in document["trials"]
    ]
    title = f"{document['defense']}, {document['target']} on {document['data']}, {document['model']}"
    axis = "Loss of NDCG@10 on the validation items, %"
    return {"kind": "bands", "id": "tune", "title": text(title), "axis": axis, "rows": rows, "series": [], "lines": []}


def frontier_svg(document: Mapping[str, Any]) -> str:
    """A file of its own: on a page the colour of the text comes from around it, here it is set."""
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" color="{INK}" '
    return draw(frontier_figure(document)).replace("<svg ", opening, 1)
