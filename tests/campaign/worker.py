"""Commands of recveil run in this process, as quickly as they can be, with all that reaches the terminal kept."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

LOAD_MAP = "load-map"
"""Name by which the campaign calls `recveil.load_map`, which has no command."""
N_MAP_DIMENSIONS = 4
QUICK_ATTACKERS = ("logistic", "kernel-ridge")
"""Attackers of a self-check that is not to take a second."""


@dataclass(frozen=True)
class Ended:
    """How a command ended; the seconds are of processor time, since the machine may have other work."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float


def run_command(arguments: Sequence[str], folder: Path, *, strong_check: bool = True) -> Ended:
    """Run a command in this process, in this folder; cells of studies run here too, without further processes.

    Args:
        arguments: the command line, without the name of the program.
        folder: working folder, data folder and place of the cache.
        strong_check: whether a cloak is checked by its whole panel; by its two quickest attackers otherwise.
    """
    from recveil.studies.engines import local
    from recveil.workflows import self_check

    make_panel = self_check.make_panel if strong_check else _make_quick_panel

    surroundings = {"RECVEIL_DATA": str(folder), "RECVEIL_CACHE": str(folder / "cache"), "COLUMNS": "200"}
    start = time.process_time()
    with (
        chdir(folder),
        mock.patch.dict(os.environ, surroundings),
        mock.patch.object(sys, "argv", ["recveil", *arguments]),
        mock.patch.object(local, "run_items", _run_cells_here),
        mock.patch.object(self_check, "make_panel", make_panel),
        _capture_streams() as (out, err),
    ):
        exit_code = _call_command(arguments)
        sys.stdout.flush()
        sys.stderr.flush()
        return Ended(exit_code, _read_stream(out), _read_stream(err), time.process_time() - start)


@cache
def build_command() -> Any:
    """Build the command line once; Typer builds it anew in every process, which takes longer than most cases."""
    import typer.main

    from recveil.cli.app import app

    return typer.main.get_command(app)


def _make_quick_panel(panel: str = "fast", device: str | None = None) -> dict[str, Any]:
    from recveil.attacks.attribute.panels import make_panel

    return {name: attack for name, attack in make_panel(panel, device).items() if name in QUICK_ATTACKERS}


def _call_command(arguments: Sequence[str]) -> int:
    try:
        if arguments[0] == LOAD_MAP:
            _apply_map(Path(arguments[1]))
        else:
            build_command()(list(arguments))
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    return 0


def _apply_map(path: Path) -> None:
    """Load a fitted map and carry ten users by it; errors become exit codes as in a command."""
    import typer

    from recveil import load_map
    from recveil.cli.output import guard

    vectors = np.random.default_rng(0).standard_normal((10, N_MAP_DIMENSIONS)).astype(np.float32)
    try:
        guard(lambda: load_map(path).transform(vectors, np.arange(10) % 2))
    except typer.Exit as stop:
        sys.exit(stop.exit_code)


def _run_cells_here(
    work: Callable[[Any], Any], cells: Sequence[Any], *, workers: int, group: Any, may_start: Callable[[], bool]
) -> Iterator[tuple[Any, Any]]:
    yield from ((cell, work(cell)) for cell in cells if may_start())


@contextmanager
def _capture_streams() -> Iterator[tuple[Any, Any]]:
    """Send file descriptors 1 and 2 to files, so that what C libraries print is kept as well."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        sys.stdout.flush()
        sys.stderr.flush()
        kept = os.dup(1), os.dup(2)
        streams = [os.fdopen(os.dup(file.fileno()), "w", encoding="utf-8") for file in (out, err)]
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            with mock.patch.object(sys, "stdout", streams[0]), mock.patch.object(sys, "stderr", streams[1]):
                yield out, err
        finally:
            for stream in streams:
                stream.close()
            for number, descriptor in enumerate(kept, 1):
                os.dup2(descriptor, number)
                os.close(descriptor)


def _read_stream(file: Any) -> str:
    file.seek(0)
    return str(file.read().decode("utf-8", "surrogateescape"))
