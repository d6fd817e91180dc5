"""What an attacker looks at: each surface of a release as one row of numbers for each user.

    x = look(release, "lists", rng=rng)          # (n_users, at most `columns`) float32

Wide surfaces (a score or a place in a list for every item) are brought to a few hundred columns, so that every attacker
of a panel can afford them. The reduction is fitted on all users of the release and on no label: the attacker holds the
whole release and may use its shape, and since no label takes part, nothing passes from the users under attack to those
who train the attacker. It keeps the directions in which users differ most; what hides in smaller ones is lost, and more
columns see more. The same generator gives the same bytes.
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
    "WEIGHTS",
    "Lens",
    "View",
    "interactions",
    "list_means",
    "lists",
    "look",
    "scores",
    "surfaces",
    "two_releases",
    "user_vectors",
]

Table = NDArray[np.float32]

SPARE = 16  # directions more than asked for, which make the last ones asked for come out right
PASSES = 4
SKETCH = 4  # a sketch of the scores has this many times the columns asked for
BLOCK = 2**22  # scores held at a time
NEGLIGIBLE = 1e-5  # directions this much smaller than the largest are rounding error, not a surface


@dataclass(frozen=True, eq=False)
class Lens:
    """How closely a surface is looked at.

    Args:
        columns: at most so many columns where a surface has one for every item.
        weight: how much an item says, one of `WEIGHTS`.
        history: who touched what, for the surface `interactions` alone.
        n_users: how many users there are, where a release has nothing but a scoring function.
    """

    columns: int = 128
    weight: str = "equal"
    history: Dataset | None = None
    n_users: int | None = None


View = Callable[[Release, Lens, np.random.Generator], Table]
"""A release, a lens and a generator in; (n_users, d) out."""


def look(
    release: Release,
    surface: str = "user_vectors",
    *,
    columns: int = 128,
    weight: str = "equal",
    history: Dataset | None = None,
    n_users: int | None = None,
    rng: np.random.Generator,
) -> Table:
    """What this surface of the release shows of each user; see `Lens` for the options and `VIEWS` for the surfaces."""
    if surface not in VIEWS:
        raise unknown_name("surface", surface, VIEWS)
    if weight not in WEIGHTS:
        raise unknown_name("weight of items", weight, WEIGHTS)
    if columns < 1:
        raise UsageError(f"columns is {columns}. A view needs at least one column.")
    lens = Lens(columns, weight, history, n_users)
    missing = [word for word, there in NEEDS[surface] if not there(release, lens)]
    if missing:
        raise DataError(
            f"This release has no {' and no '.join(missing)}, and the surface '{surface}' is made of that. "
            f"Give it, or look at what there is: {', '.join(surfaces(release, history=history)) or 'nothing'}."
        )
    return VIEWS[surface](release, lens, rng)


def surfaces(release: Release, *, history: Dataset | None = None) -> tuple[str, ...]:
    """The surfaces that this release has."""
    lens = Lens(history=history)
    return tuple(name for name, needs in NEEDS.items() if all(there(release, lens) for _, there in needs))


def two_releases(before: FloatArray, after: FloatArray) -> Table:
    """What the attacker has who holds a table from before a defense and from after it: both, and the displacement.

    Both must be in the same coordinates, as user vectors and list means are; two reductions of scores or of lists
    are not, since each chose its own.
    """
    if before.ndim != 2 or before.shape != after.shape:
        raise DataError(
            f"The table before has the shape {before.shape} and the one after {after.shape}. To compare two releases, "
            f"give the same users, in the same order, with vectors of the same length."
        )
    return np.concatenate([before, after, after - before], axis=1).astype(np.float32)


def user_vectors(release: Release, lens: Lens, rng: np.random.Generator) -> Table:
    """The released user vectors, as they are."""
    assert release.user_vectors is not None
    return np.asarray(release.user_vectors, dtype=np.float32)


def scores(release: Release, lens: Lens, rng: np.random.Generator) -> Table:
    """The scores of all items, exact for a small catalog, else the main directions of a random projection of them.

    The scoring function is called once for each block of users. Scores of factor models are lower in rank than the
    projection, which then loses nothing. A score that is not finite (an item that is never shown) counts as
    the lowest of its user.
    """
    users = np.arange(_count(release, lens))
    n_items = _scored(release, users[:1]).shape[1]
    width = SKETCH * lens.columns
    wide = n_items > width
    # Entries of variance 1/width keep squared lengths on average (Johnson and Lindenstrauss).
    down = rng.standard_normal((n_items, width), dtype=np.float32) / np.float32(width**0.5) if wide else None
    sketch = np.empty((len(users), width if wide else n_items), dtype=np.float32)
    rows = max(1, BLOCK // n_items)
    for at in range(0, len(users), rows):
        block = _scored(release, users[at : at + rows])
        sketch[at : at + rows] = block if down is None else block @ down
    return sketch if n_items <= lens.columns else _main_directions(sketch, lens.columns)


def lists(release: Release, lens: Lens, rng: np.random.Generator) -> Table:
    """The recommended items as a bag: a column for each listed item, or the main directions where these are many."""
    return _reduced(_weighted(_bag_of_lists(release, lens), lens), lens.columns, rng)


def list_means(release: Release, lens: Lens, rng: np.random.Generator) -> Table:
    """The mean vector of the items recommended to a user; empty places do not count, an empty list gives zeros."""
    assert release.item_vectors is not None
    bag = _weighted(_bag_of_lists(release, lens), lens)
    total = np.asarray(bag.sum(axis=1), dtype=np.float32).reshape(-1, 1)
    means = bag @ np.asarray(release.item_vectors, dtype=np.float32)
    return np.asarray(np.divide(means, total, out=np.zeros_like(means), where=total > 0), dtype=np.float32)


def interactions(release: Release, lens: Lens, rng: np.random.Generator) -> Table:
    """What the users themselves did, as a bag of items: no platform releases it, no surface should say more."""
    history = lens.history
    assert history is not None
    if lens.weight == "rank":
        raise UsageError("A history has no ranks, so weight 'rank' cannot be used for it. Use 'equal' or 'rare'.")
    if _count(release, lens) != history.n_users:
        raise DataError(
            f"The release has {_count(release, lens):,} users and the history {history.n_users:,}. "
            f"Give the history of the same users."
        )
    one = np.ones(len(history), dtype=np.float32)
    bag = sparse.csr_array((one, (history.user, history.item)), shape=(history.n_users, history.n_items))
    return _reduced(_weighted(bag, lens), lens.columns, rng)


VIEWS: dict[str, View] = {
    "user_vectors": user_vectors,
    "scores": scores,
    "lists": lists,
    "list_means": list_means,
    "interactions": interactions,
}
"""Name -> what is looked at."""

WEIGHTS = {
    "equal": "every listed item counts 1",
    "rank": "the item at place r counts 1 / log2(r + 1)",
    "rare": "an item that few users have counts more, log(1 + users / users who have it)",
}
"""Name -> what it means."""

_Part = tuple[str, Callable[[Release, Lens], bool]]
_LISTS: _Part = ("lists of recommendations", lambda release, lens: release.lists is not None)
NEEDS: dict[str, tuple[_Part, ...]] = {
    "user_vectors": (("user vectors", lambda release, lens: release.user_vectors is not None),),
    "scores": (("scores", lambda release, lens: release.score is not None),),
    "lists": (_LISTS,),
    "list_means": (_LISTS, ("item vectors", lambda release, lens: release.item_vectors is not None)),
    "interactions": (("interactions beside it", lambda release, lens: lens.history is not None),),
}
"""Surface -> the parts it is made of, in words, and whether they are there."""


def _count(release: Release, lens: Lens) -> int:
    for part in (release.user_vectors, release.lists):
        if part is not None:
            return len(part)
    if lens.n_users is not None:
        return lens.n_users
    if lens.history is not None:
        return lens.history.n_users
    raise UsageError("This release has neither user vectors nor lists, so say how many users it has: n_users.")


def _scored(release: Release, users: IntArray) -> Table:
    assert release.score is not None
    given = np.asarray(release.score(users), dtype=np.float32)
    real = np.isfinite(given)
    if real.all():
        return given
    lowest = np.where(real, given, np.inf).min(axis=1, keepdims=True)
    return np.where(real, given, np.where(np.isfinite(lowest), lowest, np.float32(0)))


def _bag_of_lists(release: Release, lens: Lens) -> sparse.csr_array:
    """A sparse user-by-item matrix of the listed items; each counts 1, or by its place."""
    assert release.lists is not None
    user, place = np.nonzero(release.lists >= 0)
    item = release.lists[user, place]
    if not len(item):
        raise DataError("Every list of this release is empty. Give lists with items, or look at another surface.")
    n_items = int(item.max()) + 1
    if release.item_vectors is not None:
        if n_items > len(release.item_vectors):
            raise DataError(
                f"The lists name item {n_items - 1}, and there are vectors for {len(release.item_vectors)} items only. "
                f"Number the items of the lists by the rows of the item vectors, from 0."
            )
        n_items = len(release.item_vectors)
    by_place = 1 / np.log2(np.arange(2, release.lists.shape[1] + 2, dtype=np.float32))
    value = by_place[place] if lens.weight == "rank" else np.ones(len(user), dtype=np.float32)
    return sparse.csr_array((value, (user, item)), shape=(len(release.lists), n_items))


def _weighted(bag: sparse.csr_array, lens: Lens) -> sparse.csr_array:
    """Each pair of user and item once; rare items made heavier where that is asked for."""
    bag.sum_duplicates()
    np.minimum(bag.data, 1, out=bag.data)
    if lens.weight == "rare":
        owners = np.bincount(bag.indices, minlength=bag.shape[1])
        bag.data *= np.log1p(bag.shape[0] / owners[bag.indices]).astype(np.float32)
    return bag


def _reduced(bag: sparse.csr_array, columns: int, rng: np.random.Generator) -> Table:
    """The bag's own columns where at most `columns` items occur in it, else its main directions."""
    bag = bag[:, np.unique(bag.indices)]
    if bag.shape[1] <= columns:
        return np.asarray(bag.toarray(), dtype=np.float32)
    # Subspace iteration on the side of the items, which do not grow with the users.
    axes = rng.standard_normal((bag.shape[1], min(columns + SPARE, *bag.shape)), dtype=np.float32)
    for _ in range(PASSES):
        axes = np.linalg.qr(bag.T @ (bag @ axes))[0]
    return _main_directions(np.asarray(bag @ axes), columns)


def _main_directions(x: Table, columns: int) -> Table:
    """The table turned to its principal axes: at most `columns` of them, and none that is rounding error.

    Attackers bring every column to variance 1, so a column of rounding error would be one of loud noise.
    """
    x = x - x.mean(axis=0, dtype=np.float64).astype(np.float32)
    spread, turn = np.linalg.eigh(_gram(x))
    spread, turn = spread[::-1][:columns], turn[:, ::-1][:, :columns]
    kept = spread > NEGLIGIBLE**2 * spread[0]
    kept[0] = True
    return np.asarray(x @ turn[:, kept].astype(np.float32))


def _gram(x: Table, *, rows: int = 2**14) -> NDArray[np.float64]:
    """The products of all pairs of columns, in double precision, without a copy of the whole table in it."""
    total = np.zeros((x.shape[1], x.shape[1]))
    for at in range(0, len(x), rows):
        block = x[at : at + rows].astype(np.float64)
        total += block.T @ block
    return total
