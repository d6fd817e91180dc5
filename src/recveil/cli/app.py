"""The command line: one file for each command, put together here."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from recveil.cli.apply import apply
from recveil.cli.audit import audit
from recveil.cli.cloak import cloak
from recveil.cli.data import app as data_app
from recveil.cli.demo import demo
from recveil.cli.listing import doctor, list_methods
from recveil.cli.membership import EXAMPLES, membership
from recveil.cli.serve import serve
from recveil.cli.study_report import app as study_app
from recveil.cli.terminal import EscapedGroup
from recveil.cli.train import train
from recveil.cli.tune import tune

__all__ = ["app", "main"]

app = typer.Typer(
    cls=EscapedGroup,
    help="Audit and defend the privacy of a recommender: attribute inference and membership inference.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    """Run the command line."""
    app()


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"recveil {version('recveil')}")
        raise typer.Exit


@app.callback()
def _set_up(
    version_asked: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Handle options that come before the name of a command."""


app.command("demo")(demo)
app.command("audit")(audit)
app.command("cloak")(cloak)
app.command("apply")(apply)
app.command("train")(train)
app.command("membership", epilog=EXAMPLES)(membership)
app.add_typer(study_app, name="study")
app.command("tune")(tune)
app.add_typer(data_app, name="data")
app.command("serve")(serve)
app.command("list")(list_methods)
app.command("doctor")(doctor)
