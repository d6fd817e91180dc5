"""Streams that are closed, full or of another encoding, and signals that end the process."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from recveil.cli.terminal import escape_text, has_terminal, settle_output, write_text

WAITING = """
import sys, time
from recveil.cli.output import guard
from recveil.core.files import make_temporary_folder, write_atomically
from recveil.core.outputs import hold_outputs

def command():
    with hold_outputs(sys.argv[1]), make_temporary_folder(), write_atomically(sys.argv[1]) as temporary:
        temporary.write_text("half")
        print("ready", flush=True)
        time.sleep(60)

guard(command)
"""


def test_only_what_controls_a_terminal_is_escaped() -> None:
    assert escape_text("\x1b\x07\x00\x9b\u202e\u2028\udcff\n") == r"\x1b\x07\x00\x9b\u202e\u2028\udcff\n"
    for text in ("Zoë, 中文, עברית, می\u200cخواهم 👩\u200d🔬", "a\\nb"):
        assert escape_text(text) == text


def test_a_stream_gets_what_it_can_encode_and_a_closed_one_nothing() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii", newline="\n")
    write_text(stream, "Zoë\n\tx\n")
    stream.flush()
    assert raw.getvalue() == b"Zo\\xeb\n\tx\n"
    write_text(None, "nobody reads this")


def test_closed_streams_have_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    monkeypatch.setattr("sys.stdout", None)
    assert not has_terminal()
    settle_output()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("redirection", "code", "word"),
    [(">&-", 0, ""), (">/dev/full", 3, "No space left"), ("2>&- >/dev/null", 0, "")],
)
def test_a_stdout_that_cannot_be_written_to_is_one_sentence_at_most(redirection: str, code: int, word: str) -> None:
    command = f"{sys.executable} -m recveil list models {redirection}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert word in done.stderr
    assert done.stderr.count("\n") == bool(word)
    assert done.returncode == code


@pytest.mark.parametrize(
    ("number", "word"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")],
)
def test_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals, word: str) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored here, as under nohup")
    (tmp_path / "tmp").mkdir()
    out = tmp_path / "new" / "o.csv"
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen(
        [sys.executable, "-c", WAITING, str(out)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.05)
    assert len(os.listdir(out.parent)) == 2
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert f"recveil: {word}; temporary files were removed.\n" in errors
    assert sorted(os.listdir(tmp_path)) == ["tmp"]
    assert os.listdir(tmp_path / "tmp") == []


def test_usage_errors_show_what_was_typed_without_control_characters() -> None:
    from typer.testing import CliRunner

    from recveil.cli.app import app

    for words in (["list", "a", "\u202egnp\x1b[31m"], ["data", "list", "\x1b[31m", "b\u202e"], ["\x1b[31mlist"]):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 2
        assert "\x1b" not in done.stderr
        assert "\u202e" not in done.stderr
        assert "\\x1b[31m" in done.stderr
