"""Evidence from reference models, as rows of users or of user-item pairs.

Reference models are trained like the target, each on half of its users, so that each user is known to some and unknown
to others. That is more than the other attacks have, which see lists alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.types import BoolArray, FloatArray, IntArray, ReferenceSignals, Watched

__all__ = ["EvidenceRows", "build_rows", "check_level", "compute_user_scores", "get_reference_signals"]

LEVELS = ("user", "pair")


@dataclass(frozen=True, eq=False)
class EvidenceRows:
    """Signals of n rows by R reference models, (n, R), and by the target, (n,).

    `inside` says which models were trained on which rows.
    """

    signal: FloatArray
    inside: BoolArray
    observed: FloatArray

    def __post_init__(self) -> None:
        if (
            self.signal.ndim != 2
            or self.inside.shape != self.signal.shape
            or self.observed.shape != self.signal.shape[:1]
        ):
            raise DataError(
                f"Signals have shape {self.signal.shape}, `inside` {self.inside.shape}, the observed "
                f"{self.observed.shape}: need (n, R), (n, R) and (n,)."
            )
        if not (np.isfinite(self.signal).all() and np.isfinite(self.observed).all()):
            raise DataError("Signals must be finite numbers. Leave out the rows that have none.")


def check_level(level: str) -> None:
    """Refuse a level that is neither of users nor of pairs."""
    if level not in LEVELS:
        raise unknown_name("level", level, LEVELS)


def get_reference_signals(target: Watched) -> ReferenceSignals:
    """Return the reference signals of the target; a target without any is an error."""
    if target.reference_signals is None:
        raise UsageError(
            "This attack compares the target with reference models, and none were trained. Audit a model that is "
            "trained here, with reference models."
        )
    return target.reference_signals


def build_rows(
    signals: ReferenceSignals, level: str, transform: Callable[[FloatArray], FloatArray] = np.asarray
) -> EvidenceRows:
    """Build a row for each pair, or for each user the mean (or the weighted sum) over the pairs.

    Args:
        signals: signals of the reference models and of the target.
        level: `"pair"` or `"user"`; users without a pair have no row.
        transform: applied to the signals of single pairs, before any mean.
    """
    signal, observed = transform(signals.reference), transform(signals.target)
    if level == "pair":
        return EvidenceRows(signal, signals.trained_on[signals.user], observed)
    users, row = np.unique(signals.user, return_inverse=True)
    weight = 1 / np.bincount(row)[row] if signals.weight is None else signals.weight
    columns = (*signal.T, observed)
    means: FloatArray = np.stack([np.bincount(row, weight * column) for column in columns], axis=1).astype(np.float64)
    return EvidenceRows(means[:, :-1], signals.trained_on[users], means[:, -1])


def compute_user_scores(signals: ReferenceSignals, row_scores: FloatArray, level: str, *, neutral: float) -> FloatArray:
    """Compute one score for each scored user from the scores of rows.

    Args:
        signals: the signals that the rows were built from.
        row_scores: a score for each row.
        level: `"user"`, or `"pair"`, where the scores of a user's pairs are averaged.
        neutral: score of users without a pair.
    """
    users, row = np.unique(signals.user, return_inverse=True)
    scores = np.full(len(signals.trained_on), neutral)
    scores[users] = _average_by_row(row, row_scores) if level == "pair" else row_scores
    return scores[signals.scored_users]


def _average_by_row(row: IntArray, value: FloatArray) -> FloatArray:
    return np.asarray(np.bincount(row, value) / np.bincount(row))
