import warnings

import pytest
import typer

from recveil.cli.output import emit, guarded, print_summary, print_training, progress_bars
from recveil.core.errors import DataError
from recveil.core.progress import Rows, track


@pytest.mark.parametrize(
    ("problem", "code", "word"),
    [
        (DataError("the file is broken"), 3, "the file is broken"),
        (PermissionError(13, "Permission denied", "x.parquet"), 3, "x.parquet: Permission denied"),
        (OSError(28, "No space left on device"), 3, "No space left"),
        (MemoryError(), 3, "Not enough memory"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("by zero"), 70, "fault of recveil"),
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
    said = capsys.readouterr()
    assert stop.value.exit_code == code
    assert word in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_an_exit_code_of_a_command_passes_through() -> None:
    @guarded
    def command() -> None:
        raise typer.Exit(4)

    with pytest.raises(typer.Exit) as stop:
        command()
    assert stop.value.exit_code == 4


def test_json_refuses_what_is_not_json(capsys: pytest.CaptureFixture[str]) -> None:
    emit({"a": 1}, as_json=False)
    assert capsys.readouterr().out == ""
    with pytest.raises(ValueError, match="not JSON compliant"):
        emit({"a": float("nan")}, as_json=True)


def test_without_a_terminal_there_are_no_bars(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(quiet=False):
        assert list(track(range(3), "work")) == [0, 1, 2]
    assert capsys.readouterr().err == ""


def test_rows_are_counted_and_said_in_rows_a_second(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.cli.output.PATIENCE", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_bars(quiet=False):
        assert list(track([Rows(700), Rows(300)], "writing", 1000)) == [700, 300]
        assert list(track([1, 2], "working", 2)) == [1, 2]
    said = capsys.readouterr().err
    assert "rows/s" in said
    assert "working" in said


def test_the_summary_says_before_after_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    estimate = {"value": -0.01, "low": -0.02, "high": 0.0, "n": 5}
    document = {
        "targets": {"gender": {"sentence": "No leak of gender found."}},
        "before": {"gender": {"sentence": "An outsider can guess gender."}},
        "utility": {"difference": {"ndcg@10": estimate}, "before": {"ndcg@10": {"value": 0.2}}},
        "warnings": ["mind the gap"],
    }
    print_summary(document, quiet=False)
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "before  An outsider can guess gender.",
        "after   No leak of gender found.",
        "cost    NDCG@10 0.2000 -0.0100 [-0.0200, +0.0000]",
    ]
    assert "mind the gap" in said.err
    print_summary(document, quiet=True)
    assert capsys.readouterr().out == ""


def test_the_curve_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    curve = [{"ratio": ratio, "advantage": {"value": ratio / 2}} for ratio in (0.2, 0.8)]
    print_summary({"targets": {"gender": {"sentence": "It leaks.", "curve": curve}}}, quiet=False)
    line = "curve   Advantage by share of users known: 0.100 with 20%, 0.400 with 80%."
    assert capsys.readouterr().out.splitlines() == ["It leaks.", line]


def test_a_warning_is_one_line_without_a_path(capsys: pytest.CaptureFixture[str]) -> None:
    @guarded
    def command() -> None:
        warnings.simplefilter("always")
        warnings.warn("The penalty is no longer a number.", RuntimeWarning, stacklevel=1)

    before = warnings.showwarning
    command()
    assert capsys.readouterr().err == "recveil: The penalty is no longer a number.\n"
    assert warnings.showwarning is before


def test_a_training_is_told_by_what_it_ranks_and_where_defended_by_what_is_seen_and_lost(
    capsys: pytest.CaptureFixture[str],
) -> None:
    estimate = {"value": 0.1, "low": 0.0, "high": 0.2}
    plain = {"hr@10": estimate, "ndcg@10": estimate}
    print_training(plain, quiet=False)
    ranked = ["hr@10   0.1000  [0.0000, 0.2000]", "ndcg@10 0.1000  [0.0000, 0.2000]"]
    assert capsys.readouterr().out.splitlines() == ranked
    audited = {"before": {"gender": {"sentence": "It leaks."}}, "after": {"gender": {"sentence": "It does not."}}}
    more = {"undefended": {"ndcg@10": {"value": 0.3}}, "difference": {"ndcg@10": estimate}, "notes": ["mind the gap"]}
    print_training({**plain, "audit": audited, **more}, quiet=False)
    said = capsys.readouterr()
    lines = ["before  It leaks.", "after   It does not.", "cost    NDCG@10 0.3000 +0.1000 [+0.0000, +0.2000]"]
    assert said.out.splitlines() == ranked + lines
    assert said.err == "recveil: mind the gap\n"
