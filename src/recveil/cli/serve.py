"""The command `recveil serve`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.options import Quiet, takes
from recveil.cli.output import check_inputs_exist, print_line

__all__ = ["ServeOptions", "serve"]


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """Options of `recveil serve`."""

    host: Annotated[str, typer.Option(help="Address to listen on; any but loopback needs a token.")] = "127.0.0.1"
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65_535)] = 8000
    map: Annotated[Path | None, typer.Option(help="Map that `recveil cloak --save-map` wrote, for POST /apply.")] = None
    folder: Annotated[
        Path | None, typer.Option(help="Private folder that keeps tables and jobs; a temporary one by default.")
    ] = None
    token_file: Annotated[
        Path | None, typer.Option(help="File with the token of all requests, in place of RECVEIL_TOKEN.")
    ] = None
    max_upload: Annotated[int, typer.Option(help="Largest upload, in MiB.", min=1, max=1 << 20)] = 256
    max_jobs: Annotated[int, typer.Option(help="Jobs that wait or run at the same time.", min=1, max=1_000)] = 8
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Further name that clients call the service by. Repeatable.")
    ] = None
    quiet: Quiet = False


@takes(ServeOptions)
def serve(options: ServeOptions) -> None:
    """Serve audits, cloaks and a saved map over HTTP, with a page.

    The page at the address audits and cloaks uploaded tables; programs send vectors to POST /apply. The service listens
    on this machine alone unless --host says otherwise, and then every request needs a token.

    Example: recveil serve --map gender.map --folder jobs
    """
    check_inputs_exist(options.map, options.token_file)
    # The service lives beside the command line, not below it, so it is looked up by name.
    run_server = import_module("recveil.service.server").run_server
    with suppress(KeyboardInterrupt):  # Ctrl-C and SIGTERM are the ways to stop a service
        run_server(options, announce=lambda sentence: _announce(sentence, options))
    print_line("Stopped.", silent=options.quiet)


def _announce(sentence: str, options: ServeOptions) -> None:
    import sys

    print_line(sentence, silent=options.quiet)
    if sys.stdout is not None:
        sys.stdout.flush()
