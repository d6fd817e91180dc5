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
from scipy import sparse

from recveil.attacks.attribute.item_bags import Table, build_bag, reduce_bag, turn_to_main_directions, weight_items
from recveil.attacks.attribute.omissions import find_omissions
from recveil.attacks.attribute.ranking_heads import mark_ranking_heads
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
    "view_omissions",
    "view_vectors_and_heads",
    "view_vectors_and_lists",
    "build_view",
    "view_scores",
    "list_surfaces",
    "join_heads",
    "join_releases",
    "view_user_vectors",
]

SKETCH_FACTOR = 4
"""Columns of a random projection of the scores for each requested column."""

MAX_SCORES_HELD = 2**22
"""Scores held at a time."""


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


def join_releases(*tables: FloatArray) -> Table:
    """Join releases of the same users, oldest first, into what an attacker of all of them sees.

    The result holds the tables and the difference of the last to each other one. All must be in the same coordinates,
    as user vectors and list means are. Two reductions of scores or lists are not, since each has its own directions.
    """
    *earlier, after = tables
    for before in earlier:
        if before.ndim != 2 or before.shape != after.shape:
            raise DataError(
                f"The table before has the shape {before.shape} and the one after {after.shape}. To compare releases, "
                f"give the same users, in the same order, with vectors of the same length."
            )
    return np.concatenate([*tables, *(after - before for before in earlier)], axis=1).astype(np.float32)


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
    return sketch if n_items <= config.columns else turn_to_main_directions(sketch, config.columns)


def view_lists(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the recommended items as a bag, one column for each listed item.

    Many items are reduced to the main directions.
    """
    return reduce_bag(weight_items(build_bag(release, config.weight), config.weight), config.columns, rng)


def view_list_means(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the mean vector of each user's recommended items, or zeros."""
    assert release.item_vectors is not None
    bag = weight_items(build_bag(release, config.weight), config.weight)
    total = np.asarray(bag.sum(axis=1), dtype=np.float32).reshape(-1, 1)
    means = bag @ np.asarray(release.item_vectors, dtype=np.float32)
    return np.asarray(np.divide(means, total, out=np.zeros_like(means), where=total > 0), dtype=np.float32)


def view_omissions(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return the items that a list lacks although they rank above its last item, as a bag, reduced like lists.

    A list omits what its user has seen, so these are seen items, whatever the vectors hide.
    """
    return reduce_bag(find_omissions(release, MAX_SCORES_HELD), config.columns, rng)


def view_vectors_and_lists(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return user vectors, lists and what is missing from them side by side, for an attacker who holds all."""
    views = (view_user_vectors, view_lists, view_omissions)
    return np.concatenate([view(release, config, rng) for view in views], axis=1)


def view_vectors_and_heads(release: Release, config: ViewConfig, rng: np.random.Generator) -> Table:
    """Return user vectors, and the items that score high by the item vectors, for an attacker who holds both."""
    x, items = release.user_vectors, release.item_vectors
    assert x is not None
    assert items is not None
    return join_heads(x, lambda users: x[users] @ items.T, rng, config.columns)


def join_heads(
    x: FloatArray, score: Callable[[IntArray], FloatArray], rng: np.random.Generator, columns: int = ViewConfig.columns
) -> Table:
    """Return vectors and, beside them, the items that score high for each user as a bag, reduced like lists."""
    heads = mark_ranking_heads(x, score, block=MAX_SCORES_HELD)
    return np.concatenate([x, reduce_bag(heads, columns, rng)], axis=1, dtype=np.float32)


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
    return reduce_bag(weight_items(bag, config.weight), config.columns, rng)


VIEWS: dict[str, View] = {
    "user_vectors": view_user_vectors,
    "scores": view_scores,
    "lists": view_lists,
    "list_means": view_list_means,
    "omissions": view_omissions,
    "vectors_and_heads": view_vectors_and_heads,
    "vectors_and_lists": view_vectors_and_lists,
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
_VECTORS: _Part = ("user vectors", lambda release, config: release.user_vectors is not None)
_ITEMS: _Part = ("item vectors", lambda release, config: release.item_vectors is not None)
REQUIRED_PARTS: dict[str, tuple[_Part, ...]] = {
    "user_vectors": (_VECTORS,),
    "scores": (("scores", lambda release, config: release.score is not None),),
    "lists": (_LISTS,),
    "list_means": (_LISTS, _ITEMS),
    "omissions": (_LISTS,),
    "vectors_and_heads": (_VECTORS, _ITEMS),
    "vectors_and_lists": (_VECTORS, _LISTS),
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
