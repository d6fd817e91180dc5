"""LightGCN: vectors propagated along the edges between users and items and averaged over the layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from scipy import sparse
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.option_types import Count, CountOrZero, Exponent, NonNegativeFloat, PositiveFloat, Width
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split
from recveil.models.layers import draw_parameters, make_table
from recveil.models.networks import compute_user_table
from recveil.models.sampling import (
    Positives,
    build_interaction_matrix,
    make_positives,
    select_hardest,
    wrap_histories,
)
from recveil.models.sparse_products import SparseMatrix, multiply_sparse
from recveil.models.training_loop import Schedule, train_network
from recveil.models.vector_model import VectorModel

__all__ = ["LightGCN"]

METHODS = (ModelTraits("lightgcn", builder="LightGCN", paper="He et al., SIGIR 2020"),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {
        "embedding_size": 32,
        "layers": 3,
        "candidates": 8,
        "learning_rate": 0.03,
        "reg": 0.0001,
        "epochs": 40,
        "recency": 3.0,
        "patience": 6,
    },
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking).

`recency` is held at 3, where the newest pair counts twenty times as much as the oldest. The validation items favor 10,
but then a vector depends on the last few items only.
"""

PROFILES: Mapping[str, Mapping[str, float]] = {
    "raid2025": {
        "embedding_size": 32,
        "candidates": 1,
        "learning_rate": 0.03,
        "batch_size": 32768,
        "epochs": 200,
        "patience": 200,
        "recency": 0.0,
        "layers": 3,
        "reg": 0.0001,
        "start_std": 0.01,
    },
    "attrcloak2025": {"embedding_size": 32, "candidates": 1, "epochs": 40, "recency": 0.0},
}
"""Options by paper.

RAID, appendix B.2: d = 32, uniform negatives, start N(0, 0.01^2), 200 epochs, no recency. Departs: Adam in
place of SGD with 1e-4, which hardly leaves its start, with a rate chosen on the validation items of ML-1M
(`research/profile_rates.py`); batches are ours. AttrCloak states no options: these are plain.
"""


