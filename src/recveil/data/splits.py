"""Hold interactions back: leave-one-out, or a share of each user's history. Users and items keep their ids.

Both splits expect each (user, item) pair once; with repeats, an item could stand in two parts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset, IntArray, Split

__all__ = ["leave_one_out", "ratio"]

HELD_BACK = 3
"""A user needs this many interactions to give one to test, one to validation and keep one."""


def leave_one_out(dataset: Dataset, *, rng: np.random.Generator | None = None) -> Split:
    """Each user's last interaction is the test item, the one before it the validation item, the rest is for training.

    Ties: among equal times, the row that stands later in the file is the later one. Data without times are taken
    in file order, or in a random order where `rng` is given (with times, `rng` is not used). Users with fewer than
    three interactions stay in training with all they have and are not tested.
    """
    from_end, size = _positions(dataset, _clock(dataset, rng))
    enough = size >= HELD_BACK
    if not enough.any():
        raise DataError(
            f"'{dataset.name}' cannot be split: none of its {dataset.n_users} users has {HELD_BACK} interactions "
            f"(train, validation, test). Use data with longer histories."
        )
    return _parts(dataset, test=enough & (from_end == 0), valid=enough & (from_end == 1))


def ratio(dataset: Dataset, *, test: float = 0.2, valid: float = 0.1, rng: np.random.Generator | None = None) -> Split:
    """These shares of each user's interactions are held back for test and validation.

    With `rng` they are drawn at random; without it the latest are the test, those before them the validation
    (ties and missing times as in `leave_one_out`). Shares are rounded down, so every user keeps something in training.
    """
    if not (0 < test < 1 and 0 <= valid < 1 and test + valid < 1):
        raise UsageError(f"The shares test={test:g} and valid={valid:g} must be positive and sum to less than 1.")
    from_end, size = _positions(dataset, rng.random(len(dataset)) if rng is not None else dataset.time)
    # The small addition lets 0.29 of 100 be 29 in floating point too.
    n_test = np.floor(size * test + 1e-9)
    n_valid = np.floor(size * valid + 1e-9)
    if not n_test.any():
        raise DataError(
            f"'{dataset.name}' cannot be split: no user has enough interactions for a test share of {test:g}. "
            f"Use a larger share, or data with longer histories."
        )
    return _parts(dataset, test=from_end < n_test, valid=(from_end >= n_test) & (from_end < n_test + n_valid))


def _clock(dataset: Dataset, rng: np.random.Generator | None) -> NDArray[np.generic] | None:
    if dataset.time is None and rng is not None:
        return rng.random(len(dataset))
    return dataset.time


def _positions(dataset: Dataset, clock: NDArray[np.generic] | None) -> tuple[IntArray, IntArray]:
    """For each row: how many rows of its user come after it, and how many the user has."""
    # Both sorts are stable, so equal times keep the file order.
    keys = (dataset.user,) if clock is None else (clock, dataset.user)
    order = np.lexsort(keys)
    size = np.bincount(dataset.user, minlength=dataset.n_users)
    rank = np.arange(len(dataset)) - np.repeat(np.cumsum(size) - size, size)
    from_end = np.empty(len(dataset), dtype=np.int64)
    from_end[order] = np.repeat(size, size) - 1 - rank
    return from_end, size[dataset.user]


def _parts(dataset: Dataset, *, test: NDArray[np.bool_], valid: NDArray[np.bool_]) -> Split:
    return Split(train=dataset.take(~(test | valid)), valid=dataset.take(valid), test=dataset.take(test))
