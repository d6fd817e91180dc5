import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute
from recveil.data.io.attributes import (
    MAX_CLASSES,
    convert_to_numbers,
    cut_numbers,
    drop_empty_classes,
    is_undisclosed_label,
    join_attributes,
    make_attributes,
    select_auditable,
)


def one(values, **options):
    options.setdefault("bins", {})
    return make_attributes(pa.table({"x": values}), **options)["x"]


def decoded(attribute):
    return [None if code < 0 else attribute.labels[code] for code in attribute.codes]


def test_null_empty_and_nan_are_unknown():
    attribute = one(["M", None, "", " F ", "NaN", "null", "M"])
    assert attribute.labels == ("F", "M")
    assert decoded(attribute) == ["M", None, None, "F", None, None, "M"]


def test_labels_that_look_undisclosed_are_undisclosed_and_counted():
    words = ["unknown", "N/A", "na", "None", "-", "--", "?", "Missing", "undisclosed", "Not specified"]
    table = make_attributes(pa.table({"x": ["F", "M", *words, "Prefer not to say", "unknown"]}), bins={})
    assert table["x"].labels == ("F", "M")
    assert table["x"].codes.tolist() == [0, 1] + [-1] * 12
    [note] = table.notes
    assert "x: 1 users labelled '-' and" in note
    assert "2 users labelled 'unknown'" in note
    assert all(f"'{word}'" in note for word in words)


@pytest.mark.parametrize(
    "label",
    ["Unknown ", "NOT_KNOWN", "not-known", "<NA>", "N.A.", "(none)", "'unknown'", "Refused to say", "Rather not say",
     "I prefer not to answer", "Declined to state", "don't know", "Don’t  know", "not provided", "#N/A"],
)  # fmt: skip
def test_ways_to_write_undisclosed(label):
    assert one(["F", "M", label]).labels == ("F", "M")


@pytest.mark.parametrize("label", ["other", "private", "declined", "notary", "A-", "known", "I", "no"])
def test_labels_that_only_look_like_it_are_classes(label):
    assert one(["F", "M", label]).labels == tuple(sorted(["F", "M", label]))


def test_a_named_label_that_nobody_has_is_told():
    named = {"keep_label": ["none", "nnoe"], "undisclosed": ["Unspec", "m"]}
    table = make_attributes(pa.table({"x": ["F", "M", "None", "G"]}), bins={}, **named)
    assert table["x"].labels == ("F", "G", "None")
    missing = [note for note in table.notes if "changed nothing" in note]
    assert [note.split("'")[1] for note in missing] == ["Unspec", "nnoe"]


def test_labels_are_kept_on_request_and_in_data_sets():
    assert one(["None", "doctor"], keep_label=["none"]).labels == ("None", "doctor")
    assert one(["none", "?"], keep_label=None).labels == ("?", "none")
    assert one([-1, 0, 1], keep_label=["-1"]).labels == ("-1", "0", "1")


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([-1, 0, 1, 0], ("0", "1")),
        ([18.0, 35.0, 9999.0, -1.0], ("18", "35")),
        (["18", "35", "999", "unknown"], ("18", "35")),
        ([1980, 2001, 9999, 999], ("999", "1980", "2001")),
        ([-1, 1], ("-1", "1")),
        ([-2, -1, 0, 1], ("-2", "-1", "0", "1")),
        (["a", "b", "-1"], ("a", "b")),
        (["a", "b", "9999", "3"], ("3", "a", "b")),
        (["a", "-1"], ("-1", "a")),
        ([1, 2, -9], ("1", "2")),
        ([1, 2, 99], ("1", "2")),
        ([18, 64, 99], ("18", "64", "99")),
        ([990, 999, 1200], ("990", "999", "1200")),
    ],
)
def test_numbers_are_undisclosed_where_they_stand_apart(values, labels):
    assert one(values).labels == labels


