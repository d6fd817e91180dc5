"""Progress without a dependency: rooms report it, the front end decides who sees it.

A room writes `for epoch in track_progress(range(20), "training")`. By default nothing is shown; the command line
installs a reporter that draws a bar on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["Reporter", "RowCount", "report_progress", "track_progress"]

T = TypeVar("T")
Reporter = Callable[[Iterable[Any], str, "int | None"], Iterable[Any]]


class RowCount(int):
    """An item that stands for many rows; progress is then counted in rows a second."""


def _report_nothing(items: Iterable[T], label: str, total: int | None) -> Iterable[T]:
    return items


_reporter: ContextVar[Reporter] = ContextVar("reporter", default=_report_nothing)


def track_progress(items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
    """Yield the same items and report how many are done."""
    return _reporter.get()(items, label, total)


@contextmanager
def report_progress(reporter: Reporter) -> Iterator[None]:
    """Send the progress of this block to `reporter`."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)
