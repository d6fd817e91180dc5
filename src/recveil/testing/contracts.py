"""Contracts of embedding defenses and attribute attacks.

`check_embedding_defense(MyDefense)` and `check_attack(MyAttack)` check every promise of the kind. A broken promise
raises `AssertionError` with a sentence that names it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from recveil.attacks.attribute.boosting import BoostedTrees
from recveil.attacks.attribute.classifiers import Classifier, as_attack
from recveil.attacks.attribute.neural import Logistic
from recveil.attacks.attribute.tasks import Attack, Task
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.protocols import EmbeddingDefense
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.testing.worlds import compute_bayes_accuracy, make_no_leak, make_planted_leak

__all__ = ["check_attack", "check_embedding_defense", "measure_leak", "measure_tree_leak", "seal_array"]

DefenseBuilder = Callable[..., EmbeddingDefense]
AttackBuilder = Callable[[], Attack | Classifier]


def check_embedding_defense(
    builder: DefenseBuilder, *, injects: bool = False, moves_anyway: bool = False, halts: bool = False
) -> None:
    """Check all promises of an embedding defense.

    Args:
        builder: makes the defense; `builder(strength=0.0)` must make one that changes nothing.
        injects: the method is known to write the label where linear attacks do not find it. Logistic regression must
            then find less than before, but not two thirds less, and trees must find more.
        moves_anyway: the method moves users whatever their classes, as noise does. It may then change a table without
            a leak and treat two equal users differently, and must only reduce the leak.
        halts: the method stops where its goals first conflict, as min-norm weighting does. It must then only reduce
            the leak.
    """
    max_ratio = 0.9 if injects or moves_anyway or halts else 1 / 3
    x, secret = make_planted_leak(600, 6, 3, 3.0, rng=make_generator(0, "contract"))
    x, codes = seal_array(x), seal_array(secret.codes[:, None])
    out = _apply_defense(builder(), x, codes)
    _check_table(out, x)
    assert np.array_equal(out, _apply_defense(builder(), x, codes)), "The same seed gave two different tables."
    flat = _apply_defense(builder(), x, codes[:, 0])
    assert np.array_equal(flat, out), "One column of codes and a flat array of them give different tables."
    undefended = _apply_defense(builder(strength=0.0), x, codes)
    assert np.array_equal(undefended, x), "Strength 0 must change nothing."
    _check_row_order(builder, x, codes, out)
    _check_protection(x, out, secret, max_ratio)
    _check_undisclosed_users(builder, x, secret, max_ratio)
    if not moves_anyway:
        _check_nothing_to_hide(builder, x, codes)
        _check_twins(builder, x, secret)
    if injects:
        _check_injection(x, out, secret)


def check_attack(builder: AttackBuilder) -> None:
    """Check all promises of an attribute attack.

    Args:
        builder: makes a fresh attack, or a scikit-learn classifier, each time it is called.
    """
    _check_leak_is_found(builder, 2)
    _check_leak_is_found(builder, 3)
    _check_nothing_is_found(builder)
    x, secret = make_planted_leak(300, 5, 3, 2.0, rng=make_generator(1, "contract"))
    x[:, -1] = 3.0  # a constant column must not matter
    x, codes = seal_array(x), seal_array(secret.codes)
    rows = make_generator(2, "contract").permutation(len(x))
    tasks = [Task(rows[:240], rows[240:]), Task(rows[:60], rows[60:75]), Task(rows[75:270], rows[:75])]
    guesses = _guess_tasks(builder, x, codes, tasks)
    _check_beliefs(guesses, tasks, 3)
    for first, second in zip(guesses, _guess_tasks(builder, x, codes, tasks), strict=True):
        assert np.array_equal(first, second), "The same seed gave two different guesses."
    _check_test_labels_are_unused(builder, x, codes, tasks)
    _check_guesses_follow_users(builder, x, codes, tasks)
    two_classes = np.flatnonzero(codes != 2)
    task = Task(two_classes[:100], two_classes[100:])
    _check_beliefs(_guess_tasks(builder, x, codes, [task]), [task], 3)


def measure_leak(x: FloatArray, secret: Attribute, attack: Attack | None = None) -> float:
    """Measure the advantage of one attack, logistic regression if None."""
    attacks = {"one": attack or Logistic(device="cpu")}
    return audit_attribute(x, secret, attacks, rules=CrossValidation(repeats=1), seed=0).headline.advantage.value


def measure_tree_leak(x: FloatArray, secret: Attribute) -> float:
    """Measure the advantage of boosted trees, which find more than linear attacks."""
    return measure_leak(x, secret, BoostedTrees())


def seal_array(array: Any) -> Any:
    """Copy an array read-only, so that a method that changes its input fails."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _apply_defense(defense: EmbeddingDefense, x: FloatArray, codes: IntArray, seed: int = 0) -> FloatArray:
    return defense(x, codes, rng=make_generator(seed, "contract", "defense"))


