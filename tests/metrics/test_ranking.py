from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute, Dataset, Split
from recveil.metrics import ranking as r


def part(user: np.ndarray, item: np.ndarray, n_users: int, n_items: int) -> Dataset:
    return Dataset("tiny", user.astype(np.int64), item.astype(np.int64), None, np.arange(n_users), np.arange(n_items))


def random_world(seed: int, *, held_per_user: int = 1, levels: int = 4) -> tuple[np.ndarray, Split]:
    """Scores with many ties, and disjoint train, valid and test parts."""
    rng = np.random.default_rng(seed)
    n_users, n_items = 7, 12
    scores = rng.integers(0, levels, (n_users, n_items)).astype(np.float32)
    order = np.argsort(rng.random((n_users, n_items)), axis=1)
    users = np.arange(n_users)

    def columns(a: int, b: int) -> Dataset:
        return part(np.repeat(users, b - a), order[:, a:b].ravel(), n_users, n_items)

    return scores, Split(columns(0, 4), columns(4, 5), columns(5, 5 + held_per_user))


def simulated(scores: np.ndarray, split: Split, k: int, rounds: int = 4000) -> tuple[float, float, float]:
    """HR, NDCG and recall with ties broken by actual coins: the definition, slowly."""
    rng = np.random.default_rng(0)
    n_users = len(scores)
    seen = r.collect_seen_items(split.train, split.valid).toarray() > 0
    held = r.collect_seen_items(split.test).toarray() > 0
    total = np.zeros(3)
    for _ in range(rounds):
        shaken = np.where(seen, -np.inf, scores + 0.5 * rng.random(scores.shape))
        listed = np.argsort(-shaken, axis=1)[:, :k]
        hits = np.take_along_axis(held, listed, axis=1)
        gain = (hits / np.log2(np.arange(k) + 2)).sum(1)
        best = (1 / np.log2(np.arange(k) + 2))[: min(k, held[0].sum())].sum()
        total += [hits.any(1).mean(), (gain / best).mean(), (hits.sum(1) / held.sum(1)).mean()]
    assert n_users == len(held)
    return tuple(total / rounds)  # type: ignore[return-value]


@pytest.mark.thorough
@pytest.mark.parametrize("k", [1, 3, 6])
def test_one_held_out_item_agrees_with_breaking_ties_by_coins(k: int) -> None:
    scores, split = random_world(1)
    ranks = r.rank(lambda users: scores[users], split.test, r.collect_seen_items(split.train, split.valid))
    hr, ndcg, recall = simulated(scores, split, k)
    assert r.hit_rate(ranks, k).mean() == pytest.approx(hr, abs=0.015)
    assert r.ndcg(ranks, k).mean() == pytest.approx(ndcg, abs=0.015)
    assert r.recall(ranks, k).mean() == pytest.approx(recall, abs=0.015)


@pytest.mark.parametrize("k", [2, 4])
def test_several_held_out_items_agree_with_the_definition(k: int) -> None:
    scores, split = random_world(2, held_per_user=3, levels=1000)
    ranks = r.rank(lambda users: scores[users], split.test, r.collect_seen_items(split.train, split.valid))
    hr, ndcg, recall = simulated(scores, split, k, rounds=1)
    assert r.hit_rate(ranks, k).mean() == pytest.approx(hr)
    assert r.ndcg(ranks, k).mean() == pytest.approx(ndcg)
    assert r.recall(ranks, k).mean() == pytest.approx(recall)
    assert np.allclose(r.precision(ranks, k), r.recall(ranks, k) * 3 / k)


def test_several_tied_items_are_never_counted_in_the_models_favor() -> None:
    scores, split = random_world(3, held_per_user=3, levels=2)
    ranks = r.rank(lambda users: scores[users], split.test, r.collect_seen_items(split.train, split.valid))
    hr, ndcg, recall = simulated(scores, split, 3)
    assert r.hit_rate(ranks, 3).mean() <= hr + 0.01
    assert r.ndcg(ranks, 3).mean() == pytest.approx(ndcg, abs=0.015)
    assert r.recall(ranks, 3).mean() == pytest.approx(recall, abs=0.015)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_hit_rate_and_recall_rise_with_k_and_reach_one(seed: int, held: int) -> None:
    scores, split = random_world(seed, held_per_user=held)
    ranks = r.rank(lambda users: scores[users], split.test, r.collect_seen_items(split.train, split.valid))
    for measure in (r.hit_rate, r.recall):
        by_k = np.stack([measure(ranks, k) for k in range(1, 13)])
        assert (np.diff(by_k, axis=0) >= -1e-12).all()
        assert np.allclose(by_k[-1], 1.0)
        assert (by_k >= 0).all()


def test_a_model_without_an_opinion_has_the_hit_rate_of_chance() -> None:
    _, split = random_world(0)
    ranks = r.rank(
        lambda users: np.zeros((len(users), 12), np.float32), split.test, r.collect_seen_items(split.train, split.valid)
    )
    assert np.allclose(r.hit_rate(ranks, 3), 3 / 7)  # twelve items, five seen


