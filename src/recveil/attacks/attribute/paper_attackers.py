"""The attackers of the RAID and AttrCloak papers, with their settings.

They see the vectors raw and the classes unweighted, as they did there, so that they can be compared with standardized
and balanced attackers. Settings that the papers do not state are the library's defaults.

RAID (appendix B.2) states the forest, gradient boosting, AdaBoost, XGBoost and the MLP. The decision tree, SVM, naive
Bayes, kNN and the MLPs of one to four layers are those of its Tables 6 and 8, without settings of their own.
AttrCloak's slides name XGBoost and an MLP, without settings; its panel here has the other kinds beside them, and its
MLPs have RAID's learning rate and iterations without RAID's penalty.
"""

from __future__ import annotations

from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from recveil.attacks.attribute.trees import XGBoost
from recveil.core.option_types import NonNegativeFloat, SeedNumber, Width
from recveil.core.traits import AttackTraits

__all__ = [
    "build_adaboost",
    "build_decision_tree",
    "build_forest",
    "build_gradient_boosting",
    "build_mlp",
    "build_naive_bayes",
    "build_neighbors",
    "build_svm",
    "build_xgboost",
]

METHODS = (
    AttackTraits(
        "raid-forest",
        builder="build_forest",
        summary="RAID's random forest: 100 trees of depth 20; raw and unweighted.",
        panels=("paper-raid",),
        standardize=False,
        rank=210,
    ),
    AttackTraits(
        "raid-gbdt",
        builder="build_gradient_boosting",
        summary="RAID's gradient boosting: 100 trees; raw and unweighted.",
        panels=("paper-raid",),
        standardize=False,
        rank=220,
    ),
    AttackTraits(
        "raid-adaboost",
        builder="build_adaboost",
        summary="RAID's AdaBoost: 50 stumps; raw and unweighted.",
        panels=("paper-raid",),
        standardize=False,
        rank=230,
    ),
    AttackTraits(
        "raid-xgboost",
        builder="build_xgboost",
        summary="RAID's XGBoost with its defaults; raw and unweighted.",
        extra="xgboost",
        panels=("paper-raid",),
        standardize=False,
        rank=240,
    ),
    AttackTraits(
        "raid-mlp",
        builder="build_mlp",
        summary="RAID's MLP: 100 hidden units, L2 weight 1.0; raw and unweighted.",
        panels=("paper-raid",),
        options={"reg": 1.0},
        standardize=False,
        rank=250,
    ),
    AttackTraits(
        "attrcloak-tree",
        builder="build_decision_tree",
        summary="The papers' decision tree with the library's defaults; raw and unweighted.",
        panels=("paper-attrcloak",),
        standardize=False,
        rank=260,
    ),
    AttackTraits(
        "attrcloak-svm",
        builder="build_svm",
        summary="The papers' SVM with the library's defaults; raw and unweighted.",
        panels=("paper-attrcloak",),
        standardize=False,
        rank=270,
    ),
    AttackTraits(
        "attrcloak-naive-bayes",
        builder="build_naive_bayes",
        summary="The papers' Gaussian naive Bayes; raw, with the classes' shares as priors.",
        panels=("paper-attrcloak",),
        standardize=False,
        rank=280,
    ),
    AttackTraits(
        "attrcloak-knn",
        builder="build_neighbors",
        summary="The papers' five nearest neighbors; raw and unweighted.",
        panels=("paper-attrcloak",),
        standardize=False,
        rank=290,
    ),
    AttackTraits(
        "attrcloak-xgboost",
        builder="build_xgboost",
        summary="The papers' XGBoost with its defaults; raw and unweighted.",
        extra="xgboost",
        panels=("paper-attrcloak",),
        standardize=False,
        rank=300,
    ),
    AttackTraits(
        "attrcloak-mlp-1",
        builder="build_mlp",
        summary="The papers' MLP of one layer, {K}; raw and unweighted.",
        panels=("paper-attrcloak",),
        options={"hidden": ()},
        standardize=False,
        rank=310,
    ),
    AttackTraits(
        "attrcloak-mlp-2",
        builder="build_mlp",
        summary="The papers' MLP of two layers, {100, K}; raw and unweighted.",
        panels=("paper-attrcloak",),
        options={"hidden": (100,)},
        standardize=False,
        rank=320,
    ),
    AttackTraits(
        "attrcloak-mlp-3",
        builder="build_mlp",
        summary="The papers' MLP of three layers, {100, 64, K}; raw and unweighted.",
        panels=("paper-attrcloak",),
        options={"hidden": (100, 64)},
        standardize=False,
        rank=330,
    ),
    AttackTraits(
        "attrcloak-mlp-4",
        builder="build_mlp",
        summary="The papers' MLP of four layers, {100, 64, 32, K}; raw and unweighted.",
        panels=("paper-attrcloak",),
        options={"hidden": (100, 64, 32)},
        standardize=False,
        rank=340,
    ),
)


def build_forest(seed: SeedNumber) -> RandomForestClassifier:
    """Build RAID's random forest."""
    return RandomForestClassifier(100, max_depth=20, random_state=seed)


def build_gradient_boosting(seed: SeedNumber) -> GradientBoostingClassifier:
    """Build RAID's gradient boosting."""
    return GradientBoostingClassifier(n_estimators=100, random_state=seed)


def build_adaboost(seed: SeedNumber) -> AdaBoostClassifier:
    """Build RAID's AdaBoost."""
    return AdaBoostClassifier(n_estimators=50, random_state=seed)


def build_xgboost(seed: SeedNumber) -> XGBoost:
    """Build the papers' XGBoost; it needs the extra `xgboost`."""
    return XGBoost(seed=seed, balanced=False, bins=256)


def build_mlp(seed: SeedNumber, hidden: tuple[Width, ...] = (100,), reg: NonNegativeFloat = 1e-4) -> MLPClassifier:
    """Build the papers' MLP: learning rate 1e-3, 500 iterations.

    With RAID's penalty of 1.0, on vectors of size 0.01 as their models give, the penalty outweighs the data and every
    user gets the same guess.

    Args:
        seed: seed of the initial weights and of the order of batches.
        hidden: units of each hidden layer.
        reg: weight of the L2 penalty.
    """
    return MLPClassifier(hidden, alpha=reg, learning_rate_init=1e-3, max_iter=500, random_state=seed)


def build_decision_tree(seed: SeedNumber) -> DecisionTreeClassifier:
    """Build the papers' decision tree."""
    return DecisionTreeClassifier(random_state=seed)


def build_svm(seed: SeedNumber) -> SVC:
    """Build the papers' SVM; it costs more than the square of the users."""
    return SVC(random_state=seed)


def build_naive_bayes(seed: SeedNumber) -> GaussianNB:
    """Build the papers' naive Bayes, which draws nothing."""
    return GaussianNB()


def build_neighbors(seed: SeedNumber) -> KNeighborsClassifier:
    """Build the papers' nearest neighbors, which draw nothing."""
    return KNeighborsClassifier()
