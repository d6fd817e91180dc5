"""Reference models: each user in half of them, members of the target never looked at, and a leak that they find."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership.reference_attacks import REFERENCED
from recveil.audits.membership.platforms import ServingPolicy, TrainedPlatform, train_platform
from recveil.audits.membership.references import ReferenceModels, draw_halves, find_shared_items
from recveil.core.errors import DataError, UsageError
from recveil.data.member_split import Parts, Side, three_way
from recveil.data.synthetic import make_world
from recveil.models.als import ALS

POLICY = ServingPolicy(k=10)


@pytest.fixture(scope="module")
def parts() -> Parts:
    world = make_world(n_users=360, n_items=100, n_interactions=9_000, leaks={}, rng=np.random.default_rng(0))
    return three_way(world.dataset, user_minimum=10, rng=np.random.default_rng(1))


def small() -> ALS:
    return ALS(embedding_size=16, epochs=4, device="cpu")


def platform(side: Side) -> TrainedPlatform:
    return train_platform(side, small(), POLICY, rng=np.random.default_rng(2))


def test_everybody_is_in_half_of_the_models_and_models_differ() -> None:
    inside = draw_halves(200, 8, np.random.default_rng(0))
    assert (inside.sum(1) == 4).all()
    assert len(np.unique(inside, axis=1).T) == 8
    assert 70 < inside.sum(0).min() < inside.sum(0).max() < 130


@pytest.mark.parametrize("signal", ["rank-percentile", "log-odds", "bpr-margin"])
def test_who_was_trained_on_is_found_and_a_random_half_is_not(parts: Parts, signal: str) -> None:
    target = platform(parts.target)
    seen = ReferenceModels(8, signal).evidence(parts.target, target, small, rng=np.random.default_rng(3))
    member = parts.target.member
    random = np.random.default_rng(4).permuted(member)
    for attack in REFERENCED.values():
        score = attack().score(seen)
        assert roc_auc_score(member, score) > 0.8
        assert abs(roc_auc_score(random, score) - 0.5) < 3 * np.sqrt((len(member) + 1) / (3 * len(member) ** 2))


def test_without_a_difference_nothing_is_found(parts: Parts) -> None:
    """The target had everybody; who is called a member is chance."""
    everybody = Side(parts.target.data, np.ones(len(parts.target.member), bool))
    seen = ReferenceModels(8).evidence(parts.target, platform(everybody), small, rng=np.random.default_rng(3))
    n = len(parts.target.member)
    for attack in REFERENCED.values():
        area = roc_auc_score(parts.target.member, attack().score(seen))
        assert abs(area - 0.5) < 3 * np.sqrt((n + 1) / (3 * n**2))


def test_who_is_a_member_is_not_looked_at(parts: Parts) -> None:
    target = platform(parts.target)
    stranger = Side(parts.target.data, ~parts.target.member)
    seen, again = (
        ReferenceModels(4).evidence(side, target, small, rng=np.random.default_rng(5))
        for side in (parts.target, stranger)
    )
    np.testing.assert_array_equal(seen.signal, again.signal)
    np.testing.assert_array_equal(seen.observed, again.observed)


def test_only_items_that_every_model_knows_are_looked_at(parts: Parts) -> None:
    data = parts.target.data
    rare = replace(data, item=np.where(data.user == 0, data.n_items - 1, data.item))  # one user alone has that one
    rare = rare.take((rare.user == 0) | (rare.item != data.n_items - 1))
    side = Side(rare, np.arange(data.n_users) % 2 == 0)
    target = platform(side)
    inside = draw_halves(data.n_users, 4, np.random.default_rng(0))
    assert not find_shared_items(target, inside)[-1]
    seen = ReferenceModels(4).evidence(side, target, small, rng=np.random.default_rng(0))
    assert 0 not in seen.user
    assert seen.inside.shape == (data.n_users, 4)
    assert np.isfinite(seen.signal).all()
    lonely = replace(data, user=np.arange(6).repeat(3), item=np.arange(18), time=None, user_ids=np.arange(6))
    alone = Side(lonely, np.arange(6) % 2 == 0)
    with pytest.raises(DataError, match="No item is known to the target and to all reference models"):
        ReferenceModels(4).evidence(
            alone,
            train_platform(alone, small(), ServingPolicy(k=1), rng=np.random.default_rng(0)),
            small,
            rng=np.random.default_rng(0),
        )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 3}, "3 reference models were asked for. An even number of 4 or more"),
        ({"n": 2}, "An even number of 4 or more"),
        ({"signal": "rank"}, "No signal is called 'rank'"),
    ],
)
def test_bad_options_are_said(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ReferenceModels(**options)  # type: ignore[arg-type]


def test_charts_have_no_scores_to_compare() -> None:
    with pytest.raises(UsageError, match="Serve by fold-in"):
        ReferenceModels().check(ServingPolicy("popular"))
