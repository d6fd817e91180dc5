"""NCF: the sum of a product of two vectors and of a small network on two more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.errors import UsageError
from recveil.core.option_types import Count, Exponent, NonNegativeFloat, PositiveFloat, Width, check_fields
from recveil.core.protocols import Penalty, UtilityLoss
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import Dataset, FloatArray, IntArray, Split, TrainingHistory
from recveil.models.layers import draw_parameters, export_weights, make_layer, make_table
from recveil.models.networks import compute_user_table
from recveil.models.sampling import Positives, make_positives, select_hardest, wrap_histories
from recveil.models.training_loop import Schedule, train_network

__all__ = ["NCF"]

METHODS = (ModelTraits("ncf", builder="NCF", paper="He et al., WWW 2017", dot_product=False, user_tables=2),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {"embedding_size": 64, "reg": 0.01, "candidates": 4, "learning_rate": 0.005, "epochs": 20, "recency": 3.0},
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
        "epochs": 20,
        "patience": 20,
        "recency": 0.0,
        "reg": 0.0,
        "start_std": 0.01,
    },
}
"""Options by paper: RAID, appendix B.2 (d = 32, uniform negatives, start N(0, 0.01^2), epochs; no recency).

Departs: Adam in place of SGD with 1e-4, which hardly leaves its start, with a rate chosen on the validation items of
ML-1M (`research/profile_rates.py`); batches are ours.
"""

MAX_LOSS_PAIRS = 2**13
"""Pairs that one evaluation of the loss of user vectors draws, at most."""

_BLOCK_NUMBERS = {"cpu": 2**22, "cuda": 2**28}  # hidden numbers held at a time while everything is scored


@dataclass
class NCF:
    """Neural collaborative filtering (NeuMF): GMF and MLP side by side.

    He et al., Neural Collaborative Filtering, WWW 2017; binary cross-entropy with sampled negatives. A user has two
    vectors of `embedding_size`, one for the product and one for the network. Both are released, one after the other,
    because serving needs both. `layers` are the widths of the hidden layers. The first hidden layer is the sum of a
    user part and an item part, so ranking the whole catalog costs no more than the layers after it.

    Departs: both halves are learned together from the start, without pre-training, by Adam on large batches. Each of
    the `n_negatives` is the highest scored of `candidates` uniform draws (1 is plain sampling). With `recency`, a
    user's newest pair is drawn exp(recency) times as often as the oldest.

    `start_std` draws tables and weights at the start from N(0, start_std^2); by default each has its own scale.
    """

    embedding_size: Width = 32
    layers: Annotated[Sequence[Width], Field(min_length=1)] = (32, 16)
    epochs: Count = 20
    learning_rate: PositiveFloat = 0.005
    batch_size: Count = 8192
    reg: NonNegativeFloat = 0.003
    n_negatives: Count = 4
    candidates: Count = 8
    recency: Exponent = 0.0
    start_std: PositiveFloat | None = None
    patience: Count = 5
    device: str | None = None

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)
    passes_: int = field(init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        self.layers = tuple(self.layers)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        network = _NeuMF(self, make_positives(split.train, device, recency=self.recency), generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        history = train_network(network, split, schedule, penalty=penalty, generator=generator, label="training NCF")
        self.history_, self.passes_ = history, history.best + 1
        self.user_vectors_ = compute_user_table(network, penalty)
        self.item_vectors_ = network.item.detach().cpu().numpy()
        self.weights_ = export_weights(network.head)
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """Score every item; `user_vectors` replaces the vectors of these users."""
        rows = (
            self.user_vectors_[users] if user_vectors is None else np.ascontiguousarray(user_vectors, dtype=np.float32)
        )
        if rows.shape != (len(users), 2 * self.embedding_size):
            raise UsageError(
                f"user_vectors has shape {rows.shape}; for {len(users)} users of this model it must be "
                f"{(len(users), 2 * self.embedding_size)}: the vectors of GMF, then those of the MLP."
            )
        device = resolve_device(self.device)
        head = self._load_head(torch.Generator(device=device))
        with torch.no_grad():
            items = torch.as_tensor(self.item_vectors_, device=device)
            return np.asarray(head.score_all(torch.as_tensor(rows, device=device), items).cpu().numpy())

    def make_user_loss(self, train: Dataset, *, rng: np.random.Generator) -> UtilityLoss:
        """Make the cross-entropy of a table of user vectors, items and head frozen; each call draws new pairs."""
        device = resolve_device(self.device)
        head = self._load_head(torch.Generator(device=device)).requires_grad_(False)
        items = torch.as_tensor(self.item_vectors_, device=device)
        pairs, draw = make_positives(train, device), make_torch_generator(rng, device)

        def compute_loss(x: torch.Tensor) -> torch.Tensor:
            rows = torch.randint(len(pairs), (min(MAX_LOSS_PAIRS, len(pairs)),), generator=draw, device=device)
            negatives = pairs.draw_negatives(rows, self.n_negatives, draw)
            shown = torch.cat([pairs.item[rows][:, None], negatives], 1)
            score = head.score_pairs(x[pairs.user[rows]].float(), items[shown])
            truth = torch.zeros_like(score)
            truth[:, 0] = 1.0
            return functional.binary_cross_entropy_with_logits(score, truth)

        return compute_loss

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Learn user vectors for new histories, with items and network frozen.

        The loss and the number of epochs are those of training.

        Histories are in order of time, oldest first (which matters only with `recency`).
        """
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        data = wrap_histories(histories, len(self.item_vectors_))
        network = _NeuMF(self, make_positives(data, device, recency=self.recency), generator)
        network.item.data.copy_(torch.as_tensor(self.item_vectors_))
        network.head = self._load_head(generator)
        network.requires_grad_(False)
        network.user.requires_grad_(True)
        schedule = Schedule(self.epochs, self.learning_rate, max_epochs=self.passes_)
        train_network(network, None, schedule, generator=generator, label="folding in")
        return compute_user_table(network)

    def _load_head(self, generator: torch.Generator) -> _Head:
        head = _Head(self, generator)
        head.load_state_dict({name: torch.as_tensor(value) for name, value in self.weights_.items()})
        return head


