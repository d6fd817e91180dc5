"""Gaussian transport: make the class means and covariances equal, moving the users as little as possible.

Each class is carried by its affine optimal-transport map to the weighted Bures-Wasserstein barycenter N(m, B):
x -> (x - m_k) A_k + m. By Gelbrich's bound no map that equalizes the first two moments displaces less.
Prior art: the quadratic eraser of EleutherAI's concept-erasure.

Limits: moments made equal *in sample* turn cross-validated attackers below chance, which a two-sided audit reports as a
leak; and nothing beyond the second moment is touched. `sliced` mends both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from recveil import device as devices
from recveil.core import FloatArray, IntArray
from recveil.defenses.embeddings.cells import Cells, cells_of, check_table
from recveil.ot import gaussian
from recveil.ot.moments import Moments

__all__ = ["AffineMap", "Gaussian", "fit_map"]

RIDGE = 1e-4
"""Share of the mean variance added to every class when one of them has too few users to span the space."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x -> (x - center[k]) A[k] + m for class k; the last class is for users whose attribute is unknown."""

    center: torch.Tensor  # (K + 1, d)
    A: torch.Tensor  # (K + 1, d, d)
    m: torch.Tensor  # (d,)
    regularized: bool

    def __call__(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """The users where the map carries them, in float64."""
        out = torch.empty(x.shape, dtype=torch.float64, device=x.device)
        for k in range(len(self.A)):  # code -1 is row K, the last
            rows = (codes == k) if k < len(self.A) - 1 else (codes < 0)
            out[rows] = (x[rows].double() - self.center[k]) @ self.A[k] + self.m
        return out


def fit_map(moments: Moments) -> AffineMap:
    """The map that carries each class to the barycenter of all, from the moments alone.

    Directions in which nobody varies are left as they are. Where a class spans fewer directions than all users do
    (n_k <= d), one ridge is added to all classes and the moments become equal only approximately.
    """
    whole = moments.pooled()
    m, C = whole.mean[0], whole.covariance[0]
    values, vectors = torch.linalg.eigh(C)
    basis = vectors[:, values > 1e-10 * values[-1].clamp(min=1e-300)]  # (d, r) where users vary at all
    r = basis.shape[1]
    classes = basis.T @ moments.covariance @ basis  # (K, r, r)
    pooled = basis.T @ C @ basis
    smallest = torch.linalg.eigvalsh(classes)[:, 0].min() if r else torch.tensor(1.0)
    regularized = bool(smallest <= 1e-10 * values[-1])
    if regularized:
        ridge = RIDGE * pooled.diagonal().mean() * torch.eye(r, dtype=C.dtype, device=C.device)
        classes, pooled = classes + ridge, pooled + ridge
    B = gaussian.barycenter(classes, moments.weights)
    every = torch.cat([classes, pooled[None]])
    inside = gaussian.transport(every, B.expand_as(every))
    rest = torch.eye(len(C), dtype=C.dtype, device=C.device) - basis @ basis.T
    center = torch.cat([moments.mean, whole.mean])
    return AffineMap(center, basis @ inside @ basis.T + rest, m, regularized)


@dataclass(frozen=True)
class Gaussian:
    """Equal class means and covariances by least displacement, in closed form.

    `strength` walks straight from nothing (0) to all of it (1). Users whose attribute is unknown are carried by the map
    of the pooled users, which needs no label. Several attributes: joint cells where each has more users than
    dimensions, else the attributes in turn.
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
        start = torch.as_tensor(x, device=devices.resolve(self.device)).double()
        moved = carry(start, cells_of(codes, minimum=2 * x.shape[1]))
        return ((1 - self.strength) * start + self.strength * moved).to(torch.float32).cpu().numpy()


def carry(x: torch.Tensor, passes: list[Cells]) -> torch.Tensor:
    """Apply the Gaussian map of each pass in turn; classes of which there is only one are left alone."""
    for cells in passes:
        if cells.n_classes > 1:
            codes = torch.as_tensor(cells.codes, device=x.device)
            x = fit_map(Moments.of(x, codes, cells.n_classes))(x, codes)
    return x
