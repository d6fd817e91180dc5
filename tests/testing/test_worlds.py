"""The tiny worlds have the answers they are said to have."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.metrics import balanced_accuracy_score
from sklearn.model_selection import cross_val_predict
from sklearn.tree import DecisionTreeClassifier

from recveil.core.errors import UsageError
from recveil.testing.worlds import (
    compute_bayes_accuracy,
    make_checkerboard,
    make_injected_label,
    make_inverted_leak,
    make_no_leak,
    make_planted_leak,
)


def attack(model: object, x: np.ndarray, codes: np.ndarray) -> float:
    return float(balanced_accuracy_score(codes, cross_val_predict(model, x, codes, cv=5)))


def standard_error(n: int) -> float:
    return float(np.sqrt(0.25 / n))


def test_the_checkerboard_is_solved_by_the_group_and_by_nothing_less() -> None:
    split = make_checkerboard(n_items=6, copies=2)
    train, n = split.train, split.train.n_users
    assert len(split.test) == len(split.valid) == n == 24
    seen = np.zeros((n, train.n_items), dtype=bool)
    seen[train.user, train.item] = True
    own = split.train.attributes["group"].codes[:, None] == (np.arange(12) // 6)[None]
    # Exactly two items of the own group are unseen, and no item of the other group was ever seen.
    held = np.zeros_like(seen)
    held[split.valid.user, split.valid.item] = True
    held[split.test.user, split.test.item] = True
    np.testing.assert_array_equal(own & ~seen, held)
    assert (held.sum(axis=1) == 2).all()
    assert not (seen & ~own).any()
    # Popularity tells nothing: all items occur equally often.
    assert len(set(np.bincount(train.item).tolist())) == 1
    with pytest.raises(UsageError, match="3 or more"):
        make_checkerboard(n_items=2)


@pytest.mark.parametrize(("classes", "size"), [(2, 1.0), (3, 1.5), (5, 2.0)])
def test_a_planted_leak_is_as_large_as_said(classes: int, size: float) -> None:
    n = 6000
    x, secret = make_planted_leak(n, 8, classes, size, rng=np.random.default_rng(0))
    assert x.shape == (n, 8)
    assert x.dtype == np.float32
    found = attack(LinearDiscriminantAnalysis(), x, secret.codes)
    assert abs(found - compute_bayes_accuracy(classes, size)) < 4 * standard_error(n)
    assert found > 1 / classes + 10 * standard_error(n)


@pytest.mark.parametrize("classes", [2, 4])
def test_no_leak_is_none(classes: int) -> None:
    x, secret = make_no_leak(4000, 6, classes, rng=np.random.default_rng(0))
    assert abs(attack(LinearDiscriminantAnalysis(), x, secret.codes) - 1 / classes) < 4 * standard_error(4000)


@pytest.mark.parametrize("classes", [2, 3])
def test_an_inverted_leak_has_equal_moments_and_turns_attackers_round(classes: int) -> None:
    x, secret = make_inverted_leak(600, 24, classes, rng=np.random.default_rng(0))
    for k in range(classes):
        part = x[secret.codes == k].astype(np.float64)
        np.testing.assert_allclose(part.mean(axis=0), 0, atol=1e-6)
        np.testing.assert_allclose(np.cov(part.T, bias=True), np.eye(24), atol=1e-5)
    for model in (LinearDiscriminantAnalysis(), QuadraticDiscriminantAnalysis()):
        assert attack(model, x, secret.codes) < 1 / classes - 4 * standard_error(600)


@pytest.mark.parametrize(
    ("kind", "finder"),
    [
        ("scale", QuadraticDiscriminantAnalysis()),
        ("parity", QuadraticDiscriminantAnalysis()),
        ("low-bits", DecisionTreeClassifier(random_state=0)),
    ],
)
def test_an_injected_label_is_found_but_not_by_a_line(kind: str, finder: object) -> None:
    x, secret = make_injected_label(kind, n=2000, d=8, rng=np.random.default_rng(0))
    assert x.dtype == np.float32
    assert attack(LinearDiscriminantAnalysis(), x, secret.codes) < 0.5 + 4 * standard_error(2000)
    assert attack(finder, x, secret.codes) > 0.7


def test_an_attacker_who_knows_the_rule_reads_parity_and_low_bits_without_error() -> None:
    x, secret = make_injected_label("parity", n=500, d=4, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(x[:, 0] * x[:, 1] > 0, secret.codes == 1)
    x, secret = make_injected_label("low-bits", n=500, d=4, step=2**-8, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(np.round(x[:, 0] * 2**9).astype(int) % 2, secret.codes)


def test_classes_are_of_equal_size_and_seeds_count() -> None:
    x, secret = make_planted_leak(10, 3, 3, 1.0, rng=np.random.default_rng(5))
    again, _ = make_planted_leak(10, 3, 3, 1.0, rng=np.random.default_rng(5))
    other, _ = make_planted_leak(10, 3, 3, 1.0, rng=np.random.default_rng(6))
    assert sorted(secret.counts.tolist()) == [3, 3, 4]
    assert x.tobytes() == again.tobytes() != other.tobytes()


def test_impossible_worlds_are_refused() -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="2 dimensions"):
        make_planted_leak(10, 1, 3, 1.0, rng=rng)
    with pytest.raises(UsageError, match="more than d"):
        make_inverted_leak(20, 10, 2, rng=rng)
    with pytest.raises(UsageError, match="Did you mean 'parity'"):
        make_injected_label("partiy", n=10, d=2, rng=rng)
