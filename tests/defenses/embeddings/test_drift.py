"""Drift: users of the same kind pass, shifted and rotated ones do not, and few users are judged by their mean alone."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.defenses.embeddings.drift import DriftReference

SPREADS = np.array([3.0, 1.0, 0.3, 1.0])


def draw_users(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, 4)) * SPREADS + 1


@pytest.fixture(scope="module")
def reference() -> DriftReference:
    return DriftReference.fit(draw_users(800, 0), np.random.default_rng(0))


@pytest.mark.parametrize("n", [20, 300])
def test_users_of_the_same_kind_pass(reference: DriftReference, n: int) -> None:

    found = [reference.measure_drift(draw_users(n, seed)) for seed in range(1, 9)]
    assert sum(drift.refuses for drift in found) == 0
    assert n < 100 or not any(drift.warns for drift in found)


def test_a_small_shift_warns_and_a_large_one_refuses(reference: DriftReference) -> None:
    small = reference.measure_drift(draw_users(500, 1) + 0.25 * SPREADS)
    large = reference.measure_drift(draw_users(500, 1) + SPREADS)
    assert small.warns
    assert not small.refuses
    assert large.refuses


def test_a_rotated_table_is_refused_though_its_mean_is_the_same(reference: DriftReference) -> None:
    drift = reference.measure_drift((draw_users(500, 1) - 1)[:, ::-1] + 1)
    assert drift.mean < 0.3
    assert drift.refuses
