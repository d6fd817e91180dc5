"""The command `recveil apply`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.options import (
    Device,
    IdName,
    Quiet,
    Undisclosed,
    VectorNames,
    choose_one,
    parse_bins,
    parse_layout,
    takes,
)
from recveil.cli.output import check_inputs_exist, print_line, print_notes
from recveil.core.errors import UsageError

__all__ = ["ApplyOptions", "apply"]


@dataclass(frozen=True, kw_only=True)
class ApplyOptions:
    """Options of `recveil apply`."""

    embeddings: Annotated[Path, typer.Option(help="Vectors of later users, of the same model as those of the fit.")]
    out: Annotated[Path, typer.Option(help="File or folder for the defended vectors, in the form of the input.")]
    saved_map: Annotated[
        Path | None, typer.Argument(metavar="MAP", help="Saved map, as by --map.", show_default=False)
    ] = None
    map: Annotated[Path | None, typer.Option(help="Map that `recveil cloak --save-map` wrote.")] = None
    vectors: VectorNames = ""
    id: IdName = ""
    attributes: Annotated[
        Path | None, typer.Option(help="Attributes: user_id and one column each; empty = undisclosed.")
    ] = None
    ids: Annotated[
        Path | None, typer.Option(help="File with the ids of the rows, or row-number if they are 0, 1, 2, ...")
    ] = None
    bins: Annotated[
        list[str] | None, typer.Option(help="Edges that cut a numeric column into classes: age=35,45. Repeatable.")
    ] = None
    keep_label: Annotated[
        list[str] | None, typer.Option(help="Label to keep as a class though it looks undisclosed. Repeatable.")
    ] = None
    undisclosed: Undisclosed = None
    keep_target: Annotated[
        bool, typer.Option("--keep-target", help="Keep columns that hold a target; by default they are left out.")
    ] = False
    allow_drift: Annotated[
        bool, typer.Option("--allow-drift", help="Apply the map to users who are not like those of the fit.")
    ] = False
    released: Annotated[
        Path | None,
        typer.Option(help="Defended table that was released last; users keep the vectors that they have in it."),
    ] = None
    stream: Annotated[
        bool, typer.Option("--stream", help="Read and write in blocks, as for folders and files of more than 1 GiB.")
    ] = False
    device: Device = None
    quiet: Quiet = False


@takes(ApplyOptions)
def apply(options: ApplyOptions) -> None:
    """Defend later users by a saved map.

    Users are compared with those that the map was fitted on; users that are far from them are refused unless
    --allow-drift is given. Maps of defenses that need the class of a user leave users without one unprotected, and the
    command says how many.

    Example: recveil apply gender.map --embeddings new.parquet --out new-safe.parquet
    """
    row_number = options.ids == Path("row-number")
    map_path = choose_one("map", options.map, options.saved_map)
    if map_path is None:
        raise UsageError("Give the map that `recveil cloak --save-map` wrote, as in: recveil apply gender.map ...")
    check_inputs_exist(map_path, options.embeddings, options.attributes, None if row_number else options.ids)
    check_inputs_exist(options.released)
    from recveil.workflows.apply import apply_files
    from recveil.workflows.inputs import InputFiles
    from recveil.workflows.saved_maps import ApplyRequest

    files = InputFiles(
        embeddings=options.embeddings,
        attributes=options.attributes,
        ids="row-number" if row_number else options.ids,
        bins=parse_bins(options.bins),
        keep_label=options.keep_label or [],
        layout=parse_layout(options.vectors, options.id),
        undisclosed=options.undisclosed or [],
        stream=options.stream,
    )
    request = ApplyRequest(
        options.out,
        allow_drift=options.allow_drift,
        keep_target=options.keep_target,
        device=options.device,
        released=options.released,
    )
    done = apply_files(map_path, files, request)
    print_notes(done.notes, silent=options.quiet)
    print_line(f"Carried {done.n_users:,} users by the map of {done.method}.", silent=options.quiet)
    print_line(f"Wrote {options.out}.", silent=options.quiet)
