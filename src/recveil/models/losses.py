"""Utility of a table of user vectors as a differentiable loss, with everything but the users frozen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from recveil.core import device as devices
from recveil.core.random import make_torch_generator
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.models.sampling import make_positives

__all__ = ["make_bpr_loss"]

MAX_PAIRS = 2**15
"""Pairs that one evaluation of the loss draws, at most."""


def make_bpr_loss(
    train: Dataset,
    item_vectors: FloatArray,
    *,
    rows: IntArray | None = None,
    device: str | None = None,
    rng: np.random.Generator,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Make the BPR loss of user vectors on the training pairs.

    It fits models whose scores are products of user and item vectors. Each evaluation draws new pairs and negatives.

    Args:
        train: the training pairs.
        item_vectors: the frozen item vectors.
        rows: row of each user in the table; the user's own number by default.
        device: device to compute on; None chooses one.
        rng: source of the draws.

    Returns:
        A function from a table of user vectors to its loss.
    """
    where = devices.resolve_device(device)
    pairs, draw = make_positives(train, where), make_torch_generator(rng, where)
    items = torch.as_tensor(item_vectors, device=where, dtype=torch.float32)
    place = torch.arange(train.n_users, device=where) if rows is None else torch.as_tensor(rows, device=where)

    def compute_loss(x: torch.Tensor) -> torch.Tensor:
        chosen = torch.randint(len(pairs), (min(MAX_PAIRS, len(pairs)),), generator=draw, device=where)
        user = x[place[pairs.user[chosen]]]
        gap = items[pairs.item[chosen]] - items[pairs.draw_negatives(chosen, 1, draw)[:, 0]]
        return functional.softplus(-(user * gap).sum(1)).mean()

    return compute_loss
