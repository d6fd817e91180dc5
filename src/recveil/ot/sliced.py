"""One round of sliced transport: along every axis, carry each class to the average of the class quantile functions."""

from __future__ import annotations

import torch

__all__ = ["align_axes", "random_rotation"]


def random_rotation(d: int, generator: torch.Generator) -> torch.Tensor:
    """An orthogonal (d, d) matrix, uniformly distributed (QR of a Gaussian with the signs set right)."""
    gauss = torch.randn(d, d, generator=generator, device=generator.device, dtype=torch.float64)
    q, r = torch.linalg.qr(gauss)
    return torch.mul(q, r.diagonal().sign())


def align_axes(z: torch.Tensor, members: list[torch.Tensor], generator: torch.Generator | None = None) -> torch.Tensor:
    """Give all classes the same distribution along each coordinate of `z`, moving as little as possible.

    `members[k]` are the row numbers of class k. With a generator, the common quantile function is read at n_k sorted
    uniform draws instead of at the midpoints (r - 1/2)/n_k: along each axis the classes are then independent samples
    of one distribution, and nothing about them sums to zero.
    """
    ordered = [z[rows].sort(dim=0) for rows in members]
    quantiles = [o.values for o in ordered]
    weights = [len(rows) / sum(map(len, members)) for rows in members]
    aligned = z.clone()
    for rows, order in zip(members, ordered, strict=True):
        levels = _levels(len(rows), z, generator)  # (n_k, d), increasing down each column
        common = torch.stack([w * _read(q, levels) for w, q in zip(weights, quantiles, strict=True)]).sum(0)
        back = torch.empty_like(common).scatter_(0, order.indices, common)
        aligned[rows] = back
    return aligned


def _levels(n: int, z: torch.Tensor, generator: torch.Generator | None) -> torch.Tensor:
    if generator is None:
        middle = (torch.arange(n, device=z.device, dtype=z.dtype) + 0.5) / n
        return middle[:, None].expand(n, z.shape[1])
    # Sorted uniforms without sorting: normalized running sums of exponential gaps (Renyi).
    gaps = torch.empty(n + 1, z.shape[1], device=z.device, dtype=torch.float64).exponential_(generator=generator)
    sums = gaps.cumsum(0)
    return (sums[:-1] / sums[-1]).to(z.dtype)


def _read(quantiles: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The quantile function with knots at (r - 1/2)/n, linear in between and flat outside, at these levels."""
    n = len(quantiles)
    position = (levels * n - 0.5).clamp(0, n - 1)
    below = position.floor().long()
    above = (below + 1).clamp(max=n - 1)
    low, high = quantiles.gather(0, below), quantiles.gather(0, above)
    return low + (position - below) * (high - low)
