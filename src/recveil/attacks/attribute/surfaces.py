"""Surfaces of a release: what an attacker sees, one row of numbers for each user.

    x = build_view(release, "lists", rng=rng)          # (n_users, at most `columns`) float32

Wide surfaces (a score or a place in a list for every item) are reduced to a few hundred columns, so that every attack
of a panel can afford them. The reduction is fitted on all users of the release and on no label: the attacker holds the
whole release and may use its shape, and without labels nothing passes from the attacked users to the training users.
It keeps the directions in which users differ most; a leak in smaller directions is lost, and more columns keep more.
The same generator gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.types import Dataset, FloatArray, IntArray, Release

__all__ = [
    "VIEWS",
    "ITEM_WEIGHTS",
    "ViewConfig",
    "View",
    "view_interactions",
    "view_list_means",
    "view_lists",
    "build_view",
    "view_scores",
    "list_surfaces",
    "join_releases",
    "view_user_vectors",
]

Table = NDArray[np.float32]

EXTRA_DIRECTIONS = 16
"""Directions computed beyond the requested ones, which makes the last requested ones accurate."""

SUBSPACE_STEPS = 4
"""Steps of subspace iteration."""

SKETCH_FACTOR = 4
"""Columns of a random projection of the scores for each requested column."""

MAX_SCORES_HELD = 2**22
"""Scores held at a time."""

MIN_RELATIVE_SPREAD = 1e-5
"""Spread of a direction, relative to the largest, below which it is rounding error."""

GRAM_BLOCK_ROWS = 2**14
"""Rows that are converted to double precision at a time."""


@dataclass(frozen=True, eq=False)
class ViewConfig:
    """Options of a view.

    Args:
        columns: maximal number of columns for surfaces that have one for every item.
        weight: weight of an item, one of `ITEM_WEIGHTS`.
        history: the users' interactions, for the surface `interactions` alone.
        n_users: number of users, for a release that has nothing but a scoring function.
    """

    columns: int = 128
    weight: str = "equal"
    history: Dataset | None = None
    n_users: int | None = None


View = Callable[[Release, ViewConfig, np.random.Generator], Table]
"""Takes a release, options and a generator; returns (n_users, d)."""


def build_view(
    release: Release,
    surface: str = "user_vectors",
    *,
    columns: int = 128,
    weight: str = "equal",
    history: Dataset | None = None,
    n_users: int | None = None,
    rng: np.random.Generator,
) -> Table:
    """Build the table that an attacker of this surface sees.

    Args:
        release: what the platform exposes.
        surface: one of `VIEWS`.
        columns: maximal number of columns for surfaces that have one for every item.
        weight: weight of an item, one of `ITEM_WEIGHTS`.
        history: the users' interactions, for the surface `interactions` alone.
        n_users: number of users, for a release that has nothing but a scoring function.
        rng: source of the random projection.

    Returns:
        One row of numbers for each user.

    Raises:
        UsageError: an option is not possible.
        DataError: the release lacks a part that the surface is made of.
    """
    if surface not in VIEWS:
        raise unknown_name("surface", surface, VIEWS)
    if weight not in ITEM_WEIGHTS:
        raise unknown_name("weight of items", weight, ITEM_WEIGHTS)
    if columns < 1:
        raise UsageError(f"columns is {columns}. A view needs at least one column.")
    config = ViewConfig(columns, weight, history, n_users)
    missing = [part for part, is_there in REQUIRED_PARTS[surface] if not is_there(release, config)]
    if missing:
        raise DataError(
            f"The surface '{surface}' needs what this release does not have: {' and '.join(missing)}. "
            f"Add it, or use a surface it has: {', '.join(list_surfaces(release, history=history)) or 'none'}."
        )
    return VIEWS[surface](release, config, rng)


def list_surfaces(release: Release, *, history: Dataset | None = None) -> tuple[str, ...]:
    """Return the names of the surfaces that this release has."""
    config = ViewConfig(history=history)
    return tuple(
        surface for surface, parts in REQUIRED_PARTS.items() if all(is_there(release, config) for _, is_there in parts)
    )


def join_releases(before: FloatArray, after: FloatArray) -> Table:
    """Join two releases of the same users into what an attacker of both sees.

    The result holds both tables and their difference. Both must be in the same coordinates, as user vectors and list
    means are. Two reductions of scores or lists are not, since each has its own directions.
    """
    if before.ndim != 2 or before.shape != after.shape:
        raise DataError(
            f"The table before has the shape {before.shape} and the one after {after.shape}. To compare two releases, "
            f"give the same users, in the same order, with vectors of the same length."
        )
    return np.concatenate([before, after, after - before], axis=1).astype(np.float32)


def view_user_vectors(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the released user vectors as they are."""
    assert release.user_vectors is not None
    return np.asarray(release.user_vectors, dtype=np.float32)


