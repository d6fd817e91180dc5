"""The users of a fit and the rows that were released of them, so that `transform` gives each user the same row again.

A map alone cannot: it lacks what was drawn and traded for these users. Rows are found by their content, since nothing
else comes with them. Of equal users the first gets the row of the first, the second that of the second, and so on; who
comes beyond their number is another user.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.transport.row_keys import Keys, compute_row_keys, extend_keys

__all__ = ["ReleasedRows"]


@dataclass(frozen=True, eq=False)
class ReleasedRows:
    """The users of a fit, with their classes and released rows.

    Attributes:
        x: user vectors, as they were given.
        codes: codes of their classes, one column for each attribute.
        released: released rows.
    """

    x: FloatArray
    codes: IntArray
    released: FloatArray

    def find_users(self, x: FloatArray, codes: IntArray) -> NDArray[np.intp]:
        """Return the place of each user in the fit, or -1 for a user who was not in it, or with another class.

        Vectors are compared in the less precise of both number formats. Users with all their classes come first. A
        class that is not given fits any.
        """
        kind = np.float64 if x.dtype == self.x.dtype == np.float64 else np.float32
        theirs, ours = compute_row_keys(x.astype(kind)), self._double_keys if kind is np.float64 else self._single_keys
        found, is_free = np.full(len(x), -1, dtype=np.intp), np.ones(len(self.x), dtype=np.bool_)
        for given, group in _group_users(codes):
            users, free = group[found[group] < 0], np.flatnonzero(is_free)
            if len(free) == 0:
                break
            wanted, offered = codes[users][:, given], self.codes[free][:, given]
            places = _match_keys(extend_keys(theirs[users], wanted), extend_keys(ours[free], offered))
            is_same = (wanted == offered[places]).all(1) & (places >= 0)
            # The keys of other rows are equal too, once in many million tables.
            is_same &= (x[users].astype(kind) == self.x[free[places]].astype(kind)).all(1)
            found[users[is_same]] = free[places[is_same]]
            is_free[found[users[is_same]]] = False
        return found

    @cached_property
    def _double_keys(self) -> Keys:
        return compute_row_keys(self.x)

    @cached_property
    def _single_keys(self) -> Keys:
        return compute_row_keys(self.x.astype(np.float32))


def _group_users(codes: IntArray) -> list[tuple[NDArray[np.bool_], NDArray[np.intp]]]:
    """Return all users with all attributes, then those who did not give them all, by which they gave, most first."""
    open_users = np.flatnonzero((codes == UNDISCLOSED).any(1))
    patterns, pattern = np.unique(codes[open_users] != UNDISCLOSED, axis=0, return_inverse=True)
    by_number = np.argsort(-patterns.sum(1), kind="stable")
    groups = [(patterns[p], open_users[pattern.reshape(-1) == p]) for p in by_number]
    return [(np.ones(codes.shape[1], dtype=np.bool_), np.arange(len(codes))), *groups]


def _match_keys(wanted: Keys, offered: Keys) -> NDArray[np.intp]:
    """Return for each wanted key the place of an equal one among one or more offered, each only once, or -1."""
    order = np.argsort(offered, kind="stable")
    places = np.searchsorted(offered[order], wanted) + _count_earlier(wanted)
    matched = order[np.minimum(places, len(order) - 1)]
    return np.where((places < len(order)) & (offered[matched] == wanted), matched, -1)


def _count_earlier(keys: Keys) -> NDArray[np.intp]:
    """Count for each key the equal ones before it."""
    order = np.argsort(keys, kind="stable")
    counts = np.empty(len(keys), dtype=np.intp)
    counts[order] = np.arange(len(keys)) - np.searchsorted(keys[order], keys[order])
    return counts
