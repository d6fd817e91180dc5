"""The pull of one attribute: the classes of its users, the places they should go to, and the loss of the way left."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from recveil.core.types import Attribute
from recveil.defenses.training.alignment import Alignment
from recveil.transport.distances import compute_typical_distance

__all__ = ["UNITS", "Pull"]

UNITS = ("relative", "raw", "whitened")
"""Units of a squared way: the median squared distance of two users, none, or that distance where all directions vary
alike.
"""

WHITENING_FLOOR = 1e-3
"""Variance that whitening adds to each direction, as a share of their mean, so that none is blown up without end."""

MIN_PROGRESS = 0.05
"""Share of the way left that users cover in an epoch while they still come nearer to the barycenter."""

MAX_CHANCE_RATIO = 2.0
"""Variance between classes, as a multiple of what chance gives, up to which the class means are together."""

MIN_VARIANCE_SHARE = 1e-9
"""Variance of a direction, as a share of the largest, below which float32 holds nothing."""


class Pull:
    """A loss for each user who discloses the attribute: the squared way left to the user's place.

    Args:
        attribute: the attribute.
        align: function that makes the alignment from the codes of these users.
        unit: unit of a squared way; see `UNITS`.
        tables: tables side by side in a vector; with the relative unit each is measured by its own median distance.
        weighting: `equal` for the sum over classes of the mean over their users, `size` for the mean over users.
    """

    def __init__(
        self,
        attribute: Attribute,
        align: Callable[[torch.Tensor], Alignment],
        *,
        unit: str,
        tables: int,
        weighting: str,
    ) -> None:
        self.align, self.unit, self.tables, self.weighting = align, unit, tables, weighting
        self.known = np.flatnonzero(attribute.known)
        present, codes = np.unique(attribute.codes[self.known], return_inverse=True)
        self.n_classes = len(present)
        self.class_codes = np.full(len(attribute.codes), self.n_classes)  # the last class: undisclosed users
        self.class_codes[self.known] = codes
        self.alignment: Alignment | None = None
        self.age = 0  # epochs since the barycenter was renewed
        self.way_left = self.last_way_left = float("inf")

    @property
    def has_stalled(self) -> bool:
        """Whether the users hardly came nearer to the barycenter in the last epoch."""
        return self.age > 1 and self.way_left > (1 - MIN_PROGRESS) * self.last_way_left

    def refresh_aim(self, table: torch.Tensor, *, renew: bool) -> None:
        """Compute from the whole table where each user should go; `renew` computes a new barycenter."""
        if self.alignment is None:
            self._move_to_device(table.device)
            renew = True
        assert self.alignment is not None
        raw = table[self.rows].float()
        if renew:
            self.factors = self._measure_factors(raw)
        x = self._rescale_vectors(raw)
        places = self.alignment(x, renew=renew)
        self.age = 1 if renew else self.age + 1
        self.aim = x.new_zeros(table.shape).index_copy(0, self.rows, places.toward)
        self.spread = x.new_zeros(len(table)).index_copy(0, self.rows, places.spread)
        self.last_way_left, self.way_left = self.way_left, float((x - places.toward).square().sum())

    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch whose users stand for all users.

        With `counts` of n / B in a batch of B users, the mean over random batches is the loss of the whole table, for
        small classes too, which are absent from many batches.

        Args:
            users: users of the batch.
            vectors: their vectors.
            counts: how often each row of the batch counts.
        """
        squared_way = (self._rescale_vectors(vectors) - self.aim[users]).square().sum(1) + self.spread[users]
        return (self.weights[users] * counts * squared_way).sum()

    def measure_excess(self, table: torch.Tensor) -> float:
        """Measure how far the class means are apart beyond `MAX_CHANCE_RATIO`; 0 where they are together.

        All directions count alike, whatever their variance. The pull is a distance and hardly sees a direction in which
        users differ little, but attackers standardize, and the class may be told there as well as anywhere.
        """
        x = table[self.rows].double()
        x = x - x.mean(0)
        variances, axes = _find_principal_axes(x)
        varying = variances > MIN_VARIANCE_SHARE * variances[-1]
        x = x @ (axes[:, varying] * variances[varying].rsqrt())
        sizes = torch.bincount(self.codes, minlength=self.n_classes)[:, None]
        means = x.new_zeros(self.n_classes, x.shape[1]).index_add_(0, self.codes, x) / sizes
        ratio = float((sizes * means.square()).sum()) / max(1, (self.n_classes - 1) * x.shape[1])  # chance is 1
        return max(0.0, ratio - MAX_CHANCE_RATIO)

    def _measure_factors(self, x: torch.Tensor) -> torch.Tensor:
        """Measure by what columns are multiplied, (d,) or (d, d), so that squared ways have the unit."""
        if self.unit == "raw":
            return x.new_ones(x.shape[1])
        if self.unit == "whitened":
            variances, axes = _find_principal_axes(x)
            whitening = (axes * (variances + WHITENING_FLOOR * variances.mean()).rsqrt()).to(x.dtype)
            scale: float = compute_typical_distance(x @ whitening) ** -0.5
            return whitening * scale
        parts = x.tensor_split(self.tables, dim=1)
        return torch.cat([part.new_full((part.shape[1],), compute_typical_distance(part) ** -0.5) for part in parts])

    def _rescale_vectors(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.factors if self.factors.ndim == 2 else x * self.factors

    def _move_to_device(self, device: torch.device) -> None:
        """Move codes and weights to the device of the vectors, and make the alignment there."""
        self.rows, codes = (torch.as_tensor(a, device=device) for a in (self.known, self.class_codes))
        self.codes = codes[self.rows]
        sizes = torch.bincount(self.codes).float()
        by_class = 1 / sizes if self.weighting == "equal" else torch.full_like(sizes, 1 / len(self.codes))
        self.weights = torch.cat([by_class, by_class.new_zeros(1)])[codes]  # zero for undisclosed users
        self.alignment = self.align(self.codes)


def _find_principal_axes(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Find the variance along each principal axis, smallest first, and the axes as columns."""
    x = x.double()
    x = x - x.mean(0)
    variances, axes = torch.linalg.eigh(x.mT @ x / len(x))
    return variances, axes
