"""Rounds along random axes: fitted to the users they learn from, and no more than chance allows along the columns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.types import Attribute
from recveil.defenses.embeddings import sliced_rounds
from recveil.defenses.embeddings.cells import plan_cells
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.sliced_rounds import carry_rounds
from recveil.testing.worlds import make_no_leak, make_planted_leak


def cloak(x: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Cloak by rounds in the columns as they are, without trades."""
    return Sliced(coordinates="columns", trade=False, device="cpu")(x, codes, rng=np.random.default_rng(0))


def column_gap(x: np.ndarray, secret: Attribute) -> float:
    """How far the quantiles of two classes lie apart along each column, once mean and spread are equal."""
    levels = np.linspace(0.01, 0.99, 99)
    parts = [x[secret.codes == k] for k in (0, 1)]
    one, two = (np.quantile((p - p.mean(0)) / p.std(0), levels, axis=0) for p in parts)
    return float(np.mean((one - two) ** 2))


def test_columns_are_fitted_less_than_they_would_be_as_axes_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """They come in every fifth round: fitted each time, trees would find users who avoid their own class."""
    x, secret = make_no_leak(4000, 8, 2, rng=np.random.default_rng(0))
    left = {1.0: 0.0, 0.2: 0.0}
    for share in left:
        monkeypatch.setattr(sliced_rounds, "COLUMN_CHANCE_SHARE", share)
        left[share] = column_gap(cloak(x, secret.codes), secret) / column_gap(x, secret)
    assert left[1.0] > 2 * left[0.2], left


def carry(x: np.ndarray, codes: np.ndarray, rounds: int, max_users: int = 10_000) -> np.ndarray:
    """Carry users by rounds alone, without the moments before and the draw after."""
    draws = torch.Generator().manual_seed(0)
    cells = plan_cells(codes, minimum=0)[0]
    start = torch.as_tensor(x, dtype=torch.float64)
    return carry_rounds(start, cells, rounds, draws, keep_map=False, max_users=max_users)[0].numpy()


def test_users_whom_the_rounds_did_not_learn_from_are_carried_alike() -> None:
    """Classes of another shape: a quarter of each class teaches, and the others become as alike as these."""
    x, secret = make_planted_leak(4000, 4, 2, 0.0, rng=np.random.default_rng(9))
    x[secret.codes == 0] = np.sign(x[secret.codes == 0]) * np.abs(x[secret.codes == 0]) ** 1.7
    gaps = [column_gap(t, secret) for t in (x, carry(x, secret.codes, 40), carry(x, secret.codes, 40, max_users=500))]
    assert gaps[1] < 0.1 * gaps[0], gaps
    assert gaps[2] < 0.2 * gaps[0], gaps


def test_no_rounds_and_undisclosed_users_change_nothing() -> None:
    x, secret = make_planted_leak(200, 4, 2, 2.0, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(carry(x, secret.codes, 0), x)
    codes = np.where(np.arange(200) % 4 == 0, -1, secret.codes)
    carried = carry(x, codes, 10)
    np.testing.assert_array_equal(carried[codes < 0], x[codes < 0])
    assert np.abs(carried[codes >= 0] - x[codes >= 0]).max() > 0.1
