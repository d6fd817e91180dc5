"""GRU4Rec: a recurrent network reads the history item by item, and its last state is the user vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.core.option_types import Count, PositiveFloat, Rate, Width
from recveil.core.protocols import Penalty
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split
from recveil.models.layers import apply_dropout, make_layer, make_table
from recveil.models.sampling import draw_batches
from recveil.models.sequences import (
    NO_TARGET,
    Histories,
    Windows,
    apply_in_blocks,
    compute_softmax_loss,
    encode_histories,
    fit_reader,
    index_places,
)
from recveil.models.vector_model import VectorModel

__all__ = ["GRU4Rec"]

METHODS = (ModelTraits("gru4rec", builder="GRU4Rec", paper="Hidasi et al., ICLR 2016", is_sequential=True),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {
        "hidden_size": 256,
        "epochs": 40,
        "learning_rate": 0.002,
        "batch_size": 128,
        "dropout": 0.5,
        "max_length": 200,
        "patience": 10,
    },
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking)."""


@dataclass
class GRU4Rec(VectorModel):
    """Sequential recommender by gated recurrent units.

    Hidasi et al., Session-based Recommendations with Recurrent Neural Networks, ICLR 2016. The user vector is the state
    after the last item. The score is its dot product with the item vectors, which are also the input of the network (no
    item bias). Every history starts from the same state. During training the validation item is predicted from the
    training items; the released user vectors have also read the validation items, as a platform would serve them. Test
    items are never used.

    Departs: cross-entropy over the whole catalog replaces sampled ranking losses and Adam replaces Adagrad (0.01); item
    vectors are shared between input and output; dropout acts on the input and on the state. At most `max_length` items
    of a history are read at a time.
    """

    hidden_size: Width = 100
    epochs: Count = 20
    learning_rate: PositiveFloat = 0.005
    batch_size: Count = 32
    dropout: Rate = 0.3
    max_length: Count = 100
    patience: Count = 6
    device: str | None = None

    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        fit_reader(self, _Reader, split, penalty=penalty, rng=rng, label="training GRU4Rec", block=_BLOCK_USERS)
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Compute user vectors for new histories by the trained network.

        Histories are read in their order, oldest item first. Nothing is random.
        """
        return encode_histories(self, _Reader, histories)


_BLOCK_USERS = 1024  # users encoded at a time


class _Reader(torch.nn.Module):
    """Item vectors and a GRU.

    Every history starts with the row of no item, which predicts the first item.
    """

    windows: Windows

    def __init__(self, options: GRU4Rec, histories: Histories, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.histories, self.generator = options, histories, generator
        self.n_users = histories.n_users
        d = options.hidden_size
        self.item = make_table(histories.n_items + 1, d, 1.0, generator)
        self.gru = make_layer(torch.nn.GRU, d, d, generator=generator, batch_first=True)
        self.gru.flatten_parameters()

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Draw the windows, the places that predict an item, and these items."""
        begin, end = self.windows.draw_bounds(generator)
        order = draw_batches(len(self.windows), self.options.batch_size, generator)
        user, begin, end = (part[order.flatten()] for part in (self.windows.user, begin, end))
        items, is_read = self._read_windows(user, begin - 1, end - 1)
        target, _ = self._read_windows(user, begin, end)
        index, is_real = index_places(is_read.view(*order.shape, -1))
        target = target.view(len(order), -1).gather(1, index).masked_fill(~is_real, NO_TARGET)
        return items.view(*order.shape, -1), index, target

    def _read_windows(
        self, user: torch.Tensor, begin: torch.Tensor, end: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Read the items from begin to end, padded on the right.

        A network that reads forward reaches the padding last, so it does not change the states before.
        """
        places = begin[:, None] + torch.arange(self.options.max_length, device=begin.device)
        return self.histories.items_at(user, places), places < end[:, None]

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        items, index, target = batch
        states = self._compute_states(items, self.options.dropout).flatten(0, 1).index_select(0, index)
        return compute_softmax_loss(states, self.item[:-1], target)

    def _compute_states(self, items: torch.Tensor, rate: float) -> torch.Tensor:
        vectors = apply_dropout(functional.embedding(items, self.item), rate, self.generator)
        states: torch.Tensor = self.gru(vectors)[0]
        return apply_dropout(states, rate, self.generator)

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return apply_in_blocks(self._compute_last_states, users, _BLOCK_USERS)

    def _compute_last_states(self, users: torch.Tensor) -> torch.Tensor:
        end = self.histories.start[users + 1]
        begin = torch.maximum(self.histories.start[users] - 1, end - self.options.max_length)
        states = self._compute_states(self._read_windows(users, begin, end)[0], 0.0)
        return states[torch.arange(len(users), device=users.device), end - begin - 1]

    def compute_item_vectors(self) -> torch.Tensor:
        return self.item[:-1]

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.item[:-1].T
