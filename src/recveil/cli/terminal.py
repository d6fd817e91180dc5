"""The terminal: text without control characters, streams that are closed or speak another encoding, and signals."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import typer
from typer.core import TyperGroup

__all__ = ["EscapedGroup", "Terminated", "end_on_signals", "escape_text", "has_terminal", "settle_output", "write_text"]

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that move the cursor, ring, change colors or turn the direction of what follows."""

USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
"""Class of the errors of Click, which newer versions of Typer have a copy of."""

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """The system asked the process to end (SIGTERM, or SIGHUP when the terminal was closed)."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


def escape_text(text: str) -> str:
    r"""Return one line in which characters that control a terminal are shown as \x1b or \u202e."""
    return _CONTROL.sub(lambda match: match.group().encode("unicode_escape").decode("ascii"), text)


def write_text(stream: TextIO | None, text: str) -> None:
    """Write lines to a stream, if there is one; what it cannot encode is shown as an escape sequence."""
    if stream is None:  # the process was started with the stream closed
        return
    shown = "\n".join("\t".join(map(escape_text, line.split("\t"))) for line in text.split("\n"))
    encoding = stream.encoding or "utf-8"
    stream.write(shown.encode(encoding, "backslashreplace").decode(encoding))


class EscapedGroup(TyperGroup):
    """Commands whose usage errors show what was typed without control characters."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the words before the name of a command."""
        with _escape_usage_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Read the words after the name of a command, and run it."""
        with _escape_usage_errors():
            return super().invoke(ctx)


@contextmanager
def _escape_usage_errors() -> Iterator[None]:
    try:
        yield
    except USAGE_ERROR as error:
        shown: Any = error
        shown.message = escape_text(shown.message)
        raise


def has_terminal() -> bool:
    """Whether progress can be drawn: stderr is open and leads to a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def settle_output() -> None:
    """Write what stdout still holds; where that fails, discard it, or the interpreter would fail on it at its end."""
    if sys.stdout is None:
        return
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def end_on_signals() -> Iterator[None]:
    """Turn signals that end the process into an exception, so that temporary files are removed; a second one kills."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    owner = os.getpid()

    def handle_signal(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != owner:  # a forked process has nothing to clean up
            os.kill(os.getpid(), number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated(number)

    former = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    handled = {number: handler for number, handler in former.items() if handler in defaults}
    for number in handled:
        signal.signal(number, handle_signal)
    try:
        yield
    finally:
        for number, handler in handled.items():
            signal.signal(number, handler)
