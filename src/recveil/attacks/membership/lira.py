"""LiRA: likelihood ratio of scores under models with and without the user.

Carlini et al., Membership Inference Attacks From First Principles (S&P 2022). An attacker who may ask the target for
scores trains reference models like it, each on a random half of the users. The signals of the models that had a user,
and of those that had not, are each fitted by a Gaussian.

Departs: the attack was made for classifiers; signals here are those of recommenders (`score_signals`). With few
reference models one variance is shared by all rows (`spread="pooled"`). `kind="offline"` looks only at models
without the row: the more the signal exceeds theirs, the likelier a member.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from recveil.attacks.membership.reference_rows import (
    EvidenceRows,
    build_rows,
    check_level,
    compute_user_scores,
    get_reference_signals,
)
from recveil.core.errors import DataError, unknown_name
from recveil.core.traits import MembershipAttackTraits
from recveil.core.types import BoolArray, FloatArray, Shadow, Watched

__all__ = ["METHODS", "LiRA", "compute_likelihood_ratios", "compute_standard_scores"]

METHODS = (
    MembershipAttackTraits(
        "lira",
        builder="LiRA",
        paper="Carlini et al., Membership Inference Attacks From First Principles (S&P 2022)",
        needs_references=True,
        needs_item_vectors=False,
        is_default=False,
    ),
)

SPREADS = ("row", "pooled")
KINDS = ("online", "offline")
MIN_VARIANCE = 1e-30


@dataclass(frozen=True)
class LiRA:
    """Likelihood ratio of scores under reference models with and without the user.

    `level` is `"user"`, or `"pair"`, which averages the ratios of a user's pairs. `spread` is `"pooled"`, one variance
    for all rows, or `"row"`. `kind` is `"online"`, or `"offline"`, which uses the models without the user alone.
    """

    level: str = "user"
    spread: str = "pooled"
    kind: str = "online"

    threshold: ClassVar[float | None] = 0.0
    """Above it, membership is the likelier hypothesis."""

    def __post_init__(self) -> None:
        check_level(self.level)
        if self.spread not in SPREADS:
            raise unknown_name("spread", self.spread, SPREADS)
        if self.kind not in KINDS:
            raise unknown_name("kind", self.kind, KINDS)

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Return the attack as it is: it learns nothing from shadow users."""
        return self

    def score(self, target: Watched) -> FloatArray:
        """Return the log likelihood ratio of each user; 0 for users without evidence."""
        signals = get_reference_signals(target)
        rows = build_rows(signals, self.level)
        compute = compute_likelihood_ratios if self.kind == "online" else compute_standard_scores
        ratios = compute(rows, spread=self.spread)
        return compute_user_scores(signals, ratios, self.level, neutral=0.0)


def compute_likelihood_ratios(rows: EvidenceRows, *, spread: str = "row") -> FloatArray:
    """Compute the log likelihood ratio of each row.

    It compares Gaussians of the models with the row and of the models without it.

    `spread="row"` takes the variances of each row from its own models, at least two of each kind; `"pooled"` takes one
    for all rows with and one for all without, which is better with few models.
    """
    if spread not in SPREADS:
        raise unknown_name("spread", spread, SPREADS)
    with_row = _fit_gaussians(rows.signal, rows.inside, spread, "with")
    without_row = _fit_gaussians(rows.signal, ~rows.inside, spread, "without")
    return with_row.log_density(rows.observed) - without_row.log_density(rows.observed)


def compute_standard_scores(rows: EvidenceRows, *, spread: str = "row") -> FloatArray:
    """Compute by how many standard deviations each row exceeds the models without it (offline LiRA)."""
    without_row = _fit_gaussians(rows.signal, ~rows.inside, spread, "without")
    return np.asarray((rows.observed - without_row.mean) / np.sqrt(without_row.variance))


@dataclass(frozen=True, eq=False)
class _Gaussians:
    """Mean and variance of each row."""

    mean: FloatArray
    variance: FloatArray

    def log_density(self, x: FloatArray) -> FloatArray:
        return np.asarray(-0.5 * ((x - self.mean) ** 2 / self.variance + np.log(2 * np.pi * self.variance)))


def _fit_gaussians(signal: FloatArray, mask: BoolArray, spread: str, kind: str) -> _Gaussians:
    """Fit each row over the models of one kind."""
    min_models = 2 if spread == "row" else 1
    count = mask.sum(1)
    if (count < min_models).any():
        raise DataError(
            f"{int((count < min_models).sum())} of {len(count)} rows have fewer than {min_models} reference models "
            f"{kind} them. Train more, or use spread='pooled'."
        )
    mean = np.where(mask, signal, 0).sum(1) / count
    squares = np.where(mask, (signal - mean[:, None]) ** 2, 0).sum(1)
    freedom = count - 1  # the mean of each row was estimated too
    if not freedom.any():
        raise DataError(f"Every row has a single reference model {kind} it, which gives no variance. Train more.")
    variance = squares / freedom if spread == "row" else np.full(len(mean), squares.sum() / freedom.sum())
    return _Gaussians(mean, np.maximum(variance, MIN_VARIANCE))
