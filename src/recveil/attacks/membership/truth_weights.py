"""The weight estimator of DL-MIA: how far each difference vector is trusted.

The truth-level score of a user, eq. 9, is the error of the attack on the re-weighted features over its error on the
disentangled ones. Each user has a score of its own, so the least-squares fit of eq. 11 is the ratio itself.

Departs: scores are clipped, because a ratio of two tiny errors carries no information. The linear layer that makes
weights of scores is the identity: no loss of the paper could train it (the re-weighted loss would only push all weights
to zero).
"""

from __future__ import annotations

import torch

__all__ = ["MAX_TRUTH_SCORE", "compute_sample_weights", "compute_truth_scores", "draw_first_scores"]

MAX_TRUTH_SCORE = 2.0
"""The highest truth-level score: the error has doubled."""

MIN_ERROR = 1e-6


def draw_first_scores(n: int, generator: torch.Generator) -> torch.Tensor:
    """Draw scores to begin with, uniform in (0, 1)."""
    return torch.rand(n, generator=generator, device=generator.device)


def compute_truth_scores(reweighted: torch.Tensor, disentangled: torch.Tensor) -> torch.Tensor:
    """Compute the score of each user from two errors of the attack (eq. 9).

    It is clipped to [0, 2].
    """
    return (reweighted.detach() / disentangled.detach().clamp(min=MIN_ERROR)).clamp(0, MAX_TRUTH_SCORE)


def compute_sample_weights(scores: torch.Tensor, labelled: torch.Tensor) -> torch.Tensor:
    """Compute the weight of each user, `softplus(score)`, scaled to mean 1.

    Shadow and target are scaled apart.

    `labelled` marks the shadow users. No gradient goes through the weights.
    """
    raw = torch.nn.functional.softplus(scores.detach())
    weights = torch.empty_like(raw)
    for part in (labelled, ~labelled):
        weights[part] = raw[part] / raw[part].mean()
    return weights
