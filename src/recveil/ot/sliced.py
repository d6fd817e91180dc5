"""One round of sliced transport: along every axis, carry each class to the average of the class quantile functions."""

from __future__ import annotations

import numpy as np
import torch

__all__ = ["KNOTS", "align_axes", "apply_shifts", "fit_shifts", "match_axes", "random_rotation", "sort_columns"]

KNOTS = 129
"""Points at which the map of one class along one axis is remembered."""

REACH = 0.98
"""The outermost knots, as z / (1 + |z|): 49 standard deviations away."""


def random_rotation(d: int, generator: torch.Generator) -> torch.Tensor:
    """An orthogonal (d, d) matrix, uniformly distributed (QR of a Gaussian with the signs set right)."""
    gauss = torch.randn(d, d, generator=generator, device=generator.device, dtype=torch.float64)
    q, r = torch.linalg.qr(gauss)
    return torch.mul(q, r.diagonal().sign())


def align_axes(z: torch.Tensor, members: list[torch.Tensor]) -> torch.Tensor:
    """Give all classes the same distribution along each coordinate of `z`, moving as little as possible.

    `members[k]` are the row numbers of class k; it gets the common quantile function at (r - 1/2)/n_k, r = 1..n_k.
    """
    ordered = [sort_columns(z[rows]) for rows in members]
    total = sum(map(len, members))
    aligned = z.clone()
    for rows, (_, order) in zip(members, ordered, strict=True):
        levels = (torch.arange(len(rows), device=z.device, dtype=z.dtype) + 0.5) / len(rows)
        common = torch.stack([len(values) / total * _read(values, levels) for values, _ in ordered]).sum(0)
        aligned[rows] = torch.empty_like(common).scatter_(0, order, common)
    return aligned


def match_axes(z: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
    """Along each axis, give the r-th smallest of `z` the r-th smallest of `aim`, which has as many rows."""
    return torch.empty_like(z).scatter_(0, sort_columns(z)[1], sort_columns(aim)[0])


def sort_columns(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each column in order, and which rows that takes; on the CPU by NumPy, whose sort is many times faster."""
    if z.device.type != "cpu":
        values, order = z.sort(dim=0)
        return values, order
    order = torch.from_numpy(np.argsort(z.mT.contiguous().numpy(), axis=1)).mT
    return z.gather(0, order), order


def fit_shifts(z: torch.Tensor, aligned: torch.Tensor) -> torch.Tensor:
    """How far the users of one class go along each axis, at `KNOTS` places; (d, KNOTS), flat beyond the outermost user.

    The places are even in z / (1 + |z|): near in the bulk, far apart in the tails, and found without a search.
    """
    squashed = torch.linspace(-REACH, REACH, KNOTS, dtype=z.dtype, device=z.device)
    places = (squashed / (1 - squashed.abs())).expand(z.shape[1], KNOTS).contiguous()
    values, order = sort_columns(z)
    values, shifts = values.mT.contiguous(), (aligned - z).gather(0, order).mT
    above = torch.searchsorted(values, places)
    low, high = (above - 1).clamp(min=0), above.clamp(max=len(z) - 1)
    gap = (values.gather(1, high) - values.gather(1, low)).clamp(min=1e-300)
    share = ((places - values.gather(1, low)) / gap).clamp(0, 1)
    return torch.lerp(shifts.gather(1, low), shifts.gather(1, high), share)


def apply_shifts(z: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
    """How far users of one class go, by its (d, KNOTS) shifts; in place where possible, for it is most of the time."""
    place = z.abs().add_(1)
    torch.div(z, place, out=place)
    place.add_(REACH).mul_((KNOTS - 1) / (2 * REACH)).clamp_(0, KNOTS - 1.001)
    below = place.int()
    place.sub_(below)
    below.add_(torch.arange(z.shape[1], device=z.device, dtype=torch.int32) * KNOTS)
    flat, at = shifts.reshape(-1), below.view(-1)
    low = flat.index_select(0, at).view_as(z)
    return low.lerp_(flat.index_select(0, at.add_(1)).view_as(z), place)


def _read(quantiles: torch.Tensor, levels: torch.Tensor) -> torch.Tensor:
    """The quantile functions with knots at (r - 1/2)/n, linear in between and flat outside, at these levels."""
    n = len(quantiles)
    position = (levels * n - 0.5).clamp(0, n - 1)
    below = position.floor().long()
    above = (below + 1).clamp(max=n - 1)
    return torch.lerp(quantiles[below], quantiles[above], (position - below)[:, None])
