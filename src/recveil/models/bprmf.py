"""BPR-MF: users and items as vectors, trained so that what a user touched scores above what the user did not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch
from torch.nn import functional

from recveil.core import FloatArray, IntArray, Penalty, Split
from recveil.device import resolve
from recveil.models.loop import History, Schedule, all_users, train
from recveil.models.publish import dot_scores
from recveil.models.sampling import Positives, from_histories, positives
from recveil.random import torch_generator

__all__ = ["BPRMF"]


@dataclass
class BPRMF:
    """Matrix factorization with the pairwise loss of BPR (Rendle et al., UAI 2009).

    The score is the dot product of the two vectors and nothing else: no item bias, so that the released tables rank as
    the model does and the length of a user vector does not change a ranking.

    Departs: of `candidates` uniform negatives the one the model scores highest is used (dynamic negative sampling,
    Zhang et al., SIGIR 2013), because against one uniform negative most pairs are soon in order and teach nothing;
    `candidates=1` is the paper. Adam on large batches in place of single steps.
    """

    embedding_size: int = 64
    epochs: int = 20
    learning_rate: float = 0.01
    batch_size: int = 8192
    reg: float = 1e-3
    candidates: int = 4
    patience: int = 5
    device: str | None = None

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    passes_: int = field(init=False, repr=False, compare=False)
    history_: History = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part, stopping on the validation items."""
        device = resolve(self.device)
        generator = torch_generator(rng, device)
        network = _Factors(self, positives(split.train, device), generator)
        schedule = Schedule(self.epochs, self.learning_rate, self.patience)
        self.history_ = train(network, split, schedule, penalty=penalty, generator=generator, label="training BPR-MF")
        self.passes_ = self.history_.best + 1
        self.user_vectors_ = all_users(network, penalty)
        self.item_vectors_ = network.item.detach().cpu().numpy()
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """A score for every item; `user_vectors` are the rows of these users to use in place of the model's own."""
        return dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Vectors for users outside training: the same loss, for as many passes, with the items held still."""
        device = resolve(self.device)
        generator = torch_generator(rng, device)
        pairs = positives(from_histories(histories, len(self.item_vectors_)), device)
        network = _Factors(self, pairs, generator)
        network.item.data.copy_(torch.as_tensor(self.item_vectors_))
        network.item.requires_grad_(False)
        schedule = Schedule(self.epochs, self.learning_rate, passes=self.passes_)
        train(network, None, schedule, generator=generator, label="folding in")
        return all_users(network)


class _Factors(torch.nn.Module):
    """Two tables."""

    def __init__(self, options: BPRMF, pairs: Positives, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.pairs, self.n_users = options, pairs, pairs.n_users
        self.user = _table(pairs.n_users, options.embedding_size, generator)
        self.item = _table(pairs.n_items, options.embedding_size, generator)

    def epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        return self.pairs.epoch(self.options.batch_size, self.options.candidates, generator)

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        users, liked, candidates = batch
        # index_select, whose gradient is a row-wise addition: several times faster on the CPU than indexing.
        user = self.user.index_select(0, users)
        like = self.item.index_select(0, liked)
        other = self.item.index_select(0, self._hardest(user, candidates))
        order = functional.softplus(-(user * (like - other)).sum(1)).mean()
        size = (user.square().sum() + like.square().sum() + other.square().sum()) / len(users)
        return order + self.options.reg * size

    def _hardest(self, user: torch.Tensor, candidates: torch.Tensor) -> torch.Tensor:
        if candidates.shape[1] == 1:
            return candidates[:, 0]
        with torch.no_grad():
            rows = self.item.index_select(0, candidates.reshape(-1)).view(*candidates.shape, -1)
            best = torch.bmm(rows, user[:, :, None]).squeeze(2).argmax(1, keepdim=True)
        return candidates.gather(1, best)[:, 0]

    def user_rows(self, users: torch.Tensor) -> torch.Tensor:
        return self.user.index_select(0, users)

    def item_rows(self) -> torch.Tensor:
        return self.item

    def scores(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.item.T


def _table(n: int, d: int, generator: torch.Generator) -> torch.nn.Parameter:
    """Vectors of expected length 0.1, in random directions."""
    start = torch.randn(n, d, generator=generator, device=generator.device)
    return torch.nn.Parameter(start * (0.1 / d**0.5))
