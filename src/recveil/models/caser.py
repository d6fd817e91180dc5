"""Caser: the last few items as a picture, read by small filters, beside a vector for what the user likes anyway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split, TrainingHistory
from recveil.models.layers import apply_dropout, export_weights, make_layer, make_table
from recveil.models.sampling import draw_batches, wrap_histories
from recveil.models.scoring import compute_dot_scores
from recveil.models.sequences import Histories, apply_in_blocks, check_sequence_options, make_histories
from recveil.models.training_loop import Schedule, compute_user_table, train_network

__all__ = ["Caser"]

METHODS = (ModelTraits("caser", builder="Caser", paper="Tang and Wang, WSDM 2018", is_sequential=True),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {"epochs": 20, "learning_rate": 0.001, "targets": 1, "embedding_size": 100, "batch_size": 4096},
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking)."""


@dataclass
class Caser:
    """Convolutions over the last `max_length` items (Tang and Wang, WSDM 2018), trained on the next `targets` items.

    The user vector is what the filters see in the last items, followed by the user's own vector: both are needed to
    serve, and the score is the dot product of both together with an item vector of the same size (no item bias).
    While training, the validation item is predicted from the training items; the released user vectors have read the
    validation items too, which is what a platform would serve. Test items are never looked at.

    Departs: cross-entropy over the whole catalog in place of a few sampled negatives; histories shorter than
    `max_length` are padded and learned from too.
    """

    embedding_size: int = 50
    max_length: int = 5
    targets: int = 3
    horizontal_filters: int = 16
    vertical_filters: int = 4
    epochs: int = 30
    learning_rate: float = 0.003
    batch_size: int = 4096
    dropout: float = 0.5
    patience: int = 5
    device: str | None = None

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)
    passes_: int = field(init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part, stopping on the validation items."""
        check_sequence_options(self.max_length, self.dropout)
        if self.targets < 1:
            raise UsageError(f"targets is {self.targets}. There must be at least 1 item to predict.")
        if not len(split.train):
            raise DataError(f"'{split.train.name}' has no interactions to learn from. Train on a table that has some.")
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        network = _Filters(self, make_histories(split.train, device=device), generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        history = train_network(network, split, schedule, penalty=penalty, generator=generator, label="training Caser")
        self.history_, self.passes_ = history, history.best + 1
        network.line = make_histories(split.train, split.valid, device=device)
        self.user_vectors_ = compute_user_table(network, penalty)
        self.item_vectors_ = network.out.detach().cpu().numpy()
        self.weights_ = export_weights(network)
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """A score for every item; `user_vectors` are the rows of these users to use in place of the model's own."""
        return compute_dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Vectors for users outside training: what the filters see is exact, the user's own vector is learned.

        The latter by the same loss, for as many passes, with all the rest held still. Histories are read in the order
        given, oldest item first.
        """
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        line = make_histories(wrap_histories(histories, len(self.item_vectors_)), device=device)
        network = _Filters(self, line, generator)
        known = {name: torch.as_tensor(value) for name, value in self.weights_.items() if name != "user"}
        network.load_state_dict({**known, "user": network.user.detach()})
        network.requires_grad_(False)
        network.user.requires_grad_(True)
        if len(line.item) > 1:
            schedule = Schedule(self.epochs, self.learning_rate, max_epochs=self.passes_)
            train_network(network, None, schedule, generator=generator, label="folding in")
        return compute_user_table(network)


_BLOCK_USERS = 8192  # users encoded at a time


class _Filters(torch.nn.Module):
    """Horizontal filters of every height, vertical filters, and the user's own vector beside them."""

    def __init__(self, options: Caser, line: Histories, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.line, self.n_users, self.generator = options, line, line.n_users, generator
        self.n_items = line.n_items
        d, length = options.embedding_size, options.max_length
        self.item = make_table(line.n_items + 1, d, 1.0, generator)
        self.user = make_table(line.n_users, d, 0.1, generator)
        self.out = make_table(line.n_items, 2 * d, 0.5, generator)
        wide, tall = options.horizontal_filters, options.vertical_filters
        self.horizontal = torch.nn.ModuleList(
            make_layer(torch.nn.Conv1d, d, wide, height, generator=generator) for height in range(1, length + 1)
        )
        self.vertical = make_layer(torch.nn.Linear, length, tall, generator=generator)
        self.join = make_layer(torch.nn.Linear, wide * length + tall * d, d, generator=generator)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Every place of every history once, with its user."""
        order = draw_batches(len(self.line.item) - 1, self.options.batch_size, generator)
        return torch.searchsorted(self.line.start, order, right=True) - 1, order

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, places = batch
        seen = self._apply_filters(self.line.items_before(users, places, self.options.max_length), self.options.dropout)
        ahead = torch.arange(self.options.targets, device=places.device)
        target = self.line.items_at(users, places[:, None] + ahead)
        real = target < self.n_items  # the first always is; others may lie past the end
        rows = torch.cat([seen, functional.embedding(users, self.user)], 1)
        likely = functional.log_softmax(rows @ self.out.T, 1).gather(1, target.masked_fill(~real, 0))
        return -(likely * real).sum() / real.sum()

    def _apply_filters(self, read: torch.Tensor, rate: float) -> torch.Tensor:
        """What the filters see in these items, (n, max_length) -> (n, d)."""
        picture = functional.embedding(read, self.item).mT  # (n, d, max_length)
        wide = [functional.relu(filters(picture)).amax(2) for filters in self.horizontal]
        tall = self.vertical(picture).flatten(1)
        found = apply_dropout(torch.cat([*wide, tall], 1), rate, self.generator)
        return functional.relu(self.join(found))

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return apply_in_blocks(self._encode_users, users, _BLOCK_USERS)

    def _encode_users(self, users: torch.Tensor) -> torch.Tensor:
        seen = self._apply_filters(self.line.last_items(users, self.options.max_length), 0.0)
        return torch.cat([seen, functional.embedding(users, self.user)], 1)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.out

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.out.T
