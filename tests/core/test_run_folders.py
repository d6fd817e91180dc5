"""A run folder is the old one, the new one, or refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.run_folders import MARK_NAME, check_folder_is_whole, check_run_folder, replace_files

NAMES, SIGNS = ("sub/a", "b", "c"), ("c",)


def write_run(folder: Path, text: str, names: tuple[str, ...] = NAMES) -> None:
    with replace_files(folder, NAMES, signs=SIGNS) as new:
        for name in names:
            (new / name).parent.mkdir(exist_ok=True)
            (new / name).write_text(text)


def read_run(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_run_replaces_another_whole_and_leaves_foreign_files(tmp_path: Path) -> None:
    run = tmp_path / "new" / "run"
    write_run(run, "old")
    assert read_run(run) == dict.fromkeys(("b", "c", "sub/a"), "old")
    (run / "sub" / "mine").write_text("mine")
    write_run(run, "new", ("sub/a", "c"))
    assert read_run(run) == {"c": "new", "sub/a": "new", "sub/mine": "mine"}  # `b` belonged to the old run


def test_a_failure_leaves_the_old_run_or_nothing(tmp_path: Path) -> None:
    write_run(tmp_path / "run", "old")
    for folder in (tmp_path / "run", tmp_path / "none" / "run"):
        with suppress(ZeroDivisionError), replace_files(folder, NAMES, signs=SIGNS) as new:
            (new / "b").write_text("half")
            raise ZeroDivisionError
    assert read_run(tmp_path) == {f"run/{name}": "old" for name in ("b", "c", "sub/a")}
    assert os.listdir(tmp_path) == ["run"]


def test_a_run_killed_while_files_are_moved_is_refused_and_can_be_replaced(tmp_path: Path) -> None:
    run = tmp_path / "run"
    write_run(run, "old")
    code = f"""
import os, signal
from pathlib import Path
from recveil.core import run_folders
real = run_folders._move_file
def kill_at_b(new, place):
    if place.name == "b":
        os.kill(os.getpid(), signal.SIGKILL)
    real(new, place)
run_folders._move_file = kill_at_b
with run_folders.replace_files(Path({str(run)!r}), {NAMES!r}, signs={SIGNS!r}) as new:
    (new / "sub").mkdir()
    for name in {NAMES!r}:
        (new / name).write_text("new")
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert (run / "sub/a").read_text() != (run / "b").read_text()
    with pytest.raises(DataError, match="files of two runs"):
        check_folder_is_whole(run)
    write_run(run, "newer")
    check_folder_is_whole(run)
    assert read_run(run) == dict.fromkeys(("b", "c", "sub/a"), "newer")


def test_an_error_while_files_are_moved_says_that_the_folder_is_incomplete(tmp_path: Path) -> None:
    def move_onto_a_folder() -> None:
        with replace_files(tmp_path, NAMES, signs=SIGNS) as new:
            (new / "b").write_text("x")
            (tmp_path / "b").mkdir()

    with pytest.raises(OSError, match="directory") as caught:
        move_onto_a_folder()
    assert "is incomplete" in caught.value.__notes__[0]
    assert (tmp_path / MARK_NAME).exists()


def test_two_at_once_one_wins_and_the_other_is_refused(tmp_path: Path) -> None:
    with replace_files(tmp_path / "run", NAMES, signs=SIGNS) as new:
        with pytest.raises(UsageError, match="Another recveil job"):
            write_run(tmp_path / "run", "second")
        (new / "c").write_text("first")
    assert read_run(tmp_path / "run") == {"c": "first"}


def test_files_of_others_and_links_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("of a user")
    with pytest.raises(UsageError, match="holds b, which this command did not write"):
        check_run_folder(tmp_path, NAMES, signs=SIGNS)
    (tmp_path / "b").unlink()
    for name, target in (("c", tmp_path / "x"), ("sub", tmp_path)):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(UsageError, match=f"{name} is a symbolic link"):
            check_run_folder(tmp_path, NAMES, signs=SIGNS)
        (tmp_path / name).unlink()
    check_run_folder(tmp_path, NAMES, signs=SIGNS)
