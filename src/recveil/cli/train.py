"""The command `recveil train`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from recveil.cli.options import CommonOptions, DataName, Strength, Target, parse_names, parse_options, takes
from recveil.cli.output import emit_json, print_line, print_notes, print_training, read_command_line, show_progress

__all__ = ["TrainOptions", "train"]


@dataclass(frozen=True, kw_only=True)
class TrainOptions(CommonOptions):
    """Options of `recveil train`."""

    data: DataName
    out: Annotated[Path, typer.Option(help="Folder to write into; made if missing.")]
    model: Annotated[str, typer.Option(help="Recommender: see `recveil list models`.")] = "bprmf"
    option: Annotated[list[str] | None, typer.Option(help="Option of the model, such as epochs=50. Repeatable.")] = None
    k: Annotated[int, typer.Option(help="Length of the recommendation lists.", min=1)] = 100
    defense: Annotated[str | None, typer.Option(help="Defense: see `recveil list defenses`.")] = None
    strength: Strength = 1.0
    defense_option: Annotated[
        list[str] | None, typer.Option(help="Option of the defense, such as eta=0.1. Repeatable.")
    ] = None
    target: Target = ""
    profile: Annotated[str, typer.Option(help="Paper whose model options are taken, such as raid2025.")] = ""
    protocol: Annotated[
        str, typer.Option(help="What is held out and how it is ranked: leave-one-out or attrcloak2025.")
    ] = "leave-one-out"


@takes(TrainOptions)
def train(options: TrainOptions) -> None:
    """Train a recommender, with or without a defense.

    Writes vectors, lists, metrics, configuration and the model. Ranking is measured on each user's held-out item
    against the whole catalog, unless another protocol is named. With a defense, metrics.json also holds the same model
    without it, the paired difference, and an audit of both.

    Example: recveil train --data ml-1m --model ncf --defense raid --target gender --out run
    """
    from recveil.workflows.defended_release import ChosenDefense
    from recveil.workflows.train import TrainRequest, train_run

    defense = None
    if options.defense is not None:
        defense_options = {"strength": options.strength, **parse_options(options.defense_option)}
        defense = ChosenDefense(options.defense, defense_options)
    request = TrainRequest(
        options.data,
        options.model,
        parse_options(options.option),
        defense=defense,
        targets=parse_names(options.target),
        k=options.k,
        seed=options.seed,
        device=options.device,
        profile=options.profile,
        protocol=options.protocol,
        command_line=read_command_line(),
    )
    if (options.out / "config.json").is_file():
        sentence = f"{options.out} holds an earlier run, which is replaced when this one ends. Stop now to keep it."
        print_notes([sentence], silent=options.quiet)
    with show_progress(quiet=options.quiet):
        result = train_run(request, options.out)
    emit_json(result, as_json=options.as_json)
    print_training(result, silent=options.is_silent)
    names = ", ".join(sorted(path.name for path in options.out.iterdir()))
    print_line(f"Wrote {options.out}: {names}.", silent=options.is_silent)