@pytest.mark.parametrize("broken", ["all", "target", "others"])
def test_scores_that_are_not_numbers_never_help(broken: str) -> None:
    scores, split = random_world(5, levels=1000)
    scores = scores.copy()
    users, target = split.test.user, split.test.item
    if broken == "all":
        scores[:] = np.nan
    elif broken == "target":
        scores[users, target] = np.nan
    else:
        keep = scores[users, target]
        scores[:] = np.nan
        scores[users, target] = keep
    ranks = r.rank(lambda u: scores[u], split.test, r.collect_seen_items(split.train, split.valid))
    assert (r.hit_rate(ranks, 6) == 0).all()


def test_a_held_out_item_seen_before_is_still_ranked() -> None:
    train = part(np.array([0, 0]), np.array([1, 2]), 1, 4)
    again = part(np.array([0]), np.array([2]), 1, 4)
    ranks = r.rank(lambda u: np.array([[0.0, 9.0, 5.0, 7.0]], np.float32), again, r.collect_seen_items(train))
    assert ranks.better.tolist() == [1]  # item 3; item 1 is out of the list
    assert ranks.ties.tolist() == [0]


def test_blocks_and_the_fast_path_change_nothing() -> None:
    rng = np.random.default_rng(0)
    _, split = random_world(8, held_per_user=2)
    p, q = rng.standard_normal((7, 3)).astype(np.float32), rng.standard_normal((12, 3)).astype(np.float32)
    seen = r.collect_seen_items(split.train, split.valid)
    plain = r.rank(lambda users: p[users] @ q.T, split.test, seen)
    for other in (
        r.rank(lambda users: p[users] @ q.T, split.test, seen, block=1),
        r.rank(r.make_dot_scorer(p, q), split.test, seen, block=36),
    ):
        assert np.array_equal(plain.better, other.better)
        assert np.array_equal(plain.users, other.users)


def test_only_users_with_held_out_items_count() -> None:
    train = part(np.array([0, 1, 2]), np.array([0, 0, 0]), 3, 4)
    ranks = r.rank(
        lambda u: np.ones((len(u), 4), np.float32),
        part(np.array([2]), np.array([1]), 3, 4),
        r.collect_seen_items(train),
    )
    assert ranks.users.tolist() == [2]
    assert len(r.ndcg(ranks, 2)) == 1


def test_evaluate_leaves_the_validation_item_out_for_the_test_item_only() -> None:
    train = part(np.array([0]), np.array([0]), 1, 4)
    valid, test = part(np.array([0]), np.array([1]), 1, 4), part(np.array([0]), np.array([2]), 1, 4)
    scores = np.array([[9.0, 8.0, 7.0, 0.0]], np.float32)
    split = Split(train, valid, test)
    assert r.evaluate(lambda u: scores, split, ks=(1,))["hit_rate@1"].value == 1.0
    assert r.evaluate(lambda u: scores, split, part="valid", ks=(1,))["hit_rate@1"].value == 1.0
    with pytest.raises(UsageError, match="part is 'train'"):
        r.evaluate(lambda u: scores, split, part="train")


def test_scores_of_the_wrong_shape_are_refused() -> None:
    _, split = random_world(0)
    with pytest.raises(DataError, match=r"shape \(7, 3\) for 7 users and 12 items"):
        r.rank(lambda u: np.zeros((len(u), 3)), split.test, r.collect_seen_items(split.train))
    ranks = r.rank(lambda u: np.zeros((len(u), 12)), split.test, r.collect_seen_items(split.train))
    for measure in (r.ndcg, r.hit_rate):
        with pytest.raises(UsageError, match="k is 0"):
            measure(ranks, 0)


def test_intervals_cover_the_mean_and_know_their_n() -> None:
    rng = np.random.default_rng(0)
    estimates = [r.estimate_mean((rng.random(200) < 0.3).astype(float)) for _ in range(800)]
    assert all(e.n == 200 for e in estimates)
    assert np.mean([e.low <= 0.3 <= e.high for e in estimates]) == pytest.approx(0.95, abs=0.025)


def test_an_interval_is_no_point_where_nobody_was_hit() -> None:
    nobody = r.estimate_mean(np.zeros(100))
    assert nobody.low == 0.0
    assert 0.02 < nobody.high < 0.06
    everybody = r.estimate_mean(np.ones(100))
    assert everybody.high == 1.0
    assert everybody.low < 0.98
    one = r.estimate_mean(np.array([1.0]))
    assert (one.value, one.low, one.high, one.n) == (1.0, 0.0, 1.0, 1)
    assert np.isnan(r.estimate_mean(np.array([])).value)


def test_a_paired_difference_is_tighter_than_its_sides() -> None:
    rng = np.random.default_rng(0)
    before = rng.random(500)
    change = r.estimate_difference(before * 0.9, before)
    assert change.value == pytest.approx(-0.1 * before.mean())
    assert change.high < 0
    assert change.high - change.low < 0.2 * (r.estimate_mean(before).high - r.estimate_mean(before).low)
    with pytest.raises(UsageError, match="same users"):
        r.estimate_difference(before, before[:-1])


def test_classes_are_averaged_apart_without_undisclosed_users() -> None:
    gender = Attribute("gender", np.array([0, 1, -1, 1, 0]), ("f", "m"))
    found = r.estimate_by_class(np.array([0.2, 0.4, 0.6]), np.array([1, 2, 3]), gender)
    assert found["m"].value == pytest.approx(0.4)
    assert found["m"].n == 2
    assert found["f"].n == 0
