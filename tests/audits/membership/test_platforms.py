"""A platform serves both classes by the rules it names, and the newest item of everybody stays out of sight."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.audits.membership.platforms import (
    ServedPlatform,
    ServingPolicy,
    compare_nonmember_hits,
    defend_lists,
    factor_items,
    measure_hit_rates,
    train_and_serve,
    train_platform,
)
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset
from recveil.data.member_split import Parts, Side, three_way
from recveil.data.synthetic import make_world
from recveil.defenses.lists.popularity import Popularity
from recveil.models.als import ALS
from recveil.models.bprmf import BPRMF
from recveil.models.gru4rec import GRU4Rec
from recveil.models.itemknn import ItemKNN


@pytest.fixture(scope="module")
def parts() -> Parts:
    world = make_world(n_users=360, n_items=200, n_interactions=10_000, leaks={}, rng=np.random.default_rng(0))
    return three_way(world.dataset, user_minimum=10, rng=np.random.default_rng(1))


def small() -> ALS:
    return ALS(embedding_size=8, epochs=3, device="cpu")


def served(parts: Parts, policy: ServingPolicy, model: object = None, seed: int = 2) -> ServedPlatform:
    return train_and_serve(parts.target, model or small(), policy, None, rng=np.random.default_rng(seed))  # type: ignore[arg-type]


def overlaps(platform: ServedPlatform) -> np.ndarray:
    rows = zip(platform.watched.lists, platform.watched.histories, strict=True)
    return np.array([np.isin(listed, history).any() for listed, history in rows])


@pytest.mark.parametrize("nonmembers", ["fold-in", "popular"])
@pytest.mark.parametrize(
    ("seen", "members", "others"), [("excluded", False, False), ("kept", True, True), ("paper", True, False)]
)
def test_seen_items_are_listed_by_the_rule(
    parts: Parts, nonmembers: str, seen: str, members: bool, others: bool
) -> None:
    platform = served(parts, ServingPolicy(nonmembers, seen, k=20))
    found = overlaps(platform)
    assert (found[platform.member].mean() > 0.9) if members else not found[platform.member].any()
    assert (found[~platform.member].mean() > 0.9) if others else not found[~platform.member].any()


def test_the_newest_item_is_nowhere_but_held(parts: Parts) -> None:
    platform = served(parts, ServingPolicy(k=20))
    data = parts.target.data
    for user in range(data.n_users):
        mine = data.user == user
        in_order = data.item[mine][np.argsort(data.time[mine], kind="stable")]
        assert platform.watched.histories[user].tolist() == in_order[:-1].tolist()
        assert platform.held_out[user] == in_order[-1]


def test_popular_lists_are_counted_on_members_and_are_the_same_for_all_but_own_items(parts: Parts) -> None:
    platform = served(parts, ServingPolicy("popular", "kept", k=20))
    histories = [h for h, m in zip(platform.watched.histories, platform.member, strict=True) if m]
    counts = np.bincount(np.concatenate(histories), minlength=parts.target.data.n_items)
    np.testing.assert_array_equal(platform.popularity, counts)
    others = platform.watched.lists[~platform.member]
    assert (others == others[0]).all()
    assert counts[others[0]].min() >= np.sort(counts)[-20]
    without = served(parts, ServingPolicy("popular", "excluded", k=20))
    user = int(np.flatnonzero(~without.member)[0])
    left = [i for i in np.argsort(-counts, kind="stable") if i not in without.watched.histories[user]]
    assert counts[without.watched.lists[user]].tolist() == counts[left[:20]].tolist()


def test_an_exact_fold_in_serves_an_other_as_if_a_member_had_the_same_history(parts: Parts) -> None:
    """Twins, one a member and one not, get the same list from ALS: nothing but the fold-in could tell them apart."""
    data, member = parts.target.data, parts.target.member
    twin, other = int(np.flatnonzero(member)[0]), int(np.flatnonzero(~member)[0])
    mine = np.flatnonzero(data.user == twin)
    rows = np.concatenate([np.flatnonzero(data.user != other), mine])
    user = np.concatenate([data.user[data.user != other], np.full(len(mine), other)])
    doubled = Dataset(data.name, user, data.item[rows], data.time[rows], data.user_ids, data.item_ids)
    platform = train_and_serve(Side(doubled, member), small(), ServingPolicy(k=20), None, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(platform.watched.lists[twin], platform.watched.lists[other])


@pytest.mark.parametrize(
    "model",
    [BPRMF(embedding_size=4, epochs=2), ItemKNN(), GRU4Rec(hidden_size=8, epochs=1)],
    ids=["bprmf", "itemknn", "gru4rec"],
)
def test_every_kind_of_model_can_be_watched(parts: Parts, model: object) -> None:
    platform = served(parts, ServingPolicy(k=10), model)
    listed = platform.watched.lists[platform.watched.lists >= 0]
    assert len(listed) > 0.9 * platform.watched.lists.size
    assert (platform.popularity[listed] > 0).all()  # nothing that members never touched
    assert not overlaps(platform).any()


def test_who_touched_nothing_that_members_know_gets_the_charts() -> None:
    user = np.repeat(np.arange(6), 4)
    item = np.array([0, 1, 2, 3] * 5 + [6, 7, 8, 9])
    data = Dataset("stranger", user, item, None, np.arange(6), np.arange(10))
    side = Side(data, np.array([True, True, True, True, False, False]))
    platform = train_and_serve(side, small(), ServingPolicy(seen="kept", k=3), None, rng=np.random.default_rng(0))
    assert platform.watched.lists[5].tolist() == [0, 1, 2]


def test_same_seed_same_lists_and_item_vectors_of_the_asked_size(parts: Parts) -> None:
    lists = [
        served(parts, ServingPolicy(k=10), BPRMF(embedding_size=4, epochs=2), seed=7).watched.lists for _ in range(2)
    ]
    np.testing.assert_array_equal(*lists)
    vectors = factor_items(parts.item_part, small(), rng=np.random.default_rng(0))
    assert vectors.shape == (parts.item_part.n_items, 8)
    assert np.isfinite(vectors).all()


def test_scores_are_those_that_lists_are_made_of_and_unknown_items_have_none(parts: Parts) -> None:
    platform = train_platform(parts.target, small(), ServingPolicy(seen="kept", k=5), rng=np.random.default_rng(2))
    users = np.random.default_rng(3).permutation(parts.target.data.n_users)[:40]
    scores = platform.score(users)
    unknown = platform.popularity == 0
    assert np.isnan(scores[:, unknown]).all()
    assert np.isfinite(scores[:, ~unknown]).all()
    best = np.argsort(-np.where(unknown, -np.inf, scores), axis=1)[:, :5]
    np.testing.assert_array_equal(np.sort(best), np.sort(platform.serve_lists(None).watched.lists[users]))


def test_the_defense_changes_others_alone_and_costs_them(parts: Parts) -> None:
    before = served(parts, ServingPolicy(k=20))
    after = defend_lists(before, Popularity(100), rng=np.random.default_rng(3))
    np.testing.assert_array_equal(after.watched.lists[before.member], before.watched.lists[before.member])
    assert not overlaps(after).any()
    lost = compare_nonmember_hits(before, after)
    assert lost.value == pytest.approx(
        measure_hit_rates(after)["others"].value - measure_hit_rates(before)["others"].value
    )
    assert lost.high < 0
    assert measure_hit_rates(after)["members"] == measure_hit_rates(before)["members"]
    kept = defend_lists(served(parts, ServingPolicy(seen="kept", k=20)), Popularity(100), rng=np.random.default_rng(3))
    assert overlaps(kept)[~kept.member].mean() > 0.5  # one rule for both: members are shown their own items too


def test_what_cannot_be_served_is_said(parts: Parts) -> None:
    with pytest.raises(UsageError, match="No way to serve non-members is called 'foldin'. Did you mean 'fold-in'"):
        ServingPolicy("foldin")
    with pytest.raises(UsageError, match="No rule for seen items is called 'exclude'"):
        ServingPolicy(seen="exclude")
    with pytest.raises(UsageError, match="k is 0"):
        ServingPolicy(k=0)
    with pytest.raises(UsageError, match=r"Lists of 500 items were asked for, but the members touched \d+ items"):
        served(parts, ServingPolicy(k=500))
    empty = Dataset("gap", np.array([0, 0, 2, 2]), np.array([0, 1, 0, 1]), None, np.arange(3), np.arange(2))
    with pytest.raises(DataError, match="1 of 3 users of 'gap' have no history"):
        train_and_serve(
            Side(empty, np.array([True, False, True])), small(), ServingPolicy(k=1), None, rng=np.random.default_rng(0)
        )


def test_a_model_that_cannot_fold_in_is_said(parts: Parts) -> None:
    class Fixed(ItemKNN):
        fold_in = property()  # type: ignore[assignment]

    with pytest.raises(UsageError, match="Fixed cannot serve users it was not trained on"):
        served(parts, ServingPolicy(k=5), Fixed())
    assert served(parts, ServingPolicy("popular", k=5), Fixed()).watched.lists.shape[1] == 5
