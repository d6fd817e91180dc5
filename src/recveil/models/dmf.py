"""DMF: two towers that compute vectors from a user's row and an item's column of the interaction matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import unknown_name
from recveil.core.option_types import Count, Exponent, NonNegativeFloat, PositiveFloat, Width
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import Dataset, FloatArray, IntArray, Split
from recveil.models.layers import draw_parameters, export_weights, make_layer, make_table
from recveil.models.networks import compute_user_table
from recveil.models.sampling import (
    build_interaction_matrix,
    make_positives,
    select_hardest,
    wrap_histories,
)
from recveil.models.sparse_products import SparseMatrix, multiply_sparse
from recveil.models.training_loop import Schedule, train_network
from recveil.models.vector_model import VectorModel

__all__ = ["DMF"]

METHODS = (ModelTraits("dmf", builder="DMF", paper="Xue et al., IJCAI 2017"),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {
        "embedding_size": 64,
        "hidden_size": 256,
        "candidates": 8,
        "learning_rate": 0.003,
        "epochs": 12,
        "recency": 3.0,
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
        "learning_rate": 0.003,
        "batch_size": 1024,
        "epochs": 10,
        "patience": 10,
        "recency": 0.0,
        "start_std": 0.01,
    },
}
"""Options by paper: RAID, appendix B.2 (d = 32, uniform negatives, start N(0, 0.01^2), epochs; no recency).

Departs: Adam in place of SGD with 1e-4, which hardly leaves its start, with a rate chosen on the validation items of
ML-1M (`research/profile_rates.py`); batches are ours.
"""

_SIMILARITIES = ("cosine", "dot")


@dataclass
class DMF(VectorModel):
    """Deep matrix factorization: vectors computed from interactions, not looked up.

    Xue et al., Deep Matrix Factorization Models for Recommender Systems, IJCAI 2017. The outputs of the towers are
    released. Rows and columns are scaled to length 1 and every tower has one hidden layer of `hidden_size`; with
    `similarity="cosine"` the vectors are scaled to length 1 as well.

    Departs: interactions are 0 or 1, not ratings. While a pair is learned it is left out of its own row and column (and
    of the row that its negatives are compared with); otherwise the towers would read the answer from their input. Each
    of the `n_negatives` is the highest scored of `candidates` uniform draws (1 is plain sampling). With `recency`, a
    user's newest pair weighs exp(recency) times as much as the oldest, in the row and in the loss.

    `start_std` draws tables and weights at the start from N(0, start_std^2); by default each has its own scale.
    """

    embedding_size: Width = 32
    hidden_size: Width = 128
    epochs: Count = 20
    learning_rate: PositiveFloat = 0.003
    batch_size: Count = 8192
    reg: NonNegativeFloat = 0.0
    n_negatives: Count = 4
    candidates: Count = 8
    similarity: str = "dot"
    recency: Exponent = 0.0
    start_std: PositiveFloat | None = None
    patience: Count = 5
    device: str | None = None

    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.similarity not in _SIMILARITIES:
            raise unknown_name("similarity of DMF", self.similarity, _SIMILARITIES)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        network = _Towers(self, split.train, generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        self.history_ = train_network(
            network, split, schedule, penalty=penalty, generator=generator, label="training DMF"
        )
        self.user_vectors_ = compute_user_table(network, penalty)
        with torch.no_grad():
            self.item_vectors_ = network.compute_item_vectors().cpu().numpy()
        self.weights_ = export_weights(network.user_tower)
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Compute user vectors for new histories by the trained tower.

        Histories are in order of time, oldest first (which matters only with `recency`). The final step of an
        in-training defense is not repeated. Nothing is random.
        """
        device = resolve_device(self.device)
        data = wrap_histories(histories, len(self.item_vectors_))
        tower = _Tower(self, data.n_items, torch.Generator(device=device))
        tower.load_state_dict({name: torch.as_tensor(value) for name, value in self.weights_.items()})
        with torch.no_grad():
            rows = SparseMatrix(_scale_rows(build_interaction_matrix(data, self.recency)), device)
            return np.asarray(tower.compute_vectors(multiply_sparse(rows, tower.first)).cpu().numpy())


