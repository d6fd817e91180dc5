import pyarrow as pa
import pyarrow.parquet as pq

from recveil.data.sources.prepared import SOURCES


def test_implausible_ages_of_book_crossing_are_undisclosed(tmp_path):
    read = SOURCES["book-crossing-caserec"].read
    pq.write_table(pa.table({"user_id": [1, 2, 3], "item_id": [7, 7, 8]}), tmp_path / "interactions.parquet")
    assert read(tmp_path).users is None
    pq.write_table(pa.table({"user_id": [1, 2, 3], "age": [3, 30, 150]}), tmp_path / "users.parquet")
    assert read(tmp_path).users.column("age").to_pylist() == [None, 30, None]


def test_prepared_data_sets_are_read_from_tables_alone():
    assert all(source.markers == () and source.url is None for source in SOURCES.values())