class _Head(torch.nn.Module):
    """Network from user and item rows of two vectors each to scores."""

    def __init__(self, options: NCF, generator: torch.Generator) -> None:
        super().__init__()
        d, widths = options.embedding_size, tuple(options.layers)
        self.product = torch.nn.Parameter(torch.ones(d, device=generator.device))
        self.of_user = make_layer(torch.nn.Linear, d, widths[0], generator=generator)
        self.of_item = make_layer(torch.nn.Linear, d, widths[0], generator=generator, bias=False)
        deeper = zip(widths, widths[1:], strict=False)
        self.deeper = torch.nn.ModuleList([make_layer(torch.nn.Linear, m, n, generator=generator) for m, n in deeper])
        self.last = make_layer(torch.nn.Linear, widths[-1], 1, generator=generator)

    def score_pairs(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Score each user, (n, 2d), with its own items, (n, m, 2d): (n, m)."""
        d = len(self.product)
        product = torch.bmm(items[:, :, :d], (user[:, :d] * self.product)[:, :, None]).squeeze(2)
        return product + self._apply_layers(self.of_user(user[:, d:])[:, None] + self.of_item(items[:, :, d:]))

    def score_all(self, user: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Score each user, (n, 2d), with every item, (m, 2d): (n, m), in blocks."""
        d = len(self.product)
        of_user, of_item = self.of_user(user[:, d:]), self.of_item(items[:, d:])
        scores = (user[:, :d] * self.product) @ items[:, :d].T
        size = max(1, _BLOCK_NUMBERS.get(user.device.type, 2**22) // max(1, of_item.numel()))
        blocks = torch.split(of_user, size)
        return (
            scores + torch.cat([self._apply_layers(block[:, None] + of_item) for block in blocks]) if blocks else scores
        )

    def _apply_layers(self, hidden: torch.Tensor) -> torch.Tensor:
        x = functional.relu(hidden)
        for layer in self.deeper:
            x = functional.relu(layer(x))
        out: torch.Tensor = self.last(x)
        return out.squeeze(-1)


class _NeuMF(torch.nn.Module):
    """Tables of users and items, and the head.

    Each row is a vector for the product and one for the network.
    """

    def __init__(self, options: NCF, pairs: Positives, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.pairs, self.n_users = options, pairs, pairs.n_users
        self.user = _make_double_table(pairs.n_users, options.embedding_size, generator)
        self.item = _make_double_table(pairs.n_items, options.embedding_size, generator)
        self.head = _Head(options, generator)
        draw_parameters(self, options.start_std, generator)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        o = self.options
        return self.pairs.draw_epoch(o.batch_size, o.n_negatives * o.candidates, generator)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, positives, candidates = batch
        user = self.user.index_select(0, users)
        negatives = select_hardest(
            lambda items: self.head.score_pairs(user, self._gather_items(items)), candidates, self.options.n_negatives
        )
        items = self._gather_items(torch.cat([positives[:, None], negatives], 1))
        score = self.head.score_pairs(user, items)
        truth = torch.zeros_like(score)
        truth[:, 0] = 1.0
        miss = functional.binary_cross_entropy_with_logits(score, truth)
        size = user.square().sum() + items.square().sum()
        return miss + self.options.reg * size / len(users)

    def _gather_items(self, items: torch.Tensor) -> torch.Tensor:
        return self.item.index_select(0, items.reshape(-1)).view(*items.shape, -1)

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.user.index_select(0, users)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.item

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head.score_all(rows, self.item)


def _make_double_table(n: int, d: int, generator: torch.Generator) -> torch.nn.Parameter:
    """Make vectors for the product beside vectors for the network.

    Those of the network are longer, because its output would otherwise start near zero.
    """
    return torch.nn.Parameter(
        torch.cat([make_table(n, d, 0.1, generator), make_table(n, d, 1.0, generator)], 1).detach()
    )
