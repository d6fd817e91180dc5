"""`sliced` or `sliced-polar`, then exchange of places: for tables on which they leave little, but more than chance.

They move all users a little, and what they leave lies in small neighborhoods. Then a few users trade their rows of the
moved table, until the rows tell the classes no better than random labels. This costs about half of what trading places
in the undefended table costs, where a fifth of the users would have to (research/notes/sliced.md).

Limits: those of both. It keeps no map for later users and has no streaming form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core.option_types import CountOrZero, Share
from recveil.core.protocols import UtilityLoss
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table
from recveil.defenses.embeddings.exchange import Exchange
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.sliced_polar import SlicedPolar
from recveil.defenses.embeddings.transformers import EmbeddingTransformer

__all__ = ["SlicedExchange", "SlicedPolarExchange"]

METHODS = (
    DefenseTraits(
        "sliced-exchange",
        builder="SlicedExchange",
        max_dimensions=1_024,
        undisclosed_users="went through the label-free map",
        auto_rank=17,
        follows="sliced",
        search_space={"rounds": Range(10, 150, log=True), "strength": Range(0.3, 1.0)},
    ),
    DefenseTraits(
        "sliced-polar-exchange",
        builder="SlicedPolarExchange",
        max_dimensions=1_024,
        undisclosed_users="went through the label-free map",
        auto_rank=18,
        follows="sliced-polar",
        search_space={"rounds": Range(10, 150, log=True), "strength": Range(0.3, 1.0)},
    ),
)


@dataclass
class SlicedExchange(EmbeddingTransformer):
    """`sliced`, after which users trade rows until they tell no class.

    Args:
        rounds: number of rounds, as for `sliced`.
        strength: share of the straight way from the undefended table to the fully defended one.
        device: where tensors are computed.
        random_state: seed of both steps.
    """

    rounds: CountOrZero | None = None
    strength: Share = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `utility` is not used."""
        check_table(x, codes, self.strength)
        if self.strength == 0:
            return np.asarray(x, dtype=np.float32).copy()
        traded = Exchange(device=self.device)(self._move_users(x, codes, rng), codes, rng=rng)
        return np.asarray(x + self.strength * (traded - x), dtype=np.float32)

    def _move_users(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> FloatArray:
        return Sliced(rounds=self.rounds, device=self.device)(x, codes, rng=rng)


@dataclass
class SlicedPolarExchange(SlicedExchange):
    """`sliced-polar`, after which users trade rows until they tell no class; options as for `sliced-exchange`."""

    def _move_users(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> FloatArray:
        return SlicedPolar(rounds=self.rounds, device=self.device)(x, codes, rng=rng)
