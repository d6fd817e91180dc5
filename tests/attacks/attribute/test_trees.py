"""Attackers that cut: against scikit-learn's, and what only cuts can see."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.metrics import balanced_accuracy_score

from recveil.attacks.attribute.classic import compute_balanced_weights
from recveil.attacks.attribute.trees import Forest, Stumps, XGBoost, build_tree
from recveil.core.errors import MissingExtra
from recveil.testing.worlds import make_injected_label, make_planted_leak


@pytest.mark.parametrize("K", [2, 3])
def test_stumps_are_the_adaboost_of_scikit_learn_where_quantiles_lose_nothing(K: int) -> None:
    """With few values in a column every cut is a quantile, and both choose among the same cuts."""
    x, secret = make_planted_leak(2000, 4, K, 1.5, rng=np.random.default_rng(K))
    x, y = np.round(2 * x.astype(np.float64)), secret.codes
    own = AdaBoostClassifier(n_estimators=20, random_state=0).fit(
        x[:1000], y[:1000], sample_weight=compute_balanced_weights(y[:1000])
    )
    ours = Stumps(rounds=20).fit(x[:1000], y[:1000]).predict_proba(x[1000:])
    theirs = own.predict_proba(x[1000:])
    assert (ours.argmax(1) == theirs.argmax(1)).mean() > 0.97
    assert np.abs(ours - theirs).max() < 0.05


def test_one_perfect_cut_ends_the_boosting() -> None:
    x = np.column_stack([np.repeat([0.0, 1.0], 20), np.random.default_rng(0).standard_normal(40)])
    y = np.repeat([3, 7], 20)
    stumps = Stumps().fit(x, y)
    assert len(stumps._stumps) == 1
    np.testing.assert_array_equal(stumps.predict_proba(x).argmax(1), y == 7)


def test_where_no_cut_helps_stumps_believe_in_every_class_alike() -> None:
    belief = Stumps().fit(np.zeros((30, 2)), np.arange(30) % 3).predict_proba(np.zeros((5, 2)))
    np.testing.assert_allclose(belief, 1 / 3)


@pytest.mark.thorough
def test_forest_guesses_no_worse_than_that_of_scikit_learn() -> None:
    x, secret = make_planted_leak(4000, 8, 2, 1.5, rng=np.random.default_rng(0))
    rare = (secret.codes == 0) | (np.arange(4000) % 3 == 0)
    x, y = x[rare], secret.codes[rare]
    n = len(x) // 2
    own = RandomForestClassifier(100, max_depth=20, class_weight="balanced_subsample", random_state=0)
    theirs = balanced_accuracy_score(y[n:], own.fit(x[:n], y[:n]).predict(x[n:]))
    ours = balanced_accuracy_score(y[n:], Forest().fit(x[:n], y[:n]).predict_proba(x[n:]).argmax(1))
    assert ours > theirs - 0.01


@pytest.mark.parametrize("make", [build_tree, Forest, XGBoost])
def test_trees_see_a_parity_and_stumps_do_not(make: object) -> None:
    x, secret = make_injected_label("parity", n=1600, d=2, rng=np.random.default_rng(0))
    y, truth = secret.codes[:800], secret.codes[800:]
    assert (make(seed=0).fit(x[:800], y).predict_proba(x[800:]).argmax(1) == truth).mean() > 0.9
    assert (Stumps(seed=0).fit(x[:800], y).predict_proba(x[800:]).argmax(1) == truth).mean() < 0.65


@pytest.mark.parametrize("make", [build_tree, Forest, Stumps])
def test_a_rare_class_is_guessed_too(make: object) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [1800, 200]))
    x = rng.standard_normal((2000, 2)) + y[:, None] * [1.0, 0]
    guess = make(seed=0).fit(x[:1000], y[:1000]).predict_proba(x[1000:]).argmax(1)
    assert (guess[y[1000:] == 1] == 1).mean() > 0.35


def test_xgboost_takes_labels_with_gaps_and_only_balances_when_told() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((600, 3)), np.repeat([0, 5], [540, 60])
    balanced, plain = (
        XGBoost(balanced=b).fit(x, y).predict_proba(rng.standard_normal((600, 3))) for b in (True, False)
    )
    assert balanced.shape == plain.shape == (600, 2)
    assert balanced[:, 1].mean() > 1.5 * plain[:, 1].mean()


def test_without_the_package_xgboost_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xgboost", None)
    with pytest.raises(MissingExtra, match=r"pip install 'recveil\[xgboost\]'"):
        XGBoost().fit(np.eye(4), np.array([0, 1, 0, 1]))
