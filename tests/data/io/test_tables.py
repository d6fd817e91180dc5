import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.data.io.formats.delimited import read_csv
from recveil.data.io.tables import (
    USER_NAMES,
    build_dataset,
    find_file,
    read_raw,
    read_table,
    require_column,
    require_file,
    select_interactions,
)

ROWS = {"user_id": [3, 1, 3], "item_id": [10, 20, 20], "rating": [5, 3, 4], "timestamp": [7, 8, 9]}


def write(path, rows, *, delimiter=",", types=None):
    lines = [delimiter.join(types or rows)]
    lines += [delimiter.join(map(str, row)) for row in zip(*rows.values(), strict=True)]
    path.write_text("\n".join(lines) + "\n")
    return path


def files(folder):
    pq.write_table(pa.table(ROWS), folder / "a.parquet")
    write(folder / "a.csv", ROWS)
    write(folder / "b.csv", ROWS, delimiter=";")
    write(folder / "a.tsv", ROWS, delimiter="\t")
    typed = ["user_id:token", "item_id:token", "rating:float", "timestamp:float"]
    write(folder / "a.inter", ROWS, delimiter="\t", types=typed)
    return [folder / name for name in ("a.parquet", "a.csv", "b.csv", "a.tsv", "a.inter")]


def test_every_kind_of_file_gives_the_same_table(tmp_path):
    for path in files(tmp_path):
        assert read_table(path).to_pydict() == ROWS, path


def test_every_kind_of_file_gives_the_same_data_set(tmp_path):
    for path in files(tmp_path):
        dataset = build_dataset("d", read_raw(path).interactions)
        assert dataset.user.tolist() == [1, 0, 1]
        assert dataset.user_ids.tolist() == [1, 3]
        assert dataset.user_ids.dtype == np.int64
        assert dataset.item.tolist() == [0, 1, 1]
        assert dataset.time.tolist() == [7, 8, 9]


def broken(folder):
    (folder / "empty.csv").write_bytes(b"")
    (folder / "ragged.csv").write_text("user_id,item_id\n1,2\n3\n")
    (folder / "latin.csv").write_bytes("user_id,item_id\né,2\n".encode("latin-1"))
    (folder / "odd.xlsx").write_text("x")
    (folder / "twice.csv").write_text("user_id,user_id\n1,2\n")
    pq.write_table(pa.table(ROWS), folder / "whole.parquet")
    (folder / "cut.parquet").write_bytes((folder / "whole.parquet").read_bytes()[:-30])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.csv", "There is no file"),
        (".", "is a folder"),
        ("empty.csv", "is empty"),
        ("ragged.csv", "Expected 2 columns, got 1"),
        ("latin.csv", "is not UTF-8 text"),
        ("odd.xlsx", "Cannot tell what"),
        ("twice.csv", "more than one column 'user_id'"),
        ("cut.parquet", "not a whole Parquet file"),
    ],
)
def test_bad_files_give_one_sentence_that_names_them(tmp_path, name, says):
    broken(tmp_path)
    with pytest.raises(DataError, match=says) as caught:
        read_table(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_latin_1_is_read_where_it_is_asked_for(tmp_path):
    broken(tmp_path)
    assert read_csv(tmp_path / "latin.csv", encoding="latin1").to_pydict() == {"user_id": ["é"], "item_id": ["2"]}


@pytest.mark.parametrize("name", ["user_id", "userId", "USER ID", "uid", "user", "reviewerID", "#user_id"])
def test_columns_are_found_under_their_other_names(name):
    assert require_column(pa.table({"x": [1], name: [2]}), USER_NAMES, "f") == name


def test_the_best_name_wins():
    assert require_column(pa.table({"uid": [1], "user_id": [2]}), USER_NAMES, "f") == "user_id"


def test_a_missing_column_is_an_error_with_the_existing_ones():
    with pytest.raises(DataError, match=r"f\.csv has no column 'user_id'; its columns are '1', '1193'"):
        require_column(pa.table({"1": [1], "1193": [2]}), USER_NAMES, "f.csv")


def test_other_columns_are_not_kept():
    table = pa.table({**ROWS, "rating_exact": [True] * 3, "timestamp_quality": ["exact"] * 3})
    assert select_interactions(table, "f").column_names == ["user_id", "item_id", "rating", "timestamp"]


def test_position_is_order():
    assert select_interactions(pa.table({"user_id": [1], "item_id": [1], "position": [4]}), "f").to_pydict()[
        "timestamp"
    ] == [4]


@settings(deadline=None)
@given(st.lists(st.tuples(st.text("ab0", min_size=1, max_size=3), st.integers(-5, 5)), min_size=1))
def test_raw_ids_come_back(rows):
    users, items = [user for user, _ in rows], [item for _, item in rows]
    dataset = build_dataset("d", pa.table({"user_id": users, "item_id": items}))
    assert dataset.user_ids[dataset.user].tolist() == users
    assert dataset.item_ids[dataset.item].tolist() == items
    assert dataset.user_ids.tolist() == sorted(set(users))
    assert dataset.item_ids.tolist() == sorted(set(items))


def test_many_chunks_encode_like_one():
    whole = pa.table({"user_id": ["b", "a", "c", "a"], "item_id": [1, 2, 3, 4]})
    parts = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 2), whole.slice(3)])
    assert build_dataset("d", parts).user.tolist() == build_dataset("d", whole).user.tolist()


