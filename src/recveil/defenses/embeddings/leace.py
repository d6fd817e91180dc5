"""LEACE: remove from every user vector all that a linear attacker can read of the attributes, and nothing else.

Belrose et al., LEACE: Perfect Linear Concept Erasure in Closed Form (NeurIPS 2023). For rows:
x -> x - (x - m) W U U' W^+ with W = C^-1/2 and U the directions that W Cov(x, one-hot) spans. Of all affine maps after
which no linear classifier does better than the constant one, it moves the users least.

The map is the same for all users, so it needs no label when it is applied.

Departs: correlations are compared with the largest possible one (1), not with the largest one in the data: if nothing
is left to erase, rounding errors must not be taken for a class.

Limits: it protects against linear attackers only; trees and quadratic attackers still see the classes. Fitted and
applied on the same users it turns cross-validated attackers below chance, as `gaussian` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from recveil.core.device import resolve_device
from recveil.core.option_types import Share
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cell_maps import CellAffine, CellMap, CellStatistics
from recveil.defenses.embeddings.cells import check_table, plan_cells
from recveil.defenses.embeddings.fitted_maps import AffineMap, FittedMap, Stage, blend_tables
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.transport.moments import Moments

__all__ = ["Leace", "fit_map"]

METHODS = (
    DefenseTraits(
        "leace",
        builder="Leace",
        guarantee="no linear attacker beats a constant guess on the users of the fit",
        needs_labels=False,
        streams=True,
        keeps_map=True,
        undisclosed_users="went through the same map as all others, which needs no label",
        search_space={"strength": Range(0.3, 1.0)},
        paper="Belrose et al., LEACE: Perfect Linear Concept Erasure in Closed Form (NeurIPS 2023)",
    ),
)

MIN_CORRELATION = 1e-6
"""Correlations with a class under this count as none."""

MIN_VARIANCE_SHARE = 1e-10
"""Directions with less than this share of the largest variance count as constant."""


def fit_map(everyone: Moments, attributes: Sequence[Moments]) -> AffineMap:
    """Fit the map from statistics alone.

    Directions in which users hardly vary are set to the mean: they are too small to be whitened, and an attacker who
    standardizes would still read them.

    Args:
        everyone: moments of all users as one class.
        attributes: moments of the classes of each attribute.

    Returns:
        A map with one entry, that of undisclosed users, which here are all users.
    """
    m, C = everyone.mean[0], everyone.covariance[0]
    values, vectors = torch.linalg.eigh(C)
    varied = values > MIN_VARIANCE_SHARE * values[-1].clamp(min=1e-300)
    scale, basis = values[varied].sqrt(), vectors[:, varied]  # W = basis / scale, up to a rotation
    # Cov(x, one-hot k) is p_k (m_k - m); over sqrt(p_k), all these span the same and are correlations.
    gaps = [moments.weights.sqrt()[:, None] * (moments.mean - moments.pool_classes().mean) for moments in attributes]
    cross = torch.cat(gaps) @ basis / scale
    _, correlations, directions = torch.linalg.svd(cross, full_matrices=False)
    U = directions[correlations > MIN_CORRELATION].T  # (r, at most sum of K_j - 1)
    erased = (basis / scale) @ U @ U.T @ (basis * scale).T
    constant = vectors[:, ~varied]
    remaining = torch.eye(len(C), dtype=C.dtype, device=C.device) - erased - constant @ constant.T
    return AffineMap(m[None], remaining[None], m)


@dataclass
class Leace(MapTransformer):
    """Linear concept erasure with least displacement; it needs no label when applied.

    Several attributes are erased together. All users go through the same map, undisclosed and later users included. If
    no user discloses an attribute, nothing is changed.

    Args:
        strength: share of the straight way from the undefended table to the fully defended one.
        device: where tensors are computed.
        random_state: not used; nothing is random.

    Example:
        >>> import numpy as np, recveil as rv
        >>> y = np.arange(100) % 2
        >>> X = np.random.default_rng(0).normal(size=(100, 3)) + y[:, None]
        >>> safe = rv.Leace().fit_transform(X, y)
        >>> bool(np.allclose(safe[y == 0].mean(0), safe[y == 1].mean(0), atol=1e-4))
        True
    """

    needs_sample: ClassVar[bool] = False
    samples_undisclosed: ClassVar[bool] = False

    strength: Share = 1.0

    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the defended table and the map that made it; `rng` is not used."""
        check_table(x, codes, self.strength)
        start = torch.tensor(x, dtype=torch.float64, device=resolve_device(self.device))
        columns = codes.reshape(len(x), -1)
        partitions = [c for c in (plan_cells(column, minimum=1)[0] for column in columns.T) if c.n_classes > 1]
        if not partitions:
            return blend_tables(start, start, self.strength), FittedMap([], self.strength, 0.0, x.shape[1])
        undisclosed = torch.full((len(x),), -1, device=start.device)
        classes = [
            Moments.from_rows(start, torch.as_tensor(c.codes, device=start.device), c.n_classes) for c in partitions
        ]
        erasing = fit_map(Moments.from_rows(start, undisclosed + 1, 1), classes)
        no_cells = np.empty((0, columns.shape[1]), dtype=np.int64)  # so all users count as undisclosed
        stage: Stage = (no_cells, erasing)
        fitted = FittedMap([stage], self.strength, 0.0, x.shape[1])
        return blend_tables(start, erasing(start, undisclosed), self.strength), fitted

    def fit_cells(self, statistics: CellStatistics, rng: np.random.Generator) -> tuple[CellMap, list[str]]:
        """Fit the map from the moments of the cells; `rng` is not used."""
        moments, classes = statistics.moments, []
        for column in statistics.codes.T:
            present = np.unique(column[(moments.n > 0).numpy() & (column >= 0)])
            if len(present) > 1:
                groups = np.where(np.isin(column, present), np.searchsorted(present, column), -1)
                classes.append(moments.group_classes(groups.tolist(), len(present)))
        if not classes:
            return CellMap(CellAffine.identity(moments)), []
        erasing = fit_map(moments.pool_classes(), classes)
        full = CellAffine.from_stage(erasing, [-1] * len(moments.n))
        return CellMap(full).blend_with_identity(self.strength), []
