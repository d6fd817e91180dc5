"""Attack scores against scikit-learn, and the relabeling of an attacker who is always wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics

from recveil.metrics import leakage

cases = st.tuples(st.integers(0, 10**6), st.integers(2, 6), st.integers(5, 80))


def guesses(seed: int, K: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every class occurs; scores with many ties."""
    rng = np.random.default_rng(seed)
    truth = rng.permutation(np.concatenate([np.arange(K), rng.integers(K, size=n)]))
    score = rng.integers(4, size=(len(truth), K)) + 2 * np.eye(K)[truth] * rng.random((len(truth), 1)).round()
    return truth, score.argmax(1), score


@settings(deadline=None, max_examples=40)
@given(cases)
def test_hard_scores_are_those_of_scikit_learn(case: tuple[int, int, int]) -> None:
    truth, guess, _ = guesses(*case)
    K = case[1]
    counts = leakage.compute_confusion(truth, guess, K)
    np.testing.assert_array_equal(counts, metrics.confusion_matrix(truth, guess, labels=np.arange(K)))
    assert leakage.balanced_accuracy(counts) == pytest.approx(metrics.balanced_accuracy_score(truth, guess))
    assert leakage.accuracy(counts) == pytest.approx(metrics.accuracy_score(truth, guess))
    assert leakage.accuracy(counts) == pytest.approx(metrics.f1_score(truth, guess, average="micro"))
    wanted = metrics.f1_score(truth, guess, average="macro", labels=np.arange(K), zero_division=0)
    assert leakage.macro_f1(counts) == pytest.approx(wanted)
    np.testing.assert_allclose(leakage.compute_recalls(counts), metrics.recall_score(truth, guess, average=None))
    np.testing.assert_allclose(leakage.compute_rates(counts).sum(1), 1)


@settings(deadline=None, max_examples=40)
@given(cases)
def test_auc_is_that_of_scikit_learn_ties_and_all(case: tuple[int, int, int]) -> None:
    truth, _, score = guesses(*case)
    wanted = [metrics.roc_auc_score(truth == k, score[:, k]) for k in range(case[1])]
    np.testing.assert_allclose(leakage.compute_class_aucs(truth, score), wanted)


def test_absent_classes_are_not_counted() -> None:
    truth, guess = np.array([0, 0, 2, 2]), np.array([0, 2, 2, 2])
    counts = leakage.compute_confusion(truth, guess, 3)
    assert np.isnan(leakage.compute_recalls(counts)[1])
    assert leakage.balanced_accuracy(counts) == pytest.approx(0.75)
    assert leakage.macro_f1(counts) == pytest.approx(metrics.f1_score(truth, guess, average="macro"))
    assert np.isnan(leakage.compute_class_aucs(truth, np.eye(3)[guess])[1])
    assert np.isnan(leakage.compute_class_aucs(np.zeros(3, dtype=np.int64), np.eye(3))).all()


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_an_attacker_who_is_consistently_wrong_is_relabeled(K: int) -> None:
    truth = np.repeat(np.arange(K), 10)
    wrong = (truth + 1) % K
    counts = leakage.compute_confusion(truth, wrong, K)
    assert leakage.balanced_accuracy(counts) == 0
    g = leakage.learn_relabeling(counts)
    turned = leakage.balanced_accuracy(leakage.compute_confusion(truth, g[wrong], K))
    assert turned == 1
    assert leakage.compute_advantage(turned, K) == 1
    assert leakage.compute_guessing_power(counts) == pytest.approx(K)


@settings(deadline=None, max_examples=40)
@given(cases)
def test_guessing_power_is_reached_by_the_best_relabeling(case: tuple[int, int, int]) -> None:
    truth, guess, _ = guesses(*case)
    K = case[1]
    counts = leakage.compute_confusion(truth, guess, K)
    g = leakage.learn_relabeling(counts)
    reached = leakage.balanced_accuracy(leakage.compute_confusion(truth, g[guess], K))
    assert reached == pytest.approx(leakage.compute_guessing_power(counts) / K)
    assert reached >= max(leakage.balanced_accuracy(counts), 1 / K) - 1e-12
    # For two classes the population value is |2 BAcc - 1|.
    if K == 2:
        assert leakage.compute_advantage(reached, 2) == pytest.approx(abs(2 * leakage.balanced_accuracy(counts) - 1))


def test_ties_and_unused_predictions_keep_their_label() -> None:
    assert leakage.learn_relabeling(np.ones((3, 3))).tolist() == [0, 1, 2]
    constant = leakage.compute_confusion(np.array([0, 1, 2]), np.array([1, 1, 1]), 3)
    assert leakage.learn_relabeling(constant).tolist() == [0, 1, 2]
    assert leakage.compute_guessing_power(constant) == pytest.approx(1)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_advantage_is_zero_at_chance_and_one_at_certainty(K: int) -> None:
    assert leakage.compute_advantage(1 / K, K) == pytest.approx(0)
    assert leakage.compute_advantage(1, K) == pytest.approx(1)
    assert leakage.compute_advantage(0, K) == pytest.approx(-1 / (K - 1))
