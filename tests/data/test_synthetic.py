"""Made-up worlds: their ceilings are theorems, and the worlds keep to them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recveil.core.errors import UsageError
from recveil.data.synthetic import (
    CLASS_SHARES,
    World,
    compute_bayes_accuracy,
    make_demo_world,
    make_world,
    place_class_means,
)


def small(seed: int = 0, **changes: object) -> World:
    settings = {"n_users": 600, "n_items": 200, "n_interactions": 12_000, "leaks": {"gender": 2.0, "handedness": 0.0}}
    return make_world(**{**settings, **changes}, rng=np.random.default_rng(seed))


def same(one: World, other: World) -> bool:
    a, b = one.dataset, other.dataset
    return all(
        x.tobytes() == y.tobytes() for x, y in ((a.user, b.user), (a.item, b.item), (a.time, b.time))
    ) and np.array_equal(one.taste, other.taste)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_without_a_leak_the_best_attack_is_at_chance_exactly(n_classes: int) -> None:
    assert compute_bayes_accuracy(n_classes, 0.0) == 1 / n_classes
    assert compute_bayes_accuracy(n_classes, 1e-7) == pytest.approx(1 / n_classes, abs=1e-6)


@given(st.floats(0, 6))
def test_two_classes_have_the_textbook_accuracy(distance: float) -> None:
    assert compute_bayes_accuracy(2, distance) == pytest.approx(stats.norm.cdf(distance / 2), abs=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_class_means_are_at_equal_distances_around_zero(n_classes: int) -> None:
    means = place_class_means(n_classes, 1.7)
    assert means.shape == (n_classes, n_classes - 1)
    np.testing.assert_allclose(means.mean(axis=0), 0, atol=1e-12)
    apart = np.linalg.norm(means[:, None] - means[None], axis=-1)
    np.testing.assert_allclose(apart[~np.eye(n_classes, dtype=bool)], 1.7)


@pytest.mark.parametrize("n_classes", [3, 4])
def test_the_formula_agrees_with_simulation(n_classes: int) -> None:
    rng = np.random.default_rng(0)
    means = place_class_means(n_classes, 1.5)
    codes = np.arange(200_000) % n_classes
    x = rng.standard_normal((200_000, n_classes - 1)) + means[codes]
    right = (x @ means.T).argmax(axis=1) == codes
    assert abs(right.mean() - compute_bayes_accuracy(n_classes, 1.5)) < 4 * np.sqrt(0.25 / 200_000)


def test_the_best_guess_from_the_taste_reaches_the_ceiling() -> None:
    world = make_world(
        n_users=20_000,
        n_items=20,
        n_interactions=40_000,
        leaks={"gender": 2.0, "age": 1.5},
        rng=np.random.default_rng(0),
    )
    first = 0
    for name, attribute in world.dataset.attributes.items():
        k = len(attribute.labels)
        means = place_class_means(k, {"gender": 2.0, "age": 1.5}[name])
        guess = (world.taste[:, first : first + k - 1] @ means.T).argmax(axis=1)
        recall = [(guess[attribute.codes == c] == c).mean() for c in range(k)]
        error = np.sqrt(sum(0.25 / n for n in attribute.counts)) / k
        assert abs(np.mean(recall) - world.bayes[name]) < 4 * error
        first += k - 1


def test_an_attribute_without_leak_moves_nothing() -> None:
    """Whatever the labels, the same tastes and the same interactions: they cannot tell anything of them."""
    usual = small()
    turned = small(shares={**CLASS_SHARES, "handedness": {"left": 0.9, "right": 0.1}})
    assert (usual.dataset.attributes["handedness"].codes != turned.dataset.attributes["handedness"].codes).any()
    assert same(usual, turned)
    assert usual.bayes["handedness"] == 0.5


def test_an_attribute_with_a_leak_changes_interactions() -> None:
    turned = small(shares={**CLASS_SHARES, "gender": {"F": 0.9, "M": 0.1}})
    assert not same(small(), turned)


def test_the_leak_reaches_the_interactions() -> None:
    """With a leak the mean item vector differs by class; without one it differs only by chance."""
    world = small(n_users=2000, n_interactions=40_000)
    data = world.dataset
    profile = np.zeros((data.n_users, world.item_vectors.shape[1]))
    np.add.at(profile, data.user, world.item_vectors[data.item])
    profile /= np.bincount(data.user)[:, None]
    smallest = {
        name: min(stats.ttest_ind(profile[a.codes == 0], profile[a.codes == 1]).pvalue)
        for name, a in data.attributes.items()
    }
    assert smallest["gender"] < 1e-20
    assert smallest["handedness"] > 1e-4


def test_the_world_is_as_large_as_asked_and_has_no_pair_twice() -> None:
    data = small().dataset
    assert (data.n_users, data.n_items, len(data)) == (600, 200, 12_000)
    assert len(np.unique(data.user * data.n_items + data.item)) == len(data)
    assert np.bincount(data.user).min() >= 5
    assert data.item.max() < 200
    assert data.user.dtype == data.item.dtype == data.time.dtype == np.int64


def test_rows_are_in_the_order_of_user_and_time() -> None:
    data = small().dataset
    assert (np.diff(data.user) >= 0).all()
    assert (np.diff(data.time)[np.diff(data.user) == 0] >= 0).all()


def test_popularity_and_activity_have_long_tails() -> None:
    data = small(n_interactions=20_000).dataset
    for counts in (np.bincount(data.item, minlength=data.n_items), np.bincount(data.user)):
        assert np.sort(counts)[-len(counts) // 5 :].sum() > 0.35 * counts.sum()


def test_shares_are_kept() -> None:
    gender = small(n_users=20_000, n_items=20, n_interactions=20_000).dataset.attributes["gender"]
    assert gender.labels == ("F", "M")
    assert gender.counts[0] / 20_000 == pytest.approx(CLASS_SHARES["gender"]["F"], abs=4 * np.sqrt(0.25 / 20_000))


def test_same_seed_same_bytes() -> None:
    assert same(small(3), small(3))
    assert not same(small(3), small(4))
    assert same(make_demo_world(0), make_demo_world(0))


@pytest.mark.parametrize("total", [600, 600 * 100])
def test_the_smallest_and_the_largest_world_are_exact(total: int) -> None:
    assert len(small(n_interactions=total).dataset) == total


def test_one_item_each_from_a_catalog_of_one() -> None:
    assert len(make_world(n_users=3, n_items=1, n_interactions=3, leaks={}, rng=np.random.default_rng(0)).dataset) == 3


def test_the_demo_world_has_its_documented_size_and_leaks() -> None:
    world = make_demo_world(0)
    assert (world.dataset.n_users, world.dataset.n_items, len(world.dataset)) == (3_000, 800, 150_000)
    assert world.bayes["gender"] > 0.75
    assert 0.5 < world.bayes["age"] < 0.75
    assert world.bayes["handedness"] == 0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_interactions": 10}, "between 600 and"),
        ({"n_interactions": 10**6}, "half of the items"),
        ({"leaks": {"gendre": 1.0}}, "Did you mean 'gender'"),
        ({"leaks": {"gender": -1.0}}, "0 or more"),
        ({"d": 1}, "use d=2 or more"),
    ],
)
def test_impossible_worlds_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        small(**changes)
