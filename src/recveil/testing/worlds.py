"""Tiny worlds with known answers, to judge recommenders, audits and defenses by.

A recommender must solve the checkerboard. Each of the others is a table of user vectors with one attribute, and its
docstring says what an honest audit must report about it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import compute_bayes_accuracy, place_class_means

__all__ = ["compute_bayes_accuracy", "checkerboard", "injected_label", "inverted_leak", "no_leak", "planted_leak"]


def checkerboard(*, n_items: int = 12, copies: int = 4) -> Split:
    """Two groups of users, two groups of items; every user touches the items of the own group, each in turn.

    Of a user's own group exactly two items are missing in training, the validation and the test item, and every item
    occurs there equally often. So a recommender that has understood ranks these two first among the unseen
    (HR@2 = 1), and one that knows popularity alone is left to chance. The order is cyclic, so sequential models can
    learn it too.

    Args:
        n_items: items of each group.
        copies: users of each group who start at the same item.
    """
    if n_items < 3:
        raise UsageError(f"A checkerboard of {n_items} items a group leaves nothing to train on; use 3 or more.")
    group, _, first, turn = (a.ravel() for a in np.indices((2, copies, n_items, n_items)))
    n_users = 2 * copies * n_items
    groups = Attribute("group", np.repeat(np.arange(2), n_users // 2), ("black", "white"))
    board = Dataset(
        name="checkerboard",
        user=np.repeat(np.arange(n_users), n_items),
        item=group * n_items + (first + turn) % n_items,
        time=turn,
        user_ids=np.arange(n_users),
        item_ids=np.arange(2 * n_items),
        attributes={"group": groups},
    )
    return leave_one_out(board)


def planted_leak(n: int, d: int, K: int, size: float, *, rng: np.random.Generator) -> tuple[FloatArray, Attribute]:
    """Gaussian classes of equal size, their means at distance `size` from each other, turned at random.

    An honest audit must report a leak, with a balanced accuracy near `bayes_accuracy(K, size)` and never above it
    beyond chance. The best attacker is linear.
    """
    if d < K - 1:
        raise UsageError(f"{K} classes at equal distances need {K - 1} dimensions, and d is {d}.")
    codes = _labels(n, K, rng)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0][: K - 1]
    x = rng.standard_normal((n, d)) + place_class_means(K, size)[codes] @ turn
    return x.astype(np.float32), _attribute(codes, K)


def no_leak(n: int, d: int, K: int, *, rng: np.random.Generator) -> tuple[FloatArray, Attribute]:
    """Vectors and labels drawn apart from each other.

    An honest audit may report a leak in at most 5 % of such worlds, and an interval that holds 1/K in 95 %.
    """
    codes = _labels(n, K, rng)
    return rng.standard_normal((n, d)).astype(np.float32), _attribute(codes, K)


def inverted_leak(n: int, d: int, K: int, *, rng: np.random.Generator) -> tuple[FloatArray, Attribute]:
    """Vectors without a leak whose class means and covariances were then made equal in this very sample.

    What a class lacks in the training folds it has in the test fold, so attackers fall below chance: a mirror image
    that a relabelling turns into a leak. An honest audit must report a leak (and that it is inverted), not a privacy
    better than perfect. It shows best with few users per dimension; each class needs more than d users.
    """
    codes = _labels(n, K, rng)
    x = rng.standard_normal((n, d))
    fewest = int(np.bincount(codes, minlength=K).min())
    if fewest <= d:
        raise UsageError(f"Each class needs more than d = {d} users, and one has {fewest}; use n above {K * (d + 1)}.")
    for k in range(K):
        x[codes == k] = _whiten(x[codes == k])
    return x.astype(np.float32), _attribute(codes, K)


def injected_label(
    kind: str, *, n: int, d: int, size: float = 0.5, step: float = 0.25, rng: np.random.Generator
) -> tuple[FloatArray, Attribute]:
    """Vectors of two classes with equal means that carry the label where a linear attacker does not look.

    - `scale`: the second class is longer by the factor 1 + `size`;
    - `parity`: the signs of the first two coordinates agree in the second class and differ in the first;
    - `low-bits`: the first coordinate is rounded to a grid, whose points lie half a `step` apart in the two classes.

    An honest audit must report a leak for each: quadratic attackers and trees see the first two, only trees the third,
    as long as there are many users for each step. Parity and low bits carry the label in full (an attacker who
    knows how is always right).
    """
    codes = _labels(n, 2, rng)
    x = rng.standard_normal((n, d)).astype(np.float32)
    if kind == "scale":
        x *= (1 + size * codes)[:, None].astype(np.float32)
    elif kind == "parity":
        x[:, 1] = np.abs(x[:, 1]) * np.sign(x[:, 0]) * (2 * codes - 1)
    elif kind == "low-bits":
        offset = codes * (step / 2)
        x[:, 0] = np.floor((x[:, 0] - offset) / step) * step + offset
    else:
        raise unknown_name("way to inject a label", kind, ("scale", "parity", "low-bits"))
    return x, _attribute(codes, 2)


def _labels(n: int, K: int, rng: np.random.Generator) -> IntArray:
    """Labels whose class sizes differ by at most one, in random order."""
    labels: IntArray = rng.permutation(np.arange(n, dtype=np.int64) % K)
    return labels


def _attribute(codes: IntArray, K: int) -> Attribute:
    return Attribute("secret", codes, tuple(f"class {k}" for k in range(K)))


def _whiten(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same points moved and stretched to mean 0 and covariance I (divided by n)."""
    centered = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / len(x))
    white: NDArray[np.float64] = centered @ (vectors / np.sqrt(values)) @ vectors.T
    return white
