import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.core.types import Attribute, Dataset
from recveil.data.cleaning import (
    AGE3_EDGES,
    AGE7_EDGES,
    Cleaning,
    add_age_bands,
    clean_dataset,
    drop_duplicates,
    filter_ratings,
    k_core,
    mask_implausible_ages,
    renumber_ids,
)
from recveil.data.io.tables import RawTables

PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, max_size=60)


def world(pairs, *, times=None, attributes=None):
    user, item = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    time = None if times is None else np.array(times)
    return Dataset("d", user, item, time, np.arange(100, 108), np.arange(200, 208), attributes or {})


def raw_pairs(dataset):
    return list(zip(dataset.user_ids[dataset.user].tolist(), dataset.item_ids[dataset.item].tolist(), strict=True))


@settings(deadline=None)
@given(PAIRS)
def test_duplicates_go_and_the_first_stays(pairs):
    kept = drop_duplicates(world(pairs))
    assert list(zip(kept.user, kept.item, strict=True)) == list(dict.fromkeys(pairs))


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 3)), min_size=1))
def test_the_earliest_of_duplicates_stays_the_first_row_among_equals(rows):
    dataset = world([row[:2] for row in rows], times=[row[2] for row in rows])
    best = {}
    for number, (user, item, time) in enumerate(rows):
        best[user, item] = min(best.get((user, item), (time, number)), (time, number))
    expected = sorted(number for _, number in best.values())
    kept = drop_duplicates(dataset)
    assert kept.user.tolist() == [rows[n][0] for n in expected]
    assert kept.time.tolist() == [rows[n][2] for n in expected]


def peel(pairs, user_core, item_core):
    """One user or item at a time, in no clever order: the fixed point must be the same."""
    pairs = set(pairs)
    while True:
        short = [("u", u) for u in {u for u, _ in pairs} if sum(a == u for a, _ in pairs) < user_core]
        short += [("i", i) for i in {i for _, i in pairs} if sum(b == i for _, b in pairs) < item_core]
        if not short:
            return pairs
        side, gone = max(short)
        pairs = {(u, i) for u, i in pairs if (u if side == "u" else i) != gone}


@settings(deadline=None)
@given(PAIRS.map(lambda pairs: list(dict.fromkeys(pairs))), st.integers(0, 3), st.integers(0, 3))
def test_the_core_is_the_one_that_peeling_leaves(pairs, user_core, item_core):
    left = peel(pairs, user_core, item_core)
    if not left:
        with pytest.raises(DataError, match="Nothing is left of 'd'"):
            k_core(world(pairs), user_core=user_core, item_core=item_core)
        return
    core = k_core(world(pairs), user_core=user_core, item_core=item_core)
    assert raw_pairs(core) == [(u + 100, i + 200) for u, i in pairs if (u, i) in left]
    assert np.bincount(core.user).min() >= max(user_core, 1)
    assert np.bincount(core.item).min() >= max(item_core, 1)


def test_one_round_of_removing_is_not_enough():
    # User 1 has two items until item 1, which only she has, is gone.
    pairs = [(0, 0), (0, 2), (2, 0), (2, 2), (1, 0), (1, 1)]
    core = k_core(world(pairs), user_core=2, item_core=2)
    assert set(raw_pairs(core)) == {(100, 200), (100, 202), (102, 200), (102, 202)}


@settings(deadline=None)
@given(PAIRS)
def test_compacting_leaves_nobody_without_an_interaction(pairs):
    attribute = Attribute("g", np.arange(8) % 3 - 1, ("a", "b"))
    dataset = world(pairs, attributes={"g": attribute})
    small = renumber_ids(dataset)
    assert raw_pairs(small) == raw_pairs(dataset)
    assert small.n_users == len({u for u, _ in pairs})
    assert small.n_items == len({i for _, i in pairs})
    before = {100 + u: attribute.labels[c] if c >= 0 else None for u, c in enumerate(attribute.codes)}
    new = small.attributes["g"]
    after = [new.labels[c] if c >= 0 else None for c in new.codes]
    assert after == [before[user] for user in small.user_ids]
    assert (new.counts > 0).all()


def test_without_a_threshold_every_interaction_counts():
    table = pa.table({"user_id": [1, 1, 2], "item_id": [1, 2, 1], "rating": [1, None, 5]})
    assert filter_ratings(table, None, "d").num_rows == 3
    assert filter_ratings(table, 1, "d").num_rows == 2
    assert filter_ratings(table, 4, "d").column("user_id").to_pylist() == [2]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pa.table({"user_id": [1]}), "has no ratings"),
        (pa.table({"rating": ["good"]}), "not numbers"),
        (pa.table({"rating": [1]}), "rated 4 or more"),
    ],
)
def test_thresholds_that_cannot_be_used(table, says):
    with pytest.raises(DataError, match=says):
        filter_ratings(table, 4, "d")


def test_the_threshold_comes_before_the_duplicates():
    table = pa.table({"user_id": [1, 1], "item_id": [1, 1], "rating": [2, 5], "timestamp": [1, 2]})
    assert clean_dataset(RawTables(table), "d", Cleaning(min_rating=4)).time.tolist() == [2]
    assert clean_dataset(RawTables(table), "d").time.tolist() == [1]


def test_movielens_band_codes_map_directly():
    codes = [1, 18, 25, 35, 45, 50, 56]
    users = pa.table({"user_id": range(7), "age": codes})
    dataset = clean_dataset(RawTables(pa.table({"user_id": range(7), "item_id": [0] * 7}), users), "d")
    assert dataset.attributes["age7"].codes.tolist() == list(range(7))
    assert dataset.attributes["age7"].labels == ("<18", "18-24", "25-34", "35-44", "45-49", "50-55", "56+")
    assert dataset.attributes["age3"].codes.tolist() == [0, 0, 0, 1, 2, 2, 2]
    assert dataset.attributes["age3"].labels == ("<35", "35-44", "45+")


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(5, 99)), min_size=1, max_size=20))
def test_years_are_cut_like_the_bands(years):
    users = pa.table({"user_id": range(len(years)), "age": pa.array(years, pa.int64())})
    dataset = clean_dataset(
        RawTables(pa.table({"user_id": range(len(years)), "item_id": [0] * len(years)}), users), "d"
    )
    if all(year is None or year < 18 for year in years):
        assert "age3" not in dataset.attributes
        return
    for name, edges in (("age3", AGE3_EDGES), ("age7", AGE7_EDGES)):
        band = dataset.attributes[name]
        low = [None if code < 0 else band.labels[code] for code in band.codes]
        for year, label in zip(years, low, strict=True):
            assert (label is None) == (year is None)
            if year is not None:
                below = [edge for edge in edges if edge <= year]
                assert label.startswith(f"{below[-1]}") if below else label == f"<{edges[0]}"


@pytest.mark.parametrize("ages", [["20-30", "30-40"], [0, 1], [None, None]])
def test_ages_that_are_not_years_make_no_bands(ages):
    users = pa.table({"user_id": [1, 2], "age": ages})
    dataset = clean_dataset(RawTables(pa.table({"user_id": [1, 2], "item_id": [1, 1]}), users), "d")
    assert set(dataset.attributes) == {"age"}
    assert add_age_bands(dataset) is dataset


def test_implausible_ages_are_unknown():
    users = pa.table({"user_id": range(6), "age": [-1, 4, 5, 100, 239, None]})
    assert mask_implausible_ages(users).column("age").to_pylist() == [None, None, 5, 100, None, None]
    assert mask_implausible_ages(pa.table({"user_id": [1]})).column_names == ["user_id"]
