"""Options that commands share, and how typed text becomes values. Nothing that is typed is evaluated.

The options of a command are a dataclass; `takes` makes a command of a function that receives one.
"""

from __future__ import annotations

import copy
import functools
import math
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo, OptionInfo

from recveil.cli.addresses import parse_place, stage_addresses
from recveil.cli.output import guard
from recveil.core.errors import UsageError
from recveil.core.json_files import parse_json

if TYPE_CHECKING:
    from recveil.data.io.vectors import Layout

__all__ = [
    "AuditRuleOptions",
    "CommonOptions",
    "TableOptions",
    "choose_one",
    "parse_bins",
    "parse_layout",
    "parse_names",
    "parse_options",
    "takes",
]

T = TypeVar("T")

MAX_INTEGER = 2**32 - 1
"""Largest integer that an option takes, as large as the largest seed."""

DataName = Annotated[str, typer.Option(help="Data set by name (see `recveil data list`), a file, a folder, or `demo`.")]
Report = Annotated[Path | None, typer.Option(help="HTML report to write, one self-contained file.")]
JsonOut = Annotated[Path | None, typer.Option(help="JSON file to write the result to.")]
Target = Annotated[str, typer.Option(help="Attributes, separated by commas, such as gender,age.")]
FailIf = Annotated[
    list[str] | None,
    typer.Option(help='Condition that fails the build (exit 1), such as "gender.advantage.low > 0.05". Repeatable.'),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; everything else goes to stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary; errors are still printed.")]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same numbers.", min=0)]
Device = Annotated[str | None, typer.Option(help="Torch device: cpu, cuda or cuda:N; the best one by default.")]
TableArgument = Annotated[
    Path | None, typer.Argument(metavar="TABLE", help="User vectors, as by --embeddings.", show_default=False)
]
VectorNames = Annotated[
    str,
    typer.Option(help="Columns that hold the vectors, separated by commas, or the array; dim_* for all that fit."),
]
IdName = Annotated[str, typer.Option(help="Column or array that holds the user ids; user_id by default.")]
Undisclosed = Annotated[
    list[str] | None, typer.Option(help="Label of users who did not disclose, such as unspecified. Repeatable.")
]
Strength = Annotated[float, typer.Option(help="Strength of the defense, from 0 (none) to 1 (all of it).")]


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options of every command that computes."""

    seed: Seed = 0
    device: Device = None
    as_json: Json = False
    quiet: Quiet = False

    @property
    def is_silent(self) -> bool:
        """Whether nothing is printed for people."""
        return self.quiet or self.as_json


@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Options that name the tables of a release."""

    table: TableArgument = None
    embeddings: Annotated[
        Path | None,
        typer.Option(
            help="User vectors: user_id with embedding, or with emb_0, emb_1, ..., or as named by --vectors; .parquet "
            ".feather .csv .jsonl .npy .npz .pt .safetensors .h5 .keras .w2v, or a folder of Parquet files, which may "
            "be larger than memory."
        ),
    ] = None
    vectors: VectorNames = ""
    id: IdName = ""
    attributes: Annotated[
        Path | None,
        typer.Option(
            help="Attributes: user_id and one column each; empty = undisclosed. Not needed if the table holds them."
        ),
    ] = None
    run: Annotated[Path | None, typer.Option(help="Folder written by `recveil train`, in place of the two tables.")] = (
        None
    )
    ids: Annotated[
        Path | None,
        typer.Option(
            help="File with the ids of the rows, for a file of arrays without any, or row-number if the ids are 0, 1, "
            "2, ..."
        ),
    ] = None
    target: Target = ""
    numeric: Annotated[
        str,
        typer.Option(help="Columns that hold numbers, separated by commas: audited by regression, or cut by --bins."),
    ] = ""
    bins: Annotated[
        list[str] | None, typer.Option(help="Edges that cut a numeric column into classes: age=35,45. Repeatable.")
    ] = None
    keep_label: Annotated[
        list[str] | None,
        typer.Option(help="Label to keep as a class though it looks undisclosed, such as none or -1. Repeatable."),
    ] = None
    undisclosed: Undisclosed = None
    item_embeddings: Annotated[Path | None, typer.Option(help="Item vectors: item_id with embedding.")] = None
    interactions: Annotated[Path | None, typer.Option(help="Interactions: user_id, item_id[, timestamp].")] = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Read and write in blocks, as for folders and files of more than 1 GiB.")
    ] = False

    @property
    def table_path(self) -> Path | None:
        """The table of vectors, named by its option or without one."""
        return choose_one("embeddings", self.embeddings, self.table)

    @property
    def ids_path(self) -> Path | None:
        """File of ids; None if there is none or the ids are the row numbers."""
        return None if self.ids == Path("row-number") else self.ids


