"""The von Mises-Fisher distribution on the unit sphere of m dimensions.

Density `exp(k mu.z) / (area * 0F1(m/2; k^2/4))`: `mu` is the mean direction, `k` the concentration, zero for uniform.
Everything follows from the ratio of Bessel functions `A_m(k) = I_{m/2}(k) / I_{m/2-1}(k)`, the length of the mean.
SciPy's scaled Bessel functions underflow where m is large and k small, and run on the CPU only. So the ratio is taken
at a high order, by Debye's uniform expansion, and carried down by its continued fraction, in float64 on any device.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, cast

import torch

from recveil.core.errors import UsageError

__all__ = ["VmfNoise", "compute_mean_length", "draw_noise", "draw_samples", "kl_to_uniform"]

MIN_DEBYE_ORDER = 32.0
"""From this order on three terms of Debye's expansion are exact enough, given the steps down."""

MIN_FRACTION_STEPS = 8
"""Steps down the continued fraction; each multiplies the error by about A squared."""

PROPOSALS_PER_DRAW = 16
"""Proposals for each sample, of which the first accepted one is taken.

At least two in three are accepted, so one in 40 million samples has no accepted proposal and takes its first. A loop
until all are accepted would make a GPU wait for Python at every step.
"""

VmfNoise = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Random numbers of samples, drawn before the distributions are known: proposals, log uniforms, directions."""


def compute_mean_length(k: torch.Tensor, m: int) -> torch.Tensor:
    """Compute A_m(k), the length of the mean: 0 for uniform, towards 1 as k grows."""
    over_k, ratio, _ = _compute_bessel_ratio(k, m)
    return _with_slope(k, ratio, _compute_slope(over_k, ratio, m))


def kl_to_uniform(k: torch.Tensor, m: int) -> torch.Tensor:
    """Compute the divergence from the uniform distribution.

    It is `k A - log 0F1`; its gradient is `k A'`.
    """
    over_k, ratio, log_sum = _compute_bessel_ratio(k, m)
    wide = k.detach().double()
    return _with_slope(k, wide * ratio - log_sum, wide * _compute_slope(over_k, ratio, m))


def draw_noise(n: int, m: int, generator: torch.Generator) -> VmfNoise:
    """Draw the random numbers of samples, one row for each.

    Args:
        n: number of samples.
        m: dimensions.
        generator: source of randomness.
    """
    _check_dimensions(m)
    u = torch.rand(3, n, PROPOSALS_PER_DRAW, generator=generator, device=generator.device, dtype=torch.float64)
    radius = (-torch.expm1(torch.log(u[0]) * (2 / (m - 2)))).sqrt() if m > 2 else torch.ones_like(u[0])
    # Samples of Beta((m-1)/2, (m-1)/2), each from two uniform numbers (Ulrich 1984). Never exactly 0 or 1: there the
    # length across has no slope.
    beta = ((1 + radius * torch.cos(2 * math.pi * u[1])) / 2).clamp(1e-15, 1 - 1e-15)
    side = torch.randn(n, m - 1, generator=generator, device=generator.device, dtype=torch.float64)
    return beta, u[2].log(), side / side.norm(dim=1, keepdim=True).clamp(min=1e-30)


def draw_samples(mu: torch.Tensor, k: torch.Tensor, noise: VmfNoise) -> torch.Tensor:
    """Draw a sample for each mean direction, differentiable in both parameters.

    Wood's rejection with Ulrich's beta samples for the part along `mu`, a uniform direction across it, and a
    Householder reflection of the first axis onto `mu`. The accepted proposal is held fixed and the gradient is taken
    through its image, as in the code of s-VAE; the dependence of the acceptance on k is ignored.

    Args:
        mu: mean directions, unit vectors (n, m).
        k: concentrations (n,).
        noise: random numbers of `draw_noise`.
    """
    m = mu.shape[1]
    _check_dimensions(m)
    proposals, log_uniform, side = noise
    along, across = _split_along_mean(k.double(), m, proposals, log_uniform)
    upright = torch.cat([along.to(mu.dtype)[:, None], across.to(mu.dtype)[:, None] * side.to(mu.dtype)], 1)
    axis = (torch.arange(m, device=mu.device) == 0).to(mu.dtype) - mu
    axis = axis / axis.square().sum(1, keepdim=True).clamp(min=1e-20).sqrt()
    return upright - 2 * (upright * axis).sum(1, keepdim=True) * axis


def _split_along_mean(
    k: torch.Tensor, m: int, proposals: torch.Tensor, log_uniform: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the part of a sample along the mean, and the length of the rest."""
    root = (4 * k.square() + (m - 1) ** 2).sqrt()
    b = (m - 1) / (2 * k + root)
    e = _accept_proposals(k, b, root, m, proposals, log_uniform)
    below = 1 - (1 - b) * e
    # 1 - along^2 would lose its digits where k is large; this is the same number.
    return (1 - (1 + b) * e) / below, 2 * (b * e * (1 - e)).sqrt() / below


