"""Counts and times of the service in the text format of Prometheus, version 0.0.4."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock

__all__ = ["CONTENT_TYPE", "Labels", "Measurements"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0)
"""Upper bounds of the histogram of response times."""

Labels = tuple[tuple[str, str], ...]


class Measurements:
    """What was counted since the service started."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._requests: Counter[Labels] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._total_seconds: Counter[str] = Counter()
        self._rows: Counter[Labels] = Counter()

    def count_request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count one answer."""
        with self._lock:
            self._requests[("route", route), ("method", method), ("status", str(status))] += 1
            buckets = self._seconds.setdefault(route, [0] * (len(SECONDS) + 1))
            buckets[bisect_left(SECONDS, seconds)] += 1
            self._total_seconds[route] += seconds  # type: ignore[assignment]

    def count_rows(self, carried: int, unprotected: int) -> None:
        """Count vectors that were carried, and those among them that the map does not protect."""
        with self._lock:
            self._rows[(("protected", "yes"),)] += carried - unprotected
            self._rows[(("protected", "no"),)] += unprotected

    def render_text(self, gauges: Mapping[str, tuple[str, Iterable[tuple[Labels, float]]]]) -> str:
        """Return all numbers; `gauges` are a help text and values by name."""
        with self._lock:
            lines = _render_family("recveil_requests_total", "counter", "Answers.", self._requests.items())
            lines += self._render_times()
            lines += _render_family(
                "recveil_vectors_total", "counter", "Vectors carried by the map.", self._rows.items()
            )
        for name, (text, values) in gauges.items():
            lines += _render_family(name, "gauge", text, values)
        return "\n".join(lines) + "\n"

    def _render_times(self) -> list[str]:
        name = "recveil_request_seconds"
        lines = [f"# HELP {name} Time until the answer was sent.", f"# TYPE {name} histogram"]
        for route, buckets in self._seconds.items():
            total = 0
            for bound, count in zip([*map(str, SECONDS), "+Inf"], buckets, strict=True):
                total += count
                lines.append(f"{name}_bucket{_render_labels((('route', route), ('le', bound)))} {total}")
            lines.append(f"{name}_sum{_render_labels((('route', route),))} {self._total_seconds[route]:.6f}")
            lines.append(f"{name}_count{_render_labels((('route', route),))} {total}")
        return lines


def _render_family(name: str, kind: str, text: str, values: Iterable[tuple[Labels, float]]) -> list[str]:
    samples = [f"{name}{_render_labels(labels)} {value:g}" for labels, value in values]
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}", *samples]


def _render_labels(labels: Labels) -> str:
    escaped = [(name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")) for name, value in labels]
    return "{" + ",".join(f'{name}="{value}"' for name, value in escaped) + "}" if labels else ""
