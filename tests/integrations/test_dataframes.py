"""DataFrames of any library: vectors and attributes in, the same library out; bad tables are one clear error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute
from recveil.integrations.dataframes import is_dataframe, read_arrow, read_table_input

N = 60
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3)).astype(np.float32)
GENDER = np.array(["F", "M"])[np.arange(N) % 2]
COLUMNS = {"user_id": np.arange(N) + 7, "embedding": X.tolist(), "gender": GENDER.tolist(), "job": ["a", "b", "c"] * 20}
LIBRARIES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "pandas": pd.DataFrame,
    "polars": lambda columns: pl.DataFrame(columns, strict=False),
    "arrow": pa.table,
    "narwhals": lambda columns: nw.from_native(pl.DataFrame(columns, strict=False), eager_only=True),
}


@pytest.fixture(params=LIBRARIES)
def make_frame(request: pytest.FixtureRequest) -> Callable[[dict[str, Any]], Any]:
    return LIBRARIES[request.param]


def test_a_frame_is_read_and_given_back_in_its_own_library(make_frame: Callable) -> None:
    frame = make_frame(COLUMNS)
    assert is_dataframe(frame)
    table = read_table_input(frame, target="gender")
    np.testing.assert_array_equal(table.x, X)
    assert list(table.attributes) == ["gender"]
    assert table.attributes["gender"].labels == ("F", "M")
    assert list(read_table_input(frame).attributes) == ["gender", "job"]
    back = table.replace_vectors(X + 1)
    assert type(back) is type(frame)
    arrow = read_arrow(back)
    assert arrow.column_names == list(COLUMNS)
    np.testing.assert_array_equal(np.stack(arrow["embedding"].to_numpy(zero_copy_only=False)), X + 1)
    assert arrow["user_id"].to_pylist() == COLUMNS["user_id"].tolist()


@pytest.mark.parametrize("names", [["emb_0", "emb_1", "emb_2"], ["north", "east", "up"], ["tastes"], ["embedding"]])
def test_vectors_are_found_as_a_list_or_as_numeric_columns(make_frame: Callable, names: list[str]) -> None:
    vectors = {names[0]: X.tolist()} if len(names) == 1 else {name: X[:, j] for j, name in enumerate(names)}
    frame = make_frame({"gender": GENDER.tolist(), **vectors})
    for given in (None, names):
        table = read_table_input(frame, target="gender", vectors=given)
        np.testing.assert_array_equal(table.x, X)
        assert table.columns == tuple(names)
        assert read_arrow(table.replace_vectors(X)).column_names == ["gender", *names]


def test_numbers_and_undisclosed_users_are_read(make_frame: Callable) -> None:
    heights = [None if i < 5 else float(i) for i in range(N)]
    gender = [None if i < 9 else label for i, label in enumerate(GENDER.tolist())]
    frame = make_frame({"embedding": X.tolist(), "gender": gender, "height": heights})
    table = read_table_input(frame, target="gender", numeric=["height"])
    assert table.attributes["height"].is_numeric
    assert (~table.attributes["height"].known).sum() == 5
    assert (~table.attributes["gender"].known).sum() == 9


def test_the_index_and_types_of_pandas_stay() -> None:
    filtered = pd.DataFrame({**COLUMNS, "gender": pd.Categorical(GENDER)})[lambda frame: frame["job"] != "a"]
    for frame in (filtered, filtered.set_index("user_id"), filtered.set_index(filtered["user_id"] / 2)):
        table = read_table_input(frame)
        assert list(table.attributes) == ["gender", "job"]
        back = table.replace_vectors(X[: len(frame)])
        pd.testing.assert_frame_equal(back.drop(columns="embedding"), frame.drop(columns="embedding"))


BAD_TABLES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no such column": ({}, {"target": "gendr"}, "no column 'gendr'"),
    "no such vectors": ({}, {"target": "gender", "vectors": "tastes"}, "no column 'tastes'"),
    "duplicate ids": ({"user_id": [1] * N}, {"target": "gender"}, "more than once"),
    "unequal vectors": ({"embedding": [[1.0] * (1 + i % 2) for i in range(N)]}, {"target": "gender"}, "length"),
    "missing vectors": ({"embedding": [None, *X.tolist()[1:]]}, {"target": "gender"}, ""),
    "NaN": ({"embedding": [[np.nan] * 3, *X.tolist()[1:]]}, {"target": "gender"}, "1 of the 60 vectors"),
    "no vectors": ({"embedding": ["x"] * N}, {"target": "gender", "vectors": None}, ""),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_one_clear_error(make_frame: Callable, name: str) -> None:
    changes, arguments, reason = BAD_TABLES[name]
    with pytest.raises(DataError) as error:
        read_table_input(make_frame({**COLUMNS, **changes}), **arguments)
    assert isinstance(error.value, ValueError)
    assert reason in str(error.value)
    assert "--" not in str(error.value)  # the library speaks of arguments, not of options
    assert str(error.value).count(". ") <= 1  # at most two sentences


def test_an_empty_frame_is_refused(make_frame: Callable) -> None:
    with pytest.raises(DataError, match="no rows"):
        read_table_input(make_frame({"embedding": [], "gender": []}), target="gender")


def test_labels_of_arrays_come_in_many_forms() -> None:
    codes = np.arange(N) % 2
    hidden = np.where(np.arange(N) < 4, -1, codes)
    texts = np.where(np.arange(N) < 4, None, GENDER.astype(object))
    floats = np.where(np.arange(N) < 4, np.nan, codes)
    for y in (hidden, texts, floats, hidden.tolist(), pd.Series(texts), pl.Series(texts.tolist()), pa.array(texts)):
        table = read_table_input(X, y, target="sex")
        assert list(table.attributes) == ["sex"]
        assert (~table.attributes["sex"].known).sum() == 4
        assert len(table.attributes["sex"].labels) == 2
    assert list(read_table_input(X, {"a": codes, "b": texts}).attributes) == ["a", "b"]
    frame = pa.table({"a": codes, "b": GENDER})
    assert list(read_table_input(X, frame).attributes) == ["a", "b"]
    attribute = Attribute("own", codes, ("x", "y"))
    assert read_table_input(X, attribute).attributes == {"own": attribute}
    assert read_table_input(X.tolist(), codes).replace_vectors(X) is X


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ((X,), UsageError, "`y`"),
        ((pa.table(COLUMNS), GENDER), UsageError, "`target`"),
        ((X, GENDER[:-1]), DataError, "60 vectors and 59 labels"),
        ((X[0], GENDER), DataError, r"shape \(3,\)"),
        ((X, np.stack([GENDER, GENDER], axis=1)), DataError, "a mapping"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(arguments: tuple, error: type, reason: str) -> None:
    with pytest.raises(error, match=reason):
        read_table_input(*arguments)


def test_labels_that_look_undisclosed_are_noted_or_kept() -> None:
    columns = {"user_id": [1, 2, 3], "emb_0": [0.5, 1.5, 2.5], "gender": ["F", "M", "unknown"]}
    table = read_table_input(pa.table(columns))
    assert table.attributes["gender"].labels == ("F", "M")
    assert "1 users labelled 'unknown'" in table.notes[0]
    labels = {"gender": columns["gender"]}
    assert read_table_input(np.ones((3, 2)), labels).notes == table.notes
    kept = read_table_input(pa.table(columns), keep_label=["unknown"])
    assert kept.attributes["gender"].labels == ("F", "M", "unknown")
    assert kept.notes == ()
