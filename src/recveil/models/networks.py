"""Networks that the training loop trains, and the tables of user vectors that they release."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import torch

from recveil.core.protocols import Penalty
from recveil.core.types import FloatArray

__all__ = ["TrainableNetwork", "compute_table", "compute_user_table", "finish_table"]


class TrainableNetwork(Protocol):
    """A torch module that draws batches and computes its loss and vectors.

    In each step the loop calls `loss` first and `compute_user_vectors` after it, so a network may cache what both
    need.
    """

    n_users: int

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Draw all batches of one epoch: tensors of shape (steps, batch, ...)."""

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        """Compute the mean recommendation loss of one batch."""

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        """Compute the released vectors of these users, differentiable."""

    def compute_item_vectors(self) -> torch.Tensor:
        """Compute the released vectors of all items, differentiable."""

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        """Score every item for users with these released vectors."""

    def parameters(self) -> Iterable[torch.nn.Parameter]:
        """Return the learned parameters."""

    def state_dict(self) -> Mapping[str, Any]:
        """Return the whole state by name."""

    def load_state_dict(self, state: Mapping[str, Any]) -> Any:
        """Replace the whole state."""

    def train(self, mode: bool = True) -> Any:
        """Switch between learning and serving, and drop cached results."""


def compute_user_table(network: TrainableNetwork, penalty: Penalty | None = None) -> FloatArray:
    """Compute the table to release, finished by the penalty if there is one."""
    return np.asarray(finish_table(network, penalty).float().cpu().numpy())


@torch.no_grad()
def finish_table(network: TrainableNetwork, penalty: Penalty | None) -> torch.Tensor:
    """Compute the table to release as a tensor on the device, without a gradient."""
    table = compute_table(network)
    return table if penalty is None else penalty.finish(table)


def compute_table(network: TrainableNetwork) -> torch.Tensor:
    """Compute the vectors of all users, not finished by a penalty."""
    device = next(iter(network.parameters())).device
    return network.compute_user_vectors(torch.arange(network.n_users, device=device))
