"""The order of the rows of a table: it follows from their content, on every device."""

from __future__ import annotations

import numpy as np
import torch

from recveil.transport.row_order import _sort_on_device, sort_rows


def test_the_order_of_the_rows_is_that_of_their_content() -> None:
    rng = np.random.default_rng(1)
    x, codes = rng.standard_normal((300, 2)), rng.integers(-1, 3, (300, 2))
    x[100:200] = x[:100]  # equal rows are put in order by their codes
    wanted = sort_rows(x, codes)
    moved = rng.permutation(300)
    again = moved[sort_rows(x[moved], codes[moved])]
    np.testing.assert_array_equal(x[again], x[wanted])
    np.testing.assert_array_equal(codes[again], codes[wanted])
    np.testing.assert_array_equal(sort_rows(x, codes[:, :1]), sort_rows(x, codes[:, 0]))


def test_an_empty_table_has_an_empty_order() -> None:
    for codes in (np.zeros(0, int), np.zeros((0, 2), int)):
        assert sort_rows(np.zeros((0, 3)), codes).shape == (0,)


def test_tensors_are_put_in_the_order_of_arrays() -> None:
    rng = np.random.default_rng(2)
    for kind in (np.float32, np.float64):
        x, codes = rng.standard_normal((2_000, 5)).astype(kind), rng.integers(-1, 3, (2, 2_000))
        x[1_000:1_500] = x[:500]
        x[0] = 0.0
        x[1] = -0.0
        np.testing.assert_array_equal(_sort_on_device(torch.from_numpy(x), codes), sort_rows(x, codes.T))
