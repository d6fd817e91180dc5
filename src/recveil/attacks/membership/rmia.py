"""RMIA: how many other users' evidence is outdone by that of each user.

Zarifzadeh et al., Low-Cost High-Power Membership Inference Attacks (ICML 2024). The evidence of a row is its
probability by the target over its mean probability by reference models; the score is the share of other rows whose
evidence is smaller by the factor `gamma`.

Departs: the attack was made for classifiers; probabilities here are those of recommenders' signals (`score_signals`).
Rows are compared with the other users of the target, not with a population from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from scipy.special import logsumexp

from recveil.attacks.membership.reference_rows import (
    EvidenceRows,
    build_rows,
    check_level,
    compute_user_scores,
    get_reference_signals,
)
from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import PositiveFloat, check_fields
from recveil.core.traits import MembershipAttackTraits
from recveil.core.types import BoolArray, FloatArray, Shadow, Watched

__all__ = ["METHODS", "RMIA", "compute_beaten_shares"]

METHODS = (
    MembershipAttackTraits(
        "rmia",
        builder="RMIA",
        paper="Zarifzadeh et al., Low-Cost High-Power Membership Inference Attacks (ICML 2024)",
        needs_references=True,
        needs_item_vectors=False,
        is_default=False,
    ),
)

NEUTRAL_SCORE = 0.5


@dataclass(frozen=True)
class RMIA:
    """Share of other users whose evidence of membership is weaker than the user's.

    `level` is `"user"`, or `"pair"`, which averages the scores of a user's pairs. `gamma` is the factor by which
    another row must be outdone to count.
    """

    level: str = "user"
    gamma: PositiveFloat = 1.0

    threshold: ClassVar[float | None] = NEUTRAL_SCORE
    """Above it, most other users are outdone."""

    def __post_init__(self) -> None:
        check_fields(self)
        check_level(self.level)

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Return the attack as it is: it learns nothing from shadow users."""
        return self

    def score(self, target: Watched) -> FloatArray:
        """Return the share of users that each user outdoes; 0.5 without evidence."""
        signals = get_reference_signals(target)
        shares = compute_beaten_shares(build_rows(signals, self.level, _log_sigmoid), gamma=self.gamma)
        return compute_user_scores(signals, shares, self.level, neutral=NEUTRAL_SCORE)


def compute_beaten_shares(rows: EvidenceRows, *, gamma: float = 1.0) -> FloatArray:
    """Compute the share of other rows z that each row x outdoes.

    x outdoes z where `(p(x|target)/p(x)) / (p(z|target)/p(z)) >= gamma`. Signals are log probabilities here (of
    log-odds: their `log_sigmoid`). p(x) is the mean probability over all reference models, half from those with the
    row and half from those without.
    """
    _check_gamma(gamma)
    if len(rows.observed) < 2:
        raise UsageError("There is no other row to compare with. Give two rows or more.")
    ratio = rows.observed - _compute_log_prior(rows)
    beaten = np.searchsorted(np.sort(ratio), ratio - np.log(gamma), side="right")
    itself = int(gamma <= 1)  # a row is at least as good as itself, unless it must be better
    return np.asarray((beaten - itself) / (len(ratio) - 1))


def _check_gamma(gamma: float) -> None:
    if not 0 < gamma < np.inf:
        raise UsageError(f"gamma must be a positive number; got {gamma:g}.")


def _compute_log_prior(rows: EvidenceRows) -> FloatArray:
    """Compute the log of p(x) by the reference models."""
    means = [
        _compute_log_means(rows.signal, mask, kind) for mask, kind in ((rows.inside, "with"), (~rows.inside, "without"))
    ]
    return np.asarray(np.logaddexp(*means) - np.log(2))


def _compute_log_means(signal: FloatArray, mask: BoolArray, kind: str) -> FloatArray:
    count = mask.sum(1)
    if (count == 0).any():
        raise DataError(f"{int((count == 0).sum())} of {len(count)} rows have no reference model {kind} them.")
    return np.asarray(logsumexp(np.where(mask, signal, -np.inf), axis=1) - np.log(count))


def _log_sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(-np.logaddexp(0, -x))
