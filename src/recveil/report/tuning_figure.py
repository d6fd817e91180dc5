"""The frontier of a search: every setting that was tried, and those that nothing beats."""

from __future__ import annotations

from recveil.core.results import TuneResult
from recveil.core.study_parts import StudyTable, TableColumn, TableRow, TuningTrial
from recveil.report.charts import draw_file
from recveil.report.figures import MethodPoint, TradeoffPlot
from recveil.report.formatting import format_command, format_text, redact_sentence
from recveil.report.page_parts import Term
from recveil.report.study_page import StudyPage, build_grid_table

__all__ = ["build_tuning_page", "describe_trials", "frontier_svg"]


def frontier_svg(result: TuneResult) -> str:
    """Return the frontier as an SVG file of its own."""
    return draw_file(describe_trials(result))


def describe_trials(result: TuneResult) -> TradeoffPlot:
    """Describe all trials; undefended, chosen and other trials differ in color."""
    best = {trial.cell for trial in result.frontier}
    return TradeoffPlot(
        id="tune",
        title=format_text(f"{result.defense}, {result.target} on {result.data}, {result.model}"),
        caption="Each point is one setting, measured on the validation users and items. Lower is more private, further "
        "left is cheaper; the dashed line joins the settings that nothing beats.",
        axis="Loss of NDCG@10 on the validation items, %",
        points=[
            MethodPoint(_name_role(result, trial), trial.cell in best, trial.advantage, trial.loss)
            for trial in result.trials
        ],
    )


def _name_role(result: TuneResult, trial: TuningTrial) -> str:
    if not trial.defended:
        return "no defense"
    return "chosen" if result.chosen is not None and trial.cell == result.chosen.cell else "tried"


def build_tuning_page(result: TuneResult) -> StudyPage:
    """Return the page of a search, laid out like a study."""
    settings = [
        ("recveil", result.recveil_version),
        ("Data", result.data),
        ("Model", result.model),
        ("Defense", result.defense),
        ("Attribute", result.target),
        ("Budget", f"at most {result.budget:g} % of NDCG@10"),
        ("Panel", result.panel),
        ("Seed", str(result.seed)),
    ]
    command = [Term("Command", format_command(result.command_line), is_code=True)] if result.command_line else []
    failed = [f"{result.n_failed} settings failed."] if result.n_failed else []
    return StudyPage(
        eyebrow="recveil search report",
        title=format_text(f"Settings of {result.defense} for {result.target}"),
        about="",
        measured=[format_text(f"{result.data}, {result.model}."), f"{len(result.trials)} settings."],
        not_covered=["Settings that were not tried, and other data, models and defenses."],
        advice=_list_conclusions(result),
        warnings=failed + ([] if result.audit is None else [redact_sentence(error) for error in result.audit.errors]),
        plots_title="Privacy against ranking",
        plots=[describe_trials(result)] if result.trials else [],
        contest=[],
        tables=[build_grid_table(_build_trial_table(result))],
        protocol=[Term(term, format_text(text)) for term, text in settings] + command,
        version=format_text(result.recveil_version),
    )


def _list_conclusions(result: TuneResult) -> list[str]:
    if result.chosen is None:
        return [f"No setting that was tried stays within a loss of {result.budget:g} % of NDCG@10."]
    advice = [] if result.audit is None else [redact_sentence(line) for line in result.audit.advice]
    chosen = f"Chosen for a loss of at most {result.budget:g} %: {_describe_options(result.chosen)}."
    return [chosen, *advice, *([f"Use it: {format_text(result.use)}"] if result.use else [])]


def _describe_options(trial: TuningTrial) -> str:
    return format_text(", ".join(f"{name} {value}" for name, value in trial.options.items()) or "defaults")


def _build_trial_table(result: TuneResult) -> StudyTable:
    columns = [
        TableColumn(key="advantage", label="advantage"),
        TableColumn(key="loss", label="loss of NDCG@10, %", digits=1),
    ]
    rows = [
        TableRow(
            label=_describe_options(trial) if trial.defended else "no defense",
            cells={"advantage": trial.advantage, "loss": trial.loss},
        )
        for trial in sorted(result.trials, key=lambda trial: trial.loss)
    ]
    note = "Validation users and items; the final audit is on others."
    return StudyTable(id="trials", title="Settings that were tried", note=note, columns=columns, rows=rows)
