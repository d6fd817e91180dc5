"""Counts, means and covariances of classes, gathered block by block and merged in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = ["MomentSum", "Moments"]

BLOCK_ROWS = 1 << 10
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
        total = MomentSum(n_classes, x.shape[1], x.device)
        total.add_rows(x, codes)
        return total.compute_moments()

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


class MomentSum:
    """Sums from which the moments of blocks of rows are computed, block after block.

    Rows are counted from a pilot mean, that of the first rows of their class: far from zero, squares would drown the
    differences in rounding.
    """

    def __init__(self, n_classes: int, d: int, device: torch.device) -> None:
        zeros = torch.zeros(n_classes, d, d, dtype=torch.float64, device=device)
        self._n = np.zeros(n_classes, dtype=np.int64)
        self._pilots, self._first, self._second = zeros[:, 0].clone(), zeros[:, 0].clone(), zeros
        self._size = BLOCK_ROWS if device.type == "cpu" else BLOCK_ROWS_ON_GPU
        self._wide = torch.empty(self._size, d, dtype=torch.float64, device=device)

    def add_rows(self, x: torch.Tensor, codes: torch.Tensor | NDArray[np.int16]) -> None:
        """Add a block of rows; rows with a negative code belong to no class."""
        if isinstance(codes, torch.Tensor) and codes.device.type != "cpu":
            for k in range(len(self._n)):
                rows = (codes == k).nonzero()[:, 0]
                if len(rows):
                    self._add_class(k, x, rows)
            return
        classes = np.asarray(codes)
        order = np.argsort(classes, kind="stable")
        present, first = np.unique(classes[order], return_index=True)
        for k, start, end in zip(present.tolist(), first, [*first[1:], len(order)], strict=False):
            if k >= 0:
                self._add_class(k, x, torch.from_numpy(order[start:end]).to(x.device))

    def is_finite(self) -> bool:
        """Whether all rows are finite."""
        return bool(torch.isfinite(self._first).all())

    def compute_moments(self) -> Moments:
        """Compute the moments of all rows so far."""
        n = torch.from_numpy(self._n).to(self._first)
        first = self._first / n.clamp(min=1)[:, None]
        scatter = self._second - n[:, None, None] * first[:, :, None] * first[:, None, :]
        return Moments(n, first + self._pilots, scatter)

    def _add_class(self, k: int, x: torch.Tensor, rows: torch.Tensor) -> None:
        if not self._n[k]:
            self._pilots[k] = x[rows[:BLOCK_ROWS]].double().mean(0)
        self._n[k] += len(rows)
        for part in torch.split(rows, self._size):
            block = torch.sub(torch.index_select(x, 0, part), self._pilots[k], out=self._wide[: len(part)])
            self._first[k] += block.sum(0)
            self._second[k] += _multiply_by_itself(block)


def _multiply_by_itself(block: torch.Tensor) -> torch.Tensor:
    """Return block' block; NumPy computes one half of it, since both factors are the same array."""
    if block.device.type != "cpu":
        return block.mT @ block
    rows = block.numpy()
    with np.errstate(invalid="ignore"):  # whoever needs finite rows asks for `is_finite`
        return torch.from_numpy(rows.T @ rows)
