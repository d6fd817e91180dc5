"""Outputs are no inputs, no twins, and one process writes each of them."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recveil.core.errors import RecveilError, UsageError
from recveil.core.files import write_atomically
from recveil.core.outputs import (
    MAP_NAME,
    check_outputs,
    explain_report_failure,
    hold_outputs,
    locate_hidden_folder,
)


def test_an_output_that_is_an_input_is_refused_through_links_too(tmp_path: Path) -> None:
    table = tmp_path / "users.csv"
    table.write_text("x")
    (tmp_path / "soft.csv").symlink_to(table)
    os.link(table, tmp_path / "hard.csv")
    for name in ("users.csv", "soft.csv", "hard.csv", "../" + tmp_path.name + "/users.csv"):
        with pytest.raises(UsageError, match="`out` .* is `embeddings`, which is read"):
            check_outputs({"out": tmp_path / name}, [("attributes", None), ("embeddings", table)])
    check_outputs({"out": tmp_path / "new.csv", "report": None}, [("embeddings", table)])


def test_two_outputs_are_two_files(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for second in ("a", "link", "sub/../a"):
        with pytest.raises(UsageError, match="`out` and `report` are the same file"):
            check_outputs({"out": tmp_path / "a", "report": tmp_path / second})
    with pytest.raises(UsageError, match="one in the other"):
        check_outputs({"out": tmp_path / "a", "report": tmp_path / "a" / "b"})
    check_outputs({"out": tmp_path / "a", "report": tmp_path / "b"})


def test_files_directly_inside_a_folder_that_is_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    with pytest.raises(UsageError, match="lies in `embeddings`"):
        check_outputs({"report": tmp_path / "parts" / "r.html"}, [("embeddings", tmp_path / "parts")])
    with pytest.raises(UsageError, match="is `embeddings`"):
        check_outputs({"out": tmp_path / "parts"}, [("embeddings", tmp_path / "parts")], folder="out")
    check_outputs({"report": tmp_path / "parts" / "deeper" / "r.html"}, [("embeddings", tmp_path / "parts")])


def test_one_process_writes_an_output_and_another_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "new" / "o.csv"
    code = f"from recveil.core.outputs import hold_outputs\nwith hold_outputs({str(out)!r}): pass"
    with hold_outputs(out, None):
        assert locate_hidden_folder(out).stat().st_mode & 0o777 == 0o700
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert "Another recveil job is writing" in other.stderr
    subprocess.run([sys.executable, "-c", code], check=True)
    assert os.listdir(out.parent) == []


def test_what_a_killed_process_left_is_removed_but_not_the_map_of_a_job(tmp_path: Path) -> None:
    out = tmp_path / "o.csv"
    work = locate_hidden_folder(out)
    work.mkdir(mode=0o700)
    (work / "lock").touch()
    (tmp_path / ".o.csv.0a1b2c3d.csv").touch()
    with pytest.raises(ZeroDivisionError), hold_outputs(out):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []
    work.mkdir(mode=0o700)
    (work / MAP_NAME).touch()
    with pytest.raises(ZeroDivisionError), hold_outputs(out):
        raise ZeroDivisionError
    assert (work / MAP_NAME).exists()


def test_missing_folders_are_made_and_removed_again_after_a_failure(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_outputs(tmp_path / "a" / "b" / "o.csv"):
        raise ZeroDivisionError
    assert os.listdir(tmp_path) == []


def test_an_open_folder_made_by_others_is_refused(tmp_path: Path) -> None:
    locate_hidden_folder(tmp_path / "o.csv").mkdir()
    locate_hidden_folder(tmp_path / "o.csv").chmod(0o777)
    with pytest.raises(UsageError, match="only you can read"), hold_outputs(tmp_path / "o.csv"):
        pass


def test_a_report_that_fails_says_what_was_written_before_it() -> None:
    class PanicException(BaseException):  # noqa: N818 - the name that the chart engine's library gives it
        pass

    with pytest.raises(MemoryError) as memory, explain_report_failure(Path("r.html"), Path("o.csv"), None):
        raise MemoryError
    assert memory.value.__notes__ == ["The report r.html was not written. Written before it: o.csv."]
    with (
        pytest.raises(RecveilError, match=r"r.html could not be drawn \(out of memory\). Written before it: o.csv."),
        explain_report_failure(Path("r.html"), Path("o.csv")),
    ):
        raise PanicException("out of memory\nat line 3")


def test_a_file_system_without_locks_is_written_to_without_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with hold_outputs(tmp_path / "o.csv"), write_atomically(tmp_path / "o.csv") as temporary:
        temporary.write_text("x")
    assert os.listdir(tmp_path) == ["o.csv"]
