import gzip
import json

import pytest

from recveil.core.errors import DataError
from recveil.data.cleaning import clean_dataset
from recveil.data.sources import amazon

ROWS = [
    ("A39HTATAQ9V7YF", "0205616461", 5.0, 1369699200),
    ("A3JM6GV9MNOF9X", "0558925278", 3.0, 1355443200),
    ("A39HTATAQ9V7YF", "B000052YAN", 1.0, 1400000000),
]


def lines(rows):
    return "\n".join(",".join(map(str, row)) for row in rows) + "\n"


def check_rows(dataset):
    assert dataset.user_ids[dataset.user].tolist() == [row[0] for row in ROWS]
    assert dataset.item_ids[dataset.item].tolist() == [row[1] for row in ROWS]
    assert dataset.time.tolist() == [row[3] for row in ROWS]
    assert dataset.attributes == {}


def test_ratings_of_2014(tmp_path):
    (tmp_path / "ratings_Beauty.csv").write_text(lines(ROWS))
    raw = amazon.read_category(tmp_path, category="Beauty")
    assert raw.interactions.column("rating").to_pylist() == [5, 3, 1]
    check_rows(clean_dataset(raw, "d"))


def test_ratings_of_2018_have_the_item_first(tmp_path):
    (tmp_path / "All_Beauty.csv").write_text(lines([(item, user, *rest) for user, item, *rest in ROWS]))
    check_rows(clean_dataset(amazon.read_category(tmp_path, category="All_Beauty"), "d"))


def test_ratings_with_a_header(tmp_path):
    path = tmp_path / "ratings_Beauty.csv"
    path.write_text("UserId,ProductId,Rating,Timestamp\n" + lines(ROWS))
    check_rows(clean_dataset(amazon.read_file(path), "d"))


@pytest.mark.parametrize("name", ["reviews_Beauty_5.json.gz", "reviews_Beauty.json", "Beauty_5.json"])
def test_reviews(tmp_path, name):
    reviews = [
        {"reviewerID": user, "asin": item, "reviewerName": "x", "helpful": [3, 4], "reviewText": "a \"b\", c\n",
         "overall": rating, "summary": "s", "unixReviewTime": time, "reviewTime": "05 28, 2013"}
        for user, item, rating, time in ROWS
    ]  # fmt: skip
    text = "\n".join(map(json.dumps, reviews)).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    check_rows(clean_dataset(amazon.read_category(tmp_path, category="Beauty"), "d"))


def test_cut_reviews_are_named(tmp_path):
    path = tmp_path / "reviews_Beauty_5.json.gz"
    path.write_bytes(
        gzip.compress(b'{"reviewerID": "A", "asin": "B", "overall": 5.0, "unixReviewTime": 1}\n' * 99)[:-9]
    )
    with pytest.raises(DataError, match=r"reviews_Beauty_5\.json\.gz cannot be read"):
        amazon.read_file(path)


def test_no_file_of_the_category(tmp_path):
    with pytest.raises(DataError, match=r"does not hold ratings_Beauty\.csv"):
        amazon.read_category(tmp_path, category="Beauty")
