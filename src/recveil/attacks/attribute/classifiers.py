"""Classifiers as attribute attacks: any scikit-learn classifier or pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from recveil.attacks.attribute.classic import softmax_margins
from recveil.attacks.attribute.tasks import Attack, Task, run_tasks, share_fits
from recveil.core.errors import UsageError
from recveil.core.types import FloatArray, IntArray

__all__ = ["BaggedAttack", "Classifier", "ClassifierAttack", "as_attack", "compute_beliefs"]


class Classifier(Protocol):
    """A classifier as in scikit-learn.

    Beside `fit` it has `predict_proba`, `decision_function` or `predict`.
    """

    def fit(self, x: FloatArray, y: IntArray) -> Any:
        """Learn from users whose class is known."""


@dataclass(frozen=True)
class ClassifierAttack:
    """A classifier as an attack, with a fresh fit on the training users of each task.

    Args:
        builder: makes an untrained classifier; it is called with `seed` and the options.
        options: options of the builder.
        standardize: the vectors get mean 0 and variance 1 on the training users.
        is_python_bound: the classifier spends much of its time in Python rather than in compiled code.
        label: what progress bars show.
    """

    builder: Callable[..., Classifier]
    options: Mapping[str, Any] = field(default_factory=dict)
    standardize: bool = True
    is_python_bound: bool = False
    label: str = "classifier"

    def guess(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[FloatArray]:
        """Fit a classifier for each task and return its beliefs about the test users."""
        solve = partial(self._fit_and_guess, n_classes=n_classes)
        return share_fits(lambda merged: self._solve_tasks(solve, x, y, merged, rng), tasks)

    def _solve_tasks(
        self, solve: Callable[..., FloatArray], x: FloatArray, y: IntArray, tasks: Sequence[Task], rng: Any
    ) -> list[FloatArray]:
        x = np.asarray(x, dtype=np.float64)  # in single precision the square of a small number is zero
        return run_tasks(
            partial(solve, x, y), tasks, size=x.size, label=self.label, rng=rng, is_python_bound=self.is_python_bound
        )

    def _fit_and_guess(
        self, x: FloatArray, y: IntArray, task: Task, seed: int, *, n_classes: int, with_training: bool = False
    ) -> FloatArray:
        scaler = StandardScaler(with_mean=self.standardize, with_std=self.standardize).fit(x[task.train])
        # Some classifiers refuse class numbers with gaps, so a task's classes are numbered without.
        classes, codes = np.unique(y[task.train], return_inverse=True)
        classifier = self.builder(seed=seed, **self.options)
        classifier.fit(scaler.transform(x[task.train]), codes)
        beliefs = compute_beliefs(classifier, scaler.transform(x[task.test]), len(classes))
        if with_training:
            beliefs = np.concatenate([beliefs, classifier.left_out_])  # type: ignore[attr-defined]
        guess = np.zeros((len(beliefs), n_classes), dtype=np.float32)
        guess[:, classes] = beliefs
        return guess


@dataclass(frozen=True)
class BaggedAttack(ClassifierAttack):
    """An attack whose parts each learn from some of the training users.

    Each part can guess the remaining training users. The classifier has `left_out_`: beliefs about each training user
    by the parts that did not learn from that user. They replace inner folds and cost no further fits.
    """

    def guess_both(
        self, x: FloatArray, y: IntArray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return beliefs about the test users and the training users of each task."""
        solve = partial(self._fit_and_guess, n_classes=n_classes, with_training=True)
        both = self._solve_tasks(solve, x, y, tasks, rng)
        return [(b[: len(task.test)], b[len(task.test) :]) for b, task in zip(both, tasks, strict=True)]


def as_attack(candidate: object, name: str = "classifier") -> Attack:
    """Return an attack, or make one of a scikit-learn classifier or pipeline.

    An object with `guess` is returned as it is. A classifier is cloned for each task, every `random_state` in it is set
    from the task's seed, and the vectors are standardized on the training users; a pipeline gets the vectors as they
    are. Classes that a task does not train on get probability 0. Classifiers without `predict_proba` give the softmax
    of their margins, or one-hot beliefs where they have no margin for each class.

    Args:
        candidate: an attack, or a classifier as scikit-learn has them: an instance with `fit` and `predict_proba`,
            `decision_function` or `predict`.
        name: name of the attack in errors and progress bars.

    Returns:
        The attack.

    Raises:
        UsageError: the candidate is neither.
    """
    if isinstance(candidate, type):
        raise UsageError(
            f"Attack '{name}' is the class {candidate.__name__}. Give an instance: {candidate.__name__}()."
        )
    if isinstance(candidate, Attack):
        return candidate
    # scikit-learn hides methods that an instance does not offer from `hasattr`, and from nothing else.
    if not hasattr(candidate, "fit") or not any(hasattr(candidate, answer) for answer in _ANSWERS):
        raise UsageError(
            f"Attack '{name}' is a {type(candidate).__name__}, which cannot guess. Give an object with `guess`, or a "
            f"classifier with `fit` and one of {', '.join(_ANSWERS)}."
        )
    standardize = not isinstance(candidate, Pipeline)
    return ClassifierAttack(partial(_clone_with_seed, candidate), standardize=standardize, label=name)


def compute_beliefs(classifier: Any, x: FloatArray, n_classes: int) -> FloatArray:
    """Return the probabilities (n, n_classes) of a fitted classifier.

    Args:
        classifier: a fitted classifier.
        x: user vectors.
        n_classes: number of classes it was fitted on.
    """
    if hasattr(classifier, "predict_proba"):
        return np.asarray(classifier.predict_proba(x))
    if hasattr(classifier, "decision_function"):
        beliefs = softmax_margins(np.asarray(classifier.decision_function(x)))
        if beliefs.shape[1] == n_classes:  # one-against-one margins have a column for each pair of classes
            return beliefs
    return np.eye(n_classes)[np.asarray(classifier.predict(x), dtype=np.int64)]


_ANSWERS = ("predict_proba", "decision_function", "predict")


def _clone_with_seed(classifier: Any, *, seed: int) -> Any:
    fresh = clone(classifier, safe=False)  # objects without `get_params` are copied
    if hasattr(fresh, "get_params"):
        states = sorted(key for key in fresh.get_params() if key.split("__")[-1] == "random_state")
        rng = np.random.default_rng(seed)
        fresh.set_params(**{key: int(rng.integers(2**31 - 1)) for key in states})
    return fresh
