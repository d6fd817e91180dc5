"""The command `recveil tune`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recveil.cli.options import CommonOptions, DataName, parse_options, takes
from recveil.cli.output import emit_json, print_line, print_notes, read_command_line
from recveil.cli.study import EngineOptions, make_engine

if TYPE_CHECKING:
    from recveil.core.results import TuneResult
    from recveil.core.study_parts import TuningTrial
    from recveil.studies.tuning import TuningConfig

__all__ = ["TuneOptions", "describe_setting", "tune"]


@dataclass(frozen=True, kw_only=True)
class TuneOptions(EngineOptions, CommonOptions):
    """Options of `recveil tune`."""

    data: DataName
    defense: Annotated[str, typer.Option(help="Defense to tune: see `recveil list defenses`.")]
    target: Annotated[str, typer.Option(help="Attribute to protect; several at once such as gender+age.")]
    out: Annotated[Path, typer.Option(help="Folder of trials and results; the same one again goes on.")]
    model: Annotated[str, typer.Option(help="Recommender: see `recveil list models`.")] = "bprmf"
    option: Annotated[list[str] | None, typer.Option(help="Option of the model, such as epochs=50. Repeatable.")] = None
    profile: Annotated[str, typer.Option(help="Paper whose model options are taken, such as raid2025.")] = ""
    budget: Annotated[float, typer.Option(help="Largest loss, in per cent of NDCG@10.", min=0.0)] = 3.0
    trials: Annotated[int, typer.Option(help="Settings to try beside the defaults.", min=1)] = 24
    batch: Annotated[int, typer.Option(help="Settings proposed at a time; as many workers can be busy.", min=1)] = 4
    panel: Annotated[str, typer.Option(help="Attackers: fast, full, or names between commas.")] = "fast"

    def make_config(self) -> TuningConfig:
        """Make the configuration of the search."""
        from recveil.studies.tuning import TuningConfig

        return TuningConfig(
            data=self.data,
            model=self.model,
            defense=self.defense,
            target=self.target,
            budget=self.budget,
            trials=self.trials,
            batch=self.batch,
            panel=self.panel,
            seed=self.seed,
            device=self.device or "",
            options=parse_options(self.option),
            profile=self.profile,
        )


@takes(TuneOptions)
def tune(options: TuneOptions) -> None:
    """Search the options of a defense for a budget.

    The search looks for less leak at less loss of ranking. Settings are chosen on a fifth of the users and on the
    validation items; the chosen one is then audited on the other users and the test items.

    Example: recveil tune --data ml-1m --model bprmf --defense d2d --target gender --budget 3 --out tuned
    """
    from recveil.core.files import write_atomically
    from recveil.report.tuning_figure import frontier_svg
    from recveil.studies import tuning

    def print_progress(done: int, total: int) -> None:
        print_notes([f"{done} of {total} settings tried"], silent=options.quiet)

    config, engine = options.make_config(), make_engine(options)
    result = tuning.tune(config, options.out, engine, command_line=read_command_line(), on_progress=print_progress)
    result.write_json(options.out / "tune.json")
    with write_atomically(options.out / "frontier.svg") as temporary:
        temporary.write_text(frontier_svg(result), encoding="utf-8")
    emit_json(result, as_json=options.as_json)
    _print_result(result, silent=options.is_silent)


def _print_result(result: TuneResult, *, silent: bool) -> None:
    """Print the frontier, the choice, and its audit on the other users and items."""
    print_line("advantage  loss of NDCG@10, %  setting (validation users and items)", silent=silent)
    for trial in result.frontier:
        print_line(f"{trial.advantage:9.3f}  {trial.loss:18.1f}  {describe_setting(result, trial)}", silent=silent)
    if result.chosen is None or result.audit is None:
        least = min((trial.loss for trial in result.trials if trial.defended), default=None)
        cheapest = "" if least is None else f" The cheapest loses {least:.1f} %."
        print_line(f"No setting that was tried stays within {result.budget:g} %.{cheapest}", silent=silent)
        return
    print_line(f"chosen for at most {result.budget:g} %: {describe_setting(result, result.chosen)}", silent=silent)
    for line in result.audit.advice:
        print_line(f"audit on the other users and the test items: {line}", silent=silent)
    for error in result.audit.errors:
        print_line(f"audit failed: {error}", silent=silent)
    print_line(f"use it: {result.use}", silent=silent)


def describe_setting(result: TuneResult, trial: TuningTrial) -> str:
    """Describe a trial by its defense and options."""
    if not trial.defended:
        return "no defense"
    options = ", ".join(f"{name} {value}" for name, value in trial.options.items())
    return f"{result.defense} ({options or 'defaults'})"
