"""BERT4Rec: a transformer that predicts masked items of a history; the next item is a mask at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch.nn import functional

from recveil.core.errors import UsageError
from recveil.core.option_types import Count, OpenShare, PositiveFloat, Rate, Width
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
class BERT4Rec(VectorModel):
    """Sequential recommender by a bidirectional transformer.

    Sun et al., BERT4Rec: Sequential Recommendation with Bidirectional Encoder Representations from Transformer, CIKM
    2019. The user vector is the output for a masked item after the last one. The score is its dot product with the item
    vectors, which are also the input of the network (no item bias). During training the validation item is predicted
    from the training items; the released user vectors have also read the validation items, as a platform would serve
    them. Test items are never used.

    An epoch shows every history `copies` times with a share `mask` of its items masked, and once with only the last
    item masked, as the authors' data do.

    Departs: layers are normalized before they are applied, which trains without a warm-up; there is no dropout inside
    the attention, so that the fast kernels can be used; on CUDA, training multiplies in bfloat16. The defaults are
    small enough for a CPU; the options tuned for ML-1M have the paper's size.
    """

    hidden_size: Width = 64
    blocks: Count = 2
    heads: Count = 2
    epochs: Count = 25
    learning_rate: PositiveFloat = 0.002
    batch_size: Count = 64
    dropout: Rate = 0.1
    mask: OpenShare = 0.2
    copies: Count = 4
    max_length: Annotated[Count, Field(ge=2)] = 50
    patience: Count = 6
    device: str | None = None

    weights_: dict[str, NDArray[Any]] = field(init=False, repr=False, compare=False)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Learn from the training part; keep the epoch that validates best."""
        fit_reader(self, _Transformer, split, penalty=penalty, rng=rng, label="training BERT4Rec", block=_BLOCK_USERS)
        return self

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator | None = None) -> FloatArray:
        """Compute user vectors for new histories by the trained network.

        Histories are read in their order, oldest item first. Nothing is random.
        """
        return encode_histories(self, _Transformer, histories)


_BLOCK_USERS = 512  # users encoded at a time


class _Transformer(torch.nn.Module):
    """Network from items and places to one vector per place.

    Row `n_items` of the item table is padding, and the row after it the mask.
    """

    windows: Windows

    def __init__(self, options: BERT4Rec, histories: Histories, generator: torch.Generator) -> None:
        super().__init__()
        self.options, self.histories, self.generator = options, histories, generator
        self.n_users = histories.n_users
        self.padding, self.mask = histories.n_items, histories.n_items + 1
        d = options.hidden_size
        self.item = make_table(histories.n_items + 2, d, 0.02 * d**0.5, generator)
        self.place = make_table(options.max_length, d, 0.02 * d**0.5, generator)
        self.blocks = torch.nn.ModuleList(_Block(options, generator) for _ in range(options.blocks))
        self.norm = torch.nn.LayerNorm(d, device=generator.device)
        self.last = make_layer(torch.nn.Linear, d, d, generator=generator)
        self.last_norm = torch.nn.LayerNorm(d, device=generator.device)

    def draw_epoch(self, generator: torch.Generator) -> tuple[torch.Tensor, ...]:
        """Draw the masked windows, the places of the masks and the items behind them."""
        draws = [self._draw_masks(generator, self.options.mask) for _ in range(self.options.copies)]
        items, masked = (torch.cat(parts) for parts in zip(*draws, self._draw_masks(generator, 0.0), strict=True))
        order = draw_batches(len(items), self.options.batch_size, generator)
        items, masked = items[order], masked[order]
        index, is_real = index_places(masked)
        target = items.flatten(1).gather(1, index).masked_fill(~is_real, NO_TARGET)
        return items.masked_fill_(masked, self.mask), index, target

    def _draw_masks(self, generator: torch.Generator, mask: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw all windows and the items of each to mask.

        A share of the items is masked, or the last one where the share comes to none.
        """
        _, end = self.windows.draw_bounds(generator)
        items = self.histories.items_before(self.windows.user, end, self.options.max_length)
        masked = torch.rand(items.shape, generator=generator, device=items.device) < mask
        masked &= items != self.padding
        masked[:, -1] |= ~masked.any(1)
        return items, masked

    def loss(self, *batch: torch.Tensor) -> torch.Tensor:
        items, index, target = batch
        with torch.autocast(items.device.type, torch.bfloat16, enabled=items.is_cuda):
            states = self._encode_items(items, self.options.dropout).flatten(0, 1).index_select(0, index)
            return compute_softmax_loss(self._project_states(states), self.item[: self.padding], target)

    def _encode_items(self, items: torch.Tensor, rate: float) -> torch.Tensor:
        x = apply_dropout(functional.embedding(items, self.item) + self.place, rate, self.generator)
        is_item = (items != self.padding)[:, None, None, :]
        for block in self.blocks:
            x = block(x, is_item, rate, self.generator)
        return x

    def _project_states(self, states: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.last_norm(functional.gelu(self.last(self.norm(states))))
        return vectors

    def compute_user_vectors(self, users: torch.Tensor) -> torch.Tensor:
        return apply_in_blocks(self._encode_next_item, users, _BLOCK_USERS)

    def _encode_next_item(self, users: torch.Tensor) -> torch.Tensor:
        known = self.histories.last_items(users, self.options.max_length - 1)
        items = torch.cat([known, torch.full_like(users, self.mask)[:, None]], 1)
        return self._project_states(self._encode_items(items, 0.0)[:, -1])

    def compute_item_vectors(self) -> torch.Tensor:
        return self.item[: self.padding]

    def score_items(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.item[: self.padding].T


class _Block(torch.nn.Module):
    """Attention and a feed-forward network, each with a residual connection."""

    def __init__(self, options: BERT4Rec, generator: torch.Generator) -> None:
        super().__init__()
        d = options.hidden_size
        if d % options.heads:
            raise UsageError(
                f"hidden_size is {d} and heads is {options.heads}. hidden_size must be a multiple of heads."
            )
        self.heads = options.heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(d, device=generator.device) for _ in range(2))
        self.ask = make_layer(torch.nn.Linear, d, 3 * d, generator=generator)
        self.answer = make_layer(torch.nn.Linear, d, d, generator=generator)
        self.up = make_layer(torch.nn.Linear, d, 4 * d, generator=generator)
        self.down = make_layer(torch.nn.Linear, 4 * d, d, generator=generator)

    def forward(self, x: torch.Tensor, is_item: torch.Tensor, rate: float, generator: torch.Generator) -> torch.Tensor:
        query, key, value = self.ask(self.norms[0](x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=is_item)
        x = x + apply_dropout(self.answer(attended.transpose(1, 2).flatten(2)), rate, generator)
        return x + apply_dropout(self.down(functional.gelu(self.up(self.norms[1](x)))), rate, generator)
