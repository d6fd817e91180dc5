"""Histories in order of time on the device, and the steps that sequential models share.

All histories lie end to end in one tensor, so any window of any user is one gather, without a loop over users and
without waiting for the device. A place outside the user's own history reads as `n_items`, the number of no item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import DataError
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.types import Dataset, FloatArray, IntArray, Split
from recveil.models.layers import export_weights
from recveil.models.networks import compute_user_table
from recveil.models.sampling import wrap_histories
from recveil.models.training_loop import Schedule, train_network

__all__ = [
    "Histories",
    "Windows",
    "index_places",
    "fit_reader",
    "make_histories",
    "apply_in_blocks",
    "encode_histories",
    "compute_softmax_loss",
]

NO_TARGET = -100
"""Target of a place that has nothing to predict."""


@dataclass(frozen=True, eq=False)
class Histories:
    """Histories of all users in one tensor.

    The items of user u, oldest first, are `item[start[u] : start[u + 1]]`; one entry of no item ends the tensor.
    """

    item: torch.Tensor
    start: torch.Tensor
    n_users: int
    n_items: int

    @property
    def sizes(self) -> torch.Tensor:
        """Number of items of each user."""
        return self.start[1:] - self.start[:-1]

    def items_at(self, users: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Return the items at these places: (len(users), m).

        A place outside the user's history reads as no item.
        """
        first, end = self.start[users][:, None], self.start[users + 1][:, None]
        inside = (places >= first) & (places < end)
        return self.item[torch.where(inside, places, len(self.item) - 1)]

    def items_before(self, users: torch.Tensor, ends: torch.Tensor, length: int) -> torch.Tensor:
        """Return the `length` items before these places, padded on the left."""
        return self.items_at(users, ends[:, None] + torch.arange(-length, 0, device=ends.device))

    def last_items(self, users: torch.Tensor, length: int) -> torch.Tensor:
        """Return the latest `length` items of each user, padded on the left."""
        return self.items_before(users, self.start[users + 1], length)


def make_histories(*parts: Dataset, device: torch.device | str = "cpu") -> Histories:
    """Order each user's items over all parts by time.

    Among equal times, the row that stands later is the later one, and a later part comes after an earlier one. Without
    times, parts and rows keep their order.
    """
    user = np.concatenate([part.user for part in parts])
    item = np.concatenate([part.item for part in parts])
    times = [part.time for part in parts if part.time is not None]
    # The sort is stable, so equal times keep the order of the rows, as in the split.
    order = np.lexsort((np.concatenate(times), user) if len(times) == len(parts) else (user,))
    n_users, n_items = parts[0].n_users, parts[0].n_items
    start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=n_users))])
    items = np.append(item[order], n_items)
    return Histories(torch.as_tensor(items, device=device), torch.as_tensor(start, device=device), n_users, n_items)


class Windows:
    """Windows of at most `length` items that cover every history.

    Long histories are cut at random places.

    Each item lies in exactly one window, and the number of windows is the same in every draw.
    """

    def __init__(self, histories: Histories, length: int) -> None:
        self.histories, self.length = histories, length
        size = histories.sizes
        count = (size + length - 1) // length
        self.user = torch.repeat_interleave(torch.arange(histories.n_users, device=size.device), count)
        if len(self.user) == 0:
            raise DataError(
                "No user has a history, so there is nothing to learn from. Train on a table with interactions."
            )
        self.nth = torch.arange(len(self.user), device=size.device) - (torch.cumsum(count, 0) - count)[self.user]
        self.slack = count * length - size

    def __len__(self) -> int:
        return len(self.user)

    def draw_bounds(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw the first place and the end of the window of each entry of `user`."""
        share = torch.rand(self.histories.n_users, generator=generator, device=generator.device, dtype=torch.float64)
        shift = (share * (self.slack + 1)).long()
        size = self.histories.sizes[self.user]
        end = size + shift[self.user] - self.nth * self.length
        begin = (end - self.length).clamp(min=0)
        first = self.histories.start[self.user]
        return first + begin, first + torch.minimum(end, size)


def index_places(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Index the places where each step's mask holds; mark the real ones.

    `mask` is (steps, ...). Both results are (steps, m), where m is the largest number of places in a step, so that all
    steps have one shape; the indices point into the flattened step.
    """
    flat = mask.flatten(1)
    count = flat.sum(1, keepdim=True)
    width = int(count.max())  # waits for the device once per epoch
    column = torch.where(flat, flat.cumsum(1) - 1, width)
    place = torch.arange(flat.shape[1], device=flat.device).expand_as(column)
    index = torch.zeros(len(flat), width + 1, dtype=torch.long, device=flat.device).scatter_(1, column, place)
    return index[:, :width], torch.arange(width, device=flat.device) < count


def compute_softmax_loss(states: torch.Tensor, items: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Compute the mean cross-entropy of the targets among all items.

    Rows with `NO_TARGET` do not count.

    Args:
        states: outputs of the network, one row for each target.
        items: vectors of all items.
        target: the item of each row.
    """
    return functional.cross_entropy(states @ items.T, target, ignore_index=NO_TARGET)


def apply_in_blocks(encode: Callable[[torch.Tensor], torch.Tensor], users: torch.Tensor, block: int) -> torch.Tensor:
    """Encode the users, in blocks when no gradient is needed.

    A whole table of long histories would exceed the memory.

    Args:
        encode: computes the vectors of a batch of users.
        users: the users to encode.
        block: users at a time.
    """
    if torch.is_grad_enabled() or len(users) <= block:
        return encode(users)
    return torch.cat([encode(part) for part in torch.split(users, block)])


def fit_reader(
    model: Any,
    make: Callable[[Any, Histories, torch.Generator], Any],
    split: Split,
    *,
    penalty: Penalty | None,
    rng: np.random.Generator,
    label: str,
    block: int,
) -> None:
    """Train the network that `make` builds and store its results in the model.

    Validation items are predicted from the training items; the released vectors have also read the validation items.

    Args:
        model: the model, with its options.
        make: builds the network from options, histories and a generator.
        split: the data.
        penalty: defense that acts in training.
        rng: source of all draws.
        label: what the progress display calls the training.
        block: users that a penalty sees in one step, at most.
    """
    device = resolve_device(model.device)
    generator = make_torch_generator(rng, device)
    network = make(model, make_histories(split.train, device=device), generator)
    network.windows = Windows(network.histories, model.max_length)
    schedule = Schedule(model.epochs, model.learning_rate, model.patience, penalty_users=block)
    model.history_ = train_network(network, split, schedule, penalty=penalty, generator=generator, label=label)
    network.histories = make_histories(split.train, split.valid, device=device)
    model.user_vectors_ = compute_user_table(network, penalty)
    model.item_vectors_ = network.compute_item_vectors().detach().cpu().numpy()
    model.weights_ = export_weights(network)


def encode_histories(
    model: Any, make: Callable[[Any, Histories, torch.Generator], Any], histories: Sequence[IntArray]
) -> FloatArray:
    """Compute the user vectors of these histories by the trained network.

    Args:
        model: the trained model.
        make: builds the network from options, histories and a generator.
        histories: items of each user, oldest first.
    """
    device = resolve_device(model.device)
    wrapped = make_histories(wrap_histories(histories, len(model.item_vectors_)), device=device)
    network = make(model, wrapped, torch.Generator(device))
    network.load_state_dict({name: torch.as_tensor(value) for name, value in model.weights_.items()})
    return compute_user_table(network)
