"""Popularity randomization: who is not a member gets a random part of the popular items in place of the same list.

The countermeasure of Zhang et al. (CCS 2021), there with 100 of the 1,000 most popular items (800 in the code for
sequential recommenders).

Limit: it acts on lists alone. Members' lists still come from the model and look it, so an attacker who knows of the
defense learns anew what a random part of the charts looks like; and non-members get worse lists.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from recveil.core.errors import DataError, UsageError
from recveil.core.traits import DefenseTraits
from recveil.core.types import FloatArray, IntArray

__all__ = ["Popularity"]

METHODS = (
    DefenseTraits(
        "popularity",
        builder="Popularity",
        place="lists",
        needs_labels=False,
        undisclosed_users="are treated like all others",
        paper="Zhang et al., Membership Inference Attacks Against Recommender Systems (CCS 2021)",
    ),
)

_BLOCK = 2**22  # random numbers held at a time


@dataclass(frozen=True)
class Popularity:
    """Serve each non-member a random choice from the `pool` most popular items that are not the user's own."""

    pool: int = 1000

    def __post_init__(self) -> None:
        if self.pool < 1:
            raise UsageError(f"pool is {self.pool}. There must be at least one item to draw from.")

    def __call__(
        self,
        lists: IntArray,
        member: NDArray[np.bool_],
        popularity: FloatArray,
        *,
        rng: np.random.Generator,
        seen: sparse.csr_array | None = None,
    ) -> IntArray:
        """The lists to serve: those of members as they are, the others drawn anew, in random order.

        `seen` is the sparse user-by-item matrix of what must not be listed. Items that nobody touched are not drawn;
        where own items leave fewer than a list has places, it ends with -1.
        """
        n, k = lists.shape
        charts = np.argsort(-popularity, kind="stable")[: int((popularity > 0).sum())]
        if min(self.pool, len(charts)) < k:
            raise UsageError(
                f"Lists of {k} items cannot be drawn from a pool of {min(self.pool, len(charts))}. Use a larger pool "
                f"(at most {len(charts)}, the items that anybody touched) or shorter lists."
            )
        if len(member) != n or (seen is not None and seen.shape != (n, len(popularity))):
            raise DataError(f"There are {n} lists; who is a member and what was seen must be given for each of them.")
        served = lists.copy()
        others = np.flatnonzero(~member)
        rows = max(1, _BLOCK // len(charts))
        for at in range(0, len(others), rows):
            who = others[at : at + rows]
            own = np.zeros((len(who), len(charts)), dtype=np.bool_)
            if seen is not None:
                own = seen[who].toarray()[:, charts] > 0
            served[who] = self._draw(own, charts, k, rng)
        return served

    def _draw(self, own: NDArray[np.bool_], charts: IntArray, k: int, rng: np.random.Generator) -> IntArray:
        """For each row k of the first `pool` places of the charts that are not own, in random order."""
        ticket = rng.random(own.shape)
        ticket[own | (np.cumsum(~own, axis=1) > self.pool)] = np.inf
        drawn = np.argsort(ticket, axis=1)[:, :k]
        nothing = np.take_along_axis(ticket, drawn, axis=1) == np.inf
        return np.where(nothing, -1, charts[drawn]).astype(np.int64)
