import os
from pathlib import Path

import pytest

from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, check_output_folder, make_folder, write_atomically


def test_a_file_appears_whole(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "a.txt") as temporary:
        temporary.write_text("hello")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "hello"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")

    def fail() -> None:
        with write_atomically(tmp_path / "a.txt") as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert (tmp_path / "a.txt").read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_missing_parents_are_made_when_the_file_is_written(tmp_path: Path) -> None:
    path = tmp_path / "no" / "such" / "a.txt"
    assert check_output_file(path) == path
    assert not path.parent.exists()  # the check alone makes nothing
    with write_atomically(path) as temporary:
        temporary.write_text("hello")
    assert path.read_text() == "hello"
    assert make_folder(tmp_path / "new" / "folder").is_dir()
    assert make_folder(tmp_path / "new" / "folder").is_dir()


def test_places_that_cannot_be_written_to_are_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for check, path, reason in (
        (check_output_file, tmp_path, "it is a folder"),
        (check_output_file, tmp_path / "file" / "a.txt", "file is a file, not a folder"),
        (check_output_folder, tmp_path / "file", "it is a file"),
        (make_folder, tmp_path / "file" / "a" / "b", "file is a file, not a folder"),
    ):
        with pytest.raises(UsageError, match=reason):
            check(path)


def test_the_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "a") as temporary:
        temporary.write_text("x")
    (tmp_path / "b").write_text("x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_private_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    with write_atomically(tmp_path / "a", private=True) as temporary:
        assert temporary.stat().st_mode & 0o777 == 0o600
        temporary.write_text("x")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600
