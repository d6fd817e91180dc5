"""What the recommendations are worth before and after a defense, and what the defense cost: plain formatted parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recveil.report.figures import class_size, utility_figures
from recveil.report.formatting import as_dict, class_count, estimate, finite, number, text, too_small

__all__ = ["cost", "worth"]

Json = Mapping[str, Any]


def worth(utility: Json) -> dict[str, Any] | None:
    """What the recommendations are worth before and after, for everybody and for each class."""
    parts = {part: as_dict(utility.get(part)) for part in ("before", "after", "difference", "popularity")}
    metrics = list(parts["before"] or parts["after"])
    if not metrics:
        return None
    rows = [
        {
            "metric": text(metric).upper(),
            "n": estimate(parts["after"].get(metric) or parts["before"].get(metric))["n"],
            **{part: estimate(parts[part].get(metric), 4, signed=part == "difference") for part in parts},
        }
        for metric in metrics
    ]
    main = _main_metric(metrics)
    groups: list[tuple[str, str, Json]] = [
        (text(name), text(label), as_dict(result))
        for name, classes in as_dict(utility.get("per_class")).items()
        for label, result in as_dict(classes).items()
    ]
    return {
        "metric": text(main).upper(),
        "rows": rows,
        "popularity": bool(parts["popularity"]),
        "note": text(utility.get("note") or ""),
        "classes": [_class_row(name, label, result, main) for name, label, result in groups],
        "charts": utility_figures(utility, main, groups),
    }


def _class_row(name: str, label: str, result: Json, metric: str) -> dict[str, Any]:
    n = class_size(result, metric)
    shown: Json = {} if too_small(n) else result
    estimates = {
        part: estimate(as_dict(shown.get(part)).get(metric), 4, signed=part == "difference")
        for part in ("before", "after", "difference")
    }
    return {"target": name, "label": label, "n": class_count(n), **estimates}


def cost(document: Json) -> list[dict[str, str]]:
    """What it cost: in utility, in displacement, in time."""
    moved = as_dict(as_dict(document.get("defense")).get("displacement"))
    tiles = _utility_cost(as_dict(document.get("utility")))
    if finite(moved.get("relative")) is not None:
        note = text(
            moved.get("description") or "distance moved as a share of the distance from the mean (root mean squares)"
        )
        tiles.append({"term": "Displacement", "value": number(moved["relative"]), "note": note})
    times = {step: seconds for step, seconds in as_dict(document.get("timings")).items() if finite(seconds) is not None}
    if times:
        steps = ", ".join(f"{text(step)} {number(seconds, 1)}" for step, seconds in times.items())
        tiles.append({"term": "Time", "value": f"{number(sum(times.values()), 1)} s", "note": f"seconds: {steps}"})
    return tiles


def _utility_cost(utility: Json) -> list[dict[str, str]]:
    changes = as_dict(utility.get("difference"))
    if not changes:
        return []
    metric = _main_metric(list(changes))
    change, value = estimate(changes[metric], 4, signed=True), finite(as_dict(changes[metric]).get("value"))
    base = finite(as_dict(as_dict(utility.get("before")).get(metric)).get("value"))
    share = f"{number(100 * value / base, 1, signed=True)} % of before; " if base and value is not None else ""
    note = f"{change['interval']} {share}paired, n = {change['n']}".strip()
    return [{"term": f"Change of {text(metric).upper()}", "value": change["value"], "note": note}]


def _main_metric(metrics: list[str]) -> str:
    return "ndcg@10" if "ndcg@10" in metrics else metrics[0]
