import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.data.cleaning import clean_dataset
from recveil.data.sources import renttherunway
from recveil.data.sources.catalog import load_dataset

# Made up in the form of the official file.
ROWS = [
    {"fit": "fit", "user_id": "420", "bust size": "34d", "item_id": "2260", "weight": "137lbs", "rating": "10",
     "rented for": "vacation", "review_text": "a", "body type": "hourglass", "review_summary": "b",
     "category": "romper", "height": "5' 8\"", "size": 14, "age": "28", "review_date": "April 20, 2016"},
    {"fit": "small", "user_id": "420", "item_id": "1534", "rating": "8", "body type": "pear", "category": "gown",
     "height": "5' 9\"", "size": 12, "age": "29", "review_date": "June 18, 2013"},
    {"fit": "fit", "user_id": "273", "bust size": "34b/c", "item_id": "2260", "weight": "no", "rating": "None",
     "category": "gown", "height": "", "size": 4, "age": "117", "review_date": "May 2, 2014"},
]  # fmt: skip


def write_rows(folder, rows, *, packed=True):
    text = "\n".join(map(json.dumps, rows)).encode()
    path = folder / ("renttherunway_final_data.json.gz" if packed else "renttherunway_final_data.json")
    path.write_bytes(gzip.compress(text) if packed else text)


@pytest.mark.parametrize("packed", [True, False])
def test_the_official_file(tmp_path, packed):
    write_rows(tmp_path, ROWS, packed=packed)
    raw = renttherunway.read_renttherunway(tmp_path)
    assert raw.interactions.column("rating").to_pylist() == [10.0, 8.0, None]
    dataset = clean_dataset(raw, "d", keep=["height_in", "weight_lbs"])
    assert dataset.user_ids.tolist() == [273, 420]
    users = {row["user_id"]: row for row in raw.users.to_pylist()}
    assert users[420] == {
        "user_id": 420, "body_type": "hourglass", "age": 28.0, "height_in": 68.0, "weight_lbs": 137.0,
        "bust_size_num": 34.0, "bust_size_letter": "d",
    }  # fmt: skip
    assert users[273]["bust_size_letter"] == "b/c"
    for name in ("age", "height_in", "weight_lbs", "body_type"):
        assert users[273][name] is None
    days = [stamp.date().isoformat() for stamp in raw.interactions.column("timestamp").to_pylist()]
    assert days == ["2016-04-20", "2013-06-18", "2014-05-02"]


def test_a_file_without_ratings_is_refused(tmp_path):
    write_rows(tmp_path, [{"user_id": "1", "item_id": "2"}])
    with pytest.raises(DataError, match="has no field 'rating'"):
        renttherunway.read_renttherunway(tmp_path)


def test_prepared_tables_are_read_by_name_with_the_same_rule_about_ages(tmp_path, monkeypatch):
    folder = tmp_path / "renttherunway"
    folder.mkdir()
    pairs = [(user, item) for user in range(6) for item in range(5)]
    interactions = {"user_id": [user for user, _ in pairs], "item_id": [item for _, item in pairs]}
    users = {"user_id": list(range(6)), "age": [0.0, 117.0, 30.0, 40.0, 50.0, 30.0]}
    for name, table in (("interactions", interactions), ("users", users)):
        pq.write_table(pa.table(table), folder / f"{name}.parquet")
    monkeypatch.setenv("RECVEIL_DATA", str(tmp_path))
    ages = load_dataset("renttherunway").attributes["age3"]
    bands = [ages.labels[code] if code >= 0 else None for code in ages.codes]
    assert bands == [None, None, "<35", "35-44", "45+", "<35"]