def _check_table(out: FloatArray, x: FloatArray) -> None:
    assert isinstance(out, np.ndarray), "The result must be a NumPy array."
    assert out.dtype == np.float32, f"The result must be float32, and is {out.dtype}."
    assert out.shape == x.shape, f"The result must have the shape {x.shape} of the input, and has {out.shape}."
    assert np.isfinite(out).all(), "The result holds values that are not numbers."


def _check_nothing_to_hide(builder: DefenseBuilder, x: FloatArray, codes: IntArray) -> None:
    one_class = _apply_defense(builder(), x, np.zeros_like(codes))
    assert np.allclose(one_class, x, atol=1e-5), "If all users are of one class, nothing must be changed."
    undisclosed = _apply_defense(builder(), x, np.full_like(codes, UNDISCLOSED))
    assert np.allclose(undisclosed, x, atol=1e-5), "If all users are undisclosed, nothing must be changed."


def _check_row_order(builder: DefenseBuilder, x: FloatArray, codes: IntArray, out: FloatArray) -> None:
    """Check that the order of the rows decides nothing.

    A random method is compared by how far it moves users.
    """
    order = make_generator(3, "contract").permutation(len(x))
    reordered = np.empty_like(out)
    reordered[order] = _apply_defense(builder(), x[order], codes[order])
    if np.array_equal(out, _apply_defense(builder(), x, codes, seed=1)):
        assert np.allclose(reordered, out, atol=1e-4), "The result depends on the order of the rows."
        return
    distance, reordered_distance, mixed_distance = (
        float(np.square(table - x).sum()) for table in (out, reordered, out[order])
    )
    ratio = reordered_distance / distance
    assert 0.7 < ratio < 1 / 0.7, "In another order of the rows the users are moved differently."
    is_aligned = max(distance, reordered_distance) < 0.8 * mixed_distance
    assert is_aligned, "The rows of the result are not the rows of the input."


def _check_protection(x: FloatArray, out: FloatArray, secret: Attribute, max_ratio: float) -> None:
    before, after = measure_leak(x, secret), measure_leak(out, secret)
    assert before > 0.5, f"The world should leak, and the advantage is {before:.2f}."
    assert after < max_ratio * before, f"Logistic regression's advantage was {before:.2f} and is still {after:.2f}."


def _check_injection(x: FloatArray, out: FloatArray, secret: Attribute) -> None:
    before, after = measure_tree_leak(x, secret), measure_tree_leak(out, secret)
    assert after > before, f"Marked as injecting, but the advantage of trees was {before:.2f} and is {after:.2f}."


def _check_undisclosed_users(builder: DefenseBuilder, x: FloatArray, secret: Attribute, max_ratio: float) -> None:
    hidden = Attribute(secret.name, _hide_some_codes(secret), secret.labels)
    out = _apply_defense(builder(), x, hidden.codes[:, None])
    _check_table(out, x)
    _check_protection(x, out, hidden, max_ratio)


