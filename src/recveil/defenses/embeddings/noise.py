"""Noise: blur every user vector with Gaussian noise. The baseline that papers call "DP-PoT".

No privacy budget follows from it: the noise is scaled to the table, and what a single user can change in that table is
not bounded. It is not a differentially private method and must not be called one.

Limit: it hides nothing in particular. The leak and the usefulness of the vectors sink together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from recveil.core import device as devices
from recveil.core.errors import UsageError
from recveil.core.random import torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table

__all__ = ["Noise"]

METHODS = (
    DefenseTraits(
        "noise",
        builder="Noise",
        needs_labels=False,
        undisclosed_users="got noise like all others",
        search_space={"scale": Range(0.05, 3.0, log=True)},
    ),
)


@dataclass(frozen=True)
class Noise:
    """Gaussian noise on every user vector; it hides nothing in particular.

    `scale` is the noise's standard deviation in standard deviations of each column, and `strength` multiplies it. It
    needs no attribute: users of known and of unknown class get noise alike, also where there is only one class.
    A column in which nobody varies stays as it is.
    """

    moves_anyway: ClassVar[bool] = True
    """Users are moved whatever the classes are, also where there is nothing to hide."""

    scale: float = 1.0
    strength: float = 1.0
    device: str | None = None

    def __call__(
        self,
        x: FloatArray,
        codes: IntArray,
        *,
        rng: np.random.Generator,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> FloatArray:
        """The blurred table; `codes` are only checked, `utility` is not used."""
        check_table(x, codes, self.strength)
        if not 0 <= self.scale < np.inf:
            raise UsageError(f"scale must be zero or more, in standard deviations of the table; got {self.scale:g}.")
        where = devices.resolve(self.device)
        start = torch.tensor(x, dtype=torch.float64, device=where)
        draws = torch.randn(start.shape, generator=torch_generator(rng, where), dtype=torch.float64, device=where)
        spread = torch.where(start.amax(0) > start.amin(0), start.std(0, correction=0), 0.0)
        return (start + self.strength * self.scale * spread * draws).to(torch.float32).cpu().numpy()
