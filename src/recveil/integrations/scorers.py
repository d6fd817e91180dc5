"""Scorers for scikit-learn: the advantage of an attack in `cross_validate` and `GridSearchCV`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["make_advantage_scorer"]

Scorer = Callable[..., float]


def make_advantage_scorer(*, two_sided: bool = False) -> Scorer:
    """Make a scorer of an attack: 0 is guessing, 1 is certainty, for any number of classes.

    The advantage is the balanced accuracy, scaled so that chance is 0. It is negative where the attack is wrong more
    often than guessing. Such an attack reveals as much as one that is right: `audit` learns the sign on inner folds,
    and a scorer that sees one fold cannot, so `two_sided` takes the absolute value, which is above 0 on average even
    for a guess.

    Args:
        two_sided: score the absolute value.

    Returns:
        A function (estimator, X, y) for `scoring`.

    Example:
        >>> import numpy as np, recveil as rv
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.model_selection import cross_validate
        >>> y = np.arange(200) % 2
        >>> X = np.random.default_rng(0).normal(size=(200, 3)) + 3 * y[:, None]
        >>> scores = cross_validate(LogisticRegression(), X, y, scoring=rv.make_advantage_scorer())
        >>> bool(scores["test_score"].mean() > 0.9)
        True
    """
    from sklearn.metrics import make_scorer

    scorer: Scorer = make_scorer(_score_predictions, two_sided=two_sided)
    return scorer


def _score_predictions(truth: ArrayLike, predicted: ArrayLike, *, two_sided: bool) -> float:
    actual, guessed = np.asarray(truth), np.asarray(predicted)
    classes = np.unique(actual)
    if len(classes) < 2:
        return float("nan")
    recall: Any = np.mean([(guessed[actual == label] == label).mean() for label in classes])
    advantage = float((recall - 1 / len(classes)) / (1 - 1 / len(classes)))
    return abs(advantage) if two_sided else advantage
