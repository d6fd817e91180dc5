"""Noise: blur every user vector with Gaussian noise. The baseline that papers call "DP-PoT".

No privacy budget follows from it: the noise is scaled to the table, and what a single user can change in that table is
not bounded. It is not a differentially private method and must not be called one.

Limit: it hides nothing in particular. The leak and the usefulness of the vectors sink together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, validate_data

from recveil.core.device import resolve_device
from recveil.core.errors import UsageError
from recveil.core.option_types import NonNegativeFloat, Share
from recveil.core.protocols import UtilityLoss
from recveil.core.random import make_torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table
from recveil.defenses.embeddings.transformers import EmbeddingTransformer

__all__ = ["Noise"]

METHODS = (
    DefenseTraits(
        "noise",
        builder="Noise",
        max_dimensions=1_000_000,
        needs_labels=False,
        undisclosed_users="got noise like all others",
        search_space={"scale": Range(0.05, 3.0, log=True)},
    ),
)


@dataclass
class Noise(EmbeddingTransformer):
    """Gaussian noise on every user vector; it hides nothing in particular.

    It needs no attribute: all users get noise alike, whatever `y` says. A column in which all users are equal stays as
    it is. The same `random_state` draws the same noise, so tables that are published separately need one each, and
    whoever knows it can subtract the noise.

    Args:
        scale: standard deviation of the noise, in standard deviations of each column.
        strength: factor of `scale`, from 0 to 1.
        device: where tensors are computed.
        random_state: seed of the noise.

    Attributes:
        spread_: standard deviation of each column at the fit.
    """

    moves_anyway: ClassVar[bool] = True
    """Users are moved whatever the classes are, also where there is nothing to hide."""

    scale: NonNegativeFloat = 1.0
    strength: Share = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the table with noise; `codes` are only checked, `utility` is not used."""
        check_table(x, codes, self.strength)
        return self._add_noise(x, _measure_spread(x), rng)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Measure the spread of each column; `y` is not used."""
        x: FloatArray = validate_data(self, X, dtype=(np.float64, np.float32))
        self.spread_ = _measure_spread(x)
        return self

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, *, utility: UtilityLoss | None = None) -> Any:
        """Measure the spread of each column and return the table with noise; `y` and `utility` are not used."""
        return self.fit(X).transform(X)

    def transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Return the vectors with noise of the spread that was fitted; `y` is not used."""
        check_is_fitted(self, "spread_")
        x: FloatArray = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        check_table(x, np.zeros(len(x), dtype=np.int64), self.strength)
        return self._add_noise(x, self.spread_, self._make_generator()).astype(x.dtype, copy=False)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags

    def _add_noise(self, x: FloatArray, spread: FloatArray, rng: np.random.Generator) -> FloatArray:
        if not 0 <= self.scale < np.inf:
            raise UsageError(f"scale must be zero or more, in standard deviations of the table; got {self.scale:g}.")
        device = resolve_device(self.device)
        start = torch.tensor(x, dtype=torch.float64, device=device)
        generator = make_torch_generator(rng, device)
        noise = torch.randn(start.shape, generator=generator, dtype=torch.float64, device=device)
        amplitude = self.strength * self.scale * torch.as_tensor(spread, device=device)
        return (start + amplitude * noise).to(torch.float32).cpu().numpy()


def _measure_spread(x: FloatArray) -> FloatArray:
    """Return the standard deviation of each column, exactly 0 where all users are equal."""
    columns = torch.tensor(x, dtype=torch.float64)
    spread = torch.where(columns.amax(0) > columns.amin(0), columns.std(0, correction=0), 0.0)
    return spread.numpy()
