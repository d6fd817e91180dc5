"""What every defense of a table and every attribute attack promises, as one call each.

`check_embedding_defense(MyDefense)` and `check_attack(MyAttack)`. Each check raises `AssertionError` with a sentence
that says which promise was broken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from recveil.attacks.attribute.classic import Boosted
from recveil.attacks.attribute.classifiers import Classifier, ClassifierAttack, as_attack
from recveil.attacks.attribute.neural import Logistic
from recveil.attacks.attribute.tasks import Attack, Task
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.protocols import EmbeddingDefense
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray
from recveil.metrics.leakage import balanced_accuracy, confusion
from recveil.testing.worlds import bayes_accuracy, no_leak, planted_leak

__all__ = ["check_attack", "check_embedding_defense"]


MakeAttack = Callable[[], Attack | Classifier]
"""A constructor of an attack or of a scikit-learn classifier."""


class MakeDefense(Protocol):
    """A constructor; it takes at least `strength`."""

    def __call__(self, **options: Any) -> EmbeddingDefense:
        """A defense with these options."""


def check_embedding_defense(
    make: MakeDefense, *, injects: bool = False, moves_anyway: bool = False, halts: bool = False
) -> None:
    """Check all promises of an embedding defense; `make(strength=0.5)` must give one of half the strength.

    Args:
        make: a constructor of the defense.
        injects: the method is known to write the label where lines do not look. Then logistic regression must find less
            than before, but not two thirds less, and trees must find more: whoever does not inject needs no such mark.
        moves_anyway: the method moves users whatever their classes, as noise does. Then it need not leave a table
            alone in which there is nothing to hide, nor treat two users alike, and again must only lessen the leak.
        halts: the method stops where its goals first pull against each other, as min-norm weighting does. Again it must
            only lessen the leak.
    """
    left = 0.9 if injects or moves_anyway or halts else 1 / 3
    x, secret = planted_leak(600, 6, 3, 3.0, rng=make_generator(0, "contract"))
    x, codes = _sealed(x), _sealed(secret.codes[:, None])
    out = _run(make(), x, codes)
    _table(out, x)
    assert np.array_equal(out, _run(make(), x, codes)), "The same seed gave two different tables."
    assert np.array_equal(_run(make(), x, codes[:, 0]), out), "One column of codes and a flat array of them differ."
    assert np.array_equal(_run(make(strength=0.0), x, codes), x), "Strength 0 must change nothing."
    _rows(make, x, codes, out)
    _protects(x, out, secret, left)
    _unknown(make, x, secret, left)
    if not moves_anyway:
        _identities(make, x, codes)
        _twins(make, x, secret)
    if injects:
        _injected(x, out, secret)


def check_attack(make: MakeAttack) -> None:
    """Check all promises of an attribute attack; `make` gives a fresh one each time it is called."""
    _finds(make, 2)
    _finds(make, 3)
    _finds_nothing(make)
    x, secret = planted_leak(300, 5, 3, 2.0, rng=make_generator(1, "contract"))
    x[:, -1] = 3.0  # a column in which nobody varies is no obstacle
    x, codes = _sealed(x), _sealed(secret.codes)
    rows = make_generator(2, "contract").permutation(len(x))
    tasks = [Task(rows[:240], rows[240:]), Task(rows[:60], rows[60:75]), Task(rows[75:270], rows[:75])]
    guesses = _guess(make, x, codes, tasks)
    _beliefs(guesses, tasks, 3)
    for one, two in zip(guesses, _guess(make, x, codes, tasks), strict=True):
        assert np.array_equal(one, two), "The same seed gave two different guesses."
    _blind_to_test_labels(make, x, codes, tasks)
    _guesses_follow_users(make, x, codes, tasks)
    present = np.flatnonzero(codes != 2)
    _beliefs(_guess(make, x, codes, [lonely := Task(present[:100], present[100:])]), [lonely], 3)


def _run(defense: EmbeddingDefense, x: FloatArray, codes: IntArray, seed: int = 0) -> FloatArray:
    return defense(x, codes, rng=make_generator(seed, "contract", "defense"))


def _sealed(array: Any) -> Any:
    """A copy that nobody can write into: who tries to change the input gets an error."""
    copy = np.array(array)
    copy.flags.writeable = False
    return copy


def _table(out: FloatArray, x: FloatArray) -> None:
    assert isinstance(out, np.ndarray), "The result must be a NumPy array."
    assert out.dtype == np.float32, f"The result must be float32, and is {out.dtype}."
    assert out.shape == x.shape, f"The result must have the shape {x.shape} of the input, and has {out.shape}."
    assert np.isfinite(out).all(), "The result holds values that are not numbers."


def _identities(make: MakeDefense, x: FloatArray, codes: IntArray) -> None:
    alone = _run(make(), x, np.zeros_like(codes))
    assert np.allclose(alone, x, atol=1e-5), "Where all users are of one class there is nothing to hide or to change."
    nobody = _run(make(), x, np.full_like(codes, UNDISCLOSED))
    assert np.allclose(nobody, x, atol=1e-5), "Where nobody's class is known nothing can be changed."


def _rows(make: MakeDefense, x: FloatArray, codes: IntArray, out: FloatArray) -> None:
    """The order of the rows does not matter; a method that draws is compared by how far it moves each user."""
    order = make_generator(3, "contract").permutation(len(x))
    other = np.empty_like(out)
    other[order] = _run(make(), x[order], codes[order])
    if np.array_equal(out, _run(make(), x, codes, seed=1)):
        assert np.allclose(other, out, atol=1e-4), "The result depends on the order of the rows."
        return
    moved, again, astray = (float(np.square(t - x).sum()) for t in (out, other, out[order]))
    assert 0.7 < again / moved < 1 / 0.7, "In another order of the rows the users are moved differently."
    assert max(moved, again) < 0.8 * astray, "The rows of the result are not the rows of the input."


def _protects(x: FloatArray, out: FloatArray, secret: Attribute, left: float) -> None:
    before, after = _leak(x, secret), _leak(out, secret)
    assert before > 0.5, f"The world should leak, and the advantage is {before:.2f}."
    assert after < left * before, f"Logistic regression's advantage was {before:.2f} and is still {after:.2f}."


def _injected(x: FloatArray, out: FloatArray, secret: Attribute) -> None:
    trees = ClassifierAttack(Boosted)
    before, after = _leak(x, secret, trees), _leak(out, secret, trees)
    assert after > before, f"Marked as injecting, but the advantage of trees was {before:.2f} and is {after:.2f}."


def _unknown(make: MakeDefense, x: FloatArray, secret: Attribute, left: float) -> None:
    hidden = Attribute(secret.name, _hidden(secret), secret.labels)
    out = _run(make(), x, hidden.codes[:, None])
    _table(out, x)
    _protects(x, out, hidden, left)


def _twins(make: MakeDefense, x: FloatArray, secret: Attribute) -> None:
    """Two users of unknown class who are alike before are alike after."""
    other = x.copy()
    other[0] = x[5]
    twins = _run(make(), other, _hidden(secret)[:, None])[[0, 5]]
    assert np.allclose(twins[0], twins[1], atol=1e-5), "Users of unknown class are told apart by something not theirs."


def _hidden(secret: Attribute) -> IntArray:
    codes = secret.codes.copy()
    codes[::5] = UNDISCLOSED
    return codes


def _leak(x: FloatArray, secret: Attribute, attack: Attack | None = None) -> float:
    attacks = {"one": attack or Logistic(device="cpu")}
    return audit_attribute(x, secret, attacks, rules=CrossValidation(repeats=1), seed=0).headline.advantage.value


def _guess(make: MakeAttack, x: FloatArray, codes: IntArray, tasks: list[Task]) -> list[FloatArray]:
    return as_attack(make()).guess(x, codes, 3, tasks, rng=make_generator(0, "contract", "attack"))


def _reached(make: MakeAttack, x: FloatArray, secret: Attribute) -> float:
    half, K = len(x) // 2, len(secret.labels)
    task = Task(np.arange(half), np.arange(half, len(x)))
    guess = as_attack(make()).guess(x, secret.codes, K, [task], rng=make_generator(0, "contract", "attack"))[0]
    return balanced_accuracy(confusion(secret.codes[task.test], guess.argmax(1), K))


def _finds(make: MakeAttack, K: int) -> None:
    x, secret = planted_leak(600, 4, K, 3.0, rng=make_generator(0, "contract", K))
    found, best = _reached(make, x, secret), bayes_accuracy(K, 3.0)
    wanted = 1 / K + 0.75 * (best - 1 / K)
    assert found > wanted, f"A leak was missed: balanced accuracy {found:.2f}, and {best:.2f} can be reached."


def _finds_nothing(make: MakeAttack) -> None:
    x, secret = no_leak(800, 4, 2, rng=make_generator(0, "contract", "none"))
    found = _reached(make, x, secret)
    assert abs(found - 0.5) < 4 * 0.5 / np.sqrt(400), f"Found {found:.2f} where there is nothing to find (chance 0.5)."


def _beliefs(guesses: list[FloatArray], tasks: list[Task], K: int) -> None:
    assert len(guesses) == len(tasks), f"{len(tasks)} tasks were set, and {len(guesses)} came back."
    for guess, task in zip(guesses, tasks, strict=True):
        wanted = (len(task.test), K)
        assert guess.shape == wanted, f"A task of {wanted[0]} test users and {K} classes got guesses {guess.shape}."
        assert np.isfinite(guess).all(), "A guess is not a number."
        assert (guess >= 0).all(), "A probability is negative."
        assert np.allclose(guess.sum(1), 1, atol=1e-4), "The probabilities of a user do not sum to one."


def _blind_to_test_labels(make: MakeAttack, x: FloatArray, codes: IntArray, tasks: list[Task]) -> None:
    for task in tasks:
        lied = codes.copy()
        lied[task.test] = (lied[task.test] + 1) % 3
        one, two = (_guess(make, x, y, [task])[0] for y in (codes, lied))
        assert np.array_equal(one, two), "The labels of the users under attack were looked at."


def _guesses_follow_users(make: MakeAttack, x: FloatArray, codes: IntArray, tasks: list[Task]) -> None:
    """The same users asked for in another order get the same guesses."""
    task = tasks[0]
    one = _guess(make, x, codes, [task])[0]
    two = _guess(make, x, codes, [Task(task.train, task.test[::-1].copy())])[0]
    assert np.allclose(one, two[::-1], atol=1e-4), "The guesses are not in the order of the test users."
