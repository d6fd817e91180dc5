"""Tiny worlds with known answers, for tests of recommenders, audits and defenses.

A recommender must solve the checkerboard. Each of the other worlds is a table of user vectors with one attribute, and
its docstring says what an honest audit must report about it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import UsageError, unknown_name
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import compute_bayes_accuracy, place_class_means

__all__ = [
    "compute_bayes_accuracy",
    "make_checkerboard",
    "make_injected_label",
    "make_inverted_leak",
    "make_no_leak",
    "make_planted_leak",
]


def make_checkerboard(*, n_items: int = 12, copies: int = 4) -> Split:
    """Make two groups of users who interact with the items of their group in turn.

    Exactly two items of a user's group are missing in training, the validation and the test item, and every item
    occurs there equally often. A recommender that learns the groups ranks these two first among the unseen items
    (HR@2 = 1), and popularity alone is at chance. The order is cyclic, so sequential models can learn it too.

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


def make_planted_leak(n: int, d: int, K: int, size: float, *, rng: np.random.Generator) -> tuple[FloatArray, Attribute]:
    """Make Gaussian classes of equal size and spread, with different means.

    The means are at distance `size` from each other, in random directions. An honest audit must report a leak, with a
    balanced accuracy near `compute_bayes_accuracy(K, size)` and never above it beyond chance. The best attack is
    linear.

    Args:
        n: users.
        d: length of the vectors, at least K - 1.
        K: classes.
        size: distance between class means, in standard deviations.
        rng: source of randomness.
    """
    if d < K - 1:
        raise UsageError(f"{K} classes at equal distances need {K - 1} dimensions, and d is {d}.")
    codes = _draw_labels(n, K, rng)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0][: K - 1]
    x = rng.standard_normal((n, d)) + place_class_means(K, size)[codes] @ basis
    return x.astype(np.float32), _make_attribute(codes, K)


def make_no_leak(n: int, d: int, K: int, *, rng: np.random.Generator) -> tuple[FloatArray, Attribute]:
    """Make vectors and labels that are independent.

    An honest audit reports a leak in at most 5 % of such worlds, and an interval that holds 1/K in 95 %.

    Args:
        n: users.
        d: length of the vectors.
        K: classes.
        rng: source of randomness.
    """
    codes = _draw_labels(n, K, rng)
    return rng.standard_normal((n, d)).astype(np.float32), _make_attribute(codes, K)


def make_inverted_leak(n: int, d: int, K: int, *, rng: np.random.Generator) -> tuple[FloatArray, Attribute]:
    """Make vectors without a leak whose classes have equal moments in the sample.

    A surplus in the training folds is then a deficit in the test fold, so attacks fall below chance, and relabelling
    their guesses turns this into a leak. An honest audit must report a leak (and that it is inverted), not a privacy
    better than perfect. The effect is strongest with few users per dimension.

    Args:
        n: users.
        d: length of the vectors; each class needs more than d users.
        K: classes.
        rng: source of randomness.
    """
    codes = _draw_labels(n, K, rng)
    x = rng.standard_normal((n, d))
    smallest = int(np.bincount(codes, minlength=K).min())
    if smallest <= d:
        raise UsageError(
            f"Each class needs more than d = {d} users, and one has {smallest}; use n above {K * (d + 1)}."
        )
    for k in range(K):
        x[codes == k] = _whiten_rows(x[codes == k])
    return x.astype(np.float32), _make_attribute(codes, K)


def make_injected_label(
    kind: str, *, n: int, d: int, size: float = 0.5, step: float = 0.25, rng: np.random.Generator
) -> tuple[FloatArray, Attribute]:
    """Make vectors of two classes with a label that linear attacks do not find.

    - `scale`: the second class is longer by the factor 1 + `size`;
    - `parity`: the signs of the first two coordinates agree in the second class and differ in the first;
    - `low-bits`: the first coordinate is rounded to a grid, whose points lie half a `step` apart in the two classes.

    An honest audit must report a leak for each: quadratic attacks and trees find the first two, only trees the third,
    as long as there are many users for each step. Parity and low bits carry the whole label (an attacker who knows
    the rule is always right).

    Args:
        kind: `scale`, `parity` or `low-bits`.
        n: users.
        d: length of the vectors.
        size: additional length of the second class, for `scale`.
        step: step of the grid, for `low-bits`.
        rng: source of randomness.
    """
    codes = _draw_labels(n, 2, rng)
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
    return x, _make_attribute(codes, 2)


def _draw_labels(n: int, K: int, rng: np.random.Generator) -> IntArray:
    """Draw labels in random order, with class sizes that differ by at most one."""
    labels: IntArray = rng.permutation(np.arange(n, dtype=np.int64) % K)
    return labels


def _make_attribute(codes: IntArray, K: int) -> Attribute:
    return Attribute("secret", codes, tuple(f"class {k}" for k in range(K)))


def _whiten_rows(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Transform the points linearly to mean 0 and covariance I (divided by n)."""
    centered = x - x.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered / len(x))
    white: NDArray[np.float64] = centered @ (vectors / np.sqrt(values)) @ vectors.T
    return white
