"""Kernel ridge and the ensemble: they find planted, radial and parity leaks, and nothing where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from recveil.attacks.attribute.ensemble import Ensemble
from recveil.attacks.attribute.kernel_ridge import KernelRidge
from recveil.attacks.attribute.panels import make_attack, panel_members
from recveil.attacks.attribute.tasks import Task
from recveil.core.types import Attribute, FloatArray
from recveil.testing.worlds import make_injected_label, make_no_leak, make_planted_leak


def measure_accuracy(attack: str, x: FloatArray, attribute: Attribute, seed: int = 0) -> float:
    """Return the accuracy on the second half of the users; classes have equal size."""
    half, K = len(x) // 2, len(attribute.labels)
    task = Task(np.arange(half), np.arange(half, len(x)))
    attack_made = Ensemble(("logistic", "kernel-ridge", "trees")) if attack == "ensemble" else make_attack(attack)
    beliefs = attack_made.guess(x, attribute.codes, K, [task], rng=np.random.default_rng(seed))[0]
    np.testing.assert_allclose(beliefs.sum(1), 1, atol=1e-5)
    return float((beliefs.argmax(1) == attribute.codes[half:]).mean())


def test_both_are_in_the_full_panel() -> None:
    assert {"kernel-ridge", "ensemble"} <= set(panel_members("full"))


@pytest.mark.parametrize("attack", ["kernel-ridge", "ensemble"])
def test_a_planted_leak_of_three_classes_is_found(attack: str) -> None:
    x, attribute = make_planted_leak(1200, 8, 3, 2.0, rng=np.random.default_rng(0))
    assert measure_accuracy(attack, x, attribute) > 0.65


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parity", "scale"])
@pytest.mark.parametrize("attack", ["kernel-ridge", "ensemble"])
def test_leaks_that_no_line_finds_are_found(attack: str, kind: str) -> None:
    x, attribute = make_injected_label(kind, n=1600, d=4, rng=np.random.default_rng(1))
    assert measure_accuracy(attack, x, attribute) > 0.6
    assert measure_accuracy("logistic", x, attribute) < 0.57


@pytest.mark.thorough
@pytest.mark.parametrize("attack", ["kernel-ridge", "ensemble"])
def test_independent_labels_are_guessed_at_chance(attack: str) -> None:
    scores = []
    for seed in range(6):
        x, attribute = make_no_leak(800, 6, 2, rng=np.random.default_rng(seed))
        scores.append(measure_accuracy(attack, x, attribute, seed))
    assert abs(np.mean(scores) - 0.5) < 4 * 0.5 / np.sqrt(6 * 400)


def test_classes_that_differ_in_small_neighborhoods_are_found() -> None:
    """Pairs of users lie close together, one of each class shifted a little: lines and landmarks see nothing."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((40, 8))
    codes = rng.integers(0, 2, 1600)
    x = (centers[rng.integers(0, 40, 1600)] + 0.02 * rng.standard_normal((1600, 8))).astype(np.float32)
    x[:, 0] += 0.05 * codes * rng.choice([-1, 1], 40)[np.argmin(cdist(x, centers), 1)]
    attribute = Attribute("group", codes, ("a", "b"))
    assert measure_accuracy("kernel-ridge", x, attribute) > 0.6
    assert measure_accuracy("logistic", x, attribute) < 0.57


def test_a_sample_of_many_users_keeps_every_class() -> None:
    x, attribute = make_planted_leak(600, 4, 3, 3.0, rng=np.random.default_rng(0))
    task = Task(np.arange(600), np.arange(600))
    [beliefs] = KernelRidge(max_users=90).guess(x, attribute.codes, 3, [task], rng=np.random.default_rng(0))
    assert beliefs.shape == (600, 3)
    assert (beliefs.argmax(1) == attribute.codes).mean() > 0.6


def test_tasks_within_another_are_guessed_from_their_own_users_alone() -> None:
    """The users that an inner task must guess have random labels; had it learned them, it would be right."""
    x, attribute = make_planted_leak(800, 6, 2, 2.0, rng=np.random.default_rng(0))
    codes, users = attribute.codes.copy(), np.random.default_rng(1).permutation(800)
    outer, hidden = Task(users[:600], users[600:]), users[300:600]
    codes[hidden] = np.random.default_rng(2).integers(0, 2, 300)
    tasks = [outer, Task(users[:300], hidden)]
    _, inner = KernelRidge().guess(x, codes, 2, tasks, rng=np.random.default_rng(0))
    assert abs((inner.argmax(1) == codes[hidden]).mean() - 0.5) < 0.1
    assert (inner.argmax(1) == attribute.codes[hidden]).mean() > 0.7


def test_tasks_that_share_kernel_matrices_guess_as_each_alone() -> None:
    x, attribute = make_planted_leak(600, 4, 2, 3.0, rng=np.random.default_rng(4))
    fold = np.random.default_rng(5).integers(0, 4, 600)
    tasks = [Task(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(4)]
    rng = np.random.default_rng(6)
    together = KernelRidge().guess(x, attribute.codes, 2, tasks, rng=rng)
    alone = [KernelRidge().guess(x, attribute.codes, 2, [task], rng=rng)[0] for task in tasks]
    for shared, own in zip(together, alone, strict=True):
        assert np.corrcoef(shared[:, 0], own[:, 0])[0, 1] > 0.95
        assert (shared.argmax(1) == own.argmax(1)).mean() > 0.95
