"""Who touched what, on the device, and negatives that nobody has to reject.

The n-th item a user has *not* touched is found by one binary search: if the user's items in order are p_0 < p_1 < ...,
it is n + #{k : p_k - k <= n}. So negatives are exactly uniform over the untouched items, for any share of
touched ones, without trial and error and without asking the device what it drew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy import sparse

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset, FloatArray, IntArray

__all__ = [
    "Positives",
    "build_interaction_matrix",
    "check_sampling",
    "wrap_histories",
    "select_hardest",
    "make_positives",
    "draw_batches",
    "weigh_pairs",
]

_MIN_STEPS, _MIN_BATCH_ROWS = 25, 64  # a pass has this many steps, unless batches would become smaller than this


@dataclass(frozen=True, eq=False)
class Positives:
    """The distinct (user, item) pairs of training, by user and item.

    `start[u]` is the first row of user u; `gaps` are the search keys u * n_items + (p_k - k); `reach` is the running
    sum of the pairs' weights, where they do not count alike.
    """

    user: torch.Tensor
    item: torch.Tensor
    start: torch.Tensor
    gaps: torch.Tensor
    reach: torch.Tensor | None
    n_users: int
    n_items: int

    def __len__(self) -> int:
        return len(self.user)

    def draw_negatives(self, rows: torch.Tensor, count: int, generator: torch.Generator) -> torch.Tensor:
        """For each of these rows, `count` items its user never touched: (len(rows), count)."""
        user = self.user[rows]
        first = self.start[user]
        left = self.n_items - (self.start[user + 1] - first)
        share = torch.rand(len(rows), count, generator=generator, device=user.device, dtype=torch.float64)
        nth = (share * left[:, None]).long()
        touched = torch.searchsorted(self.gaps, user[:, None] * self.n_items + nth, right=True) - first[:, None]
        return nth + touched

    def draw_epoch(
        self, batch_size: int, count: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """One pass in random order: users and positives (steps, batch), negatives (steps, batch, count).

        Every pair comes once, or, where pairs do not count alike, as many are drawn by their weights.
        """
        # Drawn in table order, where the binary search runs along the keys, then shuffled.
        rows = self._draw_rows(generator)
        drawn = self.draw_negatives(rows, count, generator)
        order = draw_batches(len(rows), batch_size, generator)
        return self.user[rows][order], self.item[rows][order], drawn[order]

    def _draw_rows(self, generator: torch.Generator) -> torch.Tensor:
        if self.reach is None:
            return torch.arange(len(self), device=self.user.device)
        share = torch.rand(len(self), generator=generator, device=self.user.device, dtype=torch.float64)
        rows = torch.searchsorted(self.reach, torch.sort(share).values * self.reach[-1], right=True)
        return rows.clamp(max=len(self) - 1)


def weigh_pairs(train: Dataset, recency: float) -> tuple[IntArray, IntArray, FloatArray]:
    """The distinct (user, item) pairs by user and item, and how much each counts; a user's pairs count 1 on average.

    A user's newest pair counts exp(recency) times as much as the oldest, those between by their place in the
    history; 0 makes all count alike. A pair that occurs twice counts once, as its latest.
    """
    if recency and train.time is None:
        raise UsageError(f"recency is {recency:g}, but '{train.name}' has no times. Use recency 0, or data with times.")
    weight = np.ones(len(train))
    if recency:
        order = np.lexsort((np.asarray(train.time), train.user))
        size = np.bincount(train.user, minlength=train.n_users)
        place = np.empty(len(train))
        place[order] = np.arange(1, len(train) + 1) - np.repeat(np.cumsum(size) - size, size)
        weight = np.exp(recency * (place / size[train.user] - 1.0))
        weight *= (size / np.bincount(train.user, weights=weight, minlength=train.n_users).clip(1e-12))[train.user]
    key, where = np.unique(train.user * train.n_items + train.item, return_inverse=True)
    latest = np.zeros(len(key))
    np.maximum.at(latest, where, weight)
    return key // max(train.n_items, 1), key % max(train.n_items, 1), latest


def build_interaction_matrix(data: Dataset, recency: float) -> sparse.csr_array:
    """Build the sparse user-by-item matrix of the weights that `weigh_pairs` gives."""
    user, item, weight = weigh_pairs(data, recency)
    return sparse.csr_array((weight.astype(np.float32), (user, item)), shape=(data.n_users, data.n_items))


def make_positives(train: Dataset, device: torch.device | str = "cpu", *, recency: float = 0.0) -> Positives:
    """The pairs to learn from, on the device; `recency` is explained at `weigh_pairs`.

    A user who touched every item has nothing to compare with: those pairs are left out.
    """
    user, item, weight = weigh_pairs(train, recency)
    keep = np.bincount(user, minlength=train.n_users)[user] < train.n_items
    if not keep.any():
        raise DataError(
            f"'{train.name}' has nothing to learn from: no user has both items touched and items left. "
            "Train on a table with more users or items."
        )
    user, item = user[keep], item[keep]
    start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=train.n_users))])
    gaps = user * train.n_items + item - (np.arange(len(user)) - start[user])

    def there(table: IntArray | FloatArray) -> torch.Tensor:
        return torch.as_tensor(table, device=device)

    reach = there(np.cumsum(weight[keep])) if recency else None
    return Positives(there(user), there(item), there(start), there(gaps), reach, train.n_users, train.n_items)


def draw_batches(n: int, batch_size: int, generator: torch.Generator) -> torch.Tensor:
    """A random order of 0..n-1 cut into equal batches, (steps, batch); a few of the first come twice to fill the last.

    Batches of one size let the device replay one recorded step. `batch_size` is the most: small data are cut finer, for
    a pass of one or two steps teaches little.
    """
    steps = max(-(-n // batch_size), min(_MIN_STEPS, -(-n // _MIN_BATCH_ROWS)))
    size = -(-n // steps)
    order = torch.randperm(n, generator=generator, device=generator.device)
    return torch.cat([order, order[: steps * size - n]]).view(steps, size)


def wrap_histories(histories: Sequence[IntArray], n_items: int) -> Dataset:
    """A data set whose user u touched `histories[u]`, oldest first, for users outside training."""
    user = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
    item = np.concatenate([np.asarray(h, dtype=np.int64) for h in histories]) if len(histories) else user
    if len(item) and (item.min() < 0 or item.max() >= n_items):
        raise DataError(
            f"A history names item {int(item.max() if item.max() >= n_items else item.min())}, but this model knows "
            f"items 0 to {n_items - 1}. Leave out items that were not in training."
        )
    return Dataset("histories", user, item, np.arange(len(item)), np.arange(len(histories)), np.arange(n_items))


def check_sampling(n_negatives: int, candidates: int) -> None:
    """Say what is wrong with how negatives are to be drawn."""
    if n_negatives < 1 or candidates < 1:
        raise UsageError(f"n_negatives is {n_negatives} and candidates is {candidates}. Both must be at least 1.")


def select_hardest(score: Callable[[torch.Tensor], torch.Tensor], drawn: torch.Tensor, count: int) -> torch.Tensor:
    """The highest scored of each of `count` groups of draws: (n, count * candidates) -> (n, count)."""
    if drawn.shape[1] == count:
        return drawn
    with torch.no_grad():
        best = score(drawn).view(len(drawn), count, -1).argmax(2, keepdim=True)
    return drawn.view(len(drawn), count, -1).gather(2, best)[:, :, 0]