def _check_twins(builder: DefenseBuilder, x: FloatArray, secret: Attribute) -> None:
    """Check that two equal undisclosed users stay equal."""
    with_twins = x.copy()
    with_twins[0] = x[5]
    twins = _apply_defense(builder(), with_twins, _hide_some_codes(secret)[:, None])[[0, 5]]
    assert np.allclose(twins[0], twins[1], atol=1e-5), "Two undisclosed users with equal vectors became different."


def _hide_some_codes(secret: Attribute) -> IntArray:
    codes = secret.codes.copy()
    codes[::5] = UNDISCLOSED
    return codes


def _guess_tasks(builder: AttackBuilder, x: FloatArray, codes: IntArray, tasks: list[Task]) -> list[FloatArray]:
    return as_attack(builder()).guess(x, codes, 3, tasks, rng=make_generator(0, "contract", "attack"))


def _measure_accuracy(builder: AttackBuilder, x: FloatArray, secret: Attribute) -> float:
    half, K = len(x) // 2, len(secret.labels)
    task = Task(np.arange(half), np.arange(half, len(x)))
    guess = as_attack(builder()).guess(x, secret.codes, K, [task], rng=make_generator(0, "contract", "attack"))[0]
    return balanced_accuracy(compute_confusion(secret.codes[task.test], guess.argmax(1), K))


def _check_leak_is_found(builder: AttackBuilder, K: int) -> None:
    x, secret = make_planted_leak(600, 4, K, 3.0, rng=make_generator(0, "contract", K))
    accuracy, best = _measure_accuracy(builder, x, secret), compute_bayes_accuracy(K, 3.0)
    required = 1 / K + 0.75 * (best - 1 / K)
    assert accuracy > required, f"A leak was missed: balanced accuracy {accuracy:.2f}, and {best:.2f} is possible."


def _check_nothing_is_found(builder: AttackBuilder) -> None:
    x, secret = make_no_leak(800, 4, 2, rng=make_generator(0, "contract", "none"))
    accuracy = _measure_accuracy(builder, x, secret)
    is_chance = abs(accuracy - 0.5) < 4 * 0.5 / np.sqrt(400)
    assert is_chance, f"Balanced accuracy {accuracy:.2f} where there is nothing to find (chance 0.5)."


def _check_beliefs(guesses: list[FloatArray], tasks: list[Task], K: int) -> None:
    assert len(guesses) == len(tasks), f"{len(tasks)} tasks were set, and {len(guesses)} came back."
    for guess, task in zip(guesses, tasks, strict=True):
        n = len(task.test)
        assert guess.shape == (n, K), f"A task of {n} test users and {K} classes got guesses {guess.shape}."
        assert np.isfinite(guess).all(), "A guess is not a number."
        assert (guess >= 0).all(), "A probability is negative."
        assert np.allclose(guess.sum(1), 1, atol=1e-4), "The probabilities of a user do not sum to one."


def _check_test_labels_are_unused(builder: AttackBuilder, x: FloatArray, codes: IntArray, tasks: list[Task]) -> None:
    for task in tasks:
        false_codes = codes.copy()
        false_codes[task.test] = (false_codes[task.test] + 1) % 3
        first, second = (_guess_tasks(builder, x, y, [task])[0] for y in (codes, false_codes))
        assert np.array_equal(first, second), "The labels of the users under attack were used."


def _check_guesses_follow_users(builder: AttackBuilder, x: FloatArray, codes: IntArray, tasks: list[Task]) -> None:
    """Check that users get the same guesses in another order."""
    task = tasks[0]
    forward = _guess_tasks(builder, x, codes, [task])[0]
    backward = _guess_tasks(builder, x, codes, [Task(task.train, task.test[::-1].copy())])[0]
    assert np.allclose(forward, backward[::-1], atol=1e-4), "The guesses are not in the order of the test users."
