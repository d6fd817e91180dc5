"""What an outsider hands in is read by raw ids, whatever their type, and what is wrong with it is said at the door."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError
from recveil.data.io.membership_files import (
    collect_item_ids,
    match_ids,
    read_members,
    read_platform,
    read_texts,
    scatter_rows,
)


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def histories(tmp_path: Path) -> Path:
    return write(tmp_path / "h.csv", "user_id,item_id,timestamp\nb,30,2\na,10,9\nb,20,1\na,30,3\n")


@pytest.fixture
def lists(tmp_path: Path) -> Path:
    return write(tmp_path / "l.csv", "user_id,item_id,rank\na,99,2\na,20,1\nb,10,1\n")


def test_a_platform_is_read_in_time_and_by_rank(histories: Path, lists: Path) -> None:
    ids = collect_item_ids([histories, lists])
    assert sorted(ids.to_pylist()) == [10, 20, 30, 99]
    platform = read_platform(histories, lists, ids)
    names = np.array(ids)
    assert platform.users.to_pylist() == ["a", "b"]
    assert [names[h].tolist() for h in platform.histories] == [[30, 10], [20, 30]]
    assert names[platform.lists[0]].tolist() == [20, 99]
    assert names[platform.lists[1, 0]] == 10
    assert platform.lists[1, 1] == -1


def test_without_times_the_order_of_the_file_counts(tmp_path: Path, lists: Path) -> None:
    plain = write(tmp_path / "p.csv", "user_id,item_id\nb,30\na,10\nb,20\na,30\n")
    ids = collect_item_ids([plain, lists])
    found = read_platform(plain, lists, ids)
    assert [np.array(ids)[h].tolist() for h in found.histories] == [[10, 30], [30, 20]]


def test_ids_match_whether_they_are_numbers_or_text(tmp_path: Path, lists: Path) -> None:
    pq.write_table(pa.table({"user_id": ["a", "b"], "item_id": ["10", "20"]}), tmp_path / "h.parquet")
    ids = collect_item_ids([tmp_path / "h.parquet", lists])
    assert sorted(ids.to_pylist()) == ["10", "20", "99"]
    platform = read_platform(tmp_path / "h.parquet", lists, ids)
    assert np.array(ids)[platform.lists[1, 0]] == "10"


@pytest.mark.parametrize(
    ("extra", "message"),
    [("c,10,1", "1 users have a list in .* and no history"), ("", "1 users have a history in .* and no list")],
)
def test_a_user_with_only_history_or_list_is_named(tmp_path: Path, histories: Path, extra: str, message: str) -> None:
    rows = f"a,10,1\nb,10,1\n{extra}" if extra else "a,10,1"
    lists = write(tmp_path / "l.csv", f"user_id,item_id,rank\n{rows}\n")
    with pytest.raises(DataError, match=message):
        read_platform(histories, lists, collect_item_ids([histories, lists]))


@pytest.mark.parametrize(
    "text",
    [
        "user_id,member\nb,1\na,0\n",
        "user_id,member\na,false\nb,TRUE\n",
        "user_id,is_member,more\na,no,1\nb,yes,1\n",
        "user_id\nb\n",
    ],
)
def test_members_are_marked_or_listed(tmp_path: Path, text: str) -> None:
    assert read_members(write(tmp_path / "m.csv", text), pa.array(["a", "b"])).tolist() == [False, True]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("user_id,member\na,0\n", "1 users have a history and are not in .*'b'"),
        ("user_id,member\na,0\nb,perhaps\n", "1 rows .* that of 'b' has 'perhaps'"),
        ("user_id,member\na,0\nb,\n", "1 rows .* do not say"),
        ("user_id\nb\nz\n", "1 users are in .* and have no history, such as 'z'"),
        ("user_id\nb\nb\n", "more than once"),
        ("user_id,colour\na,red\nb,blue\n", "none called 'member'"),
    ],
)
def test_bad_files_of_members_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_members(write(tmp_path / "m.csv", text), pa.array(["a", "b"]))


def test_items_without_a_text_have_none(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "item_id,title\n2,two\n1,one\n")
    assert read_texts(path, pa.array([1, 2, 3])) == ["one", "two", None]
    assert read_texts(path, pa.array(["2"])) == ["two"]
    with pytest.raises(DataError, match="none of the items"):
        read_texts(path, pa.array([7]))
    with pytest.raises(DataError, match="no column 'text'"):
        read_texts(write(tmp_path / "u.csv", "item_id,colour\n2,red\n"), pa.array([2]))


def test_rows_go_to_their_places_and_nobody_gets_anothers() -> None:
    place = match_ids(pa.array(["b", "x", "a"]), pa.array(["a", "b"]))
    table = scatter_rows(np.array([[1.0], [2.0]]), place)
    assert table[[0, 2], 0].tolist() == [2.0, 1.0]
    assert np.isnan(table[1, 0])
