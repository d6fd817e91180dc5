"""BERT4Rec: a transformer fills in items taken out of the history; for the next item, one is missing at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.core.errors import UsageError
from recveil.core.protocols import Penalty
from recveil.core.traits import ModelTraits
from recveil.core.types import FloatArray, IntArray, Split, TrainingHistory
from recveil.models.layers import apply_dropout, make_layer, make_table
from recveil.models.sampling import draw_batches
from recveil.models.scoring import compute_dot_scores
from recveil.models.sequences import (
    NO_TARGET,
    Histories,
    Windows,
    apply_in_blocks,
    check_sequence_options,
    compute_softmax_loss,
    encode_histories,
    fit_reader,
    index_places,
)

__all__ = ["BERT4Rec"]

METHODS = (ModelTraits("bert4rec", builder="BERT4Rec", paper="Sun et al., CIKM 2019", is_sequential=True),)

TUNED_OPTIONS: Mapping[str, Mapping[str, float]] = {
    "ml-1m": {
        "hidden_size": 256,
        "epochs": 30,
        "learning_rate": 0.001,
        "batch_size": 128,
        "dropout": 0.2,
        "mask": 0.3,
        "copies": 4,
        "max_length": 200,
        "patience": 10,
    },
}
"""Options by data set, chosen on its validation items (5-core, leave-one-out, full ranking)."""


@dataclass
class BERT4Rec:
    """Sequences by a bidirectional transformer (Sun et al., CIKM 2019).

    The user vector is the output for a missing item after the last one; the score is its dot product with the item
    vectors, which are also what the network reads, and nothing else (no item bias). While training, the
    validation item is predicted from the training items; the released user vectors have read the validation items
    too, which is what a platform would serve. Test items are never looked at.

    A pass shows every history `copies` times with a share `mask` of its items missing, and once with only the last
    one missing, as the authors' data do.

    Departs: layers are normalized before they are applied, which trains without a warm-up; no dropout inside the
    attention, so that the fast kernels can be used; on CUDA, training multiplies in bfloat16. The defaults are small
    enough for a processor without a GPU; the settings for ML-1M have the paper's size.
    """

    hidden_size: int = 64
    blocks: int = 2
    heads: int = 2
    epochs: int = 25
    learning_rate: float = 0.002
    batch_size: int = 64
    dropout: float = 0.1
    mask: float = 0.2
    copies: int = 4
    max_length: int = 50
    patience: int = 6
    device: str | None = None

    user_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    item_vectors_: FloatArray = field(init=False, repr=False, compare=False)
    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)
    history_: TrainingHistory | None = field(default=None, init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part, stopping on the validation items."""
        if not 0 < self.mask < 1:
            raise UsageError(f"mask is {self.mask}. It is the share of items to take out, between 0 and 1.")
        check_sequence_options(self.max_length, self.dropout, shortest=2)
        fit_reader(self, _Transformer, split, penalty=penalty, rng=rng, label="training BERT4Rec", block=_BLOCK_USERS)
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """A score for every item; `user_vectors` are the rows of these users to use in place of the model's own."""
        return compute_dot_scores(self.user_vectors_, self.item_vectors_, users, user_vectors)

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Vectors for users outside training, by the very network that gave those of the training users.

        Histories are read in the order given, oldest item first.
        """
        return encode_histories(self, _Transformer, histories)


_BLOCK_USERS = 512  # users encoded at a time


class _Transformer(torch.nn.Module):
    """Items and places in, one vector per place out. Row `n_items` of the item table is no item, the next a gap."""

    windows: Windows

    def __init__(self, options: BERT4Rec, line: Histories, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.line, self.n_users, self.generator = options, line, line.n_users, generator
        self.nothing, self.missing = line.n_items, line.n_items + 1
        d = options.hidden_size
        self.item = make_table(line.n_items + 2, d, 0.02 * d**0.5, generator)
        self.place = make_table(options.max_length, d, 0.02 * d**0.5, generator)
        self.blocks = torch.nn.ModuleList(_Block(options, generator) for _ in range(options.blocks))
        self.norm = torch.nn.LayerNorm(d, device=generator.device)
        self.last = make_layer(torch.nn.Linear, d, d, generator=generator)
        self.last_norm = torch.nn.LayerNorm(d, device=generator.device)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """What is read (some items missing), where they are missing, and what they were."""
        draws = [self._draw_masks(generator, self.options.mask) for _ in range(self.options.copies)]
        whole, gone = (torch.cat(parts) for parts in zip(*draws, self._draw_masks(generator, 0.0), strict=True))
        order = draw_batches(len(whole), self.options.batch_size, generator)
        whole, gone = whole[order], gone[order]
        index, true = index_places(gone)
        target = whole.flatten(1).gather(1, index).masked_fill(~true, NO_TARGET)
        return whole.masked_fill_(gone, self.missing), index, target

    def _draw_masks(self, generator: torch.Generator, mask: float) -> tuple[torch.Tensor, torch.Tensor]:
        """All windows, and which items of them to take out: this share, or the last one where that is none."""
        _, end = self.windows.draw_bounds(generator)
        read = self.line.items_before(self.windows.user, end, self.options.max_length)
        gone = torch.rand(read.shape, generator=generator, device=read.device) < mask
        gone &= read != self.nothing
        gone[:, -1] |= ~gone.any(1)
        return read, gone

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        read, index, target = batch
        with torch.autocast(read.device.type, torch.bfloat16, enabled=read.is_cuda):
            states = self._encode_items(read, self.options.dropout).flatten(0, 1).index_select(0, index)
            return compute_softmax_loss(self._project_states(states), self.item[: self.nothing], target)

    def _encode_items(self, read: torch.Tensor, rate: float) -> torch.Tensor:
        x = apply_dropout(functional.embedding(read, self.item) + self.place, rate, self.generator)
        real = (read != self.nothing)[:, None, None, :]
        for block in self.blocks:
            x = block(x, real, rate, self.generator)
        return x

    def _project_states(self, states: torch.Tensor) -> torch.Tensor:
        finished: torch.Tensor = self.last_norm(functional.gelu(self.last(self.norm(states))))
        return finished

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return apply_in_blocks(self._encode_next_item, users, _BLOCK_USERS)

    def _encode_next_item(self, users: torch.Tensor) -> torch.Tensor:
        known = self.line.last_items(users, self.options.max_length - 1)
        read = torch.cat([known, torch.full_like(users, self.missing)[:, None]], 1)
        return self._project_states(self._encode_items(read, 0.0)[:, -1])

    def compute_item_vectors(self) -> torch.Tensor:
        return self.item[: self.nothing]

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.item[: self.nothing].T


class _Block(torch.nn.Module):
    """Attention, then two layers on each place; both add to what they were given."""

    def __init__(self, options: BERT4Rec, generator: torch.Generator) -> None:
        super().__init__()
        d = options.hidden_size
        if d % options.heads:
            raise UsageError(f"hidden_size is {d} and heads is {options.heads}. The first must be a multiple.")
        self.heads = options.heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(d, device=generator.device) for _ in range(2))
        self.ask = make_layer(torch.nn.Linear, d, 3 * d, generator=generator)
        self.answer = make_layer(torch.nn.Linear, d, d, generator=generator)
        self.up = make_layer(torch.nn.Linear, d, 4 * d, generator=generator)
        self.down = make_layer(torch.nn.Linear, 4 * d, d, generator=generator)

    def forward(self, x: torch.Tensor, real: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
        query, key, value = self.ask(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        heard = functional.scaled_dot_product_attention(query, key, value, attn_mask=real)
        x = x + apply_dropout(self.answer(heard.transpose(1, 2).flatten(2)), rate, generator)
        return x + apply_dropout(self.down(functional.gelu(self.up(self.norms[1](x)))), rate, generator)
