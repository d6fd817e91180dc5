"""The command `recveil demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.options import CommonOptions, takes
from recveil.cli.output import emit_json, print_line, print_summary, show_progress

__all__ = ["DemoOptions", "demo"]


@dataclass(frozen=True, kw_only=True)
class DemoOptions(CommonOptions):
    """Options of `recveil demo`."""

    out: Annotated[Path, typer.Option(help="Folder to write into; made if missing.")] = Path("recveil-demo")


@takes(DemoOptions)
def demo(options: DemoOptions) -> None:
    """Train, attack, defend and report on an embedded world.

    No download; takes about a minute.

    Example: recveil demo --out recveil-demo
    """
    from recveil.workflows.demo import run_demo

    with show_progress(quiet=options.quiet):
        result = run_demo(options.out, seed=options.seed, device=options.device)
    emit_json(result, as_json=options.as_json)
    print_summary(result, silent=options.is_silent)
    print_line(f"Open {options.out / 'report.html'} in a browser.", silent=options.is_silent)