class _Tower(torch.nn.Module):
    """Network from a row of interactions to a vector.

    The caller sums the first layer, because only the seen items contribute to it.
    """

    def __init__(self, options: DMF, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.unit = options.similarity == "cosine"
        self.first = make_table(width, options.hidden_size, 1.0, generator)
        self.shift = torch.nn.Parameter(torch.zeros(options.hidden_size, device=generator.device))
        self.second = make_layer(torch.nn.Linear, options.hidden_size, options.embedding_size, generator=generator)

    def compute_vectors(self, summed: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.second(functional.relu(summed + self.shift))
        return functional.normalize(out, dim=1) if self.unit else out


class _Towers(torch.nn.Module):
    """Both towers and the matrices that they read."""

    def __init__(self, options: DMF, data: Dataset, generator: torch.Generator) -> None:
        super().__init__()
        device = generator.device
        self.options, self.n_users = options, data.n_users
        self.pairs = make_positives(data, device, recency=options.recency)
        weights = build_interaction_matrix(data, options.recency)
        rows, columns = _scale_rows(weights), _scale_rows(sparse.csr_array(weights.T))
        self.rows, self.columns = SparseMatrix(rows, device), SparseMatrix(columns, device)
        user, item = weights.nonzero()
        self.keys = torch.as_tensor(user.astype(np.int64) * data.n_items + item, device=device)
        # (pairs, 2): the entry of each pair in the scaled row of its user and in the scaled column of its item.
        share = np.stack([rows.data, sparse.csr_array(columns.T).data], axis=1)
        self.share = torch.as_tensor(share, device=device)
        self.user_tower = _Tower(options, data.n_items, generator)
        self.item_tower = _Tower(options, data.n_users, generator)
        draw_parameters(self, options.start_std, generator)
        self.offset = torch.nn.Parameter(torch.zeros((), device=device))
        self.sharpness = torch.nn.Parameter(
            torch.tensor(10.0 if options.similarity == "cosine" else 1.0, device=device)
        )
        self.cached: tuple[torch.Tensor, torch.Tensor, torch.Tensor] | None = None

    def train(self, mode: bool = True) -> Self:
        self.cached = None
        return super().train(mode)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        o = self.options
        users, positives, candidates = self.pairs.draw_epoch(o.batch_size, o.n_negatives * o.candidates, generator)
        place = torch.searchsorted(self.keys, users * self.pairs.n_items + positives)
        return users, positives, candidates, self.share[place]

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, positives, candidates, share = batch
        by_user, by_item, items = self._sum_layers()
        user = self.user_tower.compute_vectors(
            _remove_entries(by_user, users, self.user_tower.first, positives, share[:, 0])
        )
        positive = self.item_tower.compute_vectors(
            _remove_entries(by_item, positives, self.item_tower.first, users, share[:, 1])
        )

        def score_against(others: torch.Tensor) -> torch.Tensor:
            rows = items.index_select(0, others.reshape(-1)).view(*others.shape, -1)
            return torch.bmm(rows, user[:, :, None]).squeeze(2)

        negatives = select_hardest(score_against, candidates, self.options.n_negatives)
        score = torch.cat([(user * positive).sum(1, keepdim=True), score_against(negatives)], 1)
        truth = torch.zeros_like(score)
        truth[:, 0] = 1.0
        miss = functional.binary_cross_entropy_with_logits(self.sharpness * score + self.offset, truth)
        return miss + self.options.reg * (user.square().sum() + positive.square().sum()) / len(users)

    def _sum_layers(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Compute the first layers of all users and items, and the item vectors.

        The result is cached within a step and while nothing is learned. A step reads few users and all items, so the
        user vectors are not computed here.
        """
        if self.cached is not None:
            return self.cached
        by_user, by_item = (
            multiply_sparse(self.rows, self.user_tower.first),
            multiply_sparse(self.columns, self.item_tower.first),
        )
        summed = by_user, by_item, self.item_tower.compute_vectors(by_item)
        if self.training == by_user.requires_grad:
            self.cached = summed
        if self.training and by_user.requires_grad:
            by_user.register_hook(self._clear_cache)  # type: ignore[no-untyped-call]
        return summed

    def _clear_cache(self, _: torch.Tensor) -> None:
        # The gradient has arrived, so the step is over and the cached layers are out of date.
        self.cached = None

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.user_tower.compute_vectors(self._sum_layers()[0].index_select(0, users))

    def compute_item_vectors(self) -> torch.Tensor:
        return self._sum_layers()[2]

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.compute_item_vectors().T


def _scale_rows(weights: sparse.csr_array) -> sparse.csr_array:
    """Scale every row to length 1; empty rows stay empty."""
    length = np.sqrt(np.asarray(weights.multiply(weights).sum(1)))
    scaled = weights.copy()
    scaled.data = (weights.data / np.repeat(np.maximum(length, 1e-12), np.diff(weights.indptr))).astype(np.float32)
    return scaled


def _remove_entries(
    summed: torch.Tensor, rows: torch.Tensor, first: torch.Tensor, columns: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Remove one entry from each summed row and scale the rest to length 1."""
    remainder = 1.0 - share.square()  # squared length of the row without the entry
    scale = torch.where(remainder > 1e-6, remainder.clamp(min=1e-6).rsqrt(), 0.0)[:, None]
    return (summed.index_select(0, rows) - share[:, None] * first.index_select(0, columns)) * scale
