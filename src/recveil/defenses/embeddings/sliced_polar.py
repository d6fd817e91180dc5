"""`sliced` in polar coordinates: for tables in which activity, and so the length of the vectors, is uneven.

The drawn sliced barycenter is computed on the logarithm of each vector's length and on its direction. Equal
distributions there are equal distributions of the vectors, and users near the origin are not separated by moves that
are small elsewhere (research/notes/sliced.md).

Limits: it keeps no map for later users and has no streaming form; use `sliced` where these are needed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from recveil.core.option_types import CountOrZero, Share
from recveil.core.protocols import UtilityLoss
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table, plan_cells
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.transformers import EmbeddingTransformer
from recveil.transport.polar_coordinates import PolarCoordinates

__all__ = ["SlicedPolar"]

METHODS = (
    DefenseTraits(
        "sliced-polar",
        builder="SlicedPolar",
        equalizes_covariances=True,
        undisclosed_users="went through the label-free map",
        auto_rank=15,
        search_space={"rounds": Range(10, 150, log=True), "strength": Range(0.3, 1.0)},
    ),
)


@dataclass
class SlicedPolar(EmbeddingTransformer):
    """Every class a sample of one distribution of lengths and directions, as far as random axes can tell.

    Args:
        rounds: number of rounds, as for `sliced`.
        strength: share of the straight way from the undefended table to the fully defended one.
        device: where tensors are computed.
        random_state: seed of the axes, of the reference and of the users that the rounds are learned from.
    """

    rounds: CountOrZero | None = None
    strength: Share = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `utility` is not used."""
        check_table(x, codes, self.strength)
        start = np.asarray(x, dtype=np.float64)
        coordinates = PolarCoordinates.fit(start)
        has_classes = any(cells.n_classes > 1 for cells in plan_cells(codes, minimum=0))
        if self.strength == 0 or not has_classes or not coordinates.varies.any():
            return start.astype(np.float32)
        moved = Sliced(rounds=self.rounds, device=self.device)(coordinates.encode(start), codes, rng=rng)
        return (start + self.strength * (coordinates.decode(moved) - start)).astype(np.float32)
