"""One step of kernel matching: make two samples alike in random cosine features, where axes alone do not tell.

Means of features cos(z w + b), with w drawn as the Fourier transform of a Gaussian kernel, are equal for all w where
two distributions are (Rahimi and Recht, 2007): the gap is the maximum mean discrepancy, in time linear in the samples.
"""

from __future__ import annotations

import math

import torch

__all__ = ["FEATURES", "WIDTHS", "match_features", "typical_distance"]

FEATURES = 510
WIDTHS = (1.0, 0.5, 0.25)
"""Kernel widths, in typical squared distances. Narrower ones let users avoid their own class: a leak upside down."""


def typical_distance(z: torch.Tensor, generator: torch.Generator) -> float:
    """The median squared distance of two rows."""
    some = z[torch.randperm(len(z), generator=generator, device=z.device)[:500]]
    return float(torch.pdist(some.float()).square().median()) if len(some) > 1 else 0.0


def match_features(z: torch.Tensor, aim: torch.Tensor, scale: float, generator: torch.Generator) -> torch.Tensor:
    """`z` after half a step of steepest descent on the gap between its mean features and those of `aim`.

    The features are drawn anew in each call; `scale` is the typical squared distance. The step is as long as a
    linear model of the features says.
    """
    spread = torch.tensor([(scale * w) ** -0.5 for w in WIDTHS], device=z.device, dtype=z.dtype)
    spread = spread.repeat_interleave(FEATURES // len(WIDTHS))
    draw = torch.randn(z.shape[1], len(spread), generator=generator, device=z.device, dtype=z.dtype)
    W = draw * spread
    b = 2 * math.pi * torch.rand(len(spread), generator=generator, device=z.device, dtype=z.dtype)
    angle = z @ W + b
    gap = angle.cos().mean(0) - (aim @ W + b).cos().mean(0)
    slope = angle.sin_()
    downhill = slope * gap @ W.mT
    closing = -(slope * (downhill @ W)).mean(0)  # how the gap changes along it
    length = -(gap @ closing) / (closing @ closing).clamp(min=1e-30)
    return z + 0.5 * length * downhill
