"""Counts, means and covariances of classes, gathered block by block and merged in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["Moments"]

BLOCK_ROWS = 1 << 9
"""Rows converted to float64 and multiplied at a time: few enough to stay in the processor's cache."""

BLOCK_ROWS_ON_GPU = 1 << 17
"""The same on a GPU, where many small steps take longer than the work."""


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments of K classes in d dimensions, in float64.

    `a.merge(b)` has the moments of both sets of rows, whatever the order or the partition (Chan, Golub and
    LeVeque 1983), so a table larger than memory is gathered in one pass.

    Attributes:
        n: (K,) rows of each class.
        mean: (K, d) mean of each class.
        scatter: (K, d, d) sum of (x - mean)(x - mean)'.
    """

    n: torch.Tensor
    mean: torch.Tensor
    scatter: torch.Tensor

    @classmethod
    def from_rows(cls, x: torch.Tensor, codes: torch.Tensor, n_classes: int) -> Moments:
        """Compute the moments of these rows; rows with a negative code belong to no class."""
        total = cls.make_empty(n_classes, x.shape[1], x.device)
        for k in range(n_classes):
            rows = (codes == k).nonzero()[:, 0]
            if len(rows):
                total._fill_class(k, x, rows)
        return total

    def _fill_class(self, k: int, x: torch.Tensor, rows: torch.Tensor) -> None:
        """Write the moments of these rows into class k, which must be empty."""
        # Subtract a pilot mean before squaring: far from zero, squares would drown the differences in rounding.
        pilot = x[rows[:BLOCK_ROWS]].double().mean(0)
        size = BLOCK_ROWS if x.device.type == "cpu" else BLOCK_ROWS_ON_GPU
        first, second = self.mean[k], self.scatter[k]
        wide = torch.empty(min(size, len(rows)), x.shape[1], dtype=torch.float64, device=x.device)
        for part in torch.split(rows, size):
            block = torch.sub(x[part], pilot, out=wide[: len(part)])
            first += block.sum(0)
            second += block.mT @ block
        self.n[k] = len(rows)
        first /= len(rows)
        second -= len(rows) * torch.outer(first, first)
        first += pilot

    @classmethod
    def make_empty(cls, n_classes: int, d: int, device: torch.device) -> Moments:
        """Return the moments of no rows, the neutral element of `merge`."""
        zeros = torch.zeros(n_classes, d, d, dtype=torch.float64, device=device)
        return cls(zeros[:, 0, 0].clone(), zeros[:, 0].clone(), zeros)

    def to(self, device: str | torch.device) -> Moments:
        """Return the same moments on a device; small matrices are factorized faster on the CPU than on a GPU."""
        return Moments(self.n.to(device), self.mean.to(device), self.scatter.to(device))

    def merge(self, other: Moments) -> Moments:
        """Return the moments of both sets of rows together."""
        n = self.n + other.n
        share = torch.where(n > 0, other.n / n.clamp(min=1), 0.0)
        gap = other.mean - self.mean
        # Scatter of the union: both scatters plus n_a n_b / (n_a + n_b) gap gap'.
        spread = (self.n * share)[:, None, None] * gap[:, :, None] * gap[:, None, :]
        return Moments(n, self.mean + share[:, None] * gap, self.scatter + other.scatter + spread)

    @property
    def weights(self) -> torch.Tensor:
        """Share p_k of each class."""
        return self.n / self.n.sum().clamp(min=1)

    @property
    def covariance(self) -> torch.Tensor:
        """C_k = scatter / n_k, (K, d, d)."""
        return self.scatter / self.n.clamp(min=1)[:, None, None]

    def pool_classes(self) -> Moments:
        """Return the moments of all classes as one."""
        return self.group_classes([0] * len(self.n), 1)

    def group_classes(self, groups: Sequence[int], n_groups: int) -> Moments:
        """Return the moments of groups of classes.

        Class k joins group `groups[k]`, or none if that is negative.
        """
        parts = []
        for group in range(n_groups):
            total = Moments.make_empty(1, self.mean.shape[1], self.mean.device)
            for k in (k for k, its in enumerate(groups) if its == group):
                total = total.merge(Moments(self.n[k : k + 1], self.mean[k : k + 1], self.scatter[k : k + 1]))
            parts.append(total)
        return Moments(*(torch.cat([getattr(p, name) for p in parts]) for name in ("n", "mean", "scatter")))

    def apply_affine(self, center: torch.Tensor, A: torch.Tensor, m: torch.Tensor) -> Moments:
        """Return the moments after x -> (x - center[k]) A[k] + m[k] in each class k."""
        mean = torch.einsum("ki,kij->kj", self.mean - center, A) + m
        return Moments(self.n, mean, A.mT @ self.scatter @ A)
