"""LFM: the latent factor model, fitted to seen pairs (1) against sampled pairs that were not seen (0)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import unknown_name
from recveil.core.option_types import Count, Exponent, NonNegativeFloat, PositiveFloat, Width
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split
from recveil.models.layers import make_table
from recveil.models.networks import compute_user_table
from recveil.models.sampling import Positives, make_positives, select_hardest, wrap_histories
from recveil.models.training_loop import Schedule, train_network
from recveil.models.vector_model import VectorModel

__all__ = ["LFM"]

METHODS = (ModelTraits("lfm", builder="LFM", paper="DL-MIA, KDD 2022", factors_items=True),)

_LOSSES = ("logistic", "squared")


@dataclass
class LFM(VectorModel):
    """Latent factor model: pointwise matrix factorization of implicit feedback.

    The "LFM" of DL-MIA (KDD 2022). The score is the dot product of the two vectors. It is trained towards 1 for seen
    items and towards 0 for sampled other items, through a logistic curve or, with `loss="squared"`, directly.

    Departs: Adam on large batches replaces single SGD steps at 0.01. Each of the `n_negatives` is the highest scored of
    `candidates` uniform draws (1 is plain sampling). With `recency`, a user's newest pair is drawn exp(recency) times
    as often as the oldest.
    """

    embedding_size: Width = 100
    epochs: Count = 20
    learning_rate: PositiveFloat = 0.01
    batch_size: Count = 8192
    reg: NonNegativeFloat = 1e-3
    n_negatives: Count = 4
    candidates: Count = 1
    loss: str = "logistic"
    recency: Exponent = 0.0
    patience: Count = 5
    device: str | None = None

    offset_: float = field(init=False, repr=False, compare=False)
    passes_: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss not in _LOSSES:
            raise unknown_name("loss of LFM", self.loss, _LOSSES)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        network = _LFMFactors(self, make_positives(split.train, device, recency=self.recency), generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        history = train_network(network, split, schedule, penalty=penalty, generator=generator, label="training LFM")
        self.history_, self.passes_ = history, history.best + 1
        self.user_vectors_ = compute_user_table(network, penalty)
        self.item_vectors_ = network.item.detach().cpu().numpy()
        self.offset_ = float(network.offset.detach())
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Learn user vectors for new histories, with the items frozen.

        The loss and the number of epochs are those of training.

        Histories are in order of time, oldest first (which matters only with `recency`).
        """
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        data = wrap_histories(histories, len(self.item_vectors_))
        network = _LFMFactors(self, make_positives(data, device, recency=self.recency), generator)
        network.item.data.copy_(torch.as_tensor(self.item_vectors_))
        network.offset.data.fill_(self.offset_)
        network.item.requires_grad_(False)
        network.offset.requires_grad_(False)
        schedule = Schedule(self.epochs, self.learning_rate, max_epochs=self.passes_)
        train_network(network, None, schedule, generator=generator, label="folding in")
        return compute_user_table(network)


class _LFMFactors(torch.nn.Module):
    """Tables of user and item vectors, and an offset for the rarity of interactions."""

    def __init__(self, options: LFM, pairs: Positives, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.pairs, self.n_users = options, pairs, pairs.n_users
        self.user = make_table(pairs.n_users, options.embedding_size, 0.1, generator)
        self.item = make_table(pairs.n_items, options.embedding_size, 0.1, generator)
        self.offset = torch.nn.Parameter(torch.zeros((), device=generator.device))

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        o = self.options
        return self.pairs.draw_epoch(o.batch_size, o.n_negatives * o.candidates, generator)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, positives, candidates = batch
        user = self.user.index_select(0, users)
        negatives = select_hardest(lambda items: self._score_pairs(user, items), candidates, self.options.n_negatives)
        items = self._gather_items(torch.cat([positives[:, None], negatives], 1))
        score = torch.bmm(items, user[:, :, None]).squeeze(2)
        truth = torch.zeros_like(score)
        truth[:, 0] = 1.0
        if self.options.loss == "logistic":
            miss = functional.binary_cross_entropy_with_logits(score + self.offset, truth)
        else:
            miss = (truth - score).square().mean()
        size = user.square().sum() + items.square().sum()
        return miss + self.options.reg * size / len(users)

    def _gather_items(self, items: torch.Tensor) -> torch.Tensor:
        # The gradient of index_select is a row-wise addition, several times faster on the CPU than that of indexing.
        return self.item.index_select(0, items.reshape(-1)).view(*items.shape, -1)

    def _score_pairs(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return torch.bmm(self._gather_items(items), user[:, :, None]).squeeze(2)

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.user.index_select(0, users)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.item

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.item.T
