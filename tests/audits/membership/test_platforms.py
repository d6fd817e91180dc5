"""A platform serves both classes by its policy, and the newest item of every user is held out."""

from __future__ import annotations

from dataclasses import replace

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
from recveil.data.member_split import MemberPart, MemberSplit, split_three_ways
from recveil.data.synthetic import make_world
from recveil.defenses.lists.popularity import Popularity
from recveil.models.als import ALS
from recveil.models.bprmf import BPRMF
from recveil.models.dp_cov import PrivateCovariance
from recveil.models.gru4rec import GRU4Rec
from recveil.models.itemknn import ItemKNN


@pytest.fixture(scope="module")
def split() -> MemberSplit:
    world = make_world(n_users=360, n_items=200, n_interactions=10_000, leaks={}, rng=np.random.default_rng(0))
    return split_three_ways(world.dataset, user_minimum=10, rng=np.random.default_rng(1))


def make_small_model() -> ALS:
    return ALS(embedding_size=8, epochs=3, device="cpu")


def serve(split: MemberSplit, policy: ServingPolicy, model: object = None, seed: int = 2) -> ServedPlatform:
    return train_and_serve(split.target, model or make_small_model(), policy, None, rng=np.random.default_rng(seed))  # type: ignore[arg-type]


def find_overlaps(platform: ServedPlatform) -> np.ndarray:
    rows = zip(platform.watched.lists, platform.watched.histories, strict=True)
    return np.array([np.isin(listed, history).any() for listed, history in rows])


@pytest.mark.parametrize("nonmembers", ["fold-in", "popular"])
@pytest.mark.parametrize(
    ("seen", "members", "others"), [("excluded", False, False), ("kept", True, True), ("paper", True, False)]
)
def test_seen_items_are_listed_by_the_rule(
    split: MemberSplit, nonmembers: str, seen: str, members: bool, others: bool
) -> None:
    platform = serve(split, ServingPolicy(nonmembers, seen, k=20))
    found = find_overlaps(platform)
    assert (found[platform.member].mean() > 0.9) if members else not found[platform.member].any()
    assert (found[~platform.member].mean() > 0.9) if others else not found[~platform.member].any()


def test_the_newest_item_is_held_out(split: MemberSplit) -> None:
    platform = serve(split, ServingPolicy(k=20))
    data = split.target.data
    for user in range(data.n_users):
        mine = data.user == user
        in_order = data.item[mine][np.argsort(data.time[mine], kind="stable")]
        assert platform.watched.histories[user].tolist() == in_order[:-1].tolist()
        assert platform.held_out[user] == in_order[-1]


def test_popular_lists_are_counted_on_members_and_equal_up_to_seen_items(split: MemberSplit) -> None:
    platform = serve(split, ServingPolicy("popular", "kept", k=20))
    histories = [h for h, m in zip(platform.watched.histories, platform.member, strict=True) if m]
    counts = np.bincount(np.concatenate(histories), minlength=split.target.data.n_items)
    np.testing.assert_array_equal(platform.popularity, counts)
    others = platform.watched.lists[~platform.member]
    assert (others == others[0]).all()
    assert counts[others[0]].min() >= np.sort(counts)[-20]
    without = serve(split, ServingPolicy("popular", "excluded", k=20))
    user = int(np.flatnonzero(~without.member)[0])
    left = [i for i in np.argsort(-counts, kind="stable") if i not in without.watched.histories[user]]
    assert counts[without.watched.lists[user]].tolist() == counts[left[:20]].tolist()


def test_an_exact_fold_in_serves_twins_alike(split: MemberSplit) -> None:
    """Twins, one a member and one not, get the same list from ALS: nothing but the fold-in could tell them apart."""
    data, member = split.target.data, split.target.member
    twin, other = int(np.flatnonzero(member)[0]), int(np.flatnonzero(~member)[0])
    mine = np.flatnonzero(data.user == twin)
    rows = np.concatenate([np.flatnonzero(data.user != other), mine])
    user = np.concatenate([data.user[data.user != other], np.full(len(mine), other)])
    doubled = Dataset(data.name, user, data.item[rows], data.time[rows], data.user_ids, data.item_ids)
    platform = train_and_serve(
        MemberPart(doubled, member), make_small_model(), ServingPolicy(k=20), None, rng=np.random.default_rng(0)
    )
    np.testing.assert_array_equal(platform.watched.lists[twin], platform.watched.lists[other])


