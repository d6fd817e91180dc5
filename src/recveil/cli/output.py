"""What the command line shows and how it ends: progress and messages on stderr, results on stdout, exit codes."""

from __future__ import annotations

import functools
import json
import logging
import os
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import typer

from recveil.core.errors import RecveilError
from recveil.core.progress import Rows, reporting

__all__ = ["emit", "guarded", "print_summary", "print_training", "progress_bars", "say"]

T = TypeVar("T")

PATIENCE = 2.0
"""Seconds before a bar appears: short work needs none."""


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Turn what goes wrong in a command into one sentence on stderr and the right exit code."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> None:
        logging.basicConfig(format="recveil: %(message)s", level=logging.WARNING, stream=sys.stderr)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn  # type: ignore[assignment]
                command(*args, **kwargs)
        except RecveilError as error:
            _stop(str(error), error.exit_code)
        except typer.Exit:
            raise
        except KeyboardInterrupt:
            _stop("interrupted; nothing half-written was left.", 130)
        except BrokenPipeError:  # whoever read our output has seen enough, as in `recveil list | head`
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(0) from None
        except OSError as error:
            where = f" {error.filename}" if error.filename else ""
            _stop(f"The system refused{where}: {error.strerror or error}.", 3)
        except MemoryError:
            _stop("Not enough memory for this. Use fewer users, a smaller panel, or a larger machine.", 3)
        except Exception as error:  # noqa: BLE001 - the last guard: users get a sentence, developers the traceback
            if os.environ.get("RECVEIL_DEBUG"):
                traceback.print_exc()
            _stop(
                f"Internal error, which is a fault of recveil: {type(error).__name__}: {error}. "
                "Run again with RECVEIL_DEBUG=1 for the details, and please report them.",
                70,
            )

    return run


def _stop(message: str, code: int) -> None:
    sys.stderr.write(f"recveil: {message}\n")
    raise typer.Exit(code)


def _warn(message: Warning | str, *_: Any) -> None:
    """A warning in one line, as errors are, without the place in the code where it was given."""
    sys.stderr.write(f"recveil: {message}\n")


def say(text: str, *, quiet: bool) -> None:
    """A line for people, on stdout."""
    if not quiet:
        sys.stdout.write(text + "\n")


def emit(document: Any, *, as_json: bool) -> None:
    """The document on stdout, if JSON was asked for."""
    if as_json:
        sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def progress_bars(*, quiet: bool) -> AbstractContextManager[None]:
    """Within this block, work that takes longer than two seconds shows a bar on stderr."""

    def report(items: Iterable[T], label: str, total: int | None) -> Iterable[T]:
        return items if quiet or not sys.stderr.isatty() else _bar(items, label, total)

    return reporting(report)


def _bar(items: Iterable[T], label: str, total: int | None) -> Iterator[T]:
    from rich.console import Console
    from rich.progress import Progress

    start, count = time.monotonic(), 0
    bar: Progress | None = None
    try:
        for item in items:
            yield item
            count += item if isinstance(item, Rows) else 1
            seconds = time.monotonic() - start
            if bar is None and seconds > PATIENCE:
                bar = Progress(console=Console(stderr=True), transient=True)
                task = bar.add_task(label, total=total)
                bar.start()
            if bar is not None:
                pace = f"{label}, {count / seconds:,.0f} rows/s" if isinstance(item, Rows) else label
                bar.update(task, completed=count, description=pace)
    finally:
        if bar is not None:
            bar.stop()


def print_summary(document: dict[str, Any], *, quiet: bool) -> None:
    """The verdicts in words, before and after where there are both, and what it cost."""
    for name, target in document.get("targets", {}).items():
        before = document.get("before", {}).get(name)
        if before:
            say(f"before  {before['sentence']}", quiet=quiet)
        say(f"{'after   ' if before else ''}{target['sentence']}", quiet=quiet)
        if target.get("curve"):
            steps = [f"{step['advantage']['value']:.3f} with {step['ratio']:.0%}" for step in target["curve"]]
            say(f"curve   Advantage by share of users known: {', '.join(steps)}.", quiet=quiet)
    for name, target in document.get("two_releases", {}).items():
        if target["verdict"] == "leak":
            reached = target["headline"]["balanced_accuracy"]["value"]
            say(
                f"both    Who holds the earlier table too can guess {name}: balanced accuracy {reached:.1%}.",
                quiet=quiet,
            )
    utility = document.get("utility", {})
    _say_cost(utility.get("before", {}), utility.get("difference", {}), quiet=quiet)
    _say_notes([*document.get("defense", {}).get("notes", []), *document.get("warnings", [])], quiet=quiet)


def print_training(utility: dict[str, Any], *, quiet: bool) -> None:
    """How well the trained model ranks, and, of a defended one, what attackers see, what it cost and what to know."""
    for name in ("hr@10", "ndcg@10"):
        e = utility[name]
        say(f"{name:8}{e['value']:.4f}  [{e['low']:.4f}, {e['high']:.4f}]", quiet=quiet)
    for when, found in utility.get("audit", {}).items():
        for target in found.values():
            say(f"{when:8}{target['sentence']}", quiet=quiet)
    _say_cost(utility.get("undefended", {}), utility.get("difference", {}), quiet=quiet)
    _say_notes(utility.get("notes", []), quiet=quiet)


def _say_cost(before: dict[str, Any], difference: dict[str, Any], *, quiet: bool) -> None:
    if change := difference.get("ndcg@10"):
        span = f"[{change['low']:+.4f}, {change['high']:+.4f}]"
        say(f"cost    NDCG@10 {before['ndcg@10']['value']:.4f} {change['value']:+.4f} {span}", quiet=quiet)


def _say_notes(notes: Iterable[str], *, quiet: bool) -> None:
    for note in notes:
        if not quiet:
            sys.stderr.write(f"recveil: {note}\n")
