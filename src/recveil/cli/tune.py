"""The command `recveil tune`: reads its arguments, calls one function, prints."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from recveil.cli.options import Device, Json, Quiet, Seed, parse_options
from recveil.cli.output import emit_json, guarded, print_line

__all__ = ["tune"]


@guarded
def tune(
    data: Annotated[str, typer.Option(help="Name of a data set (see `recveil data list`), or `demo`.")],
    defense: Annotated[str, typer.Option(help="Which defense to tune: see `recveil list defenses`.")],
    target: Annotated[str, typer.Option(help="What to protect; several at once as in gender+age3.")],
    out: Annotated[Path, typer.Option(help="Folder for trials and results; run again with the same one to go on.")],
    model: Annotated[str, typer.Option(help="See `recveil list models`.")] = "bprmf",
    option: Annotated[list[str] | None, typer.Option(help="Hyper-parameter of the model, as in epochs=50.")] = None,
    budget: Annotated[float, typer.Option(help="The most that may be lost, in per cent of NDCG@10.", min=0.0)] = 3.0,
    trials: Annotated[int, typer.Option(help="Settings to try beside the defaults.", min=1)] = 24,
    batch: Annotated[int, typer.Option(help="Settings asked for at a time; as many workers can be busy.", min=1)] = 4,
    panel: Annotated[str, typer.Option(help="Who attacks: fast, full, or names between commas.")] = "fast",
    engine: Annotated[str, typer.Option(help="local (processes of this machine) or ray (a cluster).")] = "local",
    workers: Annotated[int | None, typer.Option(help="Processes of the local engine.", min=1)] = None,
    address: Annotated[str | None, typer.Option(help="Ray cluster to use; this machine if not given.")] = None,
    seed: Seed = 0,
    device: Device = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Search the knobs of a defense for less leak at less loss, and choose the setting that a budget allows.

    Settings are chosen on a fifth of the users and on the validation items; the chosen one is then audited on the other
    users and the test items.

    Example: recveil tune --data ml-1m --model bprmf --defense d2d --target gender --budget 3 --out tuned
    """
    from recveil.cli.study import make_engine
    from recveil.studies import tuning as search
    from recveil.workflows.documents import write_json

    wanted = search.Tuning(
        data, model, defense, target, budget, trials, batch, panel, seed, device or "", parse_options(option)
    )
    heard = _print_progress(quiet=quiet)
    document = search.tune(wanted, out, make_engine(engine, workers, address, 0.0), argv=sys.argv, heard=heard)
    write_json(out / "tune.json", document)
    _draw_frontier(document, out / "frontier.svg")
    emit_json(document, as_json=as_json)
    _print_result(document, quiet=quiet or as_json)


def _print_progress(*, quiet: bool) -> Any:
    def heard(done: int, total: int) -> None:
        if not quiet:
            sys.stderr.write(f"recveil: {done} of {total} settings tried\n")

    return heard


def _draw_frontier(document: Mapping[str, Any], path: Path) -> None:
    from recveil.core.files import write_atomically
    from recveil.report.tuning_figure import frontier_svg

    drawn = frontier_svg(document)
    with write_atomically(path) as temporary:
        temporary.write_text(drawn, encoding="utf-8")


def _print_result(document: Mapping[str, Any], *, quiet: bool) -> None:
    """The frontier, the choice, and what the other users and items say of it."""
    print_line("advantage  loss of NDCG@10, %  setting (validation users and items)", silent=quiet)
    for one in document["frontier"]:
        print_line(f"{one['advantage']:9.3f}  {one['loss']:18.1f}  {describe_setting(document, one)}", silent=quiet)
    chosen = document["chosen"]
    if chosen is None:
        least = min((t["loss"] for t in document["trials"] if t["defended"]), default=None)
        spent = "" if least is None else f" The cheapest loses {least:.1f} %."
        print_line(f"No setting that was tried stays within {document['budget']:g} %.{spent}", silent=quiet)
        return
    print_line(f"chosen for at most {document['budget']:g} %: {describe_setting(document, chosen)}", silent=quiet)
    for line in document["audit"]["advice"]:
        print_line(f"audit on the other users and the test items: {line}", silent=quiet)
    for error in document["audit"]["errors"]:
        print_line(f"audit failed: {error}", silent=quiet)
    print_line(f"use it: {document['use']}", silent=quiet)


def describe_setting(document: Mapping[str, Any], one: Mapping[str, Any]) -> str:
    """One trial in words."""
    if not one["defended"]:
        return "no defense"
    told = ", ".join(f"{name} {value}" for name, value in one["options"].items())
    return f"{document['defense']} ({told or 'defaults'})"
