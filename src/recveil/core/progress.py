"""Progress without a dependency: rooms say where they are, the front end decides who sees it.

A room writes `for epoch in track(range(20), "training")`. By default nothing is shown; the command line
installs a reporter that draws a bar on stderr.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

__all__ = ["Reporter", "Rows", "reporting", "track"]

T = TypeVar("T")
Reporter = Callable[[Iterable[Any], str, "int | None"], Iterable[Any]]


class Rows(int):
    """An item that stands for so many rows: progress is then counted in rows, and said in rows a second."""


def _silent(items: Iterable[T], label: str, total: int | None) -> Iterable[T]:
    return items


_reporter: ContextVar[Reporter] = ContextVar("reporter", default=_silent)


def track(items: Iterable[T], label: str, total: int | None = None) -> Iterable[T]:
    """The same items, with whoever is listening told how far we are."""
    return _reporter.get()(items, label, total)


@contextmanager
def reporting(reporter: Reporter) -> Iterator[None]:
    """Within this block, `track` reports to `reporter`."""
    token = _reporter.set(reporter)
    try:
        yield
    finally:
        _reporter.reset(token)
