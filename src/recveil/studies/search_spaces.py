"""The knobs of each defense that `recveil tune` turns, and how far.

Left out is what only costs time (steps, networks) or names a way of working rather than an amount.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from recveil.audits.catalog import lookup, place_of

__all__ = ["SPACES", "Knob", "OneOf", "Real", "Whole", "space_of"]


@dataclass(frozen=True)
class Real:
    """A number between two ends; `log` where it is the order of size that matters."""

    low: float
    high: float
    log: bool = False

    def distribution(self) -> Any:
        """As Optuna has it."""
        from optuna.distributions import FloatDistribution

        return FloatDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class Whole:
    """A whole number between two ends."""

    low: int
    high: int
    log: bool = False

    def distribution(self) -> Any:
        """As Optuna has it."""
        from optuna.distributions import IntDistribution

        return IntDistribution(self.low, self.high, log=self.log)


@dataclass(frozen=True)
class OneOf:
    """One of some words."""

    words: tuple[str, ...]

    def distribution(self) -> Any:
        """As Optuna has it."""
        from optuna.distributions import CategoricalDistribution

        return CategoricalDistribution(self.words)


Knob = Real | Whole | OneOf

_PART = {"strength": Real(0.3, 1.0)}

SPACES: Mapping[str, Mapping[str, Knob]] = {
    "adversarial": {"weight": Real(0.005, 0.5, log=True)},
    "adversarial-pot": {"weight": Real(0.001, 1.0, log=True)},
    "attrcloak": _PART,
    "attrcloak-dd": {"rate": Real(1e-4, 3e-2, log=True), "floor": Real(0.0, 0.9)},
    "attrcloak-df": {"floor": Real(0.05, 0.95)},
    "blurme": {"share": Real(0.01, 0.3, log=True), "mode": OneOf(("sampled", "greedy", "random"))},
    "d2d": {"weight": Real(0.003, 3.0, log=True)},
    "d2d-int": {"weight": Real(0.01, 10.0, log=True)},
    "gaussian": _PART,
    "ldp": {"epsilon": Real(1.0, 8.0)},
    "leace": _PART,
    "noise": {"scale": Real(0.05, 3.0, log=True)},
    "raid": {"eta": Real(0.003, 0.3, log=True), "xi": Whole(1, 8), "phase_one": Real(0.1, 0.6)},
    "raid-paper": {"eta": Real(0.05, 10.0, log=True), "xi": Whole(1, 8), "phase_one": Real(0.1, 0.6)},
    "raid-pot": {"weight": Real(0.001, 1.0, log=True)},
    "rap": {"weight": Real(0.005, 1.0, log=True)},
    "retrain": {"share": Real(0.02, 0.5, log=True), "which": OneOf(("random", "telling"))},
    "sliced": {"rounds": Whole(10, 150, log=True), **_PART},
    "u2u": {"weight": Real(0.03, 10.0, log=True)},
    "u2u-int": {"weight": Real(0.01, 10.0, log=True)},
}
"""Defense -> knob -> range."""


def space_of(defense: str) -> Mapping[str, Knob]:
    """The knobs of this defense; an unknown one is an error that names those that can be tuned."""
    place_of(defense)  # a name that nothing has is said so first
    return lookup("defense with knobs to tune", defense, SPACES)
