"""The scorer of scikit-learn agrees with the audit."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate
from sklearn.pipeline import make_pipeline

import recveil as rv

N = 300
LABELS = np.array(["a", "b", "c"])[np.arange(N) % 3]
X = np.random.default_rng(0).normal(size=(N, 4)) + 3 * np.eye(3)[np.arange(N) % 3] @ np.ones((3, 4)) * 0
X[:, :3] += 3 * np.eye(3)[np.arange(N) % 3]


def test_certainty_is_one_guessing_is_zero_for_three_classes() -> None:
    scorer = rv.make_advantage_scorer()
    attack = LogisticRegression().fit(X, LABELS)
    assert scorer(attack, X, LABELS) > 0.8
    constant = DummyClassifier(strategy="constant", constant="a").fit(X, LABELS)
    assert scorer(constant, X, LABELS) == pytest.approx(0)


def test_an_attack_that_is_always_wrong_is_negative_or_two_sided() -> None:
    attack = LogisticRegression().fit(X[:, :3], LABELS)
    binary = np.where(LABELS == "a", "a", "b")
    wrong = DummyClassifier(strategy="constant", constant="c").fit(X, LABELS)
    assert rv.make_advantage_scorer()(wrong, X, binary) == pytest.approx(-1)
    assert rv.make_advantage_scorer(two_sided=True)(wrong, X, binary) == pytest.approx(1)
    assert np.isnan(rv.make_advantage_scorer()(attack, X[:9:3, :3], LABELS[:9:3]))


def test_cross_validation_sees_what_a_cloak_takes_away() -> None:
    y = LABELS == "a"
    scoring = rv.make_advantage_scorer()
    before = cross_validate(LogisticRegression(), X, y, scoring=scoring, cv=3)["test_score"].mean()
    cloak = rv.Gaussian(device="cpu").fit(X.astype(np.float32), y)
    safe = np.asarray(cloak.transform(X.astype(np.float32), y))
    after = cross_validate(make_pipeline(LogisticRegression()), safe, y, scoring=scoring, cv=3)["test_score"].mean()
    assert before > 0.7
    assert after < 0.2