def test_a_label_alone():
    assert is_undisclosed_label(" N/A ")
    assert not is_undisclosed_label("-1")
    assert is_undisclosed_label("-1", ["-1", "0", "1"])
    assert not is_undisclosed_label("0", ["-1", "0", "1"])


def test_rows_may_stand_for_many_users():
    users = pa.table({"x": ["F", "M", "unknown"]})
    table = make_attributes(users, bins={}, keep=["x"], row_counts=np.array([5, 6, 1200]))
    assert "1,200 users labelled 'unknown'" in table.notes[0]


def test_codes_among_numbers_are_missing():
    np.testing.assert_array_equal(one([20, 30, 999, -1], numeric=["x"]).values, [20, 30, np.nan, np.nan])
    assert one(["20", "unknown", "50"], bins={"x": [35]}).codes.tolist() == [0, -1, 1]


def test_columns_that_are_left_out_are_noted():
    n = MAX_CLASSES + 1
    columns = {"zip": [f"z{i}" for i in range(n)], "income": np.arange(n) / 7, "tags": [["a"]] * n, "g": ["a"] * n}
    users = pa.table({**columns, "photo": pa.array([b"\xff"] * n)})
    table = make_attributes(users, bins={})
    assert list(table) == ["g"]
    notes = dict(note.split(" was left out: ") for note in table.notes)
    assert list(notes) == ["zip", "income", "tags", "photo"]
    assert "201 distinct values" in notes["zip"]
    assert "`bins`" in notes["income"]
    assert "list" in notes["tags"]
    assert "bytes" in notes["photo"]
    assert make_attributes(users, bins={}, keep=["g"]).notes == ()
    for name in ("tags", "photo"):
        with pytest.raises(DataError, match=f"The column '{name}' holds"):
            make_attributes(users, bins={}, keep=[name])


def test_large_numbers_stay_apart():
    assert one([1e20, 2e20, 1.0]).labels == ("1", "1e+20", "2e+20")
    assert len(one([2.0**53 + 2, 2.0**53 + 4, float("inf")]).labels) == 3


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        (["10", "9", "1"], ("1", "9", "10")),
        ([56, 1, 18], ("1", "18", "56")),
        ([25.0, float("nan"), 7.0], ("7", "25")),
        ([0.5, 1.0], ("0.5", "1")),
        (["10", "9", "a"], ("10", "9", "a")),
        ([True, False], ("false", "true")),
        (pa.array(["b", "a"]).dictionary_encode(), ("a", "b")),
        (pa.array([None, None], pa.string()), ()),
    ],
)
def test_labels_are_sorted_numerically_where_they_are_numbers(values, labels):
    assert one(values).labels == labels


def test_many_values_are_no_classes_unless_asked():
    users = pa.table({"zip": [str(i) for i in range(MAX_CLASSES + 1)], "g": ["a"] * (MAX_CLASSES + 1)})
    assert list(make_attributes(users, bins={})) == ["g"]
    assert len(make_attributes(users, bins={}, keep=["zip"])["zip"].labels) == MAX_CLASSES + 1


def test_lists_are_left_out():
    assert make_attributes(pa.table({"embedding": [[1.0], [2.0]]}), bins={}) == {}


def test_a_numeric_column_keeps_its_values():
    attribute = one(["1.5", None, "-2"], numeric=["x"])
    assert attribute.is_numeric
    np.testing.assert_array_equal(attribute.values, [1.5, np.nan, -2.0])
    assert attribute.known.tolist() == [True, False, True]


@settings(deadline=None)
@given(
    st.lists(st.one_of(st.just(np.nan), st.integers(0, 120).map(float)), min_size=1),
    st.lists(st.integers(1, 110), min_size=1, max_size=6, unique=True).map(sorted),
)
def test_bins_agree_with_their_labels(values, edges):
    attribute = cut_numbers("age", np.array(values), edges)
    for value, label in zip(values, decoded(attribute), strict=True):
        if np.isnan(value):
            assert label is None
        elif label.startswith("<"):
            assert value < float(label[1:])
        elif label.endswith("+"):
            assert value >= float(label[:-1])
        else:
            low, high = label.split("-") if "-" in label else (label, label)
            assert float(low) <= value <= float(high)
    assert (attribute.counts > 0).all()


