"""The attackers by name, and the panels they form.

All are standardized and class-balanced, but for those of the papers, which are run raw and unweighted as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec

from recveil.attacks.attribute import paper_attackers as paper
from recveil.attacks.attribute.bayes import LinearDiscriminant, NaiveBayes
from recveil.attacks.attribute.blind import Majority, StratifiedRandom
from recveil.attacks.attribute.classic import Boosted, Neighbors, Quadratic
from recveil.attacks.attribute.neural import Logistic, Perceptron
from recveil.attacks.attribute.svm import LinearSVM, RadialSVM
from recveil.attacks.attribute.tasks import Attack, Bagged, OneByOne
from recveil.attacks.attribute.trees import Forest, Stumps, XGBoost, boosting, tree
from recveil.core.protocols import AttributeAttack

__all__ = ["ATTACKS", "NEVER_HEADLINE", "PANELS", "available"]


def _raw(make: Callable[..., AttributeAttack]) -> Callable[[str | None], Attack]:
    return lambda device: OneByOne(make, standardize=False)


ATTACKS: dict[str, Callable[[str | None], Attack]] = {
    "majority": lambda device: OneByOne(Majority),
    "random": lambda device: StratifiedRandom(),
    "logistic": lambda device: Logistic(device=device),
    "lda": lambda device: OneByOne(LinearDiscriminant),
    "qda": lambda device: OneByOne(Quadratic),
    "naive-bayes": lambda device: OneByOne(NaiveBayes),
    "knn": lambda device: OneByOne(Neighbors),
    "svm-linear": lambda device: OneByOne(LinearSVM),
    "svm-rbf": lambda device: OneByOne(RadialSVM),
    "tree": lambda device: OneByOne(tree),
    "forest": lambda device: Bagged(Forest, talks=True),
    "adaboost": lambda device: OneByOne(Stumps, talks=True),
    "trees": lambda device: OneByOne(Boosted),
    "boosting": lambda device: OneByOne(boosting, talks=True),
    "xgboost": lambda device: OneByOne(XGBoost),
    "mlp": lambda device: Perceptron(device=device),
    "mlp-1": lambda device: Perceptron(hidden=(), device=device),
    "mlp-2": lambda device: Perceptron(hidden=(100,), device=device),
    "mlp-3": lambda device: Perceptron(hidden=(100, 64), device=device),
    "mlp-4": lambda device: Perceptron(hidden=(100, 64, 32), device=device),
    "raid-forest": _raw(paper.forest),
    "raid-gbdt": _raw(paper.gbdt),
    "raid-adaboost": _raw(paper.adaboost),
    "raid-xgboost": _raw(paper.xgboost),
    "raid-mlp": _raw(paper.raid_mlp),
    "attrcloak-tree": _raw(paper.tree),
    "attrcloak-svm": _raw(paper.svm),
    "attrcloak-naive-bayes": _raw(paper.bayes),
    "attrcloak-knn": _raw(paper.neighbors),
    "attrcloak-xgboost": _raw(paper.xgboost),
    "attrcloak-mlp-1": _raw(paper.mlp_1),
    "attrcloak-mlp-2": _raw(paper.mlp_2),
    "attrcloak-mlp-3": _raw(paper.mlp_3),
    "attrcloak-mlp-4": _raw(paper.mlp_4),
}
"""Name -> constructor, given a device."""

NEVER_HEADLINE = {"majority", "random"}
"""Attackers that do not look at the vectors; they stand in the table and never speak for a panel."""

_OTHERS = {"trees", "mlp"}  # of the fast panel; `boosting` and `mlp-2` are their like in the full one
_PAPERS = ("raid-", "attrcloak-")

PANELS: dict[str, tuple[str, ...]] = {
    "fast": ("logistic", "qda", "knn", "trees", "mlp"),
    "full": tuple(name for name in ATTACKS if name not in _OTHERS and not name.startswith(_PAPERS)),
    **{f"paper-{p[:-1]}": tuple(name for name in ATTACKS if name.startswith(p)) for p in _PAPERS},
}
"""Name -> the attackers that are run together."""


def available(names: Iterable[str]) -> tuple[str, ...]:
    """Those of these attackers whose packages are installed; the others raise `MissingExtra` when they are run."""
    here = find_spec("xgboost") is not None
    return tuple(name for name in names if here or not name.endswith("xgboost"))
