"""Randomized response: the lies are as frequent as epsilon says, and epsilon follows exactly from them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Dataset, Split
from recveil.data.synthetic import make_world
from recveil.defenses.data.ldp import LDP, _draw_indices, compute_epsilon
from recveil.metrics.ranking import collect_seen_items
from recveil.models.bprmf import BPRMF
from recveil.testing.contracts_data import check_data_defense


def told(train: Dataset, seed: int = 0, **options: float) -> Dataset:
    return LDP(**options)(train, ["gender"], rng=np.random.default_rng(seed))


def world() -> Dataset:
    leaks = {"gender": 2.0}
    return make_world(n_users=600, n_items=300, n_interactions=18_000, leaks=leaks, rng=make_generator(0, "t")).dataset


def test_it_keeps_the_contract() -> None:
    check_data_defense(LDP)


@given(st.floats(0.01, 12), st.floats(0.01, 1), st.floats(0.05, 1))
@settings(max_examples=200, deadline=None)
def test_no_answer_is_likelier_than_epsilon_allows(epsilon: float, keep: float, strength: float) -> None:
    """Both answers, both ways; at full strength the bound is reached."""
    defense = LDP(epsilon, keep=keep / (1 + math.exp(-epsilon)))
    stays, added = defense.flip_probabilities
    for a, b in ((stays, added), (1 - stays, 1 - added)):
        assert max(a, b) <= min(a, b) * math.exp(epsilon) * (1 + 1e-9)
    assert defense.epsilon_per_bit == pytest.approx(epsilon, rel=1e-6, abs=1e-9)
    assert replace(defense, strength=strength).epsilon_per_bit >= epsilon * (1 - 1e-9)


def test_without_keep_lies_are_equally_likely_both_ways() -> None:
    stays, added = LDP(3.0).flip_probabilities
    assert 1 - stays == pytest.approx(added)
    assert stays == pytest.approx(math.exp(3) / (1 + math.exp(3)))
    assert LDP(0.0).flip_probabilities == (0.5, 0.5)
    assert compute_epsilon(0.5, 0.5) == 0
    assert LDP(strength=0.0).epsilon_per_bit == math.inf
    assert compute_epsilon(0.3, 0.0) == math.inf


@pytest.mark.parametrize("options", [{}, {"epsilon": 2.0}, {"epsilon": 3.0, "keep": 0.5}, {"strength": 0.4}])
def test_lies_are_as_frequent_as_stated(options: dict[str, float]) -> None:
    train = world()
    before, after = (collect_seen_items(d).toarray() for d in (train, told(train, **options)))
    stays, added = LDP(**options).flip_probabilities
    for mine, chance in ((after[before == 1], stays), (after[before == 0], added)):
        assert mine.mean() == pytest.approx(chance, abs=4 * np.sqrt(chance * (1 - chance) / mine.size))
    # For each user and item alike, whatever the length of the profile or the item's popularity.
    new = (after > before).astype(float)
    for axis in (0, 1):
        room = (before == 0).sum(axis)
        z = (new.sum(axis) - added * room) / np.sqrt(added * (1 - added) * room)
        assert np.abs(z).max() < 5.5
        assert z.std() == pytest.approx(1, abs=0.2)


def test_measured_epsilon_matches() -> None:
    """From counts alone, without the two chances."""
    train = world()
    before, after = (collect_seen_items(d).toarray() for d in (train, told(train, epsilon=2.0)))
    found = compute_epsilon(after[before == 1].mean(), after[before == 0].mean())
    assert found == pytest.approx(2.0, abs=0.1)
    assert compute_epsilon(before[before == 1].mean(), before[before == 0].mean()) == math.inf


def test_chosen_are_independent_draws() -> None:
    for n, chance in ((50_000, 0.3), (50_000, 0.001), (1, 0.5), (0, 0.5), (10, 0.0), (10, 1.0)):
        mine = _draw_indices(n, chance, np.random.default_rng(0))
        assert np.array_equal(mine, np.unique(mine))
        assert not len(mine) or (mine[0] >= 0 and mine[-1] < n)
        assert abs(len(mine) - n * chance) <= 5 * np.sqrt(n * chance * (1 - chance))
    counts = [len(_draw_indices(40, 0.25, np.random.default_rng(s))) for s in range(2_000)]
    assert np.mean(counts) == pytest.approx(10, abs=0.25)
    assert np.var(counts) == pytest.approx(7.5, rel=0.15)
    last = [39 in _draw_indices(40, 0.25, np.random.default_rng(s)) for s in range(2_000)]
    assert np.mean(last) == pytest.approx(0.25, abs=0.04)  # the end is reached as often as the rest


def test_a_smaller_keep_keeps_profiles_sparse_at_the_same_epsilon() -> None:
    train = world()
    even, sparse = (told(train, epsilon=2.0, **keep) for keep in ({}, {"keep": 0.3}))
    assert LDP(2.0, keep=0.3).epsilon_per_bit == pytest.approx(LDP(2.0).epsilon_per_bit)
    assert len(even) > 1.5 * len(train)
    assert len(sparse) < 0.8 * len(train)


def test_classes_do_not_matter_and_the_empty_get_items_too() -> None:
    train = world()
    gender = train.attributes["gender"]
    hidden = replace(train, attributes={"gender": replace(gender, codes=np.full_like(gender.codes, UNDISCLOSED))})
    one, two = told(train), told(hidden)
    np.testing.assert_array_equal(one.item, two.item)
    some = train.take(train.user != 5)
    assert (told(some, epsilon=1.0).user == 5).sum() > 20
    assert len(LDP()(train, [], rng=np.random.default_rng(0))) > len(train)


def test_a_model_can_be_trained_on_what_is_told_even_where_users_are_left_with_nothing() -> None:
    train = world()
    out = told(train, epsilon=6.0, keep=0.02)
    assert len(np.unique(out.user)) < train.n_users
    rows = np.arange(0, len(train), 40)
    split = Split(out, train.take(rows), train.take(rows))
    model = BPRMF(embedding_size=4, epochs=2, device="cpu").fit(split, rng=np.random.default_rng(0))
    assert np.isfinite(model.user_vectors_).all()


def test_bad_options_are_refused() -> None:
    for options, message in (
        ({"epsilon": -1.0}, "'epsilon' of LDP is -1.0"),
        ({"epsilon": math.inf}, "'epsilon' of LDP is inf"),
        ({"keep": 0.0}, "'keep' of LDP is 0.0"),
        ({"epsilon": 1.0, "keep": 0.9}, "be at most 0.7311"),
        ({"strength": 2.0}, "'strength' of LDP is 2.0"),
    ):
        with pytest.raises(UsageError, match=message):
            LDP(**options)