def test_bin_labels():
    assert cut_numbers("age", np.array([1.0, 35, 44, 45]), [35, 45]).labels == ("<35", "35-44", "45+")
    assert cut_numbers("h", np.array([1.0, 1.6, 3]), [1.5, 2.5]).labels == ("<1.5", "1.5-2.5", "2.5+")


@pytest.mark.parametrize("edges", [[], [45, 35], [35, 35], [float("nan")]])
def test_edges_that_cannot_cut(edges):
    with pytest.raises(DataError, match="Cannot cut 'age'"):
        cut_numbers("age", np.array([1.0]), edges)


def test_words_are_no_numbers():
    with pytest.raises(DataError, match="'x' holds text that is not a number"):
        one(["1", "two"], numeric=["x"])


def test_a_column_that_is_not_there():
    with pytest.raises(DataError, match="no column 'income'. Their columns: x"):
        one(["1"], numeric=["income"])


def test_numbers_of_an_attribute():
    np.testing.assert_array_equal(convert_to_numbers(one([30, None, 7])), [30, np.nan, 7])
    assert convert_to_numbers(one(["20-30", "30-40"])) is None


def test_empty_classes_go():
    attribute = drop_empty_classes(Attribute("x", np.array([2, -1, 0, 2]), ("a", "b", "c")))
    assert attribute.labels == ("a", "c")
    assert attribute.codes.tolist() == [1, -1, 0, 1]


def test_joint_cells_are_the_combinations_that_occur() -> None:
    gender = Attribute("gender", np.array([0, 1, 1, -1, 0]), ("F", "M"))
    age = Attribute("age", np.array([1, 0, 1, 0, 1]), ("young", "old"))
    both = join_attributes([gender, age])
    assert both.name == "gender & age"
    assert both.labels == ("F & old", "M & young", "M & old")
    assert both.codes.tolist() == [0, 1, 2, -1, 0]


def test_forty_attributes_have_the_combinations_that_occur_and_too_many_are_refused():
    rng = np.random.default_rng(0)
    many = [Attribute(f"a{n}", rng.integers(0, 2, 12_000), ("x", "y")) for n in range(40)]
    few = join_attributes([a.take(np.arange(30)) for a in many])
    assert len(few.labels) == 30
    assert few.labels[few.codes[7]] == " & ".join(a.labels[a.codes[7]] for a in many)
    unknown = Attribute("u", np.full(30, -1), ("x",))
    assert join_attributes([few, unknown]).labels == ()
    with pytest.raises(UsageError, match="has 12,000 joint classes, and at most 10,000 are audited"):
        join_attributes(many)


def test_attributes_that_cannot_be_guessed_are_left_out_where_nobody_named_any():
    columns = {
        "sex": ["F", "M"] * 10,
        "constant": ["k"] * 20,
        "empty": [None] * 20,
        "names": [f"n{i}" for i in range(20)],
        "rare": ["a"] * 16 + ["b"] * 4,
        "year": [1990] * 20,
        "age": range(20),
    }
    columns = {
        name: pa.array(list(values), pa.string() if name == "empty" else None) for name, values in columns.items()
    }
    chosen, notes = select_auditable(make_attributes(pa.table(columns), bins={}, numeric=["year", "age"]))
    assert chosen == ["sex", "age"]
    assert [note.split(" ")[0] for note in notes] == ["constant", "empty", "names", "rare", "year"]
    assert "all users who disclose it have 'k'" in notes[0]
    assert "no two classes of 5 users" in notes[3]