def view_scores(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the scores of all items, reduced for a large catalog.

    The reduction keeps the main directions of a random projection. The scoring function is called once for each block
    of users. Scores of factor models are lower in rank than the projection, which then loses nothing. A score that is
    not finite (an item that is never shown) counts as the lowest of its user.
    """
    users = np.arange(_count_users(release, config))
    n_items = _score_users(release, users[:1]).shape[1]
    width = SKETCH_FACTOR * config.columns
    is_wide = n_items > width
    # Entries of variance 1/width keep squared lengths on average (Johnson and Lindenstrauss).
    projection = rng.standard_normal((n_items, width), dtype=np.float32) / np.float32(width**0.5) if is_wide else None
    sketch = np.empty((len(users), width if is_wide else n_items), dtype=np.float32)
    rows = max(1, MAX_SCORES_HELD // n_items)
    for start in range(0, len(users), rows):
        block = _score_users(release, users[start : start + rows])
        sketch[start : start + rows] = block if projection is None else block @ projection
    return sketch if n_items <= config.columns else _turn_to_main_directions(sketch, config.columns)


def view_lists(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the recommended items as a bag, one column for each listed item.

    Many items are reduced to the main directions.
    """
    return _reduce_bag(_weight_items(_build_bag(release, config), config), config.columns, rng)


def view_list_means(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the mean vector of each user's recommended items, or zeros."""
    assert release.item_vectors is not None
    bag = _weight_items(_build_bag(release, config), config)
    total = np.asarray(bag.sum(axis=1), dtype=np.float32).reshape(-1, 1)
    means = bag @ np.asarray(release.item_vectors, dtype=np.float32)
    return np.asarray(np.divide(means, total, out=np.zeros_like(means), where=total > 0), dtype=np.float32)


def view_interactions(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the users' own interactions as a bag of items.

    They are never released; their leak is an upper bound for every surface.
    """
    history = config.history
    assert history is not None
    if config.weight == "rank":
        raise UsageError("A history has no ranks, so weight 'rank' cannot be used for it. Use 'equal' or 'rare'.")
    if _count_users(release, config) != history.n_users:
        raise DataError(
            f"The release has {_count_users(release, config):,} users and the history {history.n_users:,}. "
            f"Give the history of the same users."
        )
    ones = np.ones(len(history), dtype=np.float32)
    bag = sparse.csr_array((ones, (history.user, history.item)), shape=(history.n_users, history.n_items))
    return _reduce_bag(_weight_items(bag, config), config.columns, rng)


VIEWS: dict[str, View] = {
    "user_vectors": view_user_vectors,
    "scores": view_scores,
    "lists": view_lists,
    "list_means": view_list_means,
    "interactions": view_interactions,
}
"""Views by the name of their surface."""

ITEM_WEIGHTS = {
    "equal": "every listed item counts 1",
    "rank": "the item at place r counts 1 / log2(r + 1)",
    "rare": "an item that few users have counts more, log(1 + users / users who have it)",
}
"""Meaning of each weight."""

_Part = tuple[str, Callable[[Release, ViewConfig], bool]]
_LISTS: _Part = ("lists of recommendations", lambda release, config: release.lists is not None)
REQUIRED_PARTS: dict[str, tuple[_Part, ...]] = {
    "user_vectors": (("user vectors", lambda release, config: release.user_vectors is not None),),
    "scores": (("scores", lambda release, config: release.score is not None),),
    "lists": (_LISTS,),
    "list_means": (_LISTS, ("item vectors", lambda release, config: release.item_vectors is not None)),
    "interactions": (("interactions", lambda release, config: config.history is not None),),
}
"""For each surface the parts of a release that it is made of, in words, and a test whether they are there."""


def _count_users(release: Release, config: ViewConfig) -> int:
    for part in (release.user_vectors, release.lists):
        if part is not None:
            return len(part)
    if config.n_users is not None:
        return config.n_users
    if config.history is not None:
        return config.history.n_users
    raise UsageError(
        "This release has neither user vectors nor lists, so its number of users is unknown. Give n_users."
    )


def _score_users(release: Release, users: IntArray) -> Table:
    assert release.score is not None
    scores = np.asarray(release.score(users), dtype=np.float32)
    is_finite = np.isfinite(scores)
    if is_finite.all():
        return scores
    lowest = np.where(is_finite, scores, np.inf).min(axis=1, keepdims=True)
    return np.where(is_finite, scores, np.where(np.isfinite(lowest), lowest, np.float32(0)))


def _build_bag(release: Release, config: ViewConfig) -> sparse.csr_array:
    """Build the sparse user-by-item matrix of the listed items."""
    assert release.lists is not None
    user, place = np.nonzero(release.lists >= 0)
    item = release.lists[user, place]
    if not len(item):
        raise DataError("Every list of this release is empty. Give lists with items, or use another surface.")
    n_items = int(item.max()) + 1
    if release.item_vectors is not None:
        if n_items > len(release.item_vectors):
            raise DataError(
                f"The lists name item {n_items - 1}, and there are vectors for {len(release.item_vectors)} items only. "
                f"Number the items of the lists by the rows of the item vectors, from 0."
            )
        n_items = len(release.item_vectors)
    by_place = 1 / np.log2(np.arange(2, release.lists.shape[1] + 2, dtype=np.float32))
    value = by_place[place] if config.weight == "rank" else np.ones(len(user), dtype=np.float32)
    return sparse.csr_array((value, (user, item)), shape=(len(release.lists), n_items))


def _weight_items(bag: sparse.csr_array, config: ViewConfig) -> sparse.csr_array:
    """Count each pair of user and item once, and weight rare items as configured."""
    bag.sum_duplicates()
    np.minimum(bag.data, 1, out=bag.data)
    if config.weight == "rare":
        owners = np.bincount(bag.indices, minlength=bag.shape[1])
        bag.data *= np.log1p(bag.shape[0] / owners[bag.indices]).astype(np.float32)
    return bag


def _reduce_bag(bag: sparse.csr_array, columns: int, rng: np.random.Generator) -> Table:
    """Return the columns of a bag of few items, or the main directions of many."""
    bag = bag[:, np.unique(bag.indices)]
    if bag.shape[1] <= columns:
        return np.asarray(bag.toarray(), dtype=np.float32)
    # Subspace iteration on the side of the items, which do not grow with the users.
    axes = rng.standard_normal((bag.shape[1], min(columns + EXTRA_DIRECTIONS, *bag.shape)), dtype=np.float32)
    for _ in range(SUBSPACE_STEPS):
        axes = np.linalg.qr(bag.T @ (bag @ axes))[0]
    return _turn_to_main_directions(np.asarray(bag @ axes), columns)


def _turn_to_main_directions(x: Table, columns: int) -> Table:
    """Turn the table to at most `columns` of its principal axes.

    Axes of rounding error are dropped. Attacks scale every column to variance 1, which would turn a column of rounding
    error into strong noise.
    """
    x = x - x.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread, turn = np.linalg.eigh(_compute_gram(x))
    spread, turn = spread[::-1][:columns], turn[:, ::-1][:, :columns]
    is_large = spread > MIN_RELATIVE_SPREAD**2 * spread[0]
    is_large[0] = True
    return np.asarray(x @ turn[:, is_large].astype(np.float32))


def _compute_gram(x: Table) -> NDArray[np.float64]:
    """Compute the products of all pairs of columns in double precision, in blocks."""
    total = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(x), GRAM_BLOCK_ROWS):
        block = x[start : start + GRAM_BLOCK_ROWS].astype(np.float64)
        total += block.T @ block
    return total
