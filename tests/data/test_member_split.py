"""The three-way split: disjoint users, half members, and every loss counted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from recveil.core.errors import DataError
from recveil.core.types import Attribute, Dataset
from recveil.data.io.tables import build_dataset
from recveil.data.member_split import MemberSplit, split_three_ways
from recveil.data.synthetic import make_world


def world(n_users: int = 200) -> Dataset:
    return make_world(
        n_users=n_users,
        n_items=400,
        n_interactions=n_users * 30,
        leaks={"gender": 1.0},
        rng=np.random.default_rng(0),
    ).dataset


def raw_pairs(part: Dataset) -> set[tuple[int, int]]:
    return set(zip(part.user_ids[part.user].tolist(), part.item_ids[part.item].tolist(), strict=True))


@pytest.fixture(scope="module")
def data() -> Dataset:
    return world()


@pytest.fixture(scope="module")
def parts(data: Dataset) -> MemberSplit:
    return split_three_ways(data, rng=np.random.default_rng(1))


def test_nobody_sits_in_two_parts(parts: MemberSplit) -> None:
    ids = [part.user_ids.tolist() for part in (parts.item_part, parts.shadow.data, parts.target.data)]
    together = sum(ids, [])
    assert len(together) == len(set(together))
    assert max(map(len, ids)) - min(map(len, ids)) <= 1 + parts.filtered.users_emptied


def test_shadow_and_target_are_half_members(parts: MemberSplit) -> None:
    for side in (parts.shadow, parts.target):
        assert side.member.sum() == side.data.n_users // 2
        assert set(np.unique(side.members.user)) == set(np.flatnonzero(side.member))
        assert side.members.n_users == side.data.n_users


def test_every_item_has_a_vector_and_the_parts_share_one_numbering(parts: MemberSplit) -> None:
    assert set(parts.item_part.item.tolist()) == set(range(parts.item_part.n_items))
    for side in (parts.shadow, parts.target):
        np.testing.assert_array_equal(side.data.item_ids, parts.item_part.item_ids)
        assert side.data.item.max() < parts.item_part.n_items


def test_the_parts_hold_the_true_histories_and_attributes(data: Dataset, parts: MemberSplit) -> None:
    whole = raw_pairs(data)
    gender = data.attributes["gender"]
    for part in (parts.item_part, parts.shadow.data, parts.target.data):
        assert raw_pairs(part) <= whole
        np.testing.assert_array_equal(part.attributes["gender"].codes, gender.codes[part.user_ids])
        assert part.attributes["gender"].labels == gender.labels


def test_dropped_users_and_items_are_counted(data: Dataset, parts: MemberSplit) -> None:
    counts = np.bincount(data.user, minlength=data.n_users)
    kept = np.flatnonzero(counts >= 20)
    assert parts.filtered.users_short == (counts < 20).sum()
    remaining = [parts.item_part, parts.shadow.data, parts.target.data]
    assert parts.filtered.interactions == sum(map(len, remaining))
    assert parts.filtered.interactions + parts.filtered.interactions_absent == counts[kept].sum()
    assert parts.filtered.users + parts.filtered.users_emptied == len(kept)
    assert parts.filtered.users == sum(part.n_users for part in remaining)


def test_items_absent_from_the_item_part_go_and_nothing_else() -> None:
    # Each of 30 users has 20 common items and one that nobody else has: 20 users lose exactly that one.
    user = np.repeat(np.arange(30), 21)
    item = np.where(np.tile(np.arange(21), 30) < 20, np.tile(np.arange(21), 30), 20 + user)
    code = Attribute("a", np.arange(30) % 2, ("x", "y"))
    data = Dataset("tiny", user, item, None, np.arange(30), np.arange(50), {"a": code})
    parts = split_three_ways(data, rng=np.random.default_rng(0))
    assert parts.filtered.items_absent == 20
    assert parts.filtered.interactions_absent == 20
    assert len(parts.item_part) == 210
    assert len(parts.shadow.data) == len(parts.target.data) == 200
    assert parts.filtered.users_emptied == 0


def test_sequential_minimums_hold_for_items_too(data: Dataset) -> None:
    parts = split_three_ways(data, user_minimum=5, item_minimum=5, rng=np.random.default_rng(0))
    bought = np.zeros(data.n_items, dtype=int)
    for part in (parts.item_part, parts.shadow.data, parts.target.data):
        np.add.at(bought, part.item_ids[part.item], 1)
    assert (bought[parts.item_part.item_ids] >= 5).all()


def test_the_same_seed_gives_the_same_parts(data: Dataset, parts: MemberSplit) -> None:
    again = split_three_ways(data, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(again.target.member, parts.target.member)
    np.testing.assert_array_equal(again.target.data.user_ids, parts.target.data.user_ids)
    other = split_three_ways(data, rng=np.random.default_rng(2))
    assert other.target.data.user_ids.tolist() != parts.target.data.user_ids.tolist()


def test_too_few_users_are_refused() -> None:
    data = world(n_users=5)
    with pytest.raises(DataError, match="cannot be split in three"):
        split_three_ways(data, user_minimum=1, rng=np.random.default_rng(0))
    with pytest.raises(DataError, match="20"):
        split_three_ways(data.take(data.user < 1), rng=np.random.default_rng(0))


def test_digital_music_has_the_published_size(shared_data: Path) -> None:
    table = pyarrow.parquet.read_table(shared_data / "amazon-digital-music-cure4rec" / "interactions.parquet")
    parts = split_three_ways(build_dataset("music", table), rng=np.random.default_rng(0))
    kept = len(parts.shadow.data) + len(parts.target.data)
    assert parts.filtered.users + parts.filtered.users_emptied == 1835
    assert kept / (kept + parts.filtered.interactions_absent) == pytest.approx(0.44, abs=0.04)