@pytest.mark.parametrize(
    "model",
    [BPRMF(embedding_size=4, epochs=2), ItemKNN(), GRU4Rec(hidden_size=8, epochs=1)],
    ids=["bprmf", "itemknn", "gru4rec"],
)
def test_every_kind_of_model_can_be_served(split: MemberSplit, model: object) -> None:
    platform = serve(split, ServingPolicy(k=10), model)
    listed = platform.watched.lists[platform.watched.lists >= 0]
    assert len(listed) > 0.9 * platform.watched.lists.size
    assert (platform.popularity[listed] > 0).all()  # only items of members
    assert not find_overlaps(platform).any()


def test_users_without_a_known_item_get_popular_items() -> None:
    user = np.repeat(np.arange(6), 4)
    item = np.array([0, 1, 2, 3] * 5 + [6, 7, 8, 9])
    data = Dataset("stranger", user, item, np.arange(24), np.arange(6), np.arange(10))
    side = MemberPart(data, np.array([True, True, True, True, False, False]))
    platform = train_and_serve(
        side, make_small_model(), ServingPolicy(seen="kept", k=3), None, rng=np.random.default_rng(0)
    )
    assert platform.watched.lists[5].tolist() == [0, 1, 2]


def test_the_same_seed_gives_the_same_lists(split: MemberSplit) -> None:
    lists = [
        serve(split, ServingPolicy(k=10), BPRMF(embedding_size=4, epochs=2), seed=7).watched.lists for _ in range(2)
    ]
    np.testing.assert_array_equal(*lists)
    vectors = factor_items(split.item_part, make_small_model(), rng=np.random.default_rng(0))
    assert vectors.shape == (split.item_part.n_items, 8)
    assert np.isfinite(vectors).all()


def test_lists_are_made_of_the_scores_and_unknown_items_have_none(split: MemberSplit) -> None:
    platform = train_platform(
        split.target, make_small_model(), ServingPolicy(seen="kept", k=5), rng=np.random.default_rng(2)
    )
    users = np.random.default_rng(3).permutation(split.target.data.n_users)[:40]
    scores = platform.score(users)
    unknown = platform.popularity == 0
    assert np.isnan(scores[:, unknown]).all()
    assert np.isfinite(scores[:, ~unknown]).all()
    best = np.argsort(-np.where(unknown, -np.inf, scores), axis=1)[:, :5]
    np.testing.assert_array_equal(np.sort(best), np.sort(platform.serve_lists(None).watched.lists[users]))


def test_the_defense_changes_non_members_alone_and_costs_them(split: MemberSplit) -> None:
    before = serve(split, ServingPolicy(k=20))
    after = defend_lists(before, Popularity(100), rng=np.random.default_rng(3))
    np.testing.assert_array_equal(after.watched.lists[before.member], before.watched.lists[before.member])
    assert not find_overlaps(after).any()
    change, hits, hits_before = (
        compare_nonmember_hits(before, after),
        measure_hit_rates(after),
        measure_hit_rates(before),
    )
    assert change.value == pytest.approx(hits.non_members.value - hits_before.non_members.value)
    assert change.high < 0
    assert hits.members == hits_before.members
    kept = defend_lists(serve(split, ServingPolicy(seen="kept", k=20)), Popularity(100), rng=np.random.default_rng(3))
    assert find_overlaps(kept)[~kept.member].mean() > 0.5  # one rule for both: members are shown seen items too


def test_policies_that_cannot_be_served_are_refused(split: MemberSplit) -> None:
    with pytest.raises(UsageError, match="No way to serve non-members is called 'foldin'. Did you mean 'fold-in'"):
        ServingPolicy("foldin")
    with pytest.raises(UsageError, match="No rule for seen items is called 'exclude'"):
        ServingPolicy(seen="exclude")
    with pytest.raises(UsageError, match="`k` is 0"):
        ServingPolicy(k=0)
    with pytest.raises(
        UsageError, match=r"Lists of 500 items were asked for, but the histories of members hold \d+ items"
    ):
        serve(split, ServingPolicy(k=500))
    empty = Dataset("gap", np.array([0, 0, 2, 2]), np.array([0, 1, 0, 1]), None, np.arange(3), np.arange(2))
    with pytest.raises(DataError, match="1 of 3 users of 'gap' have no history"):
        train_and_serve(
            MemberPart(empty, np.array([True, False, True])),
            make_small_model(),
            ServingPolicy(k=1),
            None,
            rng=np.random.default_rng(0),
        )


