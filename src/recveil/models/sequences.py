"""Histories in the order they happened, on the device, and what the models that read them share.

All histories lie end to end in one tensor, so any window of any user is one gather: no loop over users, and nothing to
ask the device. A place outside the user's own history reads as `n_items`, the number of no item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.core import Dataset
from recveil.errors import DataError, UsageError

__all__ = [
    "Histories",
    "Windows",
    "check_options",
    "chosen_places",
    "dropout",
    "fresh",
    "histories_of",
    "in_blocks",
    "pack",
    "softmax_loss",
    "table",
    "unpack",
    "weights",
]

NO_TARGET = -100
"""Marks a place of a batch that has nothing to predict."""

Layer = TypeVar("Layer", bound=torch.nn.Module)


def check_options(max_length: int, dropout: float, *, shortest: int = 1) -> None:
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
    def size(self) -> torch.Tensor:
        """How many items each user has."""
        return self.start[1:] - self.start[:-1]

    def at(self, users: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """The items at these places, (len(users), m); no item where a place lies outside that user's history."""
        first, end = self.start[users][:, None], self.start[users + 1][:, None]
        inside = (places >= first) & (places < end)
        return self.item[torch.where(inside, places, len(self.item) - 1)]

    def before(self, users: torch.Tensor, ends: torch.Tensor, length: int) -> torch.Tensor:
        """The `length` items of each user before these places, padded on the left: (len(users), length)."""
        return self.at(users, ends[:, None] + torch.arange(-length, 0, device=ends.device))

    def last(self, users: torch.Tensor, length: int) -> torch.Tensor:
        """The latest `length` items of each user, padded on the left: (len(users), length)."""
        return self.before(users, self.start[users + 1], length)


def histories_of(*parts: Dataset, device: torch.device | str = "cpu") -> Histories:
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
        size = line.size
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

    def draw(self, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """First place and end of each stretch; it belongs to the user of the same number in `user`."""
        share = torch.rand(self.line.n_users, generator=generator, device=generator.device, dtype=torch.float64)
        shift = (share * (self.slack + 1)).long()
        size = self.line.size[self.user]
        end = size + shift[self.user] - self.nth * self.length
        begin = (end - self.length).clamp(min=0)
        first = self.line.start[self.user]
        return first + begin, first + torch.minimum(end, size)


def chosen_places(mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
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


def softmax_loss(states: torch.Tensor, items: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy of the targets among all items; rows marked `NO_TARGET` do not count."""
    return functional.cross_entropy(states @ items.T, target, ignore_index=NO_TARGET)


def dropout(x: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
    """Dropout from our own generator: torch's own draws from the global one."""
    if rate == 0.0:
        return x
    keep = torch.empty_like(x).bernoulli_(1.0 - rate, generator=generator)
    return x * keep.div_(1.0 - rate)


def fresh(kind: Callable[..., Layer], *sizes: int, generator: torch.Generator, **options: Any) -> Layer:
    """A torch layer of this kind, its weights uniform in +-1/sqrt(inputs) from our own generator, its biases zero."""
    # Made without memory first, so that torch draws no start of its own.
    layer = kind(*sizes, device="meta", **options).to_empty(device=generator.device)
    with torch.no_grad():
        for weight in layer.parameters():
            if weight.ndim > 1:
                bound = float(weight[0].numel()) ** -0.5
                weight.uniform_(-bound, bound, generator=generator)
            else:
                weight.zero_()
    return layer


def table(n: int, d: int, size: float, generator: torch.Generator) -> torch.nn.Parameter:
    """Vectors of expected length `size`, in random directions."""
    start = torch.randn(n, d, generator=generator, device=generator.device)
    return torch.nn.Parameter(start * (size / d**0.5))


def in_blocks(rows: Callable[[torch.Tensor], torch.Tensor], users: torch.Tensor, block: int) -> torch.Tensor:
    """`rows(users)`, a block at a time where no gradient is wanted: whole tables of long histories fit no memory."""
    if torch.is_grad_enabled() or len(users) <= block:
        return rows(users)
    return torch.cat([rows(part) for part in torch.split(users, block)])


def weights(network: torch.nn.Module) -> dict[str, NDArray[Any]]:
    """All that the network learned, as arrays."""
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}


def pack(model: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a trained model with an encoder, flat, to be saved."""
    learned = {f"weights_.{name}": value for name, value in model.weights_.items()}
    return {"user_vectors_": model.user_vectors_, "item_vectors_": model.item_vectors_, **learned}


def unpack(model: Any, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Give the model back what `pack` took from it."""
    model.user_vectors_, model.item_vectors_ = arrays["user_vectors_"], arrays["item_vectors_"]
    start = "weights_."
    model.weights_ = {name.removeprefix(start): value for name, value in arrays.items() if name.startswith(start)}
