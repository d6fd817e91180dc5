"""Support vector machines: the guesses are scikit-learn's, and the approximation finds what the exact one does."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import SVC, LinearSVC

from recveil.attacks.attribute import svm as margins
from recveil.attacks.attribute.svm import LinearSVM, NewtonSVM, RadialSVM
from recveil.testing.worlds import make_injected_label, make_planted_leak


def halves(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, ...]:
    n = len(x) // 2
    return x[:n].astype(np.float64), y[:n], x[n:].astype(np.float64), y[n:]


@pytest.mark.parametrize("K", [2, 3, 5])
def test_beliefs_follow_the_margins_of_scikit_learn(K: int) -> None:
    x, secret = make_planted_leak(600, 4, K, 2.0, rng=np.random.default_rng(K))
    x, y, test, _ = halves(x, secret.codes)
    exact = SVC(class_weight="balanced").fit(x, y)
    belief = RadialSVM().fit(x, y).predict_proba(test)
    np.testing.assert_allclose(belief.sum(1), 1)
    np.testing.assert_array_equal(
        belief.argmax(1), exact.decision_function(test).argmax(1) if K > 2 else exact.predict(test)
    )
    wanted = LinearSVC(class_weight="balanced", dual=False).fit(x, y).predict(test)
    assert (LinearSVM().fit(x, y).predict_proba(test).argmax(1) == wanted).mean() > 0.99


def test_with_two_classes_belief_rises_with_the_margin() -> None:
    x, secret = make_planted_leak(400, 3, 2, 2.0, rng=np.random.default_rng(0))
    x, y, test, _ = halves(x, secret.codes)
    machine = RadialSVM().fit(x, y)
    order = np.argsort(SVC(class_weight="balanced").fit(x, y).decision_function(test))
    assert (np.diff(machine.predict_proba(test)[order, 1]) >= 0).all()


def test_on_xor_the_kernel_finds_and_the_line_does_not() -> None:
    x, secret = make_injected_label("parity", n=1600, d=2, rng=np.random.default_rng(0))
    x, y, test, truth = halves(x, secret.codes)
    found = [
        (machine.fit(x, y).predict_proba(test).argmax(1) == truth).mean()
        for machine in (RadialSVM(), RadialSVM(max_exact_users=0, landmarks=100), LinearSVM())
    ]
    assert min(found[:2]) > 0.9
    assert found[2] < 0.6


def test_the_approximation_is_as_good_as_the_exact_machine_on_a_leak_of_mean_and_scale() -> None:
    x, secret = make_planted_leak(3000, 16, 2, 1.0, rng=np.random.default_rng(0))
    x[secret.codes == 1] *= 1.2
    x, y, test, truth = halves(x, secret.codes)
    exact, near = (
        (RadialSVM(max_exact_users=limit).fit(x, y).predict_proba(test).argmax(1) == truth).mean()
        for limit in (10_000, 100)
    )
    assert exact > 0.7
    assert near > exact - 0.03


def test_a_sample_has_as_many_of_each_class_and_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = np.random.default_rng(0).standard_normal((1000, 3)), np.repeat([0, 1], [900, 100])
    x[y == 1, 0] += 2
    machine = RadialSVM(max_exact_users=50, max_users=160, landmarks=40)
    kept, labels = machine._sample_users(x, y)
    assert len(kept) == 160
    np.testing.assert_array_equal(np.bincount(labels), [80, 80])
    whole = machine.fit(x, y).predict_proba(x)
    assert (whole.argmax(1) == y).mean() > 0.75
    monkeypatch.setattr(margins, "MAX_FEATURE_ROWS", 17)
    np.testing.assert_allclose(machine.predict_proba(x), whole)


@pytest.mark.parametrize("machine", [LinearSVM(), RadialSVM(), RadialSVM(max_exact_users=100, landmarks=50)])
def test_a_rare_class_is_recalled_as_well_as_a_large_one(machine: LinearSVM | RadialSVM) -> None:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 1], [1800, 200]))
    x = rng.standard_normal((2000, 2)) + y[:, None] * [1.5, 0]
    guess = machine.fit(x[:1000], y[:1000]).predict_proba(x[1000:]).argmax(1)
    recall = [(guess[y[1000:] == k] == k).mean() for k in (0, 1)]
    assert abs(recall[0] - recall[1]) < 0.2


@pytest.mark.parametrize("K", [2, 3])
def test_newton_finds_the_machine_that_scikit_learn_finds(K: int) -> None:
    x, secret = make_planted_leak(400, 5, K, 1.5, rng=np.random.default_rng(6))
    y = np.where(np.arange(400) % 5 == 0, 0, secret.codes)  # unequal classes, some of them mislabelled
    theirs = LinearSVC(C=0.7, dual=False, class_weight="balanced", intercept_scaling=1e3, tol=1e-8, max_iter=10_000)
    if K == 2:
        ours, margin = NewtonSVM(C=0.7).fit(x, y), theirs.fit(x, y).decision_function(x)
        assert ours.decision_function(x) == pytest.approx(margin, abs=2e-3)
        return
    # scikit-learn balances all classes at once; ours balances each against the rest.
    ours = NewtonSVM(C=0.7).fit(x, y)
    for k in range(K):
        alone = theirs.fit(x, (y == k).astype(int)).decision_function(x)
        assert ours.decision_function(x)[:, k] == pytest.approx(alone, abs=2e-3)
