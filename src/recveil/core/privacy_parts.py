"""Parts of results that state a privacy guarantee."""

from __future__ import annotations

from recveil.core.result_parts import Number, Part

__all__ = ["EmpiricalEpsilon", "GaussianRelease", "PrivacyGuarantee"]


class GaussianRelease(Part):
    """One noisy statistic: its sensitivity to one user, and the standard deviation of its noise."""

    name: str
    sensitivity: float
    noise: float


class PrivacyGuarantee(Part):
    """Differential privacy of everything that a recommender releases, and what it means for any attack.

    `unit` is what may be added or removed. `max_auc` and `max_tpr_at_1_percent_fpr` bound every membership attack.
    `item_failure` is the part of `delta` with which an item that a single user has may be named. `not_covered` lists
    what the guarantee says nothing about.
    """

    mechanism: str
    unit: str
    epsilon: Number
    delta: float
    mu: Number
    item_failure: float
    releases: list[GaussianRelease]
    max_auc: float
    max_tpr_at_1_percent_fpr: float
    n_released_items: int
    noise_seeded_by: str
    noise_is_secret: bool
    sentence: str
    not_covered: list[str] = []


class EmpiricalEpsilon(Part):
    """Epsilon that the best attack proves at least (95 %), and the guarantee it is held against, where there is one."""

    lower_bound: Number
    guarantee: Number | None
    delta: float
    attack: str
    n_guesses: int
    n_right: int
    n_users: int