@dataclass(frozen=True, kw_only=True)
class AuditRuleOptions:
    """Options that set the rules of an attribute audit."""

    panel: Annotated[
        str, typer.Option(help="Attacker panel, or attacks separated by commas: see `recveil list attacks`.")
    ] = "fast"
    folds: Annotated[int, typer.Option(help="Folds of cross-validation.", min=2)] = 5
    repeats: Annotated[
        int, typer.Option("--repeats", "--seeds", help="Repeats of cross-validation; a clear leak needs one.", min=1)
    ] = 2
    max_repeats: Annotated[
        int,
        typer.Option(
            help="Repeats up to which an inconclusive audit goes on, within a minute; as --repeats for just so many.",
            min=1,
        ),
    ] = 10
    margin: Annotated[float, typer.Option(help="Advantage under which a leak is not called one.", min=0.0, max=1.0)] = (
        0.05
    )


def takes(options_type: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Make a command of a function that receives its options as one object.

    Errors end the command with one sentence and the right exit code; argument names that the library puts in backticks
    are shown as options. Every path may be an address, which is copied to this machine or from it.
    """
    plain_hints = get_type_hints(options_type, include_extras=True)
    hints = {name: _accept_address(hint) for name, hint in plain_hints.items()}
    path_options = [field.name for field in fields(options_type) if _is_path(hints[field.name])]  # type: ignore[arg-type]
    parameters = [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(options_type)  # type: ignore[arg-type]
    ]
    flags = {field.name: f"--{field.name.replace('_', '-')}" for field in fields(options_type)}  # type: ignore[arg-type]

    def decorate(command: Callable[[T], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(**values: Any) -> None:
            addresses: dict[str, str] = {}

            def check_and_run() -> None:
                _check_numbers(values)
                if values.get("report") is not None:
                    _check_report()
                with stage_addresses(values, path_options, addresses) as staged:
                    command(options_type(**staged))

            guard(check_and_run, flags=flags, addresses=addresses)

        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in parameters}
        return run

    return decorate


def _check_report() -> None:
    """Refuse a report that cannot be drawn, before the work; loading the charts takes time only under a limit."""
    if resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY:
        from recveil.report.charts import check_chart_engine

        check_chart_engine()


def _is_path(hint: Any) -> bool:
    return get_origin(hint) is Annotated and get_args(hint)[0] in (Path, Path | None)


def _accept_address(hint: Any) -> Any:
    """Let an option that is a path take an address as it is typed; `Path` would change it."""
    if not _is_path(hint):
        return hint
    base, *details = get_args(hint)
    changed = [copy.copy(detail) for detail in details]
    for detail in changed:
        if isinstance(detail, OptionInfo | ArgumentInfo):
            detail.parser, detail.metavar = parse_place, detail.metavar or "<Path>"
    return Annotated[(base, *changed)]


def _check_numbers(values: Mapping[str, object]) -> None:
    """Refuse numbers that are not finite or beyond what a machine counts to; bounds of their own come later."""
    for name, value in values.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"`{name}` is {value}. It should be a finite number.")
        if isinstance(value, int) and abs(value) > MAX_INTEGER:
            raise UsageError(f"`{name}` is too large. It should be less than or equal to {MAX_INTEGER}.")


def choose_one(name: str, option: Path | None, argument: Path | None) -> Path | None:
    """Return the path that was given, by the option or without one.

    Raises:
        UsageError: both were given.
    """
    if option is not None and argument is not None:
        raise UsageError(f"`{name}` is {option}, and {argument} was given as well. Leave one of them out.")
    return argument if option is None else option


def parse_layout(vectors: str, key: str) -> Layout:
    """Parse the names of the columns or arrays that hold vectors and ids."""
    from recveil.data.io.vectors import Layout

    return Layout(tuple(parse_names(vectors)), key)


def parse_names(text: str) -> list[str]:
    """Parse names separated by commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_bins(texts: Sequence[str] | None) -> dict[str, list[float]]:
    """Parse edges by column from texts such as age=35,45."""
    bins = {}
    for text in texts or []:
        name, _, edges = text.partition("=")
        try:
            bins[name.strip()] = [float(edge) for edge in edges.split(",")]
        except ValueError:
            raise UsageError(f"Cannot read --bins {text}. Write name=edge,edge, as in age=35,45.") from None
    return bins


def parse_options(texts: Sequence[str] | None) -> Mapping[str, Any]:
    """Parse options written name=value; numbers are read as numbers, nothing is evaluated."""
    options: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"Cannot read --option {text}. Write name=value, as in epochs=50.")
        try:
            options[name.strip()] = parse_json(value)
        except ValueError:
            options[name.strip()] = value
    return options
