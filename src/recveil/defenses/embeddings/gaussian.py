"""Gaussian transport: make the class means and covariances equal, moving the users as little as possible.

Each class is carried by its affine optimal-transport map to the weighted Bures-Wasserstein barycenter N(m, B):
x -> (x - m_k) A_k + m. By Gelbrich's bound no map that equalizes the first two moments displaces less.
Prior art: the quadratic eraser of EleutherAI's concept-erasure.

Limits: moments made equal *in sample* turn cross-validated attackers below chance, which a two-sided audit reports as a
leak; and nothing beyond the second moment is changed. `sliced` has neither limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from recveil.core.device import resolve_device
from recveil.core.option_types import Share
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cell_maps import CellAffine, CellMap, CellStatistics, plan_partitions
from recveil.defenses.embeddings.cells import Cells, check_table, plan_cells
from recveil.defenses.embeddings.fitted_maps import AffineMap, FittedMap, Stage, blend_tables
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.transport import bures_wasserstein as gaussian
from recveil.transport.moments import Moments

__all__ = ["AffineMap", "Gaussian", "carry_gaussian", "compose_stages", "fit_map", "fit_stages"]

METHODS = (
    DefenseTraits(
        "gaussian",
        builder="Gaussian",
        guarantee="equal class means and covariances, by least displacement",
        max_dimensions=2_048,
        streams=True,
        keeps_map=True,
        equalizes_covariances=True,
        displaces_least=True,
        undisclosed_users="went through the label-free map",
        search_space={"strength": Range(0.3, 1.0)},
        paper="Belrose et al., concept-erasure (EleutherAI), quadratic eraser",
    ),
)

RIDGE_SHARE = 1e-4
"""Share of the mean variance added to every class when one of them has too few users to span the space."""

FEW_USERS_NOTE = (
    "A class has no more users than the vectors have dimensions. Covariances were regularized, and become equal only "
    "roughly."
)


def fit_map(moments: Moments) -> AffineMap:
    """Fit the map that carries each class to the barycenter of all classes, from the moments alone.

    Directions in which users vary less than a hundred-thousandth of the largest spread are set to the common mean: they
    are too small to be equalized, and an attacker who standardizes would still read them. If one class spans fewer
    directions than another (n_k <= d), one ridge is added to all, and the moments become equal only approximately.
    """
    device = moments.n.device
    moments = moments.to("cpu")
    whole = moments.pool_classes()
    m, C = whole.mean[0], whole.covariance[0]
    # Work in the directions in which users vary at all.
    values, vectors = torch.linalg.eigh((moments.weights[:, None, None] * moments.covariance).sum(0))
    varied = values > 1e-10 * values[-1].clamp(min=1e-300)
    basis, r = vectors[:, varied], int(varied.sum())  # (d, r)
    classes = basis.T @ moments.covariance @ basis  # (K, r, r)
    pooled = basis.T @ C @ basis
    scale = values[varied].sqrt()
    regularized = r > 0 and bool((torch.linalg.eigvalsh(classes / scale / scale[:, None])[:, 0] < 1e-8).any())
    if regularized:
        ridge = RIDGE_SHARE * pooled.diagonal().mean() * torch.eye(r, dtype=C.dtype, device=C.device)
        classes, pooled = classes + ridge, pooled + ridge
    B = gaussian.compute_barycenter(classes, moments.weights)
    every = torch.cat([classes, pooled[None]])
    inside = gaussian.compute_transport(every, B)
    center = torch.cat([moments.mean, whole.mean])
    A = basis @ inside @ basis.T
    return AffineMap(center.to(device), A.to(device), m.to(device), regularized)


@dataclass
class Gaussian(MapTransformer):
    """Equal class means and covariances by least displacement, in closed form.

    Undisclosed users are carried by the map of the pooled users, which needs no label. Several attributes are equalized
    as joint cells if each has at least two users for each dimension, else one after the other.

    Args:
        strength: share of the straight way from the undefended table to the fully defended one.
        device: where tensors are computed.
        random_state: not used; nothing is random.

    Example:
        >>> import numpy as np, recveil as rv
        >>> y = np.arange(100) % 2
        >>> X = np.random.default_rng(0).normal(size=(100, 3)) + y[:, None]
        >>> safe = rv.Gaussian().fit_transform(X, y)
        >>> bool(np.allclose(safe[y == 0].mean(0), safe[y == 1].mean(0), atol=1e-4))
        True
    """

    needs_sample: ClassVar[bool] = False
    samples_undisclosed: ClassVar[bool] = False

    strength: Share = 1.0

    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the defended table and the map that made it; `rng` is not used."""
        check_table(x, codes, self.strength)
        start = torch.tensor(x, device=resolve_device(self.device)).double()
        moved, stages = fit_stages(start, plan_cells(codes, minimum=2 * x.shape[1]))
        fitted = FittedMap(stages, self.strength, 0.0, x.shape[1])
        return blend_tables(start, moved, self.strength), fitted

    def fit_cells(self, statistics: CellStatistics, rng: np.random.Generator) -> tuple[CellMap, list[str]]:
        """Fit the map of each cell from its moments; `rng` is not used."""
        full, notes = compose_stages(statistics.moments, plan_partitions(statistics))
        return CellMap(full).blend_with_identity(self.strength), notes


def carry_gaussian(x: torch.Tensor, partitions: list[Cells]) -> torch.Tensor:
    """Fit and apply the Gaussian map of each partition in turn."""
    return fit_stages(x, partitions)[0]


def measure_moments(x: torch.Tensor, cells: Cells) -> Moments:
    """Measure the moments of all users of each cell."""
    return Moments.from_rows(x, torch.as_tensor(cells.codes, device=x.device), cells.n_classes)


def fit_stages(
    x: torch.Tensor, partitions: list[Cells], moments: Callable[[torch.Tensor, Cells], Moments] = measure_moments
) -> tuple[torch.Tensor, list[Stage]]:
    """Fit and apply the Gaussian map of each partition in turn; a partition of one class is skipped.

    Args:
        x: user vectors.
        partitions: partitions, in turn.
        moments: function that measures the moments of the cells.

    Returns:
        The carried users, and the maps.
    """
    stages: list[Stage] = []
    for cells in partitions:
        if cells.n_classes > 1:
            affine = fit_map(moments(x, cells))
            x = affine(x, torch.as_tensor(cells.codes, device=x.device))
            stages.append((cells.keys, affine))
    return x, stages


def compose_stages(moments: Moments, partitions: list[Cells]) -> tuple[CellAffine, list[str]]:
    """Compose the maps of all partitions of the cells; affine maps carry moments exactly, so no row is read."""
    total, regularized = CellAffine.identity(moments), False
    for cells in partitions:
        stage = fit_map(moments.group_classes(cells.codes.tolist(), cells.n_classes))
        step = CellAffine.from_stage(stage, cells.codes.tolist())
        moments = moments.apply_affine(step.center, step.A, step.m)
        total, regularized = total.compose_with(step), regularized or stage.regularized
    return total, [FEW_USERS_NOTE] if regularized else []
