"""Two attacks: one with `guess`, and a plain scikit-learn classifier."""

from dataclasses import dataclass

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from recveil.core.traits import AttackTraits

METHODS = (AttackTraits("toy-attack", builder="ToyAttack", panels=("toy",)),)


class ToyClassifier(ClassifierMixin, BaseEstimator):
    """The class whose mean is nearest."""

    traits = AttackTraits("toy-classifier", builder="ToyClassifier", panels=("toy",))

    def fit(self, x, y):  # type: ignore[no-untyped-def]
        """Compute the mean of each class."""
        self.classes_ = np.unique(y)
        self.means_ = np.stack([x[y == k].mean(0) for k in self.classes_])
        return self

    def predict(self, x):  # type: ignore[no-untyped-def]
        """Return the class of the nearest mean."""
        return self.classes_[np.square(x[:, None] - self.means_).sum(2).argmin(1)]


@dataclass(frozen=True)
class ToyAttack:
    """The nearest class mean, for all tasks."""

    def guess(self, x, y, n_classes, tasks, *, rng):  # type: ignore[no-untyped-def]
        """Return one certain belief for each test user."""
        fitted = (ToyClassifier().fit(x[task.train], y[task.train]).predict(x[task.test]) for task in tasks)
        return [np.eye(n_classes)[predicted] for predicted in fitted]
