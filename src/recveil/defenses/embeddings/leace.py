"""LEACE: take out of every user vector what a line can read of the attributes, and nothing else.

Belrose et al., LEACE: Perfect Linear Concept Erasure in Closed Form (NeurIPS 2023). For rows:
x -> x - (x - m) W U U' W^+ with W = C^-1/2 and U the directions that W Cov(x, one-hot) spans. Of all affine maps after
which no linear classifier does better than the constant one, it moves the users least.

The map is the same for everyone: it is the one defense here that needs no label when it is applied.

Departs: correlations are compared with the largest there can be (one), not with the largest that was found: where
nothing is left to erase, rounding errors must not be taken for a class.

Limits: it protects against lines only; trees and quadratic attackers still see the classes. Fitted and applied on the
same users it turns cross-validated attackers below chance, as `gaussian` does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from recveil import device as devices
from recveil.core import FloatArray, IntArray
from recveil.defenses.embeddings.cells import cells_of, check_table
from recveil.ot.moments import Moments

__all__ = ["Leace", "LeaceMap", "fit_map"]

TOLERANCE = 1e-6
"""Correlations with a class under this count as none."""

FLOOR = 1e-10
"""Directions with less than this share of the largest variance count as constant."""


@dataclass(frozen=True, eq=False)
class LeaceMap:
    """x -> x - (x - m) P: one map for all users, whether their class is known or not."""

    m: torch.Tensor  # (d,)
    P: torch.Tensor  # (d, d) projection on what is taken away

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """The users where the map carries them, in float64."""
        wide = x.double()
        return wide - (wide - self.m) @ self.P


def fit_map(everyone: Moments, attributes: Sequence[Moments]) -> LeaceMap:
    """The map from statistics alone: the moments of all users as one class, and those of each attribute's classes.

    Directions in which the users hardly vary are set to the mean: too small to be whitened, they would still speak to
    an attacker who standardizes.
    """
    m, C = everyone.mean[0], everyone.covariance[0]
    if not attributes:
        return LeaceMap(m, torch.zeros_like(C))
    values, vectors = torch.linalg.eigh(C)
    varied = values > FLOOR * values[-1].clamp(min=1e-300)
    scale, basis = values[varied].sqrt(), vectors[:, varied]  # W = basis / scale, up to a rotation
    # Cov(x, one-hot k) is p_k (m_k - m); over sqrt(p_k), all these span the same and are correlations.
    gaps = [moments.weights.sqrt()[:, None] * (moments.mean - moments.pooled().mean) for moments in attributes]
    cross = torch.cat(gaps) @ basis / scale
    _, correlations, directions = torch.linalg.svd(cross, full_matrices=False)
    U = directions[correlations > TOLERANCE].T  # (r, at most sum of K_j - 1)
    erased = (basis / scale) @ U @ U.T @ (basis * scale).T
    constant = vectors[:, ~varied]
    return LeaceMap(m, erased + constant @ constant.T)


@dataclass(frozen=True)
class Leace:
    """Erase what a line can read of the attributes, with least displacement; needs no label when applied.

    `strength` walks straight from nothing (0) to all of it (1). Several attributes are erased together. Users whose
    attribute is unknown go through the same map as all others; where nobody's is known, nothing is changed.
    """

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
        """The cloaked table; `rng` and `utility` are not used."""
        check_table(x, codes, self.strength)
        start = torch.tensor(x, dtype=torch.float64, device=devices.resolve(self.device))
        moved = self.fit(start, codes)(start)
        return ((1 - self.strength) * start + self.strength * moved).to(torch.float32).cpu().numpy()

    def fit(self, x: torch.Tensor, codes: IntArray) -> LeaceMap:
        """The map of full strength, to be kept for users who come later."""
        everyone = Moments.of(x, torch.zeros(len(x), dtype=torch.int64, device=x.device), 1)
        cells = [cells_of(column, minimum=1)[0] for column in codes.reshape(len(x), -1).T]
        told = [c for c in cells if c.n_classes > 1]
        return fit_map(everyone, [Moments.of(x, torch.as_tensor(c.codes, device=x.device), c.n_classes) for c in told])