def test_models_without_fold_in_serve_popular_items_only(split: MemberSplit) -> None:
    class NoFoldIn:
        """A model that scores members alone."""

        def __init__(self) -> None:
            self.model = make_small_model()
            self.fit, self.score = self.model.fit, self.model.score

    with pytest.raises(UsageError, match="NoFoldIn cannot serve users it was not trained on"):
        serve(split, ServingPolicy(k=5), NoFoldIn())
    assert serve(split, ServingPolicy("popular", k=5), NoFoldIn()).watched.lists.shape[1] == 5


def test_a_private_model_names_only_released_items_and_serves_twins_alike() -> None:
    world = make_world(n_users=400, n_items=60, n_interactions=8_000, leaks={}, rng=np.random.default_rng(0)).dataset
    member = np.arange(world.n_users) % 2 == 0
    platform = train_platform(
        MemberPart(world, member),
        PrivateCovariance(epsilon=4.0, noise_seed=0, recency=1.0),
        ServingPolicy(k=40, seen="kept"),
        rng=np.random.default_rng(0),
    )
    assert isinstance(platform.model, PrivateCovariance)
    released = np.flatnonzero(platform.popularity)[platform.model.released_items_]
    lists = platform.serve_lists(None).watched.lists
    assert 0 < len(released) < 60
    assert {*np.unique(lists[lists >= 0])} <= {*released}
    twin, original = 1, 0  # a non-member with the history of a member
    history = platform.history.item[platform.history.user == original]
    rows = [np.flatnonzero(np.flatnonzero(platform.popularity) == item)[0] for item in history]
    copied = platform.model.score(np.array([twin]), platform.model.fold_in([np.array(rows)]))
    assert np.allclose(copied, platform.score_members(np.array([0])), atol=1e-6)


def test_a_private_model_serves_strangers_with_items_that_it_released_and_not_by_exact_counts() -> None:
    rng = np.random.default_rng(0)
    world = make_world(n_users=300, n_items=40, n_interactions=6_000, leaks={}, rng=rng).dataset
    strange = world.user == 299
    data = replace(world, item=np.where(strange, 40, world.item), item_ids=np.arange(41))
    model = PrivateCovariance(epsilon=20.0, noise_seed=0)
    platform = train_platform(MemberPart(data, np.arange(300) < 290), model, ServingPolicy(k=5), rng=rng)
    scores = platform.score(np.array([299]))[0, platform.is_known]
    expected = model.score(np.array([0]), model.fold_in([np.array([], dtype=np.int64)]))[0, model.released_items_]
    assert np.array_equal(scores, expected)


def test_users_who_have_seen_all_released_items_get_them_again() -> None:
    world = make_world(n_users=400, n_items=60, n_interactions=8_000, leaks={}, rng=np.random.default_rng(0)).dataset
    model = PrivateCovariance(epsilon=100.0, noise_seed=0, head_items=2)
    part = MemberPart(world, np.arange(world.n_users) % 2 == 0)
    platform = train_platform(part, model, ServingPolicy(k=5), rng=np.random.default_rng(0))
    released = {*np.flatnonzero(platform.popularity)[model.released_items_]}
    watched = platform.serve_lists(None).watched
    listed = [{*row[row >= 0]} for row in watched.lists]
    unseen = [released - {*history} for history in watched.histories]
    assert listed == [items or released for items in unseen]
    assert 0 < sum(not items for items in unseen) < len(unseen)


def test_without_times_the_order_of_the_rows_decides_nothing() -> None:
    rng = np.random.default_rng(3)
    user, item = np.unique(rng.integers((30, 25), size=(400, 2)), axis=0).T
    data = Dataset("no times", user, item, None, np.arange(30), np.arange(25))
    member = np.arange(30) % 2 == 0
    platforms = [
        train_and_serve(
            MemberPart(data.take(rows), member),
            make_small_model(),
            ServingPolicy(k=5),
            None,
            rng=np.random.default_rng(0),
        )
        for rows in (np.arange(len(user)), rng.permutation(len(user)))
    ]
    np.testing.assert_array_equal(platforms[0].held_out, platforms[1].held_out)
    np.testing.assert_array_equal(platforms[0].watched.lists, platforms[1].watched.lists)
    last = dict(zip(user, item, strict=True))
    assert np.mean([platforms[0].held_out[u] == last[u] for u in range(30)]) < 0.5  # no place in the file is favored
