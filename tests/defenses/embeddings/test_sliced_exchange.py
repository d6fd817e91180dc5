"""`sliced` followed by exchange: tight clusters are hidden, and only rows of `sliced` are traded."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.defenses.embeddings.exchange import Exchange
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.sliced_exchange import SlicedExchange, SlicedPolarExchange
from recveil.testing.contracts import measure_leak


def make_clusters() -> tuple[FloatArray, IntArray]:
    """Make users in twelve tight clusters that hold the classes in different shares."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 12, 1500)
    codes = (rng.random(1500) < np.linspace(0.2, 0.8, 12)[cluster]).astype(int)
    x = 3 * rng.standard_normal((12, 5))[cluster] + 0.05 * rng.standard_normal((1500, 5))
    return x.astype(np.float32), codes


@pytest.mark.thorough
@pytest.mark.parametrize("defense", [SlicedExchange(device="cpu"), SlicedPolarExchange(device="cpu")])
def test_classes_in_tight_clusters_are_hidden(defense: SlicedExchange) -> None:
    x, codes = make_clusters()
    secret = Attribute("class", codes, ("a", "b"))
    before, after = (measure_leak(t, secret) for t in (x, defense(x, codes, rng=np.random.default_rng(0))))
    assert before > 0.2
    assert after < 0.08


def test_strength_is_a_straight_line_and_the_trades_keep_the_rows_of_sliced() -> None:
    x, codes = make_clusters()
    x, codes = x[:300], codes[:300]
    whole = SlicedExchange(device="cpu")(x, codes, rng=np.random.default_rng(0))
    half = SlicedExchange(device="cpu", strength=0.5)(x, codes, rng=np.random.default_rng(0))
    np.testing.assert_allclose(half, (x + whole) / 2, atol=1e-5)
    moved = Sliced(device="cpu")(x, codes, rng=np.random.default_rng(0))
    np.testing.assert_allclose(np.sort(whole, axis=0), np.sort(moved, axis=0), atol=1e-5)
    np.testing.assert_array_equal(SlicedExchange(strength=0.0)(x, codes, rng=np.random.default_rng(0)), x)
    assert np.abs(Exchange(device="cpu")(x, codes, rng=np.random.default_rng(0)) - x).max() > 0
