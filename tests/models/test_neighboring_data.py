"""What models with a guarantee hand to the noise, on data sets with and without one user.

The histories have equal times, repeated items and more interactions than count. What was released before, that is the
head items with their counts and the full weight, is the same for both data sets, as the composition takes it to be.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from recveil.core.types import Dataset, FloatArray, IntArray, Split
from recveil.models import dp_cov, private_items
from recveil.models.dp_als import SENSITIVITY, ItemSums, PrivateALS
from recveil.models.dp_cov import PrivateCovariance
from recveil.models.private_release import HeadItems

N_ITEMS, MAX_HISTORY = 12, 7


def make_neighbors(rng: np.random.Generator, *, with_times: bool) -> tuple[Split, Split]:
    """Make a data set of six users, and the same without the last one."""
    sizes = rng.integers(1, 3 * MAX_HISTORY, 6)
    user = rng.permutation(np.repeat(np.arange(6), sizes))
    item, time = rng.integers(0, N_ITEMS, len(user)), rng.integers(0, 5, len(user))
    data = Dataset("d", user, item, time if with_times else None, np.arange(6), np.arange(N_ITEMS))
    empty = data.take(np.zeros(len(user), dtype=np.bool_))
    return Split(data, empty, empty), Split(data.take(user < 5), empty, empty)


@pytest.fixture
def collected(monkeypatch: pytest.MonkeyPatch) -> list[FloatArray]:
    """Collect all that gets noise; fix what was released before."""
    values: list[FloatArray] = []

    def collect(statistic: FloatArray, *_: object) -> FloatArray:
        values.append(np.array(statistic))
        return np.zeros_like(statistic)

    def collect_sums(sums: ItemSums, *_: object) -> ItemSums:
        values.append(np.concatenate([part.ravel() for part in (sums.products, sums.vectors, sums.total)]))
        return sums

    def collect_counts(counts: FloatArray, *arguments: Any, **options: Any) -> object:
        values.append(counts)
        return release_counts(counts, *arguments, **options)

    release_counts: Callable[..., object] = private_items.release_counts
    head = HeadItems(np.arange(1, N_ITEMS), np.linspace(3.0, 9.0, N_ITEMS - 1))
    monkeypatch.setattr(dp_cov, "add_symmetric_noise", collect)
    monkeypatch.setattr(ItemSums, "add_noise", collect_sums)
    monkeypatch.setattr(private_items, "release_counts", collect_counts)
    monkeypatch.setattr(private_items, "select_head_items", lambda *_: head)
    return values


def measure_changes(
    collected: list[FloatArray], make: Callable[[], PrivateCovariance | PrivateALS], *, with_times: bool
) -> tuple[list[float], list[float]]:
    """Measure how far one user moves the counts, and the first statistic after them, on 40 neighboring data sets."""
    rng: np.random.Generator = np.random.default_rng(0)
    counts, first = [], []
    for _ in range(40):
        parts = []
        for split in make_neighbors(rng, with_times=with_times):
            collected.clear()
            make().fit(split, rng=np.random.default_rng(1))
            parts.append(list(collected[:2]))
        counts.append(float(np.linalg.norm(parts[0][0] - parts[1][0])))
        first.append(float(np.linalg.norm(parts[0][1] - parts[1][1])))
    return counts, first


@pytest.mark.parametrize(
    ("with_times", "recency", "span"), [(True, 3.0, 0.0), (True, 3.0, 2.0), (True, 0.0, 0.0), (False, 0.0, 0.0)]
)
def test_one_user_moves_what_dp_cov_hands_to_the_noise_by_no_more_than_stated(
    collected: list[FloatArray], with_times: bool, recency: float, span: float
) -> None:
    def make() -> PrivateCovariance:
        return PrivateCovariance(max_history=MAX_HISTORY, full_weight_items=3, recency=recency, span=span, noise_seed=0)

    counts, first = measure_changes(collected, make, with_times=with_times)
    assert 0.99 < max(counts) <= 1 + 1e-9
    assert 0.99 < max(first) <= 1 + 1e-9


@pytest.mark.parametrize("recency", [0.0, 3.0])
def test_one_user_moves_what_dp_als_hands_to_the_noise_by_no_more_than_stated(
    collected: list[FloatArray], recency: float
) -> None:
    def make() -> PrivateALS:
        return PrivateALS(max_history=MAX_HISTORY, recency=recency, embedding_size=2, rounds=1, noise_seed=0)

    counts, first = measure_changes(collected, make, with_times=True)
    assert 0.99 < max(counts) <= 1 + 1e-9
    assert 0 < max(first) <= SENSITIVITY + 1e-6


def test_what_gets_noise_does_not_depend_on_the_numbers_of_the_users(collected: list[FloatArray]) -> None:
    order: IntArray = np.random.default_rng(2).permutation(6)
    split, _ = make_neighbors(np.random.default_rng(3), with_times=True)
    renamed = Dataset("d", order[split.train.user], split.train.item, split.train.time, order, split.train.item_ids)
    for part in (split, Split(renamed, split.valid, split.test)):
        PrivateCovariance(max_history=MAX_HISTORY, noise_seed=0).fit(part, rng=np.random.default_rng(1))
    assert np.allclose(collected[1], collected[3], atol=1e-12)
