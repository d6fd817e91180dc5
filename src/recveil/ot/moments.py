"""Counts, means and covariances of classes, gathered block by block and merged in any order."""

from __future__ import annotations

from dataclasses import dataclass

import torch

__all__ = ["Moments"]

BLOCK = 1 << 18
"""Rows converted to float64 at once."""


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
    def of(cls, x: torch.Tensor, codes: torch.Tensor, n_classes: int) -> Moments:
        """The moments of these rows; rows with a negative code belong to no class."""
        total = cls.empty(n_classes, x.shape[1], x.device)
        for start in range(0, len(x), BLOCK):
            part = slice(start, start + BLOCK)
            total = total.merge(cls._of_block(x[part].double(), codes[part], n_classes))
        return total

    @classmethod
    def empty(cls, n_classes: int, d: int, device: torch.device) -> Moments:
        """The moments of nothing: merging it changes nothing."""
        zeros = torch.zeros(n_classes, d, d, dtype=torch.float64, device=device)
        return cls(zeros[:, 0, 0].clone(), zeros[:, 0].clone(), zeros)

    @classmethod
    def _of_block(cls, x: torch.Tensor, codes: torch.Tensor, n_classes: int) -> Moments:
        rows = [x[codes == k] for k in range(n_classes)]
        n = torch.tensor([len(r) for r in rows], dtype=torch.float64, device=x.device)
        mean = torch.stack([r.mean(0) if len(r) else x.new_zeros(x.shape[1]) for r in rows])
        scatter = torch.stack([(r - m).T @ (r - m) for r, m in zip(rows, mean, strict=True)])
        return cls(n, mean, scatter)

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

    def pooled(self) -> Moments:
        """All classes as one."""
        total = Moments.empty(1, self.mean.shape[1], self.mean.device)
        for k in range(len(self.n)):
            total = total.merge(Moments(self.n[k : k + 1], self.mean[k : k + 1], self.scatter[k : k + 1]))
        return total
