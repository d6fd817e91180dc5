"""The files beside the vectors: aligned with their ids, or refused in one sentence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.core.types import Attribute
from recveil.data.io.ids import Ids
from recveil.data.io.user_tables import read_attributes, read_interactions, read_recommendations, require_classes

IDS = pa.array([30, 10, 20])
ITEMS = pa.array(["x", "y", "z"])


def save(path: Path, **columns: object) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def check_refused(read: Callable[[], object], message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ids", [IDS, pa.array(["30", "10", "20"]), np.array([30, 10, 20])])
@pytest.mark.parametrize("given", [[10, 20, 30], ["10", "20", "30"], [10.0, 20.0, 30.0]])
def test_attributes_follow_the_ids_of_the_embeddings(tmp_path: Path, ids: Ids, given: list[object]) -> None:
    path = save(tmp_path / "a.parquet", user_id=given, gender=["f", None, "m"], age=[18, 40, None])
    found = read_attributes(path, ids)
    assert found["gender"].labels == ("f", "m")
    assert found["gender"].codes.tolist() == [1, 0, -1]
    assert found["age"].labels == ("18", "40")
    assert found["age"].codes.tolist() == [-1, 0, 1]


def test_numbers_stay_numbers_or_are_cut(tmp_path: Path) -> None:
    path = save(tmp_path / "a.parquet", user_id=[10, 20, 30], age=[18, 40, None])
    age = read_attributes(path, IDS, numeric=["age"])["age"]
    np.testing.assert_array_equal(age.values, [np.nan, 18, 40])
    cut = read_attributes(path, IDS, bins={"age": [35, 45]})["age"]
    assert cut.labels == ("<35", "35-44")
    assert cut.codes.tolist() == [-1, 0, 1]


def test_users_in_one_table_only_are_counted(tmp_path: Path) -> None:
    path = save(tmp_path / "a.parquet", user_id=[10, 20, 98], gender=["f", "m", "x"])
    attributes = read_attributes(path, IDS)
    assert attributes["gender"].codes.tolist() == [-1, 0, 1]
    assert attributes["gender"].labels == ("f", "m")
    assert [note.split(" users ")[0] for note in attributes.notes] == ["1 of the 3", "1 of the 3"]


def test_tables_that_share_less_than_half_of_their_users_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "a.parquet", user_id=[10, 99, 98], gender=["f", "m", "x"])
    check_refused(lambda: read_attributes(path, IDS), "Only 1 users .* 3 in the release and 3 in .* lacks '30'")
    # The attributes of a few users, all of them in the release, are no mistake.
    path = save(tmp_path / "few.parquet", user_id=[10], gender=["f"])
    assert read_attributes(path, IDS)["gender"].codes.tolist() == [-1, 0, -1]


def test_bad_attributes(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    check_refused(lambda: read_attributes(path, IDS), "no file")
    save(path, user_id=["a", "b"], gender=["f", "m"])
    check_refused(lambda: read_attributes(path, IDS), r"ids do not match \(the release has '30', the file has 'a'\)")
    save(path, user_id=[10, 10, 20, 20], gender=["f", "f", "m", "m"])
    check_refused(lambda: read_attributes(path, IDS), "2 users more than once, for instance '10'")
    save(path, name=[10], gender=["f"])
    check_refused(lambda: read_attributes(path, IDS), "no column 'user_id'")
    save(path, user_id=[10])
    check_refused(lambda: read_attributes(path, IDS), "no column besides 'user_id'")
    save(path, user_id=pa.array([], pa.int64()), gender=pa.array([], pa.string()))
    check_refused(lambda: read_attributes(path, IDS), "no rows")
    save(path, user_id=[10], gender=["f"])
    check_refused(lambda: read_attributes(path, IDS, numeric=["gender"]), "'gender' holds text")
    check_refused(lambda: read_attributes(path, IDS, numeric=["age"]), "no column 'age'")
    path.write_bytes(path.read_bytes()[:-9])
    check_refused(lambda: read_attributes(path, IDS), "not a whole Parquet file")


def test_interactions_are_numbered_like_the_vectors(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user_id,item_id,rating,timestamp\n10,z,5,100\n30,x,3,50\n10,y,4,70\n")
    data = read_interactions(path, IDS, ITEMS)
    assert data.name == "log"
    assert data.user.tolist() == [1, 0, 1]
    assert data.item.tolist() == [2, 0, 1]
    assert data.time.tolist() == [100, 50, 70]
    assert data.user_ids.tolist() == [30, 10, 20]
    assert data.item_ids.tolist() == ["x", "y", "z"]
    assert read_interactions(path, IDS).item_ids.tolist() == ["x", "y", "z"]
    path.write_text("user_id,item_id\n10,z\n")
    alone = read_interactions(path, IDS)
    assert alone.time is None
    assert (alone.n_users, alone.n_items) == (3, 1)


def test_bad_interactions(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("user_id,item_id\n10,z\n11,q\n")
    check_refused(lambda: read_interactions(path, IDS), "1 unknown user, for instance '11'")
    path.write_text("user_id,item_id\n10,z\n10,q\n")
    check_refused(lambda: read_interactions(path, IDS, ITEMS), "1 unknown item, for instance 'q'")
    path.write_text("user_id,thing\n10,z\n")
    check_refused(lambda: read_interactions(path, IDS), "no column 'item_id'")
    path.write_text("user_id,item_id\n")
    check_refused(lambda: read_interactions(path, IDS), "no rows")
    path.write_text("user_id,item_id\n10,\n")
    check_refused(lambda: read_interactions(path, IDS), "no item_id")


@pytest.mark.parametrize("order", [{"rank": [2, 1, 1, 3]}, {"rank": [1, 0, 5, 7]}, {"score": [0.5, 0.9, 1.0, 0.1]}])
def test_lists_are_in_the_order_of_rank_or_score(tmp_path: Path, order: dict[str, list[float]]) -> None:
    path = save(tmp_path / "r.parquet", user_id=[10, 10, 30, 10], item_id=["x", "y", "z", "z"], **order)
    lists = read_recommendations(path, IDS, ITEMS)
    assert lists.tolist() == [[2, -1, -1], [1, 0, 2], [-1, -1, -1]]
    assert lists.dtype == np.int64


def test_rank_goes_before_score(tmp_path: Path) -> None:
    path = save(tmp_path / "r.parquet", user_id=[10, 10], item_id=["x", "y"], score=[0.9, 0.1], rank=[2, 1])
    assert read_recommendations(path, IDS, ITEMS)[1].tolist() == [1, 0]


def test_bad_recommendations(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"

    def read() -> object:
        return read_recommendations(path, IDS, ITEMS)

    save(path, user_id=[10, 10], item_id=["x", "x"], rank=[1, 2])
    check_refused(read, "user '10'.*same item twice")
    save(path, user_id=[10, 10], item_id=["x", "y"], rank=[1, 1])
    check_refused(read, "user '10'.*same rank twice")
    save(path, user_id=[10], item_id=["x"])
    check_refused(read, "no column 'rank'")
    save(path, user_id=[10], item_id=["x"], rank=["first"])
    check_refused(read, "'rank' .* does not hold numbers")
    save(path, user_id=[10, 20], item_id=["x", "x"], rank=[1, None])
    check_refused(read, "1 rows of .* have no rank")
    save(path, user_id=[10, 11], item_id=["x", "x"], rank=[1, 1])
    check_refused(read, "unknown user")
    save(path, user_id=[10], item_id=["q"], rank=[1])
    check_refused(read, "unknown item")


def codes(*values: int) -> Attribute:
    return Attribute("gender", np.array(values, dtype=np.int64), ("f", "m", "x"))


def test_classes_large_enough_are_accepted() -> None:
    good = [codes(0, 0, 1, 1, 2, 2, -1), Attribute("age", np.full(3, -1), (), np.array([1.0, np.nan, 2.0]))]
    assert [require_classes(attribute) for attribute in good] == [None, None]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (codes(-1, -1), "No user disclosed 'gender'"),
        (codes(1, 1, 1, -1), "All 3 users have the same 'gender', 'm'"),
        (codes(0, 0, 1, 1, 2), "The class 'x' of 'gender' has 1 user, and 2 are needed. Merge it"),
        (codes(0, 0, 1, 1), "The class 'x' of 'gender' has 0 users"),
        (Attribute("age", np.full(2, -1), (), np.array([np.nan, np.nan])), "No user disclosed 'age'"),
        (Attribute("age", np.full(2, -1), (), np.array([3.0, 3.0])), "All 2 users have the same 'age'"),
    ],
)
def test_classes_that_cannot_be_guessed_are_refused(attribute: Attribute, message: str) -> None:
    check_refused(lambda: require_classes(attribute), message)


def test_the_minimum_is_the_callers() -> None:
    check_refused(lambda: require_classes(codes(0, 0, 1, 1, 2, 2), minimum=5), "has 2 users, and 5 are needed")
