"""Uploaded tables as inputs: endings, columns under other names, attributes in the same table."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.service.documents import ColumnChoice
from recveil.service.table_inputs import find_part, find_suffix, prepare_table, restore_names
from service.tools import make_table


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.mark.parametrize(
    ("name", "suffix"), [("a.PARQUET", ".parquet"), ("x.csv.gz", ".csv.gz"), ("../../etc/passwd.npy", ".npy")]
)
def test_only_the_ending_of_a_name_is_used(name: str, suffix: str) -> None:
    assert find_suffix(name) == suffix


@pytest.mark.parametrize("name", ["", "parquet", "a.pkl", "a.parquet.exe", "a.csv/", "a\x00"])
def test_unknown_endings_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="ending"):
        find_suffix(name)


def test_attributes_in_the_same_table_are_split_off(tmp_path: Path, work: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(make_table())
    prepared = prepare_table(tmp_path, work, ColumnChoice())
    assert prepared.embeddings == tmp_path / "table.parquet"
    assert prepared.attributes is not None
    assert pq.read_table(prepared.attributes).column_names == ["user_id", "gender"]


def test_chosen_columns_get_the_names_that_readers_know_and_back(tmp_path: Path, work: Path) -> None:
    table = pq.read_table(io.BytesIO(make_table(id="customer", vectors="v")))
    pq.write_table(table.append_column("user_id", pa.array(["other"] * len(table))), tmp_path / "table.parquet")
    prepared = prepare_table(tmp_path, work, ColumnChoice(id="customer", vectors=["v"]))
    assert pq.read_table(prepared.embeddings).column_names == ["user_id", "embedding", "gender", "user_id (not chosen)"]
    restore_names(prepared.embeddings, prepared.former_names)
    assert pq.read_table(prepared.embeddings).column_names == ["customer", "v", "gender", "user_id"]


def test_wide_columns_are_numbered_in_the_order_of_the_choice(tmp_path: Path, work: Path) -> None:
    (tmp_path / "table.csv").write_text("who,b,a,gender\n1,0.1,0.2,F\n2,0.3,0.4,M\n")
    prepared = prepare_table(tmp_path, work, ColumnChoice(id="who", vectors=["a", "b"]))
    assert pq.read_table(prepared.embeddings)["emb_0"].to_pylist() == [0.2, 0.4]
    assert prepared.output_suffix == ".parquet"


def test_a_column_that_is_not_there_is_named(tmp_path: Path, work: Path) -> None:
    (tmp_path / "table.parquet").write_bytes(make_table())
    with pytest.raises(DataError, match="no column 'nothing'"):
        prepare_table(tmp_path, work, ColumnChoice(id="nothing"))
    with pytest.raises(DataError, match="no table"):
        prepare_table(work, work, ColumnChoice())


def test_packed_text_is_written_back_unpacked_and_parts_are_found(tmp_path: Path, work: Path) -> None:
    (tmp_path / "table.npy").touch()
    (tmp_path / "ids.txt").touch()
    prepared = prepare_table(tmp_path, work, ColumnChoice(row_numbers=True))
    assert prepared.ids == tmp_path / "ids.txt"
    assert find_part(tmp_path, "attributes") is None
    (tmp_path / "ids.txt").unlink()
    assert prepare_table(tmp_path, work, ColumnChoice(row_numbers=True)).ids == "row-number"
