"""Caser: convolutions over the last items of a history, beside a vector for the general taste of the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import DataError
from recveil.core.option_types import Count, PositiveFloat, Rate, Width
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split
from recveil.models.layers import apply_dropout, export_weights, make_layer, make_table
from recveil.models.networks import compute_user_table
from recveil.models.sampling import draw_batches, wrap_histories
from recveil.models.sequences import Histories, apply_in_blocks, make_histories
from recveil.models.training_loop import Schedule, train_network
from recveil.models.vector_model import VectorModel

__all__ = ["Caser"]

METHODS = (ModelTraits("caser", builder="Caser", paper="Tang and Wang, WSDM 2018", is_sequential=True),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {"epochs": 20, "learning_rate": 0.001, "targets": 1, "embedding_size": 100, "batch_size": 4096},
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking)."""


@dataclass
class Caser(VectorModel):
    """Sequential recommender by convolutions over the last items.

    Tang and Wang, Personalized Top-N Sequential Recommendation via Convolutional Sequence Embedding, WSDM 2018. The
    last `max_length` items predict the next `targets` items. The user vector is the output of the filters followed by
    the user's own vector, because serving needs both; the score is its dot product with an item vector of the same size
    (no item bias). During training the validation item is predicted from the training items; the released user vectors
    have also read the validation items, as a platform would serve them. Test items are never used.

    Departs: cross-entropy over the whole catalog replaces a few sampled negatives; histories shorter than `max_length`
    are padded and learned from as well.
    """

    embedding_size: Width = 50
    max_length: Count = 5
    targets: Count = 3
    horizontal_filters: Width = 16
    vertical_filters: Width = 4
    epochs: Count = 30
    learning_rate: PositiveFloat = 0.003
    batch_size: Count = 4096
    dropout: Rate = 0.5
    patience: Count = 5
    device: str | None = None

    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)
    passes_: int = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        if not len(split.train):
            raise DataError(f"'{split.train.name}' has no interactions to learn from. Train on a table that has some.")
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        network = _Filters(self, make_histories(split.train, device=device), generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        history = train_network(network, split, schedule, penalty=penalty, generator=generator, label="training Caser")
        self.history_, self.passes_ = history, history.best + 1
        network.histories = make_histories(split.train, split.valid, device=device)
        self.user_vectors_ = compute_user_table(network, penalty)
        self.item_vectors_ = network.out.detach().cpu().numpy()
        self.weights_ = export_weights(network)
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Compute user vectors for new histories.

        The part of the filters is exact.

        The own part is learned by the same loss and epochs with everything else frozen. Histories are read in their
        order, oldest item first.
        """
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        wrapped = make_histories(wrap_histories(histories, len(self.item_vectors_)), device=device)
        network = _Filters(self, wrapped, generator)
        known = {name: torch.as_tensor(value) for name, value in self.weights_.items() if name != "user"}
        network.load_state_dict({**known, "user": network.user.detach()})
        network.requires_grad_(False)
        network.user.requires_grad_(True)
        if len(wrapped.item) > 1:
            schedule = Schedule(self.epochs, self.learning_rate, max_epochs=self.passes_)
            train_network(network, None, schedule, generator=generator, label="folding in")
        return compute_user_table(network)


_BLOCK_USERS = 8192  # users encoded at a time


class _Filters(torch.nn.Module):
    """Horizontal and vertical filters, and a table of the users' own vectors."""

    def __init__(self, options: Caser, histories: Histories, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.histories, self.generator = options, histories, generator
        self.n_users, self.n_items = histories.n_users, histories.n_items
        d, length = options.embedding_size, options.max_length
        self.item = make_table(histories.n_items + 1, d, 1.0, generator)
        self.user = make_table(histories.n_users, d, 0.1, generator)
        self.out = make_table(histories.n_items, 2 * d, 0.5, generator)
        wide, tall = options.horizontal_filters, options.vertical_filters
        self.horizontal = torch.nn.ModuleList(
            make_layer(torch.nn.Conv1d, d, wide, height, generator=generator) for height in range(1, length + 1)
        )
        self.vertical = make_layer(torch.nn.Linear, length, tall, generator=generator)
        self.join = make_layer(torch.nn.Linear, wide * length + tall * d, d, generator=generator)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Draw every place of every history once, with its user."""
        order = draw_batches(len(self.histories.item) - 1, self.options.batch_size, generator)
        return torch.searchsorted(self.histories.start, order, right=True) - 1, order

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, places = batch
        filtered = self._apply_filters(
            self.histories.items_before(users, places, self.options.max_length), self.options.dropout
        )
        ahead = torch.arange(self.options.targets, device=places.device)
        target = self.histories.items_at(users, places[:, None] + ahead)
        is_item = target < self.n_items  # the first target always is; later ones may lie past the end
        rows = torch.cat([filtered, functional.embedding(users, self.user)], 1)
        log_share = functional.log_softmax(rows @ self.out.T, 1).gather(1, target.masked_fill(~is_item, 0))
        return -(log_share * is_item).sum() / is_item.sum()

    def _apply_filters(self, items: torch.Tensor, rate: float) -> torch.Tensor:
        """Apply the filters to these items, (n, max_length) -> (n, d)."""
        image = functional.embedding(items, self.item).mT  # (n, d, max_length)
        wide = [functional.relu(filters(image)).amax(2) for filters in self.horizontal]
        tall = self.vertical(image).flatten(1)
        features = apply_dropout(torch.cat([*wide, tall], 1), rate, self.generator)
        return functional.relu(self.join(features))

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return apply_in_blocks(self._encode_users, users, _BLOCK_USERS)

    def _encode_users(self, users: torch.Tensor) -> torch.Tensor:
        filtered = self._apply_filters(self.histories.last_items(users, self.options.max_length), 0.0)
        return torch.cat([filtered, functional.embedding(users, self.user)], 1)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.out

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.out.T
