"""Pairs of items that one user had near each other in time: one matrix of items for each user, never stored.

The matrix of a user has the entry exp(-distance / span) for two of the user's items, where distance is the number of
places between them in the history, and zeros on its diagonal. Sums over users go by distance, not by user.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import Dataset, FloatArray, IntArray

__all__ = ["NearbyPairs", "project_out"]

SPANS_OF_PAIRS = 4
"""Items further apart than so many spans count as no pair."""
MIN_RESIDUAL_SHARE = 1e-6
"""Share of a squared norm under which a user adds nothing: rounding there could lift the norm above what is claimed."""


@dataclass(frozen=True, eq=False)
class NearbyPairs:
    """Histories in order of user and time, each item of a user once."""

    user: IntArray
    item: IntArray
    n_users: int
    n_items: int
    span: float

    @classmethod
    def find(cls, seen: Dataset, span: float) -> NearbyPairs:
        """Take the histories of a data set; an item that a user has twice counts where it was last.

        Raises:
            UsageError: the data have no times.
        """
        if seen.time is None:
            raise UsageError("`span` was given, but the data have no times. Leave it out, or add a time column.")
        order = np.lexsort((seen.time, seen.user))[::-1]
        # `unique` returns the first of each pair, which is the newest here.
        newest = order[np.unique(seen.user[order] * seen.n_items + seen.item[order], return_index=True)[1]]
        rows = newest[np.lexsort((newest, seen.time[newest], seen.user[newest]))]
        return cls(seen.user[rows], seen.item[rows], seen.n_users, seen.n_items, span)

    @property
    def lengths(self) -> IntArray:
        """Number of items of each user."""
        return np.bincount(self.user, minlength=self.n_users)

    def compute_norms(self, direction: FloatArray) -> FloatArray:
        """Compute the Frobenius norm of each user's matrix A after a direction p of norm 1 is projected out.

        It is |A|^2 - 2 |Ap|^2 + (p'Ap)^2, squared; 0 where rounding is all that is left.
        """
        along, products = direction[self.item], np.zeros(len(self.item))
        squares = np.zeros(self.n_users)
        for weight, first, second in self._iterate_distances():
            products[first] += weight * along[second]
            products[second] += weight * along[first]
            squares += 2 * weight**2 * np.bincount(self.user[first], minlength=self.n_users)
        left = squares - 2 * self._sum_by_user(products**2) + self._sum_by_user(along * products) ** 2
        return np.asarray(np.sqrt(np.where(left > MIN_RESIDUAL_SHARE * squares, left, 0.0)))

    def sum_matrices(self, scale: FloatArray, direction: FloatArray) -> FloatArray:
        """Sum the matrices of all users, each times its scale, and project a direction out."""
        total = np.zeros(self.n_items**2)
        for weight, first, second in self._iterate_distances():
            place = self.item[first] * self.n_items + self.item[second]
            total += np.bincount(place, weight * scale[self.user[first]], minlength=self.n_items**2)
        matrix = total.reshape(self.n_items, self.n_items)
        return project_out(matrix + matrix.T, direction)

    def multiply(self, matrix: FloatArray) -> FloatArray:
        """Compute the inner product of each user's matrix with a symmetric matrix."""
        total = np.zeros(self.n_users)
        for weight, first, second in self._iterate_distances():
            total += 2 * weight * self._sum_by_user(matrix[self.item[first], self.item[second]], first)
        return total

    def _sum_by_user(self, values: FloatArray, rows: IntArray | None = None) -> FloatArray:
        users = self.user if rows is None else self.user[rows]
        return np.asarray(np.bincount(users, values, minlength=self.n_users), dtype=np.float64)

    def _iterate_distances(self) -> Iterator[tuple[float, IntArray, IntArray]]:
        """Yield the weight of each distance and the rows of its pairs."""
        for distance in range(1, int(np.ceil(SPANS_OF_PAIRS * self.span)) + 1):
            first = np.flatnonzero(self.user[distance:] == self.user[:-distance])
            if not len(first):
                return
            yield float(np.exp(-distance / self.span)), first, first + distance


def project_out(matrix: FloatArray, direction: FloatArray) -> FloatArray:
    """Project a direction of norm 1 out of a symmetric matrix, on both sides."""
    cross = np.outer(matrix @ direction, direction)
    share = float(direction @ matrix @ direction)
    return np.asarray(matrix - cross - cross.T + share * np.outer(direction, direction))
