"""The commands `recveil data list`, `get` and `describe`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.options import Json, Quiet
from recveil.cli.output import emit_json, guarded, print_line, show_progress

__all__ = ["app"]

app = typer.Typer(help="List, download and describe public data sets.", no_args_is_help=True)


@app.command("list")
@guarded
def list_data(as_json: Json = False) -> None:
    """List the data sets known by name, and which are on this machine."""
    from recveil.data.sources.catalog import list_sources

    rows = list_sources()
    emit_json(rows, as_json=as_json)
    for row in rows:
        available = "available" if row["available"] else "-"
        print_line(f"{row['name']:32} {available:10} {row['title']}", silent=as_json)


@app.command("get")
@guarded
def get_data(
    name: Annotated[str, typer.Argument(help="Name of the data set; see `recveil data list`.")],
    source: Annotated[Path | None, typer.Option("--from", help="Archive, folder or file to take it from.")] = None,
    quiet: Quiet = False,
) -> None:
    """Bring a data set into the cache.

    It comes from its official address, or from a file that you downloaded yourself (--from).
    """
    from recveil.data.sources.download import fetch_dataset

    with show_progress(quiet=quiet):
        folder = fetch_dataset(name, source=source)
    print_line(f"{name} is in {folder}.", silent=quiet)


@app.command("describe")
@guarded
def describe_data(
    name: Annotated[str, typer.Argument(help="Data set by name, a file, a folder, or `demo`.")], as_json: Json = False
) -> None:
    """Describe a data set: sizes, attributes and their classes, activity."""
    from recveil.data.sources.catalog import load_dataset_or_demo
    from recveil.data.statistics import describe_dataset

    facts = describe_dataset(load_dataset_or_demo(name, seed=0))
    emit_json(facts, as_json=as_json)
    for key, value in facts.items():
        print_line(f"{key:20} {value}", silent=as_json)
