import errno
import os
import stat
from pathlib import Path

import pytest
from safetensors import SafetensorError

from recveil.core.errors import DataError, UsageError
from recveil.core.files import (
    check_output_file,
    check_output_folder,
    make_folder,
    make_temporary_folder,
    remove_stale_files,
    write_atomically,
)


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


def test_pipes_and_devices_are_never_replaced_by_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")
    for path in (tmp_path / "pipe", tmp_path / "link", Path("/dev/null")):
        with pytest.raises(UsageError, match="device, a pipe or a socket"):
            check_output_file(path)
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)


def test_a_file_behind_an_open_stream_is_not_replaced(tmp_path: Path) -> None:
    with (tmp_path / "log.txt").open("w") as log:
        stream = Path(f"/proc/self/fd/{log.fileno()}")
        (tmp_path / "link").symlink_to(stream)
        for path in (stream, tmp_path / "link"):
            with pytest.raises(UsageError, match="device, a pipe or a socket"):
                check_output_file(path)


def test_a_symbolic_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    for name in ("old", "missing"):
        (tmp_path / name).symlink_to(tmp_path / "there" / f"{name}.txt")
    (tmp_path / "there" / "old.txt").write_text("old")
    for name in ("old", "missing"):
        with write_atomically(tmp_path / name) as temporary:
            temporary.write_text("new")
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "there" / f"{name}.txt").read_text() == "new"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(UsageError, match="leads to itself"):
        check_output_file(tmp_path / "loop")


def test_a_replaced_file_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o640)
    with write_atomically(tmp_path / "a") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_stale_files_are_removed_and_those_being_written_stay(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    for name in (".o.csv.0a1b2c3d.csv", ".o.csv.backup.csv", ".other.csv.0a1b2c3d.csv"):
        (tmp_path / name).write_text("")
    with write_atomically(path) as temporary:
        remove_stale_files(path)
        assert temporary.exists()
    assert sorted(os.listdir(tmp_path)) == [".o.csv.backup.csv", ".other.csv.0a1b2c3d.csv", "o.csv"]


@pytest.mark.parametrize("name", ["ä" * 120, os.fsdecode(b"caf\xe9")])
def test_names_that_are_very_long_or_not_utf_8_can_be_written(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.parquet"
    with write_atomically(path) as temporary:
        str(temporary).encode()
        temporary.write_text("x")
    assert path.read_text() == "x"


def test_temporary_folders_of_killed_processes_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stale, young = tmp_path / "recveil-0a1b2c3d", tmp_path / "recveil-11111111"
    for folder in (stale, young, tmp_path / "recveil-else"):
        folder.mkdir()
    for name in ("recveil-0a1b2c3d", "recveil-else"):
        os.utime(tmp_path / name, (0, 0))
    with make_temporary_folder() as folder:
        os.utime(folder, (0, 0))
        with make_temporary_folder():  # the first one is held, however old
            assert folder.is_dir()
    assert sorted(os.listdir(tmp_path)) == ["recveil-11111111", "recveil-else"]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), OSError("8 requested and 2 written")]
)
def test_a_full_disk_is_one_sentence_that_names_the_file(tmp_path: Path, error: OSError) -> None:
    with pytest.raises(DataError, match="no room left for .*a.npy"), write_atomically(tmp_path / "a.npy"):
        raise error
    with pytest.raises(PermissionError), write_atomically(tmp_path / "a.npy"):
        raise PermissionError(errno.EACCES, "Permission denied")
    assert os.listdir(tmp_path) == []


def test_errors_of_safetensors_on_writing_are_sentences(tmp_path: Path) -> None:
    for text, sentence in (("File too large (os error 27)", "no room left"), ("broken (os error 5)", "be written")):
        with pytest.raises(DataError, match=sentence), write_atomically(tmp_path / "a.safetensors"):
            raise SafetensorError(f"Error while serializing: I/O error: {text}")
    assert os.listdir(tmp_path) == []
