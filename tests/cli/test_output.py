"""Output: one sentence and a code for every problem, results on stdout, everything else on stderr."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest
import typer

from documents import build_frontier, build_target
from recveil.cli.output import (
    _OwnLogHandler,
    check_inputs_exist,
    emit_json,
    guard,
    guarded,
    print_knee,
    print_line,
    print_next_step,
    print_notes,
    print_page,
    print_summary,
    print_training,
    show_progress,
)
from recveil.core.errors import DataError, RecveilWarning, UsageError
from recveil.core.progress import RowCount, track_progress
from recveil.core.result_parts import CurvePoint
from recveil.core.results import AuditResult, CloakResult, TrainResult
from recveil.core.self_check_parts import SelfCheck, SelfCheckTarget
from recveil.core.types import Estimate


@pytest.mark.parametrize(
    ("problem", "code", "word"),
    [
        (DataError("the file is broken"), 3, "the file is broken"),
        (PermissionError(13, "Permission denied", "x.parquet"), 3, "x.parquet: Permission denied"),
        (OSError(28, "No space left on device"), 3, "No space left"),
        (MemoryError(), 3, "Not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 3, "Not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("by zero"), 70, "fault of recveil"),
        (UnicodeEncodeError("utf-8", "caf\udce9.csv", 3, 4, "surrogates"), 3, r"caf\udce9.csv is not UTF-8"),
        (typer.Exit(4), 4, ""),
    ],
)
def test_every_problem_is_one_sentence_and_a_code(
    problem: BaseException, code: int, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @guarded
    def command() -> None:
        raise problem

    with pytest.raises(typer.Exit) as stop:
        command()
    printed = capsys.readouterr()
    assert stop.value.exit_code == code
    assert word in printed.err
    assert printed.err.count("\n") == bool(word)
    assert printed.out == ""


def test_arguments_in_errors_are_shown_as_options(capsys: pytest.CaptureFixture[str]) -> None:
    def command() -> None:
        raise UsageError("`risk_out` and `unknown` do not fit.")

    with pytest.raises(typer.Exit):
        guard(command, flags={"risk_out": "--risk-out"})
    assert capsys.readouterr().err == "recveil: --risk-out and `unknown` do not fit.\n"


def test_control_characters_of_data_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "a\x1b[31m\x07\x00\u202eb\nc"
    print_line(hostile, silent=False)
    print_notes([hostile], silent=False)
    print_page(f"| {hostile} |\n\tend\n")

    def command() -> None:
        raise DataError(hostile)

    with pytest.raises(typer.Exit):
        guard(command)
    printed = capsys.readouterr()
    shown = r"a\x1b[31m\x07\x00\u202eb"
    assert printed.out.splitlines() == [rf"{shown}\nc", f"| {shown}", "c |", "\tend"]
    assert printed.err.splitlines() == [rf"recveil: {shown}\nc"] * 2


def test_notes_of_an_error_follow_its_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (MemoryError(), ZeroDivisionError("by zero"), OSError(28, "No space left")):
        error.add_note("The table was written.")

        def command(error: Exception = error) -> None:
            raise error

        with pytest.raises(typer.Exit):
            guard(command)
        assert capsys.readouterr().err.endswith(" The table was written.\n")


def test_what_libraries_log_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    handler = _OwnLogHandler()
    for name in ("recveil.data", "a_library"):
        handler.handle(logging.LogRecord(name, logging.WARNING, "", 0, "said by %s", (name,), None))
    assert capsys.readouterr().err == "recveil: said by recveil.data\n"


def test_inputs_must_exist(tmp_path: Path) -> None:
    check_inputs_exist(tmp_path, None)
    with pytest.raises(DataError, match="nothing.parquet"):
        check_inputs_exist(tmp_path / "nothing.parquet")


def test_json_is_printed_on_request_and_refuses_what_is_not_json(
    audit_result: AuditResult, capsys: pytest.CaptureFixture[str]
) -> None:
    emit_json(audit_result, as_json=False)
    assert capsys.readouterr().out == ""
    emit_json(audit_result, as_json=True)
    assert capsys.readouterr().out == audit_result.to_json()
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit_json({"a": float("nan")}, as_json=True)


def test_without_a_terminal_there_are_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(quiet=False):
        assert list(track_progress(range(3), "work")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_progress_counts_items_or_rows_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.cli.output.SECONDS_BEFORE_BAR", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with show_progress(quiet=False):
        assert list(track_progress([RowCount(700), RowCount(300)], "writing", 1000)) == [700, 300]
        assert list(track_progress([1, 2], "working", 2)) == [1, 2]
    printed = capsys.readouterr().err
    assert "rows/s" in printed
    assert "working" in printed


def test_the_summary_has_before_after_both_tables_cost_and_notes(
    cloak_result: CloakResult, capsys: pytest.CaptureFixture[str]
) -> None:
    leaking = build_target(["F", "M"], {"logistic": 0.75}, "leak")
    result = cloak_result.model_copy(update={"two_releases": {"gender": leaking}})
    print_summary(result, silent=False)
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines[:2] == [f"before  {result.before['gender'].sentence}", f"after   {result.targets['gender'].sentence}"]
    assert [line.split()[0] for line in lines] == ["before", "after"] * 3 + ["both", "cost"]
    assert "75.0%" in lines[-2]
    assert lines[-1] == "cost    NDCG@10 0.0560 -0.0030 [-0.0055, -0.0005], -5.4 %"
    assert printed.err.splitlines() == [f"recveil: {note}" for note in (*result.defense.notes, *result.warnings)]
    print_summary(result, silent=True)
    assert capsys.readouterr() == ("", "")


def test_the_curve_is_one_line(audit_result: AuditResult, capsys: pytest.CaptureFixture[str]) -> None:
    points = [Estimate(value, value, value, 9) for value in (0.1, 0.4)]
    curve = [
        CurvePoint(ratio=ratio, advantage=point, balanced_accuracy=point)
        for ratio, point in zip((0.2, 0.8), points, strict=True)
    ]
    gender = audit_result.targets["gender"].model_copy(update={"curve": curve})
    print_summary(audit_result.model_copy(update={"targets": {"gender": gender}}), silent=False)
    sentence, line = capsys.readouterr().out.splitlines()
    assert sentence == gender.sentence
    assert "0.100 with 20%, 0.400 with 80%" in line


def test_a_warning_is_one_line_and_those_of_libraries_are_not_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    @guarded
    def command() -> None:
        warnings.simplefilter("always")
        warnings.warn("The penalty is no longer a number.", RecveilWarning, stacklevel=1)
        warnings.warn("overflow encountered in dot", RuntimeWarning, stacklevel=1)  # of a library

    before = warnings.showwarning
    command()
    assert capsys.readouterr().err == "recveil: The penalty is no longer a number.\n"
    assert warnings.showwarning is before


def test_a_training_is_told_by_its_ranking_and_a_defended_one_by_verdicts_and_cost(
    train_result: TrainResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_training(train_result, silent=False)
    printed = capsys.readouterr()
    assert [line.split()[0] for line in printed.out.splitlines()] == [
        "hit_rate@10",
        "ndcg@10",
        "before",
        "after",
        "cost",
        "next",
    ]
    assert "0.0530  [0.0470, 0.0590]" in printed.out
    assert "it leaks gender;" in printed.out
    assert printed.err == f"recveil: {train_result.config.defense.notes[0]}\n"
    plain = {"before": {}, "targets": {}, "utility": train_result.utility.model_copy(update={"difference": {}})}
    print_training(train_result.model_copy(update=plain), silent=False)
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_best_bargain_is_told_by_the_options_that_choose_it(
    cloak_result: CloakResult, capsys: pytest.CaptureFixture[str]
) -> None:
    print_knee(cloak_result.model_copy(update={"frontier": None}), silent=False)
    assert capsys.readouterr().out == ""
    frontier = build_frontier()
    print_knee(cloak_result.model_copy(update={"frontier": frontier}), silent=False)
    knee = frontier.points[frontier.knee]
    assert f"--method {knee.method} --strength {knee.strength:g} " in capsys.readouterr().out


def test_arguments_in_notes_are_shown_as_options(capsys: pytest.CaptureFixture[str]) -> None:
    print_notes(["name a label by `keep_label`, see `recveil list`"], silent=False)
    assert capsys.readouterr().err == "recveil: name a label by --keep-label, see `recveil list`\n"


@pytest.mark.parametrize(
    ("high", "passed", "advice"),
    [
        (0.3, False, "Do not release this table;"),
        (0.3, True, "Do not release yet;"),
        (0.04, True, "Release this table"),
    ],
)
def test_a_check_that_could_overlook_more_than_the_margin_releases_nothing(
    high: float, passed: bool, advice: str, cloak_result: CloakResult, capsys: pytest.CaptureFixture[str]
) -> None:
    estimate = Estimate(0.02, 0.0, high, 300)
    target = SelfCheckTarget(before=estimate, after=estimate, attack="qda", passed=passed)
    check = SelfCheck(margin=0.05, targets={"gender": target}, tried={"leace": 0.02})
    result = cloak_result.model_copy(update={"command": "cloak", "targets": {}, "self_check": check})
    print_next_step(result, silent=False)
    assert capsys.readouterr().out.startswith(f"next    {advice}")
