"""BPR-MF: matrix factorization trained to score the items of a user above all other items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch.nn import functional

from recveil.core.device import resolve_device
from recveil.core.option_types import Count, Exponent, NonNegativeFloat, PositiveFloat, Width
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split
from recveil.models.layers import draw_parameters, make_table
from recveil.models.networks import compute_user_table
from recveil.models.sampling import Positives, make_positives, wrap_histories
from recveil.models.training_loop import Schedule, train_network
from recveil.models.vector_model import VectorModel

__all__ = ["BPRMF"]

METHODS = (ModelTraits("bprmf", builder="BPRMF", paper="Rendle et al., UAI 2009"),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {
        "embedding_size": 128,
        "epochs": 20,
        "learning_rate": 0.008,
        "batch_size": 8192,
        "reg": 0.012,
        "candidates": 16,
    },
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking)."""

PROFILES: Mapping[str, Mapping[str, float]] = {
    "raid2025": {
        "embedding_size": 32,
        "candidates": 1,
        "learning_rate": 0.001,
        "batch_size": 1024,
        "epochs": 20,
        "patience": 20,
        "recency": 0.0,
        "reg": 0.0,
        "start_std": 0.01,
    },
    "attrcloak2025": {"embedding_size": 32, "candidates": 1, "epochs": 20, "batch_size": 32768},
}
"""Options by paper.

RAID, appendix B.2: d = 32, uniform negatives, start N(0, 0.01^2), no recency. Departs: Adam with 1e-3 in place of SGD
with 1e-4, which hardly leaves its start; batches and epochs are ours. AttrCloak states no options: this is the plain
BPR-MF, in 500 steps on data of any size up to a million interactions.
"""

_PIECE_NUMBERS = 2**17  # numbers gathered at a time on the CPU


@dataclass
class BPRMF(VectorModel):
    """Matrix factorization with the pairwise loss of BPR.

    Rendle et al., BPR: Bayesian Personalized Ranking from Implicit Feedback, UAI 2009. The score is the dot product of
    the two vectors. There is no item bias, so the released tables rank as the model does and the length of a user
    vector does not change a ranking.

    Departs: the highest scored of `candidates` uniform negatives is used (dynamic negative sampling, Zhang et al.,
    SIGIR 2013), because most pairs are soon ranked above a single uniform negative and teach nothing; `candidates=1` is
    the paper. Adam on large batches replaces single steps. With `recency`, a user's newest pair is drawn exp(recency)
    times as often as the oldest.

    `start_std` draws tables and weights at the start from N(0, start_std^2); by default each has its own scale.
    """

    embedding_size: Width = 64
    epochs: Count = 20
    learning_rate: PositiveFloat = 0.01
    batch_size: Count = 8192
    reg: NonNegativeFloat = 0.004
    candidates: Count = 4
    recency: Exponent = 0.0
    start_std: PositiveFloat | None = None
    patience: Count = 5
    device: str | None = None

    passes_: int = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        network = _BPRFactors(self, make_positives(split.train, device, recency=self.recency), generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        history = train_network(network, split, schedule, penalty=penalty, generator=generator, label="training BPR-MF")
        self.history_, self.passes_ = history, history.best + 1
        self.user_vectors_ = compute_user_table(network, penalty)
        self.item_vectors_ = network.item.detach().cpu().numpy()
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Learn user vectors for new histories, with the items frozen.

        The loss and the number of epochs are those of training.

        Histories are in order of time, oldest first (which matters only with `recency`).
        """
        device = resolve_device(self.device)
        generator = make_torch_generator(rng, device)
        data = wrap_histories(histories, len(self.item_vectors_))
        pairs = make_positives(data, device, recency=self.recency)
        network = _BPRFactors(self, pairs, generator)
        network.item.data.copy_(torch.as_tensor(self.item_vectors_))
        network.item.requires_grad_(False)
        schedule = Schedule(self.epochs, self.learning_rate, max_epochs=self.passes_)
        train_network(network, None, schedule, generator=generator, label="folding in")
        return compute_user_table(network)


class _BPRFactors(torch.nn.Module):
    """Tables of user and item vectors."""

    def __init__(self, options: BPRMF, pairs: Positives, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.pairs, self.n_users = options, pairs, pairs.n_users
        self.user = make_table(pairs.n_users, options.embedding_size, 0.1, generator)
        self.item = make_table(pairs.n_items, options.embedding_size, 0.1, generator)
        draw_parameters(self, options.start_std, generator)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return self.pairs.draw_epoch(self.options.batch_size, self.options.candidates, generator)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, positives, candidates = batch
        negatives = self._select_hardest(users, candidates)
        loss: torch.Tensor = _PairwiseLoss.apply(  # type: ignore[no-untyped-call]
            self.user, self.item, users, positives, negatives, self.options.reg
        )
        return loss

    def _select_hardest(self, users: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        """Select the candidate of each row that its user scores highest."""
        count = candidates.shape[1]
        if count == 1:
            return candidates[:, 0]
        with torch.no_grad():
            best = torch.empty_like(candidates[:, :1])
            # On the CPU in pieces that stay in its cache; on a GPU at once.
            size = max(1, _PIECE_NUMBERS // (count * self.item.shape[1])) if not self.item.is_cuda else len(users)
            for start in range(0, len(users), size):
                piece = slice(start, start + size)
                rows = self.item.index_select(0, candidates[piece].reshape(-1)).view(-1, count, self.item.shape[1])
                user = self.user.index_select(0, users[piece])
                best[piece] = torch.bmm(rows, user[:, :, None]).squeeze(2).argmax(1, keepdim=True)
        return candidates.gather(1, best)[:, 0]

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return self.user.index_select(0, users)

    def compute_item_vectors(self) -> torch.Tensor:
        return self.item

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.item.T


class _PairwiseLoss(torch.autograd.Function):
    """The loss of BPR with its gradient.

    Writing the gradient out takes half the time of autograd.

    mean log(1 + exp(-p.(q - r))) + reg * mean(|p|^2 + |q|^2 + |r|^2), over users p, positives q and negatives r.
    """

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> torch.Tensor:
        user, item, users, positives, negatives, reg = arguments
        n = len(users)
        p, q, r = user.index_select(0, users), item.index_select(0, positives), item.index_select(0, negatives)
        size = (p.square().sum() + q.square().sum() + r.square().sum()) / n
        step = q - r
        margin = (p * step).sum(1)
        pull = -torch.sigmoid(-margin)[:, None] / n
        shrink = 2.0 * reg / n
        to_user = step.mul_(pull).add_(p, alpha=shrink)
        to_item = p.mul_(pull)
        by_user = torch.zeros_like(user).index_add_(0, users, to_user)
        by_item = torch.zeros_like(item).index_add_(0, positives, to_item + shrink * q)
        by_item.index_add_(0, negatives, r.mul_(shrink).sub_(to_item))
        ctx.save_for_backward(by_user, by_item)
        loss: torch.Tensor = functional.softplus(-margin).mean() + reg * size
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        by_user, by_item = ctx.saved_tensors
        return by_user * outer[0], by_item * outer[0], None, None, None, None
