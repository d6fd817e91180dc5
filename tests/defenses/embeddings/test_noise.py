"""Noise: of the size it says, in every column, for everybody."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.noise import Noise
from recveil.testing.contracts import check_embedding_defense


def blur(x: np.ndarray, codes: np.ndarray, seed: int = 0, **options: float) -> np.ndarray:
    return Noise(device="cpu", **options)(x, codes, rng=np.random.default_rng(seed))


def table(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of very different spread, far from the origin."""
    rng = np.random.default_rng(0)
    x = 5 + rng.standard_normal((n, 3)) * [0.01, 1.0, 100.0]
    return x.astype(np.float32), np.arange(n) % 2


@pytest.mark.parametrize(("scale", "strength"), [(1.0, 1.0), (0.5, 1.0), (2.0, 0.25)])
def test_the_noise_has_the_size_it_says_in_every_column(scale: float, strength: float) -> None:
    x, codes = table(20_000)
    noise = (blur(x, codes, scale=scale, strength=strength) - x) / x.std(0)
    np.testing.assert_allclose(noise.std(0), scale * strength, rtol=0.03)
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.03 * scale * strength)
    np.testing.assert_allclose(np.corrcoef(noise.T), np.eye(3), atol=0.04)  # drawn anew for each column
    assert abs(np.corrcoef(noise[:, 1], x[:, 1])[0, 1]) < 0.04  # and without a look at the user
    kurtosis = np.mean((noise[:, 1] / noise[:, 1].std()) ** 4)
    assert kurtosis == pytest.approx(3, abs=0.2)


def test_it_keeps_the_contract() -> None:
    assert Noise.moves_anyway
    check_embedding_defense(partial(Noise, device="cpu"), moves_anyway=True)


def test_classes_do_not_matter() -> None:
    x, codes = table(50)
    out = blur(x, codes)
    assert not np.array_equal(out, x)
    np.testing.assert_array_equal(blur(x, np.zeros_like(codes)), out)
    np.testing.assert_array_equal(blur(x, np.full_like(codes, UNDISCLOSED)), out)


def test_another_seed_is_another_draw() -> None:
    x, codes = table(50)
    assert not np.array_equal(blur(x, codes, seed=1), blur(x, codes))
    np.testing.assert_array_equal(blur(x, codes, scale=0.0), x)


def test_constant_columns_and_lonely_users_stay() -> None:
    x, codes = table(10)
    x[:, 1] = np.float32(0.1)
    np.testing.assert_array_equal(blur(x, codes)[:, 1], x[:, 1])
    np.testing.assert_array_equal(blur(x[:1], codes[:1]), x[:1])
    wide = np.random.default_rng(1).standard_normal((3, 40)).astype(np.float32)
    assert np.isfinite(blur(wide, np.array([0, 0, 1]))).all()


def test_bad_input_is_refused() -> None:
    x, codes = table(10)
    with pytest.raises(DataError, match="NaN"):
        blur(np.full_like(x, np.nan), codes)
    with pytest.raises(UsageError, match="strength must lie"):
        blur(x, codes, strength=-0.1)
    with pytest.raises(UsageError, match="scale must be zero or more"):
        blur(x, codes, scale=-1.0)
    with pytest.raises(DataError, match="codes for 3 users"):
        blur(x, codes[:3])
