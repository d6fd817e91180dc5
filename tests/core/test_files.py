import os
from pathlib import Path

import pytest

from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, make_folder, write_atomically


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


def test_a_missing_folder_is_said_before_the_work(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        check_output_file(tmp_path / "no" / "a.txt")
    with pytest.raises(UsageError, match="it is a folder"):
        check_output_file(tmp_path)


def test_a_folder_is_made_one_level_deep(tmp_path: Path) -> None:
    assert make_folder(tmp_path / "new").is_dir()
    assert make_folder(tmp_path / "new").is_dir()
    with pytest.raises(UsageError, match="does not exist"):
        make_folder(tmp_path / "no" / "new")
    (tmp_path / "f").write_text("")
    with pytest.raises(UsageError, match="it is a file"):
        make_folder(tmp_path / "f")


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
