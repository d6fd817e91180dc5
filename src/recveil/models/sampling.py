"""Training pairs on the device, and negatives drawn without rejection.

The n-th item that a user has *not* seen is found by one binary search: if the user's items in order are p_0 < p_1 <
..., it is n + #{k : p_k - k <= n}. So negatives are exactly uniform over the unseen items, for any share of seen ones,
without trial and error and without reading the draws back from the device.
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
    "wrap_histories",
    "select_hardest",
    "make_positives",
    "draw_batches",
    "weigh_pairs",
]

_MIN_STEPS, _MIN_BATCH_ROWS = 25, 64  # an epoch has at least so many steps, unless batches became smaller than that


@dataclass(frozen=True, eq=False)
class Positives:
    """Distinct (user, item) pairs of training, ordered by user and item.

    Attributes:
        user: user of each pair.
        item: item of each pair.
        start: first row of each user.
        gaps: search keys u * n_items + (p_k - k) of the module's formula.
        reach: running sum of the weights of the pairs; None if all weigh the same.
        n_users: users in the id space.
        n_items: items in the id space.
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
        """Draw `count` items that the user of each row has not seen: (len(rows), count)."""
        user = self.user[rows]
        first = self.start[user]
        n_unseen = self.n_items - (self.start[user + 1] - first)
        share = torch.rand(len(rows), count, generator=generator, device=user.device, dtype=torch.float64)
        nth = (share * n_unseen[:, None]).long()
        n_seen_before = torch.searchsorted(self.gaps, user[:, None] * self.n_items + nth, right=True) - first[:, None]
        return nth + n_seen_before

    def draw_epoch(
        self, batch_size: int, count: int, generator: torch.Generator
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Draw the batches of one epoch in random order.

        Users and positives are (steps, batch), negatives (steps, batch, count).

        Every pair comes once; with weights, as many pairs are drawn in proportion to them.

        Args:
            batch_size: rows of a batch, at most.
            count: negatives of each pair.
            generator: source of the draws.
        """
        # Drawn in table order, where the binary search walks along the keys, and shuffled afterwards.
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
    """Weigh the distinct (user, item) pairs, ordered by user and item.

    A user's newest pair weighs exp(recency) times as much as the oldest, and those between by their place in the
    history; a recency of 0 weighs all pairs the same. The weights of a user are 1 on average. A pair that occurs twice
    counts once, with the weight of its latest row.

    Raises:
        UsageError: recency is not 0 and the data have no times.
    """
    if recency and train.time is None:
        raise UsageError(f"recency is {recency:g}, but '{train.name}' has no times. Use 0, or data with times.")
    weight = np.ones(len(train))
    if recency:
        order = np.lexsort((np.asarray(train.time), train.user))
        size = np.bincount(train.user, minlength=train.n_users)
        place = np.empty(len(train))
        place[order] = np.arange(1, len(train) + 1) - np.repeat(np.cumsum(size) - size, size)
        weight = np.exp(recency * (place / size[train.user] - 1.0))
        weight *= (size / np.bincount(train.user, weights=weight, minlength=train.n_users).clip(1e-12))[train.user]
    key, index = np.unique(train.user * train.n_items + train.item, return_inverse=True)
    latest = np.zeros(len(key))
    np.maximum.at(latest, index, weight)
    return key // max(train.n_items, 1), key % max(train.n_items, 1), latest


def build_interaction_matrix(data: Dataset, recency: float) -> sparse.csr_array:
    """Build the sparse user-by-item matrix of the weights by `weigh_pairs`."""
    user, item, weight = weigh_pairs(data, recency)
    return sparse.csr_array((weight.astype(np.float32), (user, item)), shape=(data.n_users, data.n_items))


def make_positives(train: Dataset, device: torch.device | str = "cpu", *, recency: float = 0.0) -> Positives:
    """Move the pairs to learn from to the device.

    Users who have seen every item are left out, because they have no negatives.

    Args:
        train: the training interactions.
        device: where the pairs live.
        recency: weight of new pairs, as in `weigh_pairs`.

    Raises:
        DataError: no user has both seen and unseen items.
    """
    user, item, weight = weigh_pairs(train, recency)
    keep = np.bincount(user, minlength=train.n_users)[user] < train.n_items
    if not keep.any():
        raise DataError(
            f"'{train.name}' has nothing to learn from: no user has both seen and unseen items. "
            "Train on a table with more users or items."
        )
    user, item = user[keep], item[keep]
    start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=train.n_users))])
    gaps = user * train.n_items + item - (np.arange(len(user)) - start[user])

    def to_device(table: IntArray | FloatArray) -> torch.Tensor:
        return torch.as_tensor(table, device=device)

    reach = to_device(np.cumsum(weight[keep])) if recency else None
    return Positives(
        to_device(user), to_device(item), to_device(start), to_device(gaps), reach, train.n_users, train.n_items
    )


def draw_batches(n: int, batch_size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw a random order of 0..n-1 in batches of equal size, (steps, batch).

    The first few rows come twice to fill the last batch, because the device can replay one recorded step only for
    batches of one size. Small data get smaller batches, because an epoch of one or two steps teaches little.

    Args:
        n: number of rows.
        batch_size: rows of a batch, at most.
        generator: source of the order; its device is where the batches live.
    """
    steps = max(-(-n // batch_size), min(_MIN_STEPS, -(-n // _MIN_BATCH_ROWS)))
    size = -(-n // steps)
    order = torch.randperm(n, generator=generator, device=generator.device)
    return torch.cat([order, order[: steps * size - n]]).view(steps, size)


def wrap_histories(histories: Sequence[IntArray], n_items: int) -> Dataset:
    """Make a data set of new users from their histories, oldest item first.

    Raises:
        DataError: a history names an item that the model does not know.
    """
    user = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
    item = np.concatenate([np.asarray(h, dtype=np.int64) for h in histories]) if len(histories) else user
    if len(item) and (item.min() < 0 or item.max() >= n_items):
        raise DataError(
            f"A history names item {int(item.max() if item.max() >= n_items else item.min())}, but this model knows "
            f"items 0 to {n_items - 1}. Leave out items that were not in training."
        )
    return Dataset("histories", user, item, np.arange(len(item)), np.arange(len(histories)), np.arange(n_items))


def select_hardest(score: Callable[[torch.Tensor], torch.Tensor], draws: torch.Tensor, count: int) -> torch.Tensor:
    """Select the highest scored item of each group of draws.

    The shape changes from (n, count * candidates) to (n, count).

    Args:
        score: scores a batch of items for the users of the batch, without a gradient.
        draws: the candidates, `count` groups side by side.
        count: number of groups.
    """
    if draws.shape[1] == count:
        return draws
    with torch.no_grad():
        best = score(draws).view(len(draws), count, -1).argmax(2, keepdim=True)
    return draws.view(len(draws), count, -1).gather(2, best)[:, :, 0]
