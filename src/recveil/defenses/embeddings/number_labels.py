"""Numbers as labels, such as ages: their order as codes, normal scores to regress on, and quantile classes.

Undisclosed numbers are None or NaN; every other number counts, -1 too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri
from scipy.stats import rankdata

from recveil.core.errors import DataError
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray

__all__ = ["compute_number_scores", "cut_into_quantiles", "encode_numbers"]


def encode_numbers(y: ArrayLike, n_users: int) -> IntArray:
    """Encode each number as its place among the different numbers of its column.

    Args:
        y: numbers, (n_users,) or (n_users, n_attributes).
        n_users: the number of rows that there must be.

    Raises:
        DataError: there are other numbers of rows, or labels that are no finite numbers.
    """
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError("With numbers=True y must hold numbers, and None or NaN for undisclosed users.") from error
    if numbers.ndim not in (1, 2) or len(numbers) != n_users or numbers.size == 0 or np.isinf(numbers).any():
        raise DataError(f"y must hold a finite number for each of {n_users:,} users; got shape {numbers.shape}.")
    columns = numbers.reshape(n_users, -1)
    codes = np.full(columns.shape, UNDISCLOSED, dtype=np.int64)
    for j, column in enumerate(columns.T):
        disclosed = ~np.isnan(column)
        codes[disclosed, j] = np.unique(column[disclosed], return_inverse=True)[1]
    return codes


def compute_number_scores(codes: IntArray) -> FloatArray:
    """Return the normal score of each place, and its square, with mean 0; zeros for undisclosed users.

    Their regressions say where the number of a user is expected, and how far from the middle.
    """
    scores, disclosed = np.zeros((len(codes), 2)), codes >= 0
    if disclosed.any():
        ranks = rankdata(codes[disclosed])
        normal = ndtri((ranks - 0.5) / len(ranks))
        scores[disclosed] = np.stack([normal, normal**2 - (normal**2).mean()], axis=1)
    return scores


def cut_into_quantiles(codes: IntArray, n_classes: int) -> IntArray:
    """Cut each column of codes into classes of about as many users; undisclosed users stay undisclosed."""
    classes = np.full_like(codes, UNDISCLOSED)
    for j, column in enumerate(codes.T):
        disclosed = column >= 0
        if disclosed.any():
            shares = (rankdata(column[disclosed]) - 0.5) / disclosed.sum()
            classes[disclosed, j] = (shares * n_classes).astype(np.int64)
    return classes
