"""Counts, means and covariances of classes, gathered block by block and merged in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

__all__ = ["Moments"]

BLOCK_ROWS = 1 << 9
"""Rows at a time: few enough to stay in the processor's cache, where widening and multiplying them costs little."""


@dataclass(frozen=True, eq=False)
class Moments:
    """First and second moments of K classes in d dimensions, in float64.

    `a.merge(b)` has the moments of both sets of rows, whatever the order or the partition (Chan, Golub and
    LeVeque 1983), so a table larger than memory is gathered in one pass.
    """

    n: torch.Tensor  # (K,) rows of each class
    mean: torch.Tensor  # (K, d)
    scatter: torch.Tensor  # (K, d, d) sum of (x - mean)(x - mean)'

    @classmethod
    def from_rows(cls, x: torch.Tensor, codes: torch.Tensor, n_classes: int) -> Moments:
        """The moments of these rows; rows with a negative code belong to no class."""
        total = cls.make_empty(n_classes, x.shape[1], x.device)
        for k in range(n_classes):
            rows = (codes == k).nonzero()[:, 0]
            if len(rows):
                total._fill_class(k, x, rows)
        return total

    def _fill_class(self, k: int, x: torch.Tensor, rows: torch.Tensor) -> None:
        """Put the moments of these rows in the place of class k, which is still empty."""
        # A pilot mean is taken off before anything is squared: far from zero, squares drown what differs.
        pilot = x[rows[:BLOCK_ROWS]].double().mean(0)
        first, second = self.mean[k], self.scatter[k]
        wide = torch.empty(min(BLOCK_ROWS, len(rows)), x.shape[1], dtype=torch.float64, device=x.device)
        for part in torch.split(rows, BLOCK_ROWS):
            block = torch.sub(x[part], pilot, out=wide[: len(part)])
            first += block.sum(0)
            second += block.mT @ block
        self.n[k] = len(rows)
        first /= len(rows)
        second -= len(rows) * torch.outer(first, first)
        first += pilot

    @classmethod
    def make_empty(cls, n_classes: int, d: int, device: torch.device) -> Moments:
        """The moments of nothing: merging it changes nothing."""
        zeros = torch.zeros(n_classes, d, d, dtype=torch.float64, device=device)
        return cls(zeros[:, 0, 0].clone(), zeros[:, 0].clone(), zeros)

    def merge(self, other: Moments) -> Moments:
        """The moments of both sets of rows together."""
        n = self.n + other.n
        share = torch.where(n > 0, other.n / n.clamp(min=1), 0.0)
        gap = other.mean - self.mean
        spread = (self.n * share)[:, None, None] * gap[:, :, None] * gap[:, None, :]
        return Moments(n, self.mean + share[:, None] * gap, self.scatter + other.scatter + spread)

    @property
    def weights(self) -> torch.Tensor:
        """The share p_k of each class."""
        return self.n / self.n.sum().clamp(min=1)

    @property
    def covariance(self) -> torch.Tensor:
        """C_k, divided by n_k; (K, d, d)."""
        return self.scatter / self.n.clamp(min=1)[:, None, None]

    def pool_classes(self) -> Moments:
        """All classes as one."""
        return self.group_classes([0] * len(self.n), 1)

    def group_classes(self, groups: Sequence[int], n_groups: int) -> Moments:
        """The moments of groups of classes: class k goes to `groups[k]`, or nowhere if that is negative."""
        parts = []
        for group in range(n_groups):
            total = Moments.make_empty(1, self.mean.shape[1], self.mean.device)
            for k in (k for k, its in enumerate(groups) if its == group):
                total = total.merge(Moments(self.n[k : k + 1], self.mean[k : k + 1], self.scatter[k : k + 1]))
            parts.append(total)
        return Moments(*(torch.cat([getattr(p, name) for p in parts]) for name in ("n", "mean", "scatter")))

    def apply_affine(self, center: torch.Tensor, A: torch.Tensor, m: torch.Tensor) -> Moments:
        """The moments after x -> (x - center[k]) A[k] + m[k] for each class k."""
        mean = torch.einsum("ki,kij->kj", self.mean - center, A) + m
        return Moments(self.n, mean, A.mT @ self.scatter @ A)
