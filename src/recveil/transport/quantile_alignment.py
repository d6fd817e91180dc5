"""One round of sliced transport: along every axis, carry each class to the average of the class quantile functions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

__all__ = ["KNOTS", "align_axes", "interpolate_shifts", "fit_shifts", "draw_rotation"]

KNOTS = 129
"""Points at which the map of one class along one axis is remembered."""

MAX_CLASSES_PAIRWISE = 6
"""Classes up to which it is faster to read every class for every class."""

KNOT_REACH = 0.98
"""The outermost knots, as z / (1 + |z|): 49 standard deviations away."""


def draw_rotation(d: int, generator: torch.Generator) -> torch.Tensor:
    """An orthogonal (d, d) matrix, uniformly distributed (QR of a Gaussian with the signs set right)."""
    gauss = torch.randn(d, d, generator=generator, device=generator.device, dtype=torch.float64)
    q, r = torch.linalg.qr(gauss)
    return torch.mul(q, r.diagonal().sign())


def align_axes(z: torch.Tensor, members: Sequence[torch.Tensor | slice]) -> torch.Tensor:
    """Give all classes the same distribution along each coordinate of `z`, moving as little as possible.

    `members[k]` are the rows of class k; it gets the common quantile function at (r - 1/2)/n_k, r = 1..n_k.
    """
    ordered = [_sort_axes(z[rows]) for rows in members]
    values = [own for own, _ in ordered]
    common = _average_pairwise(values) if len(values) <= MAX_CLASSES_PAIRWISE else _average_by_sweep(values)
    aligned = z.clone()
    for rows, (_, order), goal in zip(members, ordered, common, strict=True):
        aligned[rows] = torch.empty_like(goal).scatter_(1, order, goal).mT
    return aligned


def _average_pairwise(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """The average of the quantile functions at the levels of each class: every class is read for every class."""
    total = sum(own.shape[1] for own in values)
    found = []
    for own in values:
        common = torch.zeros_like(own)
        for other in values:
            common.add_(_interpolate_quantiles(other, own.shape[1]), alpha=other.shape[1] / total)
        found.append(common)
    return found


def _average_by_sweep(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """The same in one walk over the levels of all classes, whatever the number of classes.

    The average is straight between one level and the next, whose class alone it bends for; so its slope is the sum of
    the bends so far, and its height the sum of slope times step.
    """
    sizes = torch.tensor([own.shape[1] for own in values], device=values[0].device)
    total, ends = int(sizes.sum()), sizes.cumsum(0)
    own = sizes.repeat_interleave(sizes)
    rank = torch.arange(total, device=sizes.device) - (ends - sizes).repeat_interleave(sizes)
    levels, order = ((rank.double() + 0.5) / own).sort()
    z = torch.cat(values, 1).double()
    start = z[:, ends - sizes] @ (sizes.double() / total)
    weight = own.double().square() / total  # the share of a class, and its levels lie 1 / n apart
    weight[ends - 1] = 0.0  # from the last user of a class to the first of the next there is no way
    edge = z.new_zeros(len(z), 1)
    bends = torch.diff(z.diff(dim=1) * weight[:-1], dim=1, prepend=edge, append=edge)
    slopes = bends[:, order].cumsum(1)
    heights = torch.cat([start[:, None], slopes[:, :-1] * levels.diff()], 1).cumsum(1)
    common = torch.empty_like(z).index_copy_(1, order, heights).to(values[0].dtype)
    return list(torch.split(common, sizes.tolist(), dim=1))


def _sort_axes(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each axis in order, (d, n), and which rows that takes; on the CPU by NumPy, whose sort is many times faster."""
    axes = z.mT.contiguous()
    if z.device.type != "cpu":
        values, order = axes.sort(dim=1)
        return values, order
    order = torch.from_numpy(np.argsort(axes.numpy(), axis=1))
    return axes.gather(1, order), order


def fit_shifts(z: torch.Tensor, aligned: torch.Tensor) -> torch.Tensor:
    """How far the users of one class go along each axis, at `KNOTS` places; (d, KNOTS), flat beyond the outermost user.

    The places are even in z / (1 + |z|): near in the bulk, far apart in the tails, and found without a search.
    """
    squashed = torch.linspace(-KNOT_REACH, KNOT_REACH, KNOTS, dtype=z.dtype, device=z.device)
    places = (squashed / (1 - squashed.abs())).expand(z.shape[1], KNOTS).contiguous()
    values, order = _sort_axes(z)
    shifts = (aligned - z).mT.gather(1, order)
    above = torch.searchsorted(values, places)
    low, high = (above - 1).clamp(min=0), above.clamp(max=len(z) - 1)
    gap = (values.gather(1, high) - values.gather(1, low)).clamp(min=torch.finfo(z.dtype).tiny)
    share = ((places - values.gather(1, low)) / gap).clamp(0, 1)
    return torch.lerp(shifts.gather(1, low), shifts.gather(1, high), share)


def interpolate_shifts(z: torch.Tensor, shifts: torch.Tensor) -> torch.Tensor:
    """How far users of one class go, by its (d, KNOTS) shifts; in place where possible, for it is most of the time."""
    place = z.abs().add_(1)
    torch.div(z, place, out=place)
    place.add_(KNOT_REACH).mul_((KNOTS - 1) / (2 * KNOT_REACH)).clamp_(0, KNOTS - 1.001)
    below = place.int()
    place.sub_(below)
    below.add_(torch.arange(z.shape[1], device=z.device, dtype=torch.int32) * KNOTS)
    flat, at = shifts.reshape(-1), below.view(-1)
    low = flat.index_select(0, at).view_as(z)
    return low.lerp_(flat.index_select(0, at.add_(1)).view_as(z), place)


def _interpolate_quantiles(quantiles: torch.Tensor, count: int) -> torch.Tensor:
    """The quantile functions with knots at (r - 1/2)/n, linear in between and flat outside, at `count` even levels."""
    n = quantiles.shape[1]
    if n == count:
        return quantiles
    levels = (torch.arange(count, device=quantiles.device, dtype=torch.float64) + 0.5) / count
    position = (levels * n - 0.5).clamp(0, n - 1)
    below = position.floor().long()
    low, high = (quantiles.index_select(1, at) for at in (below, (below + 1).clamp(max=n - 1)))
    return torch.lerp(low, high, (position - below).to(quantiles.dtype))
