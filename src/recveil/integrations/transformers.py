"""Any embedding defense as a scikit-learn transformer for arrays.

`as_transformer("sliced").fit_transform(X, y)` gives the table to publish; `y` holds the codes of the attribute (or a
column for each of several), -1 = unknown.

`sliced`, `gaussian` and `leace` keep a map, by which users who come later go with `transform`. A pipeline hands no `y`
to `transform`: those users then take the map that needs no label, which is all of `leace` and the smaller part of the
other two. All other defenses offer `fit_transform` alone: they move the users of one table together, each on a way of
its own, so there is nothing that a new user could be sent through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin

from recveil.audits.catalog import EMBEDDING_DEFENSES, make
from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import EmbeddingDefense
from recveil.core.random import generator
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.fitted_maps import Keeps

__all__ = ["Transformer", "as_transformer"]


class Transformer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A defense with the methods that scikit-learn asks for.

    `seed` is that of what is random in the defense; `utility` is a differentiable loss of the user vectors, for the
    defenses that weigh one.
    """

    def __init__(
        self,
        defense: EmbeddingDefense,
        *,
        seed: int = 0,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> None:
        self.defense, self.seed, self.utility = defense, seed, utility

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None) -> FloatArray:
        """The table to publish of these users; where the defense keeps a map, it is kept for those who come later."""
        x, codes, rng = _table(X), _codes(y), generator(self.seed, "cloak")
        if isinstance(self.defense, Keeps):
            return self.defense.fit_transform(x, codes, rng=rng)
        return self.defense(x, codes, rng=rng, utility=self.utility)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the map, for users who come later."""
        self._keeping().fit(_table(X), _codes(y), rng=generator(self.seed, "cloak"))
        return self

    def transform(self, X: ArrayLike, y: ArrayLike | None = None) -> FloatArray:
        """Carry users who were not in the fit; without `y`, by the map that needs no label."""
        return self._keeping().transform(_table(X), None if y is None else _codes(y))

    def _keeping(self) -> Keeps:
        if not isinstance(self.defense, Keeps):
            raise UsageError(
                f"{type(self.defense).__name__} moves the users of one table together and keeps no map that later "
                "users could be sent through. Call fit_transform(X, y) on the whole table, or take 'sliced', "
                "'gaussian' or 'leace', which keep one."
            )
        return self.defense


def as_transformer(
    defense: str | EmbeddingDefense,
    *,
    seed: int = 0,
    utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    **options: Any,
) -> Transformer:
    """The defense of this name with these options, or one already made, as a scikit-learn transformer."""
    if isinstance(defense, str):
        defense = make("defense", defense, EMBEDDING_DEFENSES, **options)
    elif options:
        raise UsageError(f"Options ({', '.join(options)}) go with the name of a defense; this one is made already.")
    return Transformer(defense, seed=seed, utility=utility)


def _table(X: ArrayLike) -> FloatArray:
    return np.asarray(X, dtype=np.float32)


def _codes(y: ArrayLike | None) -> IntArray:
    if y is None:
        raise DataError("A defense needs the classes of the users. Give y: their codes, -1 where unknown.")
    codes = np.asarray(y)
    if not np.issubdtype(codes.dtype, np.integer):
        raise DataError(
            f"y must hold whole numbers, 0, 1, ... for the classes and -1 for unknown; got {codes.dtype}. "
            "Number the classes first, as with scikit-learn's LabelEncoder or OrdinalEncoder."
        )
    return codes.astype(np.int64)
