"""Histories in the order they happened, on the device, and what the models that read them share.

All histories lie end to end in one tensor, so any window of any user is one gather: no loop over users, and nothing to
ask the device. A place outside the user's own history reads as `n_items`, the number of no item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.types import Dataset, FloatArray, IntArray, Split
from recveil.models.layers import export_weights
from recveil.models.sampling import wrap_histories
from recveil.models.training_loop import Schedule, compute_user_table, train_network

__all__ = [
    "Histories",
    "Windows",
    "check_sequence_options",
    "index_places",
    "fit_reader",
    "make_histories",
    "apply_in_blocks",
    "encode_histories",
    "compute_softmax_loss",
]

NO_TARGET = -100
"""Marks a place of a batch that has nothing to predict."""


def check_sequence_options(max_length: int, dropout: float, *, shortest: int = 1) -> None:
    """Say what is wrong with what all sequence models are given."""
    if max_length < shortest:
        raise UsageError(f"max_length is {max_length}. This model reads at least {shortest} at a time.")
    if not 0.0 <= dropout < 1.0:
        raise UsageError(f"dropout is {dropout}. It must be at least 0 and below 1.")


@dataclass(frozen=True, eq=False)
class Histories:
    """The items of user u, oldest first, are `item[start[u] : start[u + 1]]`; one entry of no item ends the tensor."""

    item: torch.Tensor
    start: torch.Tensor
    n_users: int
    n_items: int

    @property
    def sizes(self) -> torch.Tensor:
        """How many items each user has."""
        return self.start[1:] - self.start[:-1]

    def items_at(self, users: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The items at these places, (len(users), m); no item where a place lies outside that user's history."""
        first, end = self.start[users][:, None], self.start[users + 1][:, None]
        inside = (places >= first) & (places < end)
        return self.item[torch.where(inside, places, len(self.item) - 1)]

    def items_before(self, users: torch.Tensor, ends: torch.Tensor, length: int) -> torch.Tensor:
        """The `length` items of each user before these places, padded on the left: (len(users), length)."""
        return self.items_at(users, ends[:, None] + torch.arange(-length, 0, device=ends.device))

    def last_items(self, users: torch.Tensor, length: int) -> torch.Tensor:
        """The latest `length` items of each user, padded on the left: (len(users), length)."""
        return self.items_before(users, self.start[users + 1], length)


def make_histories(*parts: Dataset, device: torch.device | str = "cpu") -> Histories:
    """Each user's items over all parts in the order of time.

    Ties: among equal times, the row that stands later is the later one, and a later part comes after an earlier one.
    Without times, parts and rows are taken in the order given.
    """
    user = np.concatenate([part.user for part in parts])
    item = np.concatenate([part.item for part in parts])
    times = [part.time for part in parts if part.time is not None]
    # The sort is stable, so equal times keep the order of the rows, as in the split.
    order = np.lexsort((np.concatenate(times), user) if len(times) == len(parts) else (user,))
    n_users, n_items = parts[0].n_users, parts[0].n_items
    start = np.concatenate([[0], np.cumsum(np.bincount(user, minlength=n_users))])
    line = np.append(item[order], n_items)
    return Histories(torch.as_tensor(line, device=device), torch.as_tensor(start, device=device), n_users, n_items)


class Windows:
    """Every history cut into stretches of at most `length` items; where a long one is cut differs from draw to draw.

    Each item lies in exactly one stretch, and the number of stretches is the same in every draw.
    """

    def __init__(self, line: Histories, length: int) -> None:
        self.line, self.length = line, length
        size = line.sizes
        count = (size + length - 1) // length
        self.user = torch.repeat_interleave(torch.arange(line.n_users, device=size.device), count)
        if len(self.user) == 0:
            raise DataError(
                "There is nothing to learn from: no user has a history. Train on a table with interactions."
            )
        self.nth = torch.arange(len(self.user), device=size.device) - (torch.cumsum(count, 0) - count)[self.user]
        self.slack = count * length - size

    def __len__(self) -> int:
        return len(self.user)

    def draw_bounds(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """First place and end of each stretch; it belongs to the user of the same number in `user`."""
        share = torch.rand(self.line.n_users, generator=generator, device=generator.device, dtype=torch.float64)
        shift = (share * (self.slack + 1)).long()
        size = self.line.sizes[self.user]
        end = size + shift[self.user] - self.nth * self.length
        begin = (end - self.length).clamp(min=0)
        first = self.line.start[self.user]
        return first + begin, first + torch.minimum(end, size)


def index_places(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Where each step's mask holds, as numbers into the flattened step, and which of these numbers are real.

    `mask` is (steps, ...); both answers are (steps, m) with m the most any step has, so that all steps have one shape.
    """
    flat = mask.flatten(1)
    count = flat.sum(1, keepdim=True)
    most = int(count.max())  # one question for the whole pass
    column = torch.where(flat, flat.cumsum(1) - 1, most)
    place = torch.arange(flat.shape[1], device=flat.device).expand_as(column)
    index = torch.zeros(len(flat), most + 1, dtype=torch.long, device=flat.device).scatter_(1, column, place)
    return index[:, :most], torch.arange(most, device=flat.device) < count


def compute_softmax_loss(states: torch.Tensor, items: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the targets among all items; rows marked `NO_TARGET` do not count."""
    return functional.cross_entropy(states @ items.T, target, ignore_index=NO_TARGET)


def apply_in_blocks(rows: Callable[[torch.Tensor], torch.Tensor], users: torch.Tensor, block: int) -> torch.Tensor:
    """`rows(users)`, a block at a time where no gradient is wanted: whole tables of long histories fit no memory."""
    if torch.is_grad_enabled() or len(users) <= block:
        return rows(users)
    return torch.cat([rows(part) for part in torch.split(users, block)])


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
    """Train the network that `make` builds, and leave in the model what it releases and what it learned.

    Validation is judged on what the training items tell; the released vectors have read the validation items too.
    """
    device = resolve_device(model.device)
    generator = make_torch_generator(rng, device)
    network = make(model, make_histories(split.train, device=device), generator)
    network.windows = Windows(network.line, model.max_length)
    schedule = Schedule(model.epochs, model.learning_rate, model.patience, penalty_users=block)
    model.history_ = train_network(network, split, schedule, penalty=penalty, generator=generator, label=label)
    network.line = make_histories(split.train, split.valid, device=device)
    model.user_vectors_ = compute_user_table(network, penalty)
    model.item_vectors_ = network.compute_item_vectors().detach().cpu().numpy()
    model.weights_ = export_weights(network)


def encode_histories(
    model: Any, make: Callable[[Any, Histories, torch.Generator], Any], histories: Sequence[IntArray]
) -> FloatArray:
    """What the trained network says of these histories."""
    device = resolve_device(model.device)
    line = make_histories(wrap_histories(histories, len(model.item_vectors_)), device=device)
    network = make(model, line, torch.Generator(device))
    network.load_state_dict({name: torch.as_tensor(value) for name, value in model.weights_.items()})
    return compute_user_table(network)
