"""The attackers by name, and the panels they form. All are standardized and class-balanced."""

from __future__ import annotations

from collections.abc import Callable

from recveil.attacks.attribute.classic import Boosted, Neighbors, Quadratic
from recveil.attacks.attribute.neural import Logistic, Perceptron
from recveil.attacks.attribute.tasks import Attack, OneByOne

__all__ = ["ATTACKS", "PANELS"]


ATTACKS: dict[str, Callable[[str | None], Attack]] = {
    "logistic": lambda device: Logistic(device=device),
    "qda": lambda device: OneByOne(Quadratic),
    "knn": lambda device: OneByOne(Neighbors),
    "trees": lambda device: OneByOne(Boosted),
    "mlp": lambda device: Perceptron(device=device),
}
"""Name -> constructor, given a device."""

PANELS: dict[str, tuple[str, ...]] = {"fast": ("logistic", "qda", "knn", "trees", "mlp")}
"""Name -> the attackers that are run together."""
