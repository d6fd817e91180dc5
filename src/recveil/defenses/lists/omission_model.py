"""How often each class has seen an item at a place of its ranking: a logistic model with one effect for each item.

logit P(seen | class k, item h, place r) = place_k(r) + item(h) + class_item_k(h). The effects of a class on an item are
shrunk by a normal prior.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from recveil.core.types import BoolArray, FloatArray, IntArray

__all__ = ["OmissionModel", "RankedPairs", "fit_omission_model", "mark_places"]

PLACES_PER_DOUBLING = 3
"""Groups of places for each doubling of the rank."""

N_STEPS = 8
"""Cycles of Newton steps over the three kinds of effects."""

ITEM_RIDGE = 0.5
PLACE_RIDGE = 1.0
CLASS_RIDGE = 3.0
"""Prior precisions of the effects. That of classes was chosen on validation items: a variance estimated from the
effects themselves (about 0.05) left half as much again to an attacker who holds vectors and lists."""

MAX_STEP = 2.0
"""Largest change of an effect in one step, in log-odds."""


@dataclass(frozen=True, eq=False)
class RankedPairs:
    """Pairs of a user of known class and a ranked item: class, place group, item, and whether it was seen."""

    class_codes: IntArray
    places: IntArray
    items: IntArray
    is_seen: BoolArray


@dataclass(frozen=True, eq=False)
class OmissionModel:
    """Effects of the model, in log-odds.

    Attributes:
        place: (K, places) effects of the place by class.
        item: effects of the items.
        class_item: (K, items) effects of an item on a class, beyond the effect of the item.
        precision: (K, items) posterior precisions of `class_item`.
    """

    place: FloatArray
    item: FloatArray
    class_item: FloatArray
    precision: FloatArray

    @classmethod
    def start(cls, n_classes: int, n_places: int, n_items: int) -> OmissionModel:
        """Return the model without any effect."""
        by_item = np.zeros((n_classes, n_items))
        return cls(np.zeros((n_classes, n_places)), np.zeros(n_items), by_item, by_item + CLASS_RIDGE)

    def draw(self, rng: np.random.Generator) -> OmissionModel:
        """Draw the class effects from their posterior.

        Matching the drawn effects leaves differences between classes as large as those of random classes. Matching the
        estimates would leave none at all, which an attacker could tell from random classes by inverted predictions.
        """
        noise = rng.standard_normal(self.class_item.shape) / np.sqrt(self.precision)
        return replace(self, class_item=self.class_item + noise)

    def predict(self, place: int, items: IntArray) -> FloatArray:
        """Return (K, n) probabilities that these items at this place were seen, for each class."""
        return _apply_logistic(self.place[:, place, None] + self.item[items] + self.class_item[:, items])


def mark_places(depth: int) -> IntArray:
    """Return the group of each rank from 0 to `depth` - 1: wider groups further down."""
    return (np.log2(np.arange(depth) + 1) * PLACES_PER_DOUBLING).astype(np.int64)


def fit_omission_model(pairs: RankedPairs, start: OmissionModel) -> OmissionModel:
    """Fit the model to pairs by Newton steps from a start.

    Args:
        pairs: what was seen and what was not.
        start: effects to begin with.
    """
    n_classes, n_items = start.class_item.shape
    at_place = pairs.class_codes * start.place.shape[1] + pairs.places
    at_class_item = pairs.class_codes * n_items + pairs.items
    place, item, class_item = start.place.ravel(), start.item, start.class_item.ravel()
    curvature = start.precision.ravel()

    def step(index: IntArray, effect: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray]:
        p = _apply_logistic(place[at_place] + item[pairs.items] + class_item[at_class_item])
        slope = np.bincount(index, pairs.is_seen - p, len(effect)) - ridge * effect
        precision = np.bincount(index, p * (1 - p), len(effect)) + ridge
        return effect + np.clip(slope / precision, -MAX_STEP, MAX_STEP), precision

    for _ in range(N_STEPS):
        place = step(at_place, place, PLACE_RIDGE)[0]
        item = step(pairs.items, item, ITEM_RIDGE)[0]
        class_item, curvature = step(at_class_item, class_item, CLASS_RIDGE)
    shape = (n_classes, n_items)
    return OmissionModel(place.reshape(start.place.shape), item, class_item.reshape(shape), curvature.reshape(shape))


def _apply_logistic(log_odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -30, 30))))