@pytest.mark.parametrize("bad", [[1.0, float("nan")], [1, None], ["a", ""], [1.5, 2.0]])
def test_missing_or_broken_ids_are_refused(bad):
    with pytest.raises(DataError, match=r"have no user_id|not whole numbers"):
        build_dataset("d", pa.table({"user_id": bad, "item_id": [1, 2]}))


def test_whole_numbers_written_as_decimals_are_ids():
    dataset = build_dataset("d", pa.table({"user_id": [2.0, 1.0], "item_id": [1, 1]}))
    assert dataset.user_ids.tolist() == [1, 2]


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="'d' has no interactions"):
        build_dataset("d", pa.table({"user_id": pa.array([], pa.int64()), "item_id": pa.array([], pa.int64())}))


def test_users_are_matched_by_id():
    interactions = pa.table({"user_id": [3, 1, 2], "item_id": [1, 1, 1]})
    users = pa.table({"user_id": [9, 3, 1], "gender": ["x", "F", "M"], "age": [1, 40, 20]})
    dataset = build_dataset("d", interactions, users, bins={"age": [35]})
    gender = dataset.attributes["gender"]
    assert gender.labels == ("F", "M")  # nobody with interactions is "x"
    assert gender.codes.tolist() == [1, -1, 0]
    assert dataset.attributes["age"].labels == ("<35", "35+")
    assert dataset.attributes["age"].codes.tolist() == [0, -1, 1]


def test_ids_written_as_text_in_one_table_match_numbers_in_the_other():
    interactions = pa.table({"user_id": [10, 2], "item_id": [1, 1]})
    users = pa.table({"user_id": ["2", "10"], "g": ["two", "ten"]})
    attribute = build_dataset("d", interactions, users).attributes["g"]
    assert [attribute.labels[code] for code in attribute.codes] == ["two", "ten"]


def test_users_that_come_twice_are_refused():
    users = pa.table({"user_id": [1, 1, 2, 2], "g": list("abcd")})
    with pytest.raises(DataError, match="2 users more than once, for instance '1'"):
        build_dataset("d", pa.table({"user_id": [1], "item_id": [1]}), users)


def test_users_of_another_data_set_are_refused():
    users = pa.table({"user_id": ["u1"], "g": ["a"]})
    with pytest.raises(DataError, match="No user of 'd' is in its table of users"):
        build_dataset("d", pa.table({"user_id": [1], "item_id": [1]}), users)


def test_numbers_asked_of_no_users_are_refused():
    with pytest.raises(DataError, match="no table of users"):
        build_dataset("d", pa.table({"user_id": [1], "item_id": [1]}), numeric=["age"])


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        (["1970-01-01 00:00:10", "1970-01-02"], [10, 86400]),
        (["1970-01-01T00:00:10Z", "1970-01-01T00:01:00Z"], [10, 60]),
        (["1970-01-01 01:00:10+01:00", "1970-01-01 00:00:00+00:00"], [10, 0]),
        (pa.array([1_500_000, 2_000_000], pa.timestamp("us")), [1.5, 2.0]),
        ([0.5, 1.5], [0.5, 1.5]),
    ],
)
def test_times_become_numbers(times, seconds):
    interactions = pa.table({"user_id": [1, 2], "item_id": [1, 2], "timestamp": times})
    assert build_dataset("d", interactions).time.tolist() == seconds


@pytest.mark.parametrize("times", [[1, None], ["soon", "later"], [1.0, float("inf")]])
def test_times_that_are_not_understood_are_refused(times):
    with pytest.raises(DataError, match="times? of 'd'|have no time"):
        build_dataset("d", pa.table({"user_id": [1, 2], "item_id": [1, 2], "timestamp": times}))


def test_no_times_at_all_is_no_time():
    none = pa.array([None, None], pa.int64())
    assert build_dataset("d", pa.table({"user_id": [1, 2], "item_id": [1, 2], "timestamp": none})).time is None


def test_users_beside_a_file_are_found(tmp_path):
    write(tmp_path / "ml.inter", ROWS, delimiter="\t")
    write(tmp_path / "ml.user", {"user_id": [1], "g": ["a"]}, delimiter="\t", types=["user_id:token", "g:token"])
    assert read_raw(tmp_path / "ml.inter").users.to_pydict() == {"user_id": [1], "g": ["a"]}
    assert read_raw(tmp_path).users.column_names == ["user_id", "g"]


def test_a_folder_without_interactions_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"holds no interactions\.parquet"):
        read_raw(tmp_path)


def test_files_are_found_two_folders_down_and_no_further(tmp_path):
    deep = tmp_path / "a" / "b" / "c"
    deep.mkdir(parents=True)
    (deep / "u.data").write_text("x")
    assert find_file(tmp_path, "u.data") is None
    assert require_file(tmp_path / "a", "u.data") == deep / "u.data"
    with pytest.raises(DataError, match=r"does not hold u\.data"):
        require_file(tmp_path, "u.data")
