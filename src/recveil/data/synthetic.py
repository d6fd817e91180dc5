"""Synthetic worlds in which the accuracy of the best possible attack is known.

Each user has a taste, a vector drawn from a standard Gaussian around the sum of the means of the user's classes. Users
choose items by popularity and by the product of an item's vector with their taste. The class means of an attribute have
equal distances (its leak) from each other, and each attribute has dimensions of its own. Therefore

- at leak 0 nothing depends on the attribute, and no attack beats chance in the population;
- the interactions hold no more information about a class than the taste does, and the best guess from the taste has a
  balanced accuracy in closed form (`compute_bayes_accuracy`), which bounds every attack on every release.

Both statements hold in the population; on n users an attack may exceed the bound by chance.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import integrate, special

from recveil.core.errors import UsageError, unknown_name
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray

__all__ = ["CLASS_SHARES", "World", "compute_bayes_accuracy", "make_demo_world", "make_world", "place_class_means"]

CLASS_SHARES: Mapping[str, Mapping[str, float]] = {
    "gender": {"F": 0.35, "M": 0.65},
    "age": {"<35": 0.5, "35-44": 0.3, "45+": 0.2},
    "handedness": {"left": 0.3, "right": 0.7},
    "region": {"north": 0.25, "east": 0.25, "south": 0.25, "west": 0.25},
}
"""Attributes of a world and the share of users in each class."""

POPULARITY_EXPONENT = 0.8  # the r-th item has the popularity r ** -POPULARITY_EXPONENT, a long tail
ACTIVITY_SPREAD = 0.7  # standard deviation of the logarithm of history lengths
MIN_INTERACTIONS_PER_USER = 5  # interactions of the least active user, where the total allows
SECONDS_PER_DAY = 86_400
BLOCK_SCORES = 2_000_000  # scores held at once


@dataclass(frozen=True, eq=False)
class World:
    """A data set with the vectors that generated it and the bounds of attacks.

    Attributes:
        dataset: the interactions and attributes.
        taste: tastes of the users, (n_users, d).
        item_vectors: vectors of the items, (n_items, d).
        bayes: balanced accuracy of the best guess of each attribute from the taste.
    """

    dataset: Dataset
    taste: FloatArray
    item_vectors: FloatArray
    bayes: Mapping[str, float]


def make_demo_world(seed: int = 0, *, n_users: int = 3_000) -> World:
    """Make the demo world: 800 items, 50 interactions a user.

    Gender leaks strongly, age moderately, handedness not at all.
    """
    leaks = {"gender": 1.7, "age": 1.5, "handedness": 0.0}
    return make_world(
        n_users=n_users,
        n_interactions=50 * n_users,
        leaks=leaks,
        d=24,
        strength=2.4,
        rng=make_generator(seed, "world"),
    )


def make_world(
    *,
    n_users: int = 2_000,
    n_items: int = 800,
    n_interactions: int = 100_000,
    leaks: Mapping[str, float],
    shares: Mapping[str, Mapping[str, float]] = CLASS_SHARES,
    d: int = 12,
    strength: float = 1.8,
    rng: np.random.Generator,
) -> World:
    """Make a world of this size, in which no pair of user and item occurs twice.

    Time and memory grow with n_users x n_items.

    Args:
        n_users: number of users, each with at least one interaction.
        n_items: number of items; in a small world some may have no interaction.
        n_interactions: exact number of interactions.
        leaks: for each attribute the distance between its class means, in standard deviations of taste: 0 is no leak, 1
            slight, 2 strong, 4 almost full disclosure.
        shares: classes of each attribute and the share of users in each.
        d: dimensions of taste; an attribute with K classes needs K - 1 dimensions of its own.
        strength: weight of taste against popularity.
        rng: source of all randomness.

    Raises:
        UsageError: the sizes, leaks or dimensions do not fit together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> make_world(n_users=200, n_interactions=4_000, leaks={"gender": 2.0}, rng=rng).taste.shape
        (200, 12)
    """
    _check_size(n_users, n_items, n_interactions, leaks, shares, d)
    # One stream for each role, so that the labels of an attribute change nothing else.
    label_rng, taste_rng, item_rng, pick_rng, time_rng = rng.spawn(5)
    attributes = {name: _draw_attribute(name, shares[name], n_users, label_rng) for name in leaks}
    taste = taste_rng.standard_normal((n_users, d), dtype=np.float32)
    taste += _shift_by_class(attributes, leaks, d)
    item_vectors = item_rng.standard_normal((n_items, d), dtype=np.float32)
    popularity = (-POPULARITY_EXPONENT * np.log1p(item_rng.permutation(n_items))).astype(np.float32)
    lengths = _draw_lengths(n_users, n_items, n_interactions, pick_rng)
    weights = (strength / np.sqrt(d)) * item_vectors.T
    user, item = _draw_items(taste, weights.astype(np.float32), popularity, lengths, pick_rng)
    user, item, time = _draw_times(user, item, n_users, time_rng)
    dataset = Dataset("synthetic", user, item, time, np.arange(n_users), np.arange(n_items), attributes)
    return World(
        dataset, taste, item_vectors, {a: compute_bayes_accuracy(len(shares[a]), leak) for a, leak in leaks.items()}
    )


def compute_bayes_accuracy(n_classes: int, distance: float) -> float:
    """Compute the best balanced accuracy for Gaussian classes with equidistant means.

    The classes share the covariance I, so the nearest mean is the best guess for all class sizes. It is right if one
    standard Gaussian number, shifted by distance / sqrt 2, is the largest of n_classes such numbers. At distance 0 the
    accuracy is exactly 1 / n_classes.
    """
    if distance == 0:
        return 1 / n_classes
    shift = distance / np.sqrt(2)

    def compute_density(t: float) -> float:
        return float(np.exp(-((t - shift) ** 2) / 2) * special.ndtr(t) ** (n_classes - 1) / np.sqrt(2 * np.pi))

    return float(integrate.quad(compute_density, shift - 10, shift + 10, epsabs=1e-10, limit=200)[0])


def place_class_means(n_classes: int, distance: float) -> FloatArray:
    """Place the class means on a regular simplex around 0.

    Every two means have this distance.
    """
    corners = np.eye(n_classes) - 1 / n_classes
    # The corners span one dimension less than they have coordinates; a basis of that span removes it.
    basis = np.linalg.svd(corners)[2][: n_classes - 1]
    means: FloatArray = corners @ basis.T * (distance / np.sqrt(2))
    return means


def _check_size(
    n_users: int,
    n_items: int,
    n_interactions: int,
    leaks: Mapping[str, float],
    shares: Mapping[str, Mapping[str, float]],
    d: int,
) -> None:
    limit = n_users * _max_interactions(n_items)
    if not n_users <= n_interactions <= limit:
        raise UsageError(
            f"{n_interactions} interactions do not fit {n_users} users and {n_items} items: each user has at least "
            f"one, and at most half of the items. Use between {n_users} and {limit}."
        )
    for name, leak in leaks.items():
        if name not in shares:
            raise unknown_name("attribute of the synthetic world", name, shares)
        if leak < 0:
            raise UsageError(f"The leak of '{name}' is {leak:g}; it must be 0 or more, because it is a distance.")
    needed = sum(len(shares[name]) - 1 for name in leaks)
    if needed > d:
        raise UsageError(f"These attributes need {needed} dimensions of taste and d is {d}; use d={needed} or more.")


def _draw_attribute(name: str, shares: Mapping[str, float], n_users: int, rng: np.random.Generator) -> Attribute:
    edges = np.cumsum(list(shares.values()))
    codes = np.searchsorted(edges[:-1] / edges[-1], rng.random(n_users), side="right")
    return Attribute(name, codes.astype(np.int64), tuple(shares))


def _shift_by_class(attributes: Mapping[str, Attribute], leaks: Mapping[str, float], d: int) -> NDArray[np.float32]:
    blocks = [place_class_means(len(a.labels), leaks[name])[a.codes] for name, a in attributes.items()]
    shift = np.concatenate(blocks, axis=1) if blocks else np.zeros((1, 0))
    return np.pad(shift, ((0, 0), (0, d - shift.shape[1]))).astype(np.float32)


def _max_interactions(n_items: int) -> int:
    return max(1, n_items // 2)


def _draw_lengths(n_users: int, n_items: int, total: int, rng: np.random.Generator) -> IntArray:
    """Draw the number of items of each user, a long tail that sums to the total."""
    weight = rng.lognormal(0.0, ACTIVITY_SPREAD, n_users)
    lengths = np.full(n_users, min(MIN_INTERACTIONS_PER_USER, total // n_users, _max_interactions(n_items)))
    while (missing := total - int(lengths.sum())) > 0:
        # What exceeds the maximum of a user is distributed again among the other users.
        share = np.where(lengths < _max_interactions(n_items), weight, 0.0)
        lengths = np.minimum(lengths + rng.multinomial(missing, share / share.sum()), _max_interactions(n_items))
    return lengths


def _draw_items(
    taste: NDArray[np.float32],
    weights: NDArray[np.float32],
    popularity: NDArray[np.float32],
    lengths: IntArray,
    rng: np.random.Generator,
) -> tuple[IntArray, IntArray]:
    """Draw the items of each user without replacement.

    The probability of an item is proportional to exp(popularity + taste . weights).

    Each item gets an exponential waiting time with that rate; the first arrivals are such a draw.
    """
    n_items = len(popularity)
    by_length = np.argsort(lengths, kind="stable")  # blocks of similar lengths waste little work
    size = max(1, BLOCK_SCORES // n_items)
    users, items = [], []
    for start in range(0, len(lengths), size):
        block = by_length[start : start + size]
        wait = taste[block] @ weights
        wait += popularity
        np.exp(-wait, out=wait)
        wait *= rng.standard_exponential(wait.shape, dtype=np.float32)
        longest = int(lengths[block[-1]])
        first = np.argpartition(wait, longest, axis=1)[:, :longest] if longest < n_items else np.argsort(wait, axis=1)
        order = np.argsort(np.take_along_axis(wait, first, axis=1), axis=1)
        ranked = np.take_along_axis(first, order, axis=1)
        is_drawn = np.arange(ranked.shape[1]) < lengths[block][:, None]
        users.append(np.repeat(block, lengths[block]))
        items.append(ranked[is_drawn])
    return np.concatenate(users).astype(np.int64), np.concatenate(items).astype(np.int64)


def _draw_times(
    user: IntArray, item: IntArray, n_users: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Draw the times of interactions and order the rows by user, then time.

    Each user is active for some days within two years and interacts with the items in random order.
    """
    start = rng.integers(0, 730 * SECONDS_PER_DAY, n_users)
    stay = rng.exponential(30 * SECONDS_PER_DAY, n_users)
    time = (start[user] + rng.random(len(user)) * stay[user]).astype(np.int64)
    order = np.lexsort((time, user))
    return user[order], item[order], time[order]
