"""Splits into training, validation and test: leave-one-out, or a share of each user's history.

Users and items keep their ids. Both splits expect each (user, item) pair once; with repeats, an item could stand in
two parts.
"""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, FloatArray, IntArray, Split

__all__ = ["draw_row_keys", "leave_one_out", "split_by_ratio"]

log = logging.getLogger(__name__)

MIN_INTERACTIONS = 3
"""Interactions that a user needs to give one to test, one to validation and keep one in training."""


def leave_one_out(dataset: Dataset, *, rng: np.random.Generator | None = None, file_order: bool = False) -> Split:
    """Hold out each user's last two interactions for validation and test.

    Among equal times, the row that stands later in the data set is the later one. Without times the two held-out items
    are drawn at random, and a warning is logged, because the rows of a file need not be in order of time. Users with
    fewer than three interactions stay in training whole and are not tested.

    Args:
        dataset: the interactions to split.
        rng: source of the random draw where there are no times; by default the same draw every time.
        file_order: take the order of the rows for the order of time where there are no times.

    Returns:
        The three parts, in the id space of the data set.

    Raises:
        DataError: no user has three interactions.

    Example:
        >>> import numpy as np, recveil as rv
        >>> sizes = {"n_users": 100, "n_items": 50, "n_interactions": 2_000}
        >>> world = rv.make_world(**sizes, leaks={}, rng=np.random.default_rng(0))
        >>> split = rv.leave_one_out(world.dataset)
        >>> len(split.train), len(split.valid), len(split.test)
        (1800, 100, 100)
    """
    from_end, size = _locate_rows(dataset, _order_keys(dataset, rng, file_order))
    enough = size >= MIN_INTERACTIONS
    if not enough.any():
        raise DataError(
            f"'{dataset.name}' cannot be split: none of its {dataset.n_users} users has {MIN_INTERACTIONS} "
            "interactions (train, validation, test). Use data with longer histories."
        )
    if dataset.time is None and not file_order:  # said last: an error is one sentence
        log.warning("'%s' has no timestamps, so each user's held-out items were drawn at random.", dataset.name)
    return _take_parts(dataset, test=enough & (from_end == 0), valid=enough & (from_end == 1))


def split_by_ratio(
    dataset: Dataset, *, test: float = 0.2, valid: float = 0.1, rng: np.random.Generator | None = None
) -> Split:
    """Hold out shares of each user's interactions for test and validation.

    Shares are rounded down, so every user keeps an interaction in training.

    Args:
        dataset: the interactions to split.
        test: share of the test part.
        valid: share of the validation part.
        rng: source of a random draw. Without it the latest interactions are the test part and those before them the
            validation part; rows that have equal times or no times are taken in their order in the data set.

    Raises:
        UsageError: the shares leave nothing for training.
        DataError: no user has enough interactions for a test item.
    """
    if not (0 < test < 1 and 0 <= valid < 1 and test + valid < 1):
        raise UsageError(f"The shares test={test:g} and valid={valid:g} must be positive and sum to less than 1.")
    from_end, size = _locate_rows(dataset, draw_row_keys(dataset, rng) if rng is not None else dataset.time)
    # The small addition lets 0.29 of 100 be 29 in floating point too.
    n_test = np.floor(size * test + 1e-9)
    n_valid = np.floor(size * valid + 1e-9)
    if not n_test.any():
        raise DataError(
            f"'{dataset.name}' cannot be split: no user has enough interactions for a test share of {test:g}. "
            f"Use a larger share, or data with longer histories."
        )
    return _take_parts(dataset, test=from_end < n_test, valid=(from_end >= n_test) & (from_end < n_test + n_valid))


def _order_keys(dataset: Dataset, rng: np.random.Generator | None, file_order: bool) -> NDArray[np.generic] | None:
    """Return the keys that order a user's rows: times or random numbers.

    None keeps the order of the rows.
    """
    if dataset.time is not None or file_order:
        return dataset.time
    return draw_row_keys(dataset, make_generator(0, "held out") if rng is None else rng)


def draw_row_keys(dataset: Dataset, rng: np.random.Generator) -> FloatArray:
    """Draw a random number for each interaction, which does not depend on the order of the rows."""
    keys = np.empty(len(dataset))
    keys[np.lexsort((dataset.item, dataset.user))] = rng.random(len(dataset))
    return keys


def _locate_rows(dataset: Dataset, order_keys: NDArray[np.generic] | None) -> tuple[IntArray, IntArray]:
    """Count the later rows and all rows of each row's user."""
    # Both sorts are stable, so equal times keep the file order.
    keys = (dataset.user,) if order_keys is None else (order_keys, dataset.user)
    order = np.lexsort(keys)
    size = np.bincount(dataset.user, minlength=dataset.n_users)
    rank = np.arange(len(dataset)) - np.repeat(np.cumsum(size) - size, size)
    from_end = np.empty(len(dataset), dtype=np.int64)
    from_end[order] = np.repeat(size, size) - 1 - rank
    return from_end, size[dataset.user]


def _take_parts(dataset: Dataset, *, test: NDArray[np.bool_], valid: NDArray[np.bool_]) -> Split:
    return Split(train=dataset.take(~(test | valid)), valid=dataset.take(valid), test=dataset.take(test))
