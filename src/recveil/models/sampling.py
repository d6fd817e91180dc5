"""Who touched what, on the device, and negatives that nobody has to reject.

The n-th item a user has *not* touched is found by one binary search: if the user's items in order are p_0 < p_1 < ...,
it is n + #{k : p_k - k <= n}. So negatives are exactly uniform over the untouched items, for any share of
touched ones, without trial and error and without asking the device what it drew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recveil.core import Dataset, IntArray
from recveil.errors import DataError

__all__ = ["Positives", "from_histories", "positives", "shuffled"]

_STEPS, _SMALL = 50, 64  # a pass has this many steps, unless batches would become smaller than this


@dataclass(frozen=True, eq=False)
class Positives:
    """The distinct (user, item) pairs of training, by user and item.

    `start[u]` is the first row of user u; `gaps` are the search keys u * n_items + (p_k - k).
    """

    user: torch.Tensor
    item: torch.Tensor
    start: torch.Tensor
    gaps: torch.Tensor
    n_users: int
    n_items: int

    def __len__(self) -> int:
        return len(self.user)

    def negatives(self, rows: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
        """For each of these rows, `count` items its user never touched: (len(rows), count)."""
        user = self.user[rows]
        first = self.start[user]
        left = self.n_items - (self.start[user + 1] - first)
        share = torch.rand(len(rows), count, generator=generator, device=user.device, dtype=torch.float64)
        nth = (share * left[:, None]).long()
        touched = torch.searchsorted(self.gaps, user[:, None] * self.n_items + nth, right=True) - first[:, None]
        return nth + touched

    def epoch(
        self, batch_size: int, count: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One pass in random order: users and positives (steps, batch), negatives (steps, batch, count)."""
        # Drawn in table order, where the binary search runs along the keys, then shuffled.
        drawn = self.negatives(torch.arange(len(self), device=self.user.device), count, generator)
        order = shuffled(len(self), batch_size, generator)
        return self.user[order], self.item[order], drawn[order]


def positives(train: Dataset, device: torch.device | str = "cpu") -> Positives:
    """The pairs to learn from; a pair that occurs twice counts once.

    A user who touched every item has nothing to compare with: those pairs are left out.
    """
    user = torch.as_tensor(train.user, device=device)
    item = torch.as_tensor(train.item, device=device)
    key = torch.unique(user * train.n_items + item)
    degree = torch.bincount(key // max(train.n_items, 1), minlength=train.n_users)
    key = key[degree[key // max(train.n_items, 1)] < train.n_items]
    if len(key) == 0:
        raise DataError(
            f"'{train.name}' has nothing to learn from: no user has both items touched and items left. "
            "Train on a table with more users or items."
        )
    user, item = key // train.n_items, key % train.n_items
    degree = torch.bincount(user, minlength=train.n_users)
    start = torch.cat([degree.new_zeros(1), torch.cumsum(degree, 0)])
    gaps = key - (torch.arange(len(key), device=key.device) - start[user])
    return Positives(user, item, start, gaps, train.n_users, train.n_items)


def shuffled(n: int, batch_size: int, generator: torch.Generator) -> torch.Tensor:
    """A random order of 0..n-1 cut into equal batches, (steps, batch); a few of the first come twice to fill the last.

    Batches of one size let the device replay one recorded step. `batch_size` is the most: small data are cut finer, for
    a pass of one or two steps teaches little.
    """
    steps = max(-(-n // batch_size), min(_STEPS, -(-n // _SMALL)))
    size = -(-n // steps)
    order = torch.randperm(n, generator=generator, device=generator.device)
    return torch.cat([order, order[: steps * size - n]]).view(steps, size)


def from_histories(histories: Sequence[IntArray], n_items: int) -> Dataset:
    """A data set whose user u touched `histories[u]`, for users outside training."""
    user = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
    item = np.concatenate([np.asarray(h, dtype=np.int64) for h in histories]) if len(histories) else user
    if len(item) and (item.min() < 0 or item.max() >= n_items):
        raise DataError(
            f"A history names item {int(item.max() if item.max() >= n_items else item.min())}, but this model knows "
            f"items 0 to {n_items - 1}. Leave out items that were not in training."
        )
    return Dataset("histories", user, item, None, np.arange(len(histories)), np.arange(n_items))
