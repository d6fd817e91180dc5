"""Item vectors of an outsider: given, from texts, or factored from histories."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recveil.attacks.membership.item_texts import encode_item_texts
from recveil.audits.membership.platforms import factor_items
from recveil.core.errors import UsageError
from recveil.core.protocols import Recommender
from recveil.core.types import Dataset, FloatArray
from recveil.data.io.ids import Ids, normalize_ids
from recveil.data.io.membership_files import match_ids, read_texts, scatter_rows
from recveil.data.io.vectors import read_embeddings
from recveil.models import MODELS

__all__ = ["ItemSource", "ItemTable", "WrapModel", "factor_item_table", "keep_model"]

WrapModel = Callable[[str, Recommender], Recommender]
"""A function from the name of a model and the model to the model to train, such as one that looks in a cache."""


def keep_model(name: str, model: Recommender) -> Recommender:
    """Return the model as it is."""
    return model


@dataclass(frozen=True, eq=False)
class ItemTable:
    """Vectors of numbered items, NaN for items without one, and where they come from."""

    vectors: FloatArray
    source: str


@dataclass(frozen=True)
class ItemSource:
    """Files of what an outsider knows of the items: vectors or texts.

    Without files nothing is known.
    """

    vectors: Path | None = None
    texts: Path | None = None

    def __post_init__(self) -> None:
        if self.vectors and self.texts:
            raise UsageError("Both `item_vectors` and `item_texts` were given. Give one of them.")

    def read_table(self, ids: Ids) -> ItemTable | None:
        """Read the vectors of these items; None where there is no file."""
        if self.texts is not None:
            return ItemTable(encode_item_texts(read_texts(self.texts, ids)), "texts, hashed")
        if self.vectors is None:
            return None
        table = read_embeddings(self.vectors, owner="item")
        rows = match_ids(normalize_ids(ids, "the items"), normalize_ids(table.ids, self.vectors))
        return ItemTable(scatter_rows(table.x, rows), "given")


def factor_item_table(
    histories: Dataset,
    origin: str,
    *,
    device: str | None,
    rng: np.random.Generator,
    wrap_model: WrapModel = keep_model,
) -> ItemTable:
    """Factor the items of histories by the model that is registered for it.

    Args:
        histories: interactions to factor.
        origin: whose histories these are, for the source of the table.
        device: device to train on; None chooses one.
        rng: source of randomness of the training.
        wrap_model: see `WrapModel`.
    """
    traits = next(traits for traits in MODELS.all_traits() if traits.factors_items)
    model = wrap_model(traits.name, MODELS.make(traits.name, device=device))
    return ItemTable(factor_items(histories, model, rng=rng), f"factored from {origin} ({traits.builder})")
