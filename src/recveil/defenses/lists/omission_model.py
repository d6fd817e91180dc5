"""How often each class has seen an item at a place of its ranking: a logistic model with one effect for each item.

logit P(seen | class k, item h, place r, features f) = place_k(r) + item(h) + class_item_k(h) + slope_k f. The effects
of a class on an item are shrunk by a normal prior. Features tell what a user's vectors say of the item; they may differ
by the class that the user is taken for.
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
SLOPE_RIDGE = 1.0
CLASS_RIDGE = 3.0
"""Prior precisions of the effects. That of classes was chosen on validation items: a variance estimated from the
effects themselves (about 0.05) left half as much again to an attacker who holds vectors and lists."""

MAX_STEP = 2.0
"""Largest change of an effect in one step, in log-odds."""


@dataclass(frozen=True, eq=False)
class RankedPairs:
    """Pairs of a user of known class and a ranked item: class, place group, item, whether it was seen, and features.

    `features` is (pairs, features), as of users of their own class.
    """

    class_codes: IntArray
    places: IntArray
    items: IntArray
    is_seen: BoolArray
    features: FloatArray


@dataclass(frozen=True, eq=False)
class OmissionModel:
    """Effects of the model, in log-odds.

    Attributes:
        place: (K, places) effects of the place by class.
        item: effects of the items.
        class_item: (K, items) effects of an item on a class, beyond the effect of the item.
        precision: (K, items) posterior precisions of `class_item`.
        slope: (K, features) effects of the features by class.
    """

    place: FloatArray
    item: FloatArray
    class_item: FloatArray
    precision: FloatArray
    slope: FloatArray

    @classmethod
    def start(cls, n_classes: int, n_places: int, n_items: int, n_features: int = 0) -> OmissionModel:
        """Return the model without any effect."""
        by_item, slope = np.zeros((n_classes, n_items)), np.zeros((n_classes, n_features))
        return cls(np.zeros((n_classes, n_places)), np.zeros(n_items), by_item, by_item + CLASS_RIDGE, slope)

    def draw(self, rng: np.random.Generator) -> OmissionModel:
        """Draw the class effects from their posterior.

        Matching the drawn effects leaves differences between classes as large as those of random classes. Matching the
        estimates would leave none at all, which an attacker could tell from random classes by inverted predictions.
        """
        noise = rng.standard_normal(self.class_item.shape) / np.sqrt(self.precision)
        return replace(self, class_item=self.class_item + noise)

    def predict(self, place: int, items: IntArray, features: FloatArray | None = None) -> FloatArray:
        """Return (K, n) probabilities that these items at this place were seen, for each class.

        Args:
            place: group of the place.
            items: item of each user.
            features: (K, n, features) features of each user and item, as of a user of each class.
        """
        log_odds = self.place[:, place, None] + self.item[items] + self.class_item[:, items]
        by_features = 0.0 if features is None else np.einsum("knf,kf->kn", features, self.slope)
        return _apply_logistic(log_odds + by_features)


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
    curvature, slope = start.precision.ravel(), start.slope

    def predict() -> FloatArray:
        by_features = (pairs.features * slope[pairs.class_codes]).sum(1)
        return _apply_logistic(place[at_place] + item[pairs.items] + class_item[at_class_item] + by_features)

    def step(index: IntArray, effect: FloatArray, ridge: float) -> tuple[FloatArray, FloatArray]:
        p = predict()
        gradient = np.bincount(index, pairs.is_seen - p, len(effect)) - ridge * effect
        precision = np.bincount(index, p * (1 - p), len(effect)) + ridge
        return effect + np.clip(gradient / precision, -MAX_STEP, MAX_STEP), precision

    for _ in range(N_STEPS):
        place = step(at_place, place, PLACE_RIDGE)[0]
        item = step(pairs.items, item, ITEM_RIDGE)[0]
        class_item, curvature = step(at_class_item, class_item, CLASS_RIDGE)
        slope = _step_slopes(pairs, slope, predict())
    by_item = (n_classes, n_items)
    return OmissionModel(
        place.reshape(start.place.shape), item, class_item.reshape(by_item), curvature.reshape(by_item), slope
    )


def _step_slopes(pairs: RankedPairs, slope: FloatArray, p: FloatArray) -> FloatArray:
    """Take a Newton step of the slopes of each class, jointly over the features."""
    stepped = slope.copy()
    for code in range(len(slope)):
        rows = pairs.class_codes == code
        features, weight = pairs.features[rows], (p * (1 - p))[rows]
        gradient = features.T @ (pairs.is_seen - p)[rows] - SLOPE_RIDGE * slope[code]
        curvature = (features * weight[:, None]).T @ features + SLOPE_RIDGE * np.eye(slope.shape[1])
        stepped[code] += np.clip(np.linalg.solve(curvature, gradient), -MAX_STEP, MAX_STEP)
    return stepped


def _apply_logistic(log_odds: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-np.clip(log_odds, -30, 30))))
