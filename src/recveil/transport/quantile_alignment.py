"""One round of sliced transport: along every axis, move each class to the average of the class quantile functions.

In one dimension the Wasserstein barycenter of classes with shares p_k has the quantile function sum_k p_k Q_k
(Agueh and Carlier 2011), and the optimal map of class k sends its r-th smallest row to that function at the level of
rank r.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

__all__ = ["KNOTS", "align_axes", "interpolate_shifts", "fit_shifts", "draw_rotation"]

KNOTS = 129
"""Knots at which the map of one class along one axis is stored."""

MAX_CLASSES_PAIRWISE = 6
"""Up to this many classes it is faster to evaluate every class's quantiles for every class."""

KNOT_REACH = 0.98
"""Position of the outermost knots in z / (1 + |z|): 49 standard deviations from 0."""


def draw_rotation(d: int, generator: torch.Generator) -> torch.Tensor:
    """Draw an orthogonal (d, d) matrix from the uniform (Haar) distribution.

    The QR decomposition of a Gaussian matrix has it once the signs of the diagonal of R are moved into Q.
    """
    gauss = torch.randn(d, d, generator=generator, device=generator.device, dtype=torch.float64)
    q, r = torch.linalg.qr(gauss)
    return torch.mul(q, r.diagonal().sign())


def align_axes(z: torch.Tensor, members: Sequence[torch.Tensor | slice]) -> torch.Tensor:
    """Give all classes the same distribution along each coordinate of `z`.

    The displacement is the least possible along each coordinate. `members[k]` are the rows of class k; they get the
    common quantile function at the levels (r - 1/2) / n_k, r = 1..n_k.
    """
    ordered = [_sort_axes(z[rows]) for rows in members]
    values = [own for own, _ in ordered]
    common = _average_pairwise(values) if len(values) <= MAX_CLASSES_PAIRWISE else _average_by_sweep(values)
    aligned = z.clone()
    for rows, (_, order), goal in zip(members, ordered, common, strict=True):
        aligned[rows] = torch.empty_like(goal).scatter_(1, order, goal).mT
    return aligned


def _average_pairwise(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Average the quantile functions by evaluating every class for every class."""
    total = sum(own.shape[1] for own in values)
    averages = []
    for own in values:
        common = torch.zeros_like(own)
        for other in values:
            common.add_(_interpolate_quantiles(other, own.shape[1]), alpha=other.shape[1] / total)
        averages.append(common)
    return averages


def _average_by_sweep(values: list[torch.Tensor]) -> list[torch.Tensor]:
    """Average the quantile functions in one sweep over the levels of all classes.

    The average is piecewise linear. At a level of class k only Q_k changes its slope, so the slope of the average is
    the running sum of those changes, and its value the running sum of slope times step.
    """
    sizes = torch.tensor([own.shape[1] for own in values], device=values[0].device)
    total, ends = int(sizes.sum()), sizes.cumsum(0)
    own = sizes.repeat_interleave(sizes)
    rank = torch.arange(total, device=sizes.device) - (ends - sizes).repeat_interleave(sizes)
    levels, order = ((rank.double() + 0.5) / own).sort()
    z = torch.cat(values, 1).double()
    start = z[:, ends - sizes] @ (sizes.double() / total)
    weight = own.double().square() / total  # share n / total over the distance 1 / n of two levels
    weight[ends - 1] = 0.0  # no segment leads from the last row of a class to the next class
    edge = z.new_zeros(len(z), 1)
    bends = torch.diff(z.diff(dim=1) * weight[:-1], dim=1, prepend=edge, append=edge)
    slopes = bends[:, order].cumsum(1)
    heights = torch.cat([start[:, None], slopes[:, :-1] * levels.diff()], 1).cumsum(1)
    common = torch.empty_like(z).index_copy_(1, order, heights).to(values[0].dtype)
    return list(torch.split(common, sizes.tolist(), dim=1))


def _sort_axes(z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort each axis, (d, n), and return the order too.

    On a CPU NumPy sorts, many times faster than torch.
    """
    axes = z.mT.contiguous()
    if z.device.type != "cpu":
        values, order = axes.sort(dim=1)
        return values, order
    order = torch.from_numpy(np.argsort(axes.numpy(), axis=1))
    return axes.gather(1, order), order


def fit_shifts(z: torch.Tensor, aligned: torch.Tensor) -> torch.Tensor:
    """Fit how far rows of one class move along each axis; (d, KNOTS).

    The places are evenly spaced in z / (1 + |z|): dense in the bulk, sparse in the tails, and found without a search.
    Beyond the outermost row the shift is constant.
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
    """Interpolate the moves of rows of one class from its (d, KNOTS) shifts.

    Works in place where possible: this takes most of the time of a sliced map.
    """
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
    """Evaluate quantile functions at `count` evenly spaced levels.

    They have knots at (r - 1/2) / n, are linear in between and constant outside.
    """
    n = quantiles.shape[1]
    if n == count:
        return quantiles
    levels = (torch.arange(count, device=quantiles.device, dtype=torch.float64) + 0.5) / count
    position = (levels * n - 0.5).clamp(0, n - 1)
    below = position.floor().long()
    low, high = (quantiles.index_select(1, at) for at in (below, (below + 1).clamp(max=n - 1)))
    return torch.lerp(low, high, (position - below).to(quantiles.dtype))
