"""What the vectors of a user say of her seen items, and would say if she were of another class.

A cloak moves classes differently, so users of two classes with the same cloaked vector had different undefended ones,
and have seen different items. An attacker who holds vectors and lists reads the class from that. So two things are
estimated for each class from its users with similar cloaked vectors, for any cloak and without its map: the undefended
vector, and how much of the head of the ranking was seen. A user is left out of the estimate for her own class, so that
she is no better known in her class than in another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core.types import BoolArray, FloatArray, IntArray, ServedVectors

__all__ = ["HeadFeatures", "compute_features", "predict_by_class"]

RIDGE = 100.0
"""Penalty of the regressions, in users: directions that fewer users span are shrunk. 1,000 does as well on ML-1M."""

SHARE_LISTS = 6
"""Part of a ranking whose share of seen items is predicted, in lengths of a list; about as far as lists reach."""


@dataclass(frozen=True, eq=False)
class HeadFeatures:
    """Features of each user and each item of her head, as if she were of each class; any part may have none.

    Attributes:
        by_item: (n, depth, a) features of the item.
        by_class: (K, n, b) features of the class.
        by_class_item: (K, n, depth, c) features of both.
    """

    by_item: FloatArray
    by_class: FloatArray
    by_class_item: FloatArray

    @property
    def count(self) -> int:
        """Features in all."""
        return int(self.by_item.shape[-1] + self.by_class.shape[-1] + self.by_class_item.shape[-1])

    def take(self, codes: IntArray, users: IntArray, ranks: IntArray) -> FloatArray:
        """Return (..., features) of these users and places, as of these classes; the three are broadcast."""
        parts = self.by_item[users, ranks], self.by_class[codes, users], self.by_class_item[codes, users, ranks]
        shape = np.broadcast_shapes(*(part.shape[:-1] for part in parts))
        return np.concatenate([np.broadcast_to(part, (*shape, part.shape[-1])) for part in parts], axis=-1)


def compute_features(
    vectors: ServedVectors | None, cells: IntArray, head: IntArray, is_seen: BoolArray, k: int
) -> HeadFeatures:
    """Compute what the vectors of users say of the items of their heads, as if users were of each class.

    The features are the score that the user is served by, the share of seen items in her head that is expected of the
    class, and by how much more the undefended vector that is expected of the class would score the item. The last one
    is left out where undefended vectors are not known.

    Args:
        vectors: what the heads come from; there are no features if None.
        cells: (n,) classes, -1 = undisclosed.
        head: (n, depth) items, -1 where a ranking has ended.
        is_seen: (n, depth) whether the user has seen them.
        k: length of the lists.

    Returns:
        The features, scores in their standard deviations.
    """
    (n, depth), n_classes, is_item = head.shape, int(cells.max(initial=-1)) + 1, head >= 0
    if vectors is None or not is_item.any():
        return HeadFeatures(*(np.zeros((*shape, 0)) for shape in ((n, depth), (n_classes, n), (n_classes, n, depth))))
    served = vectors.score_head(vectors.cloaked)
    spread = max(float(served[is_item].std()), float(np.finfo(np.float32).tiny))
    share = _standardize(is_seen[:, : SHARE_LISTS * k].mean(1)[:, None])
    gains = np.empty((n_classes, n, depth, int(vectors.undefended is not None)), dtype=np.float32)
    if vectors.undefended is not None:
        displacements = predict_by_class(vectors.cloaked, vectors.undefended - vectors.cloaked, cells)
        for code, displacement in enumerate(displacements):
            gains[code, ..., 0] = (vectors.score_head(vectors.cloaked + displacement) - served) / spread
    scores = (served - served[is_item].mean())[..., None] / spread
    return HeadFeatures(scores, predict_by_class(vectors.cloaked, share, cells), gains)


def predict_by_class(cloaked: FloatArray, target: FloatArray, cells: IntArray) -> FloatArray:
    """Predict a quantity of each user from her cloaked vector, as if she were of each class, by ridge regression.

    Args:
        cloaked: (n, d) cloaked vectors.
        target: (n, m) the quantity.
        cells: (n,) classes, -1 = undisclosed.

    Returns:
        (K, n, m) predictions; the one for a user's own class comes from the others of that class.
    """
    places, target = _standardize(cloaked), np.asarray(target, dtype=np.float64)
    classes = range(int(cells.max(initial=-1)) + 1)
    return np.stack([_predict_as(places, target, cells == code) for code in classes])


def _predict_as(places: FloatArray, target: FloatArray, is_in: BoolArray) -> FloatArray:
    """Predict the target of every user as one of these; each of these from the others alone."""
    n = int(is_in.sum())
    if n < 2:
        return np.zeros_like(target)
    centered, mean = places - places[is_in].mean(0), target[is_in].mean(0)
    rows = centered[is_in]
    inverse = np.linalg.inv(rows.T @ rows + RIDGE * np.eye(places.shape[1]))
    predicted: FloatArray = mean + centered @ (inverse @ (rows.T @ (target[is_in] - mean)))
    # What a linear smoother predicts for a row without that row follows from the row's weight on itself.
    leverage = (1 / n + ((rows @ inverse) * rows).sum(1))[:, None]
    predicted[is_in] = (predicted[is_in] - leverage * target[is_in]) / (1 - leverage)
    return predicted


def _standardize(table: FloatArray) -> FloatArray:
    """Center columns and divide them by their standard deviations, constant ones by 1."""
    table = np.asarray(table, dtype=np.float64)
    spread = table.std(0)
    return np.asarray((table - table.mean(0)) / np.where(spread > 0, spread, 1.0))
