"""Draw the figures that `figures` describes as static SVG.

Static, because a report is read where scripts do not run: in the viewer of a CI system, in a mail, on paper.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import resource
import subprocess  # nosec B404
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from recveil.core.errors import DataError, MissingExtra
from recveil.report.chart_style import apply_style
from recveil.report.class_charts import build_heat_chart, build_map_chart, build_step_chart
from recveil.report.figures import (
    CurvePlot,
    DotPlot,
    HeatPlot,
    MapPlot,
    Plot,
    RocPlot,
    ScatterPlot,
    StepPlot,
    StrengthPlot,
    TradeoffPlot,
)
from recveil.report.interval_charts import build_curve_chart, build_dot_chart
from recveil.report.tradeoff_charts import (
    build_roc_chart,
    build_scatter_chart,
    build_strength_chart,
    build_tradeoff_chart,
)

__all__ = [
    "build_chart",
    "check_chart_engine",
    "check_chart_packages",
    "draw",
    "draw_file",
    "import_altair",
    "show_legends",
]

FILE_INK = "#1b2026"
CONVERSION = (
    "import json, sys, vl_convert\n"
    "sys.stdout.write(vl_convert.vegalite_to_svg(json.load(sys.stdin), allowed_base_urls=[]))"
)
"""Program that reads a chart and writes its SVG."""


def draw(plot: Plot) -> str:
    """Return the figure as one `<svg>` element for a page, with all texts escaped."""
    altair, _ = _import_libraries()
    return _make_embeddable(_convert(apply_style(build_chart(altair, plot)).to_dict(validate=False)), plot)


def draw_file(plot: Plot) -> str:
    """Return the figure as an SVG file of its own, dark on white and with its legend, since no page lends them."""
    altair, _ = _import_libraries()
    chart = show_legends(apply_style(build_chart(altair, plot)).to_dict(validate=False))
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" color="{FILE_INK}" style="background: #fff" '
    return _make_embeddable(_convert(chart), plot).replace("<svg ", opening, 1) + "\n"


def show_legends(part: Any) -> Any:
    """Return a chart with the legends that the page writes beside its figures."""
    if isinstance(part, dict):
        kept = {key: value for key, value in part.items() if not (key == "legend" and value is None)}
        return {key: show_legends(value) for key, value in kept.items()}
    return [show_legends(each) for each in part] if isinstance(part, list) else part


def _convert(chart: Mapping[str, Any]) -> str:
    """Return a chart as SVG."""
    _, vl_convert = _import_libraries()
    if not _has_memory_limit():
        svg: str = vl_convert.vegalite_to_svg(chart, allowed_base_urls=[])
        return svg
    return _convert_in_child(json.dumps(chart))


def check_chart_engine() -> None:
    """Refuse a report that cannot be drawn within a limit on memory, before the work it is about.

    Raises:
        DataError: the engine does not run within the limit.
    """
    if _has_memory_limit():
        _convert_in_child(json.dumps({"mark": "point", "data": {"values": []}}))


def _has_memory_limit() -> bool:
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def _convert_in_child(chart: str) -> str:
    """Draw in a process of its own: under a limit on memory the engine ends its process, and this one must go on."""
    # The program is a constant of this module; the chart reaches it as data on its standard input.
    done = subprocess.run(  # nosec B603
        [sys.executable, "-c", CONVERSION], input=chart, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise DataError(
            "The chart engine does not run within the limit on memory of this process (`ulimit -v`). Raise the limit, "
            "or leave the report out."
        )
    return done.stdout


def build_chart(altair: Any, plot: Plot) -> Any:
    """Return the figure as an altair chart, without a legend where the page writes it."""
    match plot:
        case DotPlot():
            return build_dot_chart(altair, plot)
        case CurvePlot():
            return build_curve_chart(altair, plot)
        case StepPlot():
            return build_step_chart(altair, plot)
        case MapPlot():
            return build_map_chart(altair, plot)
        case HeatPlot():
            return build_heat_chart(altair, plot)
        case StrengthPlot():
            return build_strength_chart(altair, plot)
        case TradeoffPlot():
            return build_tradeoff_chart(altair, plot)
        case RocPlot():
            return build_roc_chart(altair, plot)
        case ScatterPlot():
            return build_scatter_chart(altair, plot)
    raise TypeError(f"No chart draws a {type(plot).__name__}.")


def check_chart_packages() -> None:
    """Refuse to begin work whose report cannot be drawn, without importing anything.

    Raises:
        MissingExtra: a package is not installed.
    """
    for name in ("altair", "vl_convert"):
        if find_spec(name) is None:
            raise _refuse_without(name)


def _refuse_without(name: str | None) -> MissingExtra:
    return MissingExtra(
        f"The report needs the package {name}, which comes with recveil and is not installed. "
        "Install recveil again: pip install --force-reinstall recveil"
    )


def import_altair() -> Any:
    """Return the package altair.

    Raises:
        MissingExtra: it is not installed.
    """
    return _import_libraries()[0]


def _import_libraries() -> tuple[Any, Any]:
    try:
        import altair
        import vl_convert
    except ImportError as error:
        raise _refuse_without(error.name) from error
    return altair, vl_convert


def _make_embeddable(svg: str, plot: Plot) -> str:
    """Return the drawing with an accessible name and ids of its own, scaling with the page, without addresses."""
    opening = re.match(r"<svg[^>]*>", svg)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert opening is not None
    assert size is not None
    name, (width, height) = html.escape(plot.title, quote=True), size.groups()
    head = f'<svg role="img" aria-label="{name}" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
    # The renderer counts clip paths on from drawing to drawing. Names of this drawing alone keep the paths of several
    # drawings on a page apart, and make equal results equal pages.
    prefix = "p" + hashlib.sha256(plot.id.encode("utf-8", "replace")).hexdigest()[:8]
    numbers = {clip: i for i, clip in enumerate(dict.fromkeys(re.findall(r'\bid="(clip\d+)"', svg)))}
    body = re.sub(
        r'(\bid="|url\(#)(clip\d+)', lambda match: f"{match[1]}{prefix}-{numbers[match[2]]}", svg[opening.end() :]
    )
    return f"{head}<title>{name}</title>{body}"