@torch.no_grad()
def _accept_proposals(
    k: torch.Tensor, b: torch.Tensor, root: torch.Tensor, m: int, proposals: torch.Tensor, log_uniform: torch.Tensor
) -> torch.Tensor:
    """Return the first accepted proposal for each k (Wood 1994)."""
    a = (m - 1 + 2 * k + root) / 4
    d = 4 * a * b / (1 + b) - (m - 1) * math.log(m - 1)
    t = (2 * a * b)[:, None] / (1 - (1 - b)[:, None] * proposals)
    is_accepted = (m - 1) * t.log() - t + d[:, None] >= log_uniform
    return proposals.gather(1, is_accepted.to(torch.int8).argmax(1, keepdim=True))[:, 0]


@torch.no_grad()
def _compute_bessel_ratio(k: torch.Tensor, m: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Compute A_m(k) / k, A_m(k) and log 0F1(m/2; k^2/4).

    The last is log I - (m/2-1) log(k/2) + log Gamma(m/2).
    """
    _check_dimensions(m)
    k = k.double()
    order = m / 2 - 1
    steps = max(MIN_FRACTION_STEPS, math.ceil(MIN_DEBYE_ORDER - order))
    ratio, log_sum = _expand_debye(k, order + steps)
    below = []
    for step in range(steps, 0, -1):
        below.append(k * ratio + 2 * (order + step))
        ratio = k / below[-1]
    log_sum = log_sum + torch.stack(below).log().sum(0)
    return 1 / below[-1], ratio, log_sum - sum(math.log(2 * (order + step)) for step in range(1, steps + 1))


def _expand_debye(k: torch.Tensor, v: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute I_{v+1} / I_v and log 0F1(v+1; k^2/4) for large orders v."""
    s = (k.square() + v**2).sqrt()
    exponents, of_value, of_slope = _build_debye_coefficients(k.device)
    powers = s.reciprocal()[..., None] ** exponents
    angles = (v / s).square()[..., None] ** exponents
    value = 1 + ((angles @ of_value) * powers).sum(-1)
    slope = ((angles @ of_slope) * powers).sum(-1)
    ratio = k / (s + v) + k / s * slope / value
    log_sum = s - v * torch.log((v + s) / 2) + torch.log(value / s.sqrt()) + math.lgamma(v + 1)
    return ratio, log_sum - 0.5 * math.log(2 * math.pi)


@cache
def _build_debye_coefficients(device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Build the coefficients of Debye's series.

    These are the series of I, and that of I' less it without a common factor k^2 / s^2.

    Columns are powers of 1/s, s^2 = k^2 + v^2, rows those of (v/s)^2.
    """
    value = [
        [0, 3 / 24, 81 / 1152, 30375 / 414720],
        [0, -5 / 24, -462 / 1152, -369603 / 414720],
        [0, 0, 385 / 1152, 765765 / 414720],
        [0, 0, 0, -425425 / 414720],
    ]
    slope = [
        [0, -1 / 2, -216 / 1152, -72900 / 414720],
        [0, 0, 840 / 1152, 748440 / 414720],
        [0, 0, 0, -900900 / 414720],
        [0, 0, 0, 0],
    ]
    exponents = torch.arange(4, dtype=torch.float64, device=device)
    of_value, of_slope = (torch.tensor(table, dtype=torch.float64, device=device) for table in (value, slope))
    return exponents, of_value, of_slope


def _compute_slope(over_k: torch.Tensor, ratio: torch.Tensor, m: int) -> torch.Tensor:
    """Compute A'(k)."""
    return 1 - ratio.square() - (m - 1) * over_k


class _WithSlope(torch.autograd.Function):
    """A function of k with its derivative in closed form."""

    @staticmethod
    def forward(ctx: Any, k: torch.Tensor, value: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(slope)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *gradient: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return gradient[0] * slope, None, None


def _with_slope(k: torch.Tensor, value: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    return cast(torch.Tensor, _WithSlope.apply(k, value.to(k.dtype), slope.to(k.dtype)))  # type: ignore[no-untyped-call]


def _check_dimensions(m: int) -> None:
    if m < 2:
        raise UsageError(f"A von Mises-Fisher distribution needs 2 dimensions or more; got {m}.")
