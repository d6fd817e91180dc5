"""Noise, sensitivities and guarantee of recommenders whose item side is differentially private.

The unit is a user with all interactions, added or removed. Every user has one row of weights with norm 1 at most, so a
sum of rows changes by 1 at most, and so does a sum of their outer products. The catalog is not taken for public: an
item is released only if its noisy count exceeds a threshold that the items of one single user pass with a small
probability (`item_failure`, a part of delta).

Parts of delta add up: whether an item of one single user passes depends on the noise of its own counts alone, so it is
independent of all that is computed from other items. Without such an item, the output is that of a catalog which does
not depend on the user, and the Gaussian parts compose there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, sparse, special

from recveil.core.errors import DataError, UsageError
from recveil.core.privacy_parts import GaussianRelease, PrivacyGuarantee
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.metrics.gaussian_privacy import (
    bound_attack_auc,
    bound_attack_tpr,
    calibrate_mu,
    check_budget,
    compute_epsilon,
)

__all__ = [
    "HeadItems",
    "NoisyCounts",
    "PrivacyBudget",
    "add_symmetric_noise",
    "clip_histories",
    "compute_item_threshold",
    "count_items",
    "make_noise_generator",
    "release_counts",
    "release_typical_length",
    "resolve_budget",
    "scale_rows",
    "select_head_items",
]

DEFAULT_EPSILON = 2.0
ITEM_FAILURE_SHARE = 0.01
"""Part of delta that is spent on the threshold of items."""
FIRST_SHARE = 0.03
"""Part of the squared budget for first counts of items, which tell how much of the rest counts need."""
SHARE_OF_ONE_ITEM, MAX_COUNT_SHARE = 4.0, 0.4
"""Further part for counts: the first number over the frequent items that the first counts found, and its limit."""


MAX_USEFUL_AUC = 0.9995
"""A bound above it, which rounds to 1, is no protection."""

NOT_COVERED = (
    "Steps before training that look at several users: reading a file (the types of its columns, and whether it has "
    "times, which decides the defaults of `recency` and `span`), dropping rare items or users, holding out random "
    "interactions where the data have no times, and options that were chosen by looking at the data, as by "
    "`recveil tune`.",
    "Luck of one training: all users share one draw of the noise, and the bounds on attacks hold on average over it.",
    "Further trainings on the same users: their budgets add up.",
    "The ids of users in the released files, and `metrics.json`, `attributes.parquet` and the folder `model`, which "
    "hold facts without noise, such as the number of items. Keep them inside.",
    "Attributes of a user whose vector or list is seen.",
    "Attacks on the generator of the noise or on its floating-point numbers.",
)


@dataclass(frozen=True)
class PrivacyBudget:
    """A guarantee, and how it is divided.

    `mu` is the Gaussian guarantee of all releases together; infinite without noise.
    """

    epsilon: float
    delta: float
    mu: float

    @property
    def item_failure(self) -> float:
        """Probability with which an item of a single user may be released."""
        return self.delta * ITEM_FAILURE_SHARE

    def build_guarantee(
        self, mechanism: str, releases: list[GaussianRelease], n_items: int, noise_seed: int | None
    ) -> PrivacyGuarantee:
        """State the guarantee.

        Args:
            mechanism: name of the mechanism.
            releases: what was released with noise.
            n_items: number of released items.
            noise_seed: seed of the noise; None if the operating system gave it.
        """
        auc = bound_attack_auc(self.mu, self.item_failure)
        tpr = bound_attack_tpr(0.01, self.mu, self.item_failure)
        return PrivacyGuarantee(
            mechanism=mechanism,
            unit="one user with all interactions, added or removed",
            epsilon=self.epsilon,
            delta=self.delta,
            mu=self.mu,
            item_failure=self.item_failure,
            releases=releases,
            max_auc=auc,
            max_tpr_at_1_percent_fpr=tpr,
            n_released_items=n_items,
            noise_seeded_by="operating system" if noise_seed is None else "noise_seed",
            noise_is_secret=noise_seed is None and not math.isinf(self.mu),
            sentence=self._write_sentence(auc, tpr, noise_seed),
            not_covered=list(NOT_COVERED),
        )

    def _write_sentence(self, auc: float, tpr: float, noise_seed: int | None) -> str:
        if math.isinf(self.mu):
            return "No noise was added, so there is no guarantee: an attack may find every training user."
        budget = f"(epsilon {self.epsilon:.3g}, delta {self.delta:g})"
        meaning = (
            f"No attack on lists, scores or item vectors tells training users from others with an AUC above {auc:.3f}, "
            f"or finds more than {tpr:.1%} of them while it accuses 1 % of the others {budget}."
        )
        if auc > MAX_USEFUL_AUC:
            meaning = f"So large a budget protects nobody: an attack may find every training user {budget}."
        if noise_seed is None:
            return meaning
        return f"{meaning} The noise is NOT secret: whoever knows `noise_seed` and the seed can remove it."


def resolve_budget(epsilon: float | None, noise: float | None, delta: float) -> PrivacyBudget:
    """Compute the noise of an epsilon, or the epsilon of a noise.

    Args:
        epsilon: the budget; 2 if neither it nor the noise is given.
        noise: standard deviations of noise per unit of sensitivity, of all releases together; 0 for none.
        delta: probability with which the budget may be exceeded.

    Raises:
        UsageError: both are given, or a number is out of range.
    """
    if epsilon is not None and noise is not None:
        raise UsageError("Both `epsilon` and `noise` were given. Give one: the other follows from it.")
    check_budget(DEFAULT_EPSILON if epsilon is None else epsilon, delta)
    gaussian_delta = delta * (1 - ITEM_FAILURE_SHARE)
    if noise is None:
        budget = DEFAULT_EPSILON if epsilon is None else epsilon
        return PrivacyBudget(budget, delta, calibrate_mu(budget, gaussian_delta))
    if not 0 <= noise < math.inf:
        raise UsageError(f"`noise` is {noise:g}. Use a number of at least 0, such as 2.")
    mu = 1 / noise if noise > 0 else math.inf
    return PrivacyBudget(compute_epsilon(gaussian_delta, mu), delta, mu)


def make_noise_generator(noise_seed: int | None, rng: np.random.Generator) -> np.random.Generator:
    """Make the generator of released noise, from the operating system unless a seed is given.

    With a seed, `rng` takes part, so that the models of one run have different noise and a second run has the same.
    """
    if noise_seed is None:
        return np.random.default_rng()
    return np.random.default_rng([noise_seed, int(rng.integers(2**63 - 1))])


def clip_histories(data: Dataset, max_history: int) -> Dataset:
    """Keep the newest interactions of each user, at most so many; the last rows where there are no times."""
    order = np.lexsort((np.arange(len(data)) if data.time is None else data.time, data.user))
    size = np.bincount(data.user, minlength=data.n_users)
    if not (size > max_history).any():
        return data
    from_end = np.empty(len(data), dtype=np.int64)
    from_end[order] = np.repeat(np.cumsum(size), size) - np.arange(1, len(data) + 1)
    return data.take(from_end < max_history)


def release_typical_length(
    train: Dataset, mu: float, *, max_history: int, rng: np.random.Generator
) -> tuple[float, GaussianRelease]:
    """Release how long a typical history is: the square of the mean root of the users' numbers of interactions.

    One user adds 1 to the number of users, and the root of a share of `max_history`, 1 at most, to the sum of roots:
    the sensitivity of both together is the root of 2.

    Args:
        train: the interactions.
        mu: guarantee of this release.
        max_history: interactions of a user that count.
        rng: generator of the noise.
    """
    noise = 0.0 if math.isinf(mu) else math.sqrt(2) / mu
    lengths = np.minimum(np.bincount(train.user), max_history)
    sums = np.array([np.count_nonzero(lengths), np.sqrt(lengths / max_history).sum()])
    n_users, roots = sums + noise * rng.standard_normal(2)
    mean = min(1.0, max(0.0, roots / max(n_users, 1.0)))
    return max_history * mean**2, GaussianRelease(name="typical length", sensitivity=math.sqrt(2), noise=noise)


def scale_rows(matrix: sparse.csr_array) -> sparse.csr_array:
    """Scale each row to norm 1; rows without an entry stay as they are."""
    rows = sparse.csr_array(matrix, dtype=np.float64)
    norms = np.sqrt(np.asarray(rows.multiply(rows).sum(1)).ravel())
    return sparse.csr_array(sparse.diags_array(1 / np.where(norms > 0, norms, 1)) @ rows)


def count_items(rows: sparse.csr_array) -> FloatArray:
    """Sum the weights of each item over users; one user changes the sums by a vector of norm 1 at most."""
    return np.asarray(rows.sum(0)).ravel()


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """Counts of items, released twice and averaged by their accuracy, and what they leave of the budget.

    Attributes:
        values: the averages.
        noise: standard deviation of their noise.
        threshold: the items of one single user pass it with half of `item_failure` at most.
        model_mu: guarantee that is left for all that follows.
        releases: the two releases.
    """

    values: FloatArray
    noise: float
    threshold: float
    model_mu: float
    releases: list[GaussianRelease]


@dataclass(frozen=True, eq=False)
class HeadItems:
    """The released items, in order of their ids, with their noisy counts."""

    items: IntArray
    counts: FloatArray


def release_counts(
    counts: FloatArray, budget: PrivacyBudget, *, max_history: int, rng: np.random.Generator
) -> NoisyCounts:
    """Release the counts of items with a part of the budget that first counts decide.

    Where the first counts find few frequent items, finding more is worth more than an accurate model of these few.
    Whatever the first counts are, the parts that follow compose to the rest of the budget, so the whole composes to it.
    Items of a single user can pass both thresholds; each has half of `item_failure`.

    Args:
        counts: sums of weights by `count_items`.
        budget: the guarantee.
        max_history: most items of one user.
        rng: generator of the noise.
    """
    if math.isinf(budget.mu):
        release = GaussianRelease(name="item counts", sensitivity=1.0, noise=0.0)
        return NoisyCounts(counts, 0.0, 0.0, budget.mu, [release])
    first_mu = budget.mu * math.sqrt(FIRST_SHARE)
    first = counts + rng.standard_normal(len(counts)) / first_mu
    n_frequent = int((first > compute_item_threshold(1 / first_mu, budget.item_failure / 2, max_history)).sum())
    share = min(MAX_COUNT_SHARE, SHARE_OF_ONE_ITEM / max(1, n_frequent))
    second_mu = budget.mu * math.sqrt(share)
    second = counts + rng.standard_normal(len(counts)) / second_mu
    weight, noise = FIRST_SHARE / (FIRST_SHARE + share), 1 / math.hypot(first_mu, second_mu)
    return NoisyCounts(
        weight * first + (1 - weight) * second,
        noise,
        compute_item_threshold(noise, budget.item_failure / 2, max_history),
        budget.mu * math.sqrt(1 - FIRST_SHARE - share),
        [
            GaussianRelease(name="first item counts", sensitivity=1.0, noise=1 / first_mu),
            GaussianRelease(name="item counts", sensitivity=1.0, noise=1 / second_mu),
        ],
    )


def select_head_items(noisy: NoisyCounts, budget: PrivacyBudget, max_items: int | None) -> HeadItems:
    """Select the items that may be released, by noisy counts.

    Args:
        noisy: the counts by `release_counts`.
        budget: the guarantee.
        max_items: most items to select; None selects all above the threshold.

    Raises:
        UsageError: more items are asked for than there are.
        DataError: no item is above the threshold.
    """
    n_items = len(noisy.values)
    if max_items is not None and max_items > n_items:
        raise UsageError(f"`head_items` is {max_items}, but the data have {n_items} items. Use at most that.")
    items = np.flatnonzero(noisy.values > noisy.threshold)
    if not len(items):
        raise DataError(
            f"No item has enough users to be released at this budget (epsilon {budget.epsilon:.3g}): the noisy count "
            f"must exceed {noisy.threshold:.1f}. Use more data or a larger epsilon."
        )
    if max_items is not None:
        items = np.sort(items[np.argsort(-noisy.values[items], kind="stable")[:max_items]])
    return HeadItems(items, noisy.values[items])


def compute_item_threshold(noise: float, failure: float, max_history: int) -> float:
    """Compute the threshold that the items of one single user pass with a probability of at most `failure`.

    The user adds weights a_1, ..., a_K with squares that sum to 1, so the weights sum to sqrt(K) at most. Below the
    threshold t, the probability Phi((a - t) / noise) is convex in a, so it lies under its chord from 0 to 1. The sum
    over the K items is then at most (K - sqrt(K)) Phi(-t / noise) + sqrt(K) Phi((1 - t) / noise).
    """
    if noise == 0:
        return 0.0
    root = math.sqrt(max_history)

    def exceed(t: float) -> float:
        at_zero, at_one = special.log_ndtr(-t / noise), special.log_ndtr((1 - t) / noise)
        return float(special.logsumexp([at_zero, at_one], b=[max_history - root, root])) - math.log(failure)

    if exceed(1.0) <= 0:
        return 1.0
    return float(optimize.brentq(exceed, 1.0, 1.0 + noise * (40 + root)))


def add_symmetric_noise(matrix: FloatArray, noise: float, rng: np.random.Generator) -> FloatArray:
    """Add Gaussian noise to symmetric matrices, (..., d, d).

    `noise` is the standard deviation per unit of Frobenius norm: the diagonal, and the other entries times sqrt(2),
    are coordinates in which that norm is the Euclidean one. So the other entries get noise / sqrt(2).
    """
    if noise == 0:
        return matrix
    draw = rng.standard_normal(matrix.shape)
    draw += np.swapaxes(draw, -1, -2).copy()
    return np.asarray(matrix + draw * (noise / 2))
