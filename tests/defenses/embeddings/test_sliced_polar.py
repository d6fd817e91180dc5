"""`sliced` in polar coordinates: what it leaves, and what stays as it was."""

from __future__ import annotations

import numpy as np

from recveil.core.types import Attribute
from recveil.defenses.embeddings.sliced_polar import SlicedPolar
from recveil.testing.contracts import measure_leak


def test_an_uneven_table_is_hidden_and_a_constant_column_and_the_scale_stay() -> None:
    rng = np.random.default_rng(0)
    codes = np.arange(1200) % 2
    direction = rng.standard_normal((1200, 6))
    direction[:, 0] += 1.5 * codes
    x = direction * np.exp(1.2 * rng.standard_normal((1200, 1))) * 1e-6
    x = np.hstack([x, np.full((1200, 1), 3.0)]).astype(np.float32)
    secret = Attribute("class", codes, ("a", "b"))
    out = SlicedPolar(device="cpu")(x, codes, rng=np.random.default_rng(0))
    np.testing.assert_allclose(out[:, -1], 3.0, rtol=1e-5)
    np.testing.assert_allclose(np.abs(out[:, :-1]).mean(), np.abs(x[:, :-1]).mean(), rtol=0.2)
    before, after = (measure_leak(table[:, :-1] * 1e6, secret) for table in (x, out))
    assert after < 0.15 < 0.3 < before


def test_without_classes_or_with_equal_rows_nothing_changes() -> None:
    x = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    same = np.full((30, 3), 2.0, dtype=np.float32)
    for table, codes in ((x, np.zeros(30, int)), (x, np.full(30, -1)), (same, np.arange(30) % 2)):
        np.testing.assert_array_equal(SlicedPolar()(table, codes, rng=np.random.default_rng(0)), table)
