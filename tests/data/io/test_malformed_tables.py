"""Malformed tables: every one is read as it is meant, or refused in one sentence."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.data.io import archive, text
from recveil.data.io.archive import extract_archive
from recveil.data.io.membership_files import read_members
from recveil.data.io.tables import build_dataset, read_table
from recveil.data.io.user_tables import read_attributes
from recveil.data.io.vectors import read_embeddings

IDS = pa.array([1, 2, 3])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"user_id,gender\r1,F\r2,M\r", "carriage return"),
        (b"user_id,gen\rder\n1,F\n", "carriage return"),
        (b"\nuser_id,gender\n1,F\n", "is blank"),
        (b"\r\nuser_id,gender\r\n1,F\r\n", "is blank"),
        (b",,\n1,F,2\n", "is blank"),
        (b"user_id," + b"x" * 131_073 + b"\n1,F\n", "does not name columns"),
        (b"user_id,gender\n1,F\n2,\xff\xfe,3\n", "cannot be read as a table|not UTF-8"),
        (b"user_id,gender\n1,\xff\xfe\n", "is not UTF-8"),
    ],
)
def test_malformed_text_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], content: bytes, message: str
) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_table(tmp_path / "t.csv")
    assert "\n" not in str(caught.value)
    assert "\r" not in str(caught.value)
    assert capfd.readouterr().err == ""


def test_a_column_without_a_name_is_a_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",user_id,gender\n0,7,F\n1,8,M\n")
    table = read_table(tmp_path / "t.csv")
    assert table.column_names == ["", "user_id", "gender"]
    assert table.column("").to_pylist() == [0, 1]


@pytest.mark.parametrize("names", [("emb_00", "emb_01"), ("emb_0", "emb_\u0661"), ("emb_0", "emb_01")])
def test_numbers_of_columns_are_written_in_one_way(tmp_path: Path, names: tuple[str, str]) -> None:
    pq.write_table(pa.table({"user_id": IDS, names[0]: [0.5] * 3, names[1]: [0.5] * 3}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match="without zeros before"):
        read_embeddings(tmp_path / "e.parquet")


def test_a_number_of_thousands_of_digits_is_no_column_of_vectors(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_id": IDS, "emb_" + "9" * 5000: [0.5] * 3}), tmp_path / "e.parquet")
    with pytest.raises(DataError, match="no columns emb_0"):
        read_embeddings(tmp_path / "e.parquet")


def test_bytes_that_are_no_text_are_left_out_or_refused(tmp_path: Path) -> None:
    table = pa.table({"user_id": IDS, "photo": pa.array([b"\xff", b"\xfe", b"a"]), "gender": [b"F", b"M", b"F"]})
    pq.write_table(table, tmp_path / "a.parquet")
    attributes = read_attributes(tmp_path / "a.parquet", IDS)
    assert list(attributes) == ["gender"]
    assert "photo was left out" in attributes.notes[0]
    with pytest.raises(DataError, match="'photo' holds bytes"):
        read_attributes(tmp_path / "a.parquet", IDS, keep=["photo"])


def test_ids_and_marks_that_are_no_text_are_refused(tmp_path: Path) -> None:
    bad = pa.array([b"\xff", b"\xfe", b"a"])
    with pytest.raises(DataError, match="no text"):
        build_dataset("d", pa.table({"user_id": bad, "item_id": IDS}))
    pq.write_table(pa.table({"user_id": IDS, "member": bad}), tmp_path / "m.parquet")
    with pytest.raises(DataError, match="no text"):
        read_members(tmp_path / "m.parquet", IDS)


def test_half_floats_are_labels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_id": IDS, "g": np.array([1, 2, 1], np.float16)}), tmp_path / "a.parquet")
    assert read_attributes(tmp_path / "a.parquet", IDS)["g"].labels == ("1", "2")


def test_packed_text_that_grows_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "MIN_UNPACKED_BYTES", 1 << 20)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"user_id,x\n" + b"1,0000000000\n" * 1_000_000))
    with pytest.raises(DataError, match="times its size"):
        read_table(path)
    with pytest.raises(DataError, match="times its size"):
        text.read_delimited(path, delimiter="::")


def test_archives_that_grow_too_much_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "MIN_UNPACKED_BYTES", 1 << 10)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("zeros", b"0" * 10_000_000)
    with pytest.raises(DataError, match="unpacks to more than"):
        extract_archive(tmp_path / "a.zip", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_members_of_an_archive_are_counted_before_any_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for number in range(archive.MAX_MEMBERS + 1):
            packed.writestr(str(number), b"")
    monkeypatch.setattr(archive, "_iterate_zip", lambda path: pytest.fail("a member was unpacked"))
    with pytest.raises(DataError, match="more than 10000 members"):
        extract_archive(tmp_path / "a.zip", tmp_path / "out")