@dataclass
class LightGCN(VectorModel):
    """Linear graph convolution with the pairwise loss of BPR.

    He et al., LightGCN: Simplifying and Powering Graph Convolution Network for Recommendation, SIGIR 2020. Each vector
    is the mean of its own row of a table and of what reaches it over 1, 2, ... `layers` edges; the edge between user u
    and item i weighs 1/sqrt(degree of u * degree of i). These means rank the items and are released, not the table.

    Departs: the highest scored of `candidates` uniform negatives is used (`candidates=1` is the paper), and batches are
    large, because every step propagates the whole table through the whole graph. With `recency`, a user's newest pair
    weighs exp(recency) times as much as the oldest, as an edge and in the loss.

    `start_std` draws tables and weights at the start from N(0, start_std^2); by default each has its own scale.
    """

    embedding_size: Width = 32
    layers: CountOrZero = 3
    epochs: Count = 200
    learning_rate: PositiveFloat = 0.03
    batch_size: Count = 2**15
    reg: NonNegativeFloat = 1e-4
    candidates: Count = 8
    recency: Exponent = 0.0
    start_std: PositiveFloat | None = None
    patience: Count = 20
    device: str | None = None

    item_layers_: FloatArray = field(init=False, repr=False, compare=False)
    item_degrees_: FloatArray = field(init=False, repr=False, compare=False)
    passes_: int = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        edges = build_interaction_matrix(split.train, self.recency)
        self.item_degrees_ = np.asarray(edges.sum(0), dtype=np.float32)
        graph = SparseMatrix(_normalize_edges(edges, self.item_degrees_), device)
        network = _Graph(self, make_positives(split.train, device, recency=self.recency), graph, generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        history = train_network(
            network, split, schedule, penalty=penalty, generator=generator, label="training LightGCN"
        )
        self.history_, self.passes_ = history, history.best + 1
        self.user_vectors_ = compute_user_table(network, penalty)
        with torch.no_grad():
            self.item_vectors_ = network.compute_item_vectors().cpu().numpy()
            self.item_layers_ = torch.stack(network.compute_item_layers()).cpu().numpy()
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Compute user vectors for new histories.

        They are propagated from the items, with own rows that are learned.

        This is an approximation: the items keep their vectors and degrees, so new users neither change them nor reach
        each other, and a training user who is folded in comes out near the old vector, not exactly on it. Histories are
        in order of time, oldest first (which matters only with `recency`).
        """
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        data = wrap_histories(histories, len(self.item_vectors_))
        graph = SparseMatrix(_normalize_edges(build_interaction_matrix(data, self.recency), self.item_degrees_), device)
        layers = torch.as_tensor(self.item_layers_, device=device)
        received = multiply_sparse(graph, layers[:-1].sum(0)) if self.layers else torch.zeros((), device=device)
        pairs = make_positives(data, device, recency=self.recency)
        network = _Newcomers(self, pairs, received, torch.as_tensor(self.item_vectors_, device=device), generator)
        schedule = Schedule(self.epochs, self.learning_rate, max_epochs=self.passes_)
        train_network(network, None, schedule, generator=generator, label="folding in")
        return compute_user_table(network)


def _normalize_edges(edges: sparse.csr_array, item_degrees: FloatArray) -> sparse.csr_array:
    """Divide each edge by the square roots of the degrees of its ends.

    The degrees of items are passed in, because new users add edges that do not count.
    """
    left = 1.0 / np.sqrt(np.maximum(np.asarray(edges.sum(1)), 1e-9))
    right = 1.0 / np.sqrt(np.maximum(item_degrees, 1.0))
    return sparse.csr_array(edges.multiply(left[:, None]).multiply(right[None, :]))


def _compute_bpr_loss(
    user: torch.Tensor, items: torch.Tensor, positives: torch.Tensor, candidates: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute the loss of BPR against the hardest candidate; return both."""

    def score_draws(draws: torch.Tensor) -> torch.Tensor:
        rows = items.index_select(0, draws.reshape(-1)).view(*draws.shape, -1)
        return torch.bmm(rows, user[:, :, None]).squeeze(2)

    negatives = select_hardest(score_draws, candidates, 1)[:, 0]
    step = items.index_select(0, positives) - items.index_select(0, negatives)
    return functional.softplus(-(user * step).sum(1)).mean(), negatives


class _Graph(torch.nn.Module):
    """Tables of users and items, and the graph between them."""

    def __init__(self, options: LightGCN, pairs: Positives, graph: SparseMatrix, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.pairs, self.graph, self.n_users = options, pairs, graph, pairs.n_users
        self.user = make_table(pairs.n_users, options.embedding_size, 0.1, generator)
        self.item = make_table(pairs.n_items, options.embedding_size, 0.1, generator)
        draw_parameters(self, options.start_std, generator)
        self.cached: tuple[torch.Tensor, torch.Tensor] | None = None

    def train(self, mode: bool = True) -> Self:
        self.cached = None
        return super().train(mode)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return self.pairs.draw_epoch(self.options.batch_size, self.options.candidates, generator)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, positives, candidates = batch
        all_users, all_items = self.propagate()
        loss, negatives = _compute_bpr_loss(all_users.index_select(0, users), all_items, positives, candidates)
        # The paper regularizes the rows of the table, not the propagated vectors.
        size = self.user.index_select(0, users).square().sum()
        size = size + self.item.index_select(0, torch.cat([positives, negatives])).square().sum()
        return loss + self.options.reg * size / len(users)

    def propagate(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the means over the layers, of users and of items.

        The result is cached within a step and while nothing is learned.
        """
        if self.cached is not None:
            return self.cached
        users, items = self._propagate_layers()
        means = torch.stack(users).mean(0), torch.stack(items).mean(0)
        if self.training == means[0].requires_grad:
            self.cached = means
        if self.training and means[0].requires_grad:
            means[0].register_hook(self._clear_cache)  # type: ignore[no-untyped-call]
        return means

    def _clear_cache(self, _: torch.Tensor) -> None:
        # The gradient has arrived, so the step is over and the cached means are out of date.
        self.cached = None

    def compute_item_layers(self) -> list[torch.Tensor]:
        return self._propagate_layers()[1]

    def _propagate_layers(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        users: list[torch.Tensor] = [self.user]
        items: list[torch.Tensor] = [self.item]
        for _ in range(self.options.layers):
            to_users, to_items = (
                multiply_sparse(self.graph, items[-1]),
                multiply_sparse(self.graph, users[-1], transposed=True),
            )
            users.append(to_users)
            items.append(to_items)
        return users, items

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.propagate()[0].index_select(0, users)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.propagate()[1]

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.compute_item_vectors().T


class _Newcomers(torch.nn.Module):
    """Table of users outside training; everything else is fixed."""

    def __init__(
        self,
        options: LightGCN,
        pairs: Positives,
        received: torch.Tensor,
        items: torch.Tensor,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.options, self.pairs, self.n_users = options, pairs, pairs.n_users
        self.received, self.items = received, items
        self.user = make_table(pairs.n_users, options.embedding_size, 0.1, generator)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return self.pairs.draw_epoch(self.options.batch_size, self.options.candidates, generator)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, positives, candidates = batch
        loss, _ = _compute_bpr_loss(self.compute_user_vectors(users), self.items, positives, candidates)
        size = self.user.index_select(0, users).square().sum()
        return loss + self.options.reg * size / len(users)

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return ((self.user + self.received) / (self.options.layers + 1)).index_select(0, users)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.items

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.items.T
