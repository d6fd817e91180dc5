"""Boosted trees: those of scikit-learn, on bins that are made once."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from recveil.attacks.attribute.boosting import BoostedTrees
from recveil.attacks.attribute.classic import assign_bins, compute_bin_edges
from recveil.attacks.attribute.tasks import Task
from recveil.core.types import FloatArray, IntArray
from recveil.testing.worlds import make_injected_label, make_planted_leak


def test_boosted_trees_see_a_parity() -> None:
    x, secret = make_injected_label("parity", n=1600, d=2, rng=np.random.default_rng(0))
    assert (_guess_half(x, secret.codes).argmax(1) == secret.codes[800:]).mean() > 0.9


def test_boosted_trees_guess_a_rare_class_too() -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [1800, 200]))
    x = rng.standard_normal((2000, 2)) + y[:, None] * [1.0, 0]
    assert (_guess_half(x, y).argmax(1)[y[1000:] == 1] == 1).mean() > 0.35


@pytest.mark.parametrize("K", [2, 3])
def test_boosted_trees_are_those_of_scikit_learn_on_the_same_bins(K: int) -> None:
    """The values are binned once and scikit-learn's own binning is passed over: its trees must be the same."""
    x, secret = make_planted_leak(2000, 5, K, 1.0, rng=np.random.default_rng(K))
    x, y = x.astype(np.float64), secret.codes
    numbers = assign_bins(x, compute_bin_edges(x[:1000], 127))
    own = HistGradientBoostingClassifier(
        max_iter=40,
        learning_rate=0.15,
        max_leaf_nodes=15,
        max_bins=127,
        class_weight="balanced",
        early_stopping=False,
        random_state=0,
    ).fit(numbers[:1000], y[:1000])
    np.testing.assert_allclose(_guess_half(x, y), own.predict_proba(numbers[1000:]), atol=1e-5)


def test_boosted_trees_give_an_unknown_class_no_belief() -> None:
    x, y = np.random.default_rng(0).standard_normal((400, 3)), np.repeat([0, 2], 200)
    task = Task(np.arange(0, 400, 2), np.arange(1, 400, 2))
    [guess] = BoostedTrees(iterations=5).guess(x, y, 4, [task], rng=np.random.default_rng(0))
    assert (guess[:, [1, 3]] == 0).all()
    np.testing.assert_allclose(guess.sum(1), 1, atol=1e-6)


def test_boosted_trees_do_not_care_where_a_column_starts_and_how_wide_it_is() -> None:
    x, secret = make_planted_leak(600, 3, 2, 2.0, rng=np.random.default_rng(0))
    x = x.astype(np.float64)
    np.testing.assert_allclose(_guess_half(2 * x + 5, secret.codes), _guess_half(x, secret.codes), atol=1e-6)


def test_boosted_trees_see_low_bits() -> None:
    x, secret = make_injected_label("low-bits", n=4000, d=3, rng=np.random.default_rng(0))
    assert (_guess_half(x, secret.codes).argmax(1) == secret.codes[2000:]).mean() > 0.75


def test_boosted_trees_never_read_the_classes_of_test_users() -> None:
    x, secret = make_planted_leak(400, 3, 2, 2.0, rng=np.random.default_rng(0))
    hidden = np.where(np.arange(400) < 200, secret.codes, 0)
    np.testing.assert_array_equal(_guess_half(x, secret.codes), _guess_half(x, hidden))


def _guess_half(x: FloatArray, y: IntArray) -> FloatArray:
    """Return the beliefs of boosted trees about the second half of the users, learned from the first."""
    half = len(x) // 2
    task = Task(np.arange(half), np.arange(half, len(x)))
    return BoostedTrees().guess(x, y, int(y.max()) + 1, [task], rng=np.random.default_rng(0))[0]
