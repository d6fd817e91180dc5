from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from recveil.core.errors import DataError
from recveil.data.io.formats import zip_files
from recveil.data.io.formats.zip_files import copy_zip, is_zip, list_members, read_member


def test_a_copy_differs_only_where_it_is_told_to(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        for name in ("a", "b", "c", "d"):
            packed.writestr(name, name * 100)
    (tmp_path / "new").write_bytes(b"from a file")
    copy_zip(tmp_path / "a.zip", tmp_path / "b.zip", {"a": b"new", "b": tmp_path / "new"}, {"d"})
    assert list_members(tmp_path / "b.zip") == ["a", "b", "c"]
    contents = [read_member(tmp_path / "b.zip", name) for name in "abc"]
    assert contents == [b"new", b"from a file", b"c" * 100]
    assert is_zip(tmp_path / "b.zip")
    assert not is_zip(tmp_path / "new")


def test_a_member_that_unpacks_to_far_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_files, "MIN_UNPACKED_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", b"0" * 10_000_000)
    with pytest.raises(DataError, match="200 times its size"):
        read_member(tmp_path / "a.zip", "a")
    assert read_member(tmp_path / "a.zip", "a", 10) == b"0" * 10
