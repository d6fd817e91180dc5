"""Seconds spent on each step of a run; kept apart from the results, which are equal from run to run."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Clock"]


@dataclass
class Clock:
    """Seconds by the name of the step."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure_step(self, name: str) -> Iterator[None]:
        """Add the seconds of this block to the step."""
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start
