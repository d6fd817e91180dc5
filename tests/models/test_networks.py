from __future__ import annotations

import numpy as np
import torch

from recveil.models.networks import compute_table, compute_user_table, finish_table


class Table(torch.nn.Module):
    """A network that is a table of double precision."""

    n_users = 3

    def __init__(self) -> None:
        super().__init__()
        self.x = torch.nn.Parameter(torch.arange(6.0, dtype=torch.float64).view(3, 2))

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.x[users]


class Doubling:
    """The end of a penalty."""

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        return 2 * user_vectors


def test_the_released_table_is_finished_and_plain_float32() -> None:
    network = Table()
    expected = np.arange(6.0).reshape(3, 2)
    for penalty, factor in ((None, 1), (Doubling(), 2)):
        table = compute_user_table(network, penalty)
        assert table.dtype == np.float32
        np.testing.assert_array_equal(table, factor * expected)
        assert not finish_table(network, penalty).requires_grad
    assert compute_table(network).requires_grad
