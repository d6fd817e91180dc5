"""Popularity randomization: non-members get a random part of the popular items in place of one fixed list.

The countermeasure of Zhang et al. (CCS 2021), there with 100 of the 1,000 most popular items (800 in the code for
sequential recommenders).

It is the paper's baseline and no recommendation: an attacker who adapts to it finds members as well as before.

Limit: it acts on lists alone. The lists of members still come from the model and look like it, so an attacker who knows
the defense learns what a random part of the popular items looks like; and non-members get worse lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import Count, check_fields
from recveil.core.traits import DefenseTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Popularity"]

METHODS = (
    DefenseTraits(
        "popularity",
        builder="Popularity",
        place="lists",
        needs_labels=False,
        hides_members=True,
        undisclosed_users="are treated like all others",
        for_comparison=True,
        paper="Zhang et al., Membership Inference Attacks Against Recommender Systems (CCS 2021)",
    ),
)

_BLOCK_DRAWS = 2**22
"""Random numbers held at once."""


@dataclass(frozen=True)
class Popularity:
    """Random lists for non-members, from the `pool` most popular items that the user has not seen."""

    pool: Count = 1000

    def __post_init__(self) -> None:
        check_fields(self)

    def __call__(
        self,
        lists: IntArray,
        member: NDArray[np.bool_],
        popularity: FloatArray,
        *,
        rng: np.random.Generator,
        seen: sparse.csr_array | None = None,
    ) -> IntArray:
        """Return the lists to serve: those of members as they are, those of non-members drawn at random.

        Items without interactions are not drawn. A list ends with -1 if seen items leave fewer than it has places.

        Args:
            lists: (n, k) lists of the model.
            member: whether each user is a member.
            popularity: interactions of each item.
            rng: source of the lists.
            seen: user-by-item matrix of items that must not be listed.
        """
        n, k = lists.shape
        charts = np.argsort(-popularity, kind="stable")[: int((popularity > 0).sum())]
        if min(self.pool, len(charts)) < k:
            raise UsageError(
                f"Lists of {k} items cannot be drawn from a pool of {min(self.pool, len(charts))}. Use a larger pool "
                f"(at most {len(charts)}, the items with interactions) or shorter lists."
            )
        if len(member) != n or (seen is not None and seen.shape != (n, len(popularity))):
            raise DataError(f"There are {n} lists. Give member and seen with one row for each of them.")
        served = lists.copy()
        non_members = np.flatnonzero(~member)
        rows = max(1, _BLOCK_DRAWS // len(charts))
        for start in range(0, len(non_members), rows):
            users = non_members[start : start + rows]
            own = np.zeros((len(users), len(charts)), dtype=np.bool_)
            if seen is not None:
                own = seen[users].toarray()[:, charts] > 0
            served[users] = self._draw_lists(own, charts, k, rng)
        return served

    def _draw_lists(self, own: NDArray[np.bool_], charts: IntArray, k: int, rng: np.random.Generator) -> IntArray:
        """Draw for each row k of the first `pool` places of the charts that are not own, in random order."""
        ticket = rng.random(own.shape)
        ticket[own | (np.cumsum(~own, axis=1) > self.pool)] = np.inf
        drawn = np.argsort(ticket, axis=1)[:, :k]
        nothing = np.take_along_axis(ticket, drawn, axis=1) == np.inf
        return np.where(nothing, -1, charts[drawn]).astype(np.int64)
