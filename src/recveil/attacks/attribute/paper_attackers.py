"""The attackers of the RAID and AttrCloak papers with the settings they were run with.

They see the vectors raw and the classes unweighted, as they did there, so that the difference to a standardized and
balanced attacker can be seen; `battery` runs them so. What the papers do not state is left at the library's default.

RAID (appendix B.2) states the forest, gradient boosting, AdaBoost, XGBoost and the MLP. The decision tree, SVM, naive
Bayes, kNN and the MLPs of one to four layers are those of its Tables 6 and 8, without settings of their own.
AttrCloak's slides name XGBoost and an MLP, without settings; its panel here has the other kinds beside them, and its
MLPs have RAID's learning rate and iterations without RAID's penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from recveil.attacks.attribute.classic import patient
from recveil.attacks.attribute.svm import ByMargin
from recveil.attacks.attribute.trees import XGBoost
from recveil.core.types import FloatArray, IntArray

__all__ = [
    "PaperMLP",
    "adaboost",
    "bayes",
    "forest",
    "gbdt",
    "mlp_1",
    "mlp_2",
    "mlp_3",
    "mlp_4",
    "neighbors",
    "raid_mlp",
    "svm",
    "tree",
    "xgboost",
]


@dataclass
class PaperMLP:
    """scikit-learn's MLP, stopped where the paper stopped it."""

    hidden: tuple[int, ...] = (100,)
    reg: float = 1e-4
    learning_rate: float = 1e-3
    iterations: int = 500
    seed: int = 0
    _model: MLPClassifier = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Train for at most so many passes."""
        self._model = MLPClassifier(
            self.hidden,
            alpha=self.reg,
            learning_rate_init=self.learning_rate,
            max_iter=self.iterations,
            random_state=self.seed,
        )
        with patient():
            self._model.fit(x, y)
        return self

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """The softmax layer."""
        guess: FloatArray = self._model.predict_proba(x)
        return guess


def forest(seed: int) -> RandomForestClassifier:
    """RAID's random forest: 100 trees of depth 20; raw and unweighted."""
    return RandomForestClassifier(100, max_depth=20, random_state=seed)


def gbdt(seed: int) -> GradientBoostingClassifier:
    """RAID's gradient boosting: 100 trees; raw and unweighted."""
    return GradientBoostingClassifier(n_estimators=100, random_state=seed)


def adaboost(seed: int) -> AdaBoostClassifier:
    """RAID's AdaBoost: 50 stumps; raw and unweighted."""
    return AdaBoostClassifier(n_estimators=50, random_state=seed)


def xgboost(seed: int) -> XGBoost:
    """The papers' XGBoost with its defaults; raw and unweighted. Needs the extra `xgboost`."""
    return XGBoost(seed=seed, balanced=False, bins=256)


def raid_mlp(seed: int) -> PaperMLP:
    """RAID's MLP: 100 hidden units, L2 weight 1.0, learning rate 1e-3, 500 iterations; raw and unweighted.

    On vectors of size 0.01, which their models give, the penalty wins over the data and every user gets one guess.
    """
    return PaperMLP((100,), reg=1.0, seed=seed)


def tree(seed: int) -> DecisionTreeClassifier:
    """The papers' decision tree with the library's defaults; raw and unweighted."""
    return DecisionTreeClassifier(random_state=seed)


def svm(seed: int) -> ByMargin:
    """The papers' SVM with the library's defaults; raw and unweighted. Costs the square of the users and more."""
    return ByMargin(SVC(random_state=seed))


def bayes(seed: int) -> GaussianNB:
    """The papers' Gaussian naive Bayes; raw, with the classes' shares as priors."""
    return GaussianNB()


def neighbors(seed: int) -> KNeighborsClassifier:
    """The papers' nearest neighbours, five of them; raw and unweighted."""
    return KNeighborsClassifier()


def mlp_1(seed: int) -> PaperMLP:
    """The papers' MLP of one layer, {K}; raw and unweighted."""
    return PaperMLP((), seed=seed)


def mlp_2(seed: int) -> PaperMLP:
    """The papers' MLP of two layers, {100, K}; raw and unweighted."""
    return PaperMLP((100,), seed=seed)


def mlp_3(seed: int) -> PaperMLP:
    """The papers' MLP of three layers, {100, 64, K}; raw and unweighted."""
    return PaperMLP((100, 64), seed=seed)


def mlp_4(seed: int) -> PaperMLP:
    """The papers' MLP of four layers, {100, 64, 32, K}; raw and unweighted."""
    return PaperMLP((100, 64, 32), seed=seed)
