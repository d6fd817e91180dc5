from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.data.io.formats.parquet import read_parquet
from recveil.data.io.user_tables import read_attributes
from recveil.streaming.parquet_parts import open_parquet

IDS = pa.array([1, 2, 3])


def test_views_of_text_are_text(tmp_path: Path) -> None:
    ids = IDS.cast(pa.string()).cast(pa.string_view())
    table = pa.table({"user_id": ids, "gender": pa.array(["F", "M", "F"]).cast(pa.string_view())})
    pq.write_table(table, tmp_path / "a.pq")
    assert read_parquet(tmp_path / "a.pq").column("gender").to_pylist() == ["F", "M", "F"]
    assert read_attributes(tmp_path / "a.pq", IDS)["gender"].codes.tolist() == [0, 1, 0]


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"user_id": IDS}), tmp_path / "a.pq")
    (tmp_path / "a.pq").write_bytes((tmp_path / "a.pq").read_bytes()[:-5])
    with pytest.raises(DataError, match="not a whole Parquet file"):
        read_parquet(tmp_path / "a.pq")


def test_names_of_columns_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """Both readers, of whole files and of parts, refuse them; pyarrow raises UnicodeDecodeError."""
    pq.write_table(pa.table({"user_id": IDS, "gender": ["F", "M", "F"]}), tmp_path / "a.parquet", store_schema=False)
    content = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(content.replace(b"gender", b"gen\xe0er"))
    with pytest.raises(DataError, match="not a whole Parquet file"):
        read_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="cannot be read as Parquet"), open_parquet(tmp_path / "a.parquet"):
        pass
