"""The weight estimator of DL-MIA: how far each difference vector is to be believed, and what it counts in training.

The truth-level score of a user, eq. 9: the error of the attack on the re-weighted features over its error on the
disentangled ones. Each user has a score of its own, so the least-squares fit of eq. 11 is the ratio itself.

Departs: scores are clipped, because a ratio of two errors that are both next to nothing says nothing. The linear layer
that makes weights of scores is fixed: no loss of the paper could train it (the re-weighted loss would only push all
weights to zero), and what is left of it after softplus and scaling is a slope and a level.
"""

from __future__ import annotations

import torch

__all__ = ["MAX_TRUTH_SCORE", "draw_first_scores", "compute_sample_weights", "compute_truth_scores"]

MAX_TRUTH_SCORE = 2.0
"""The highest truth-level score: the error has doubled."""

MIN_ERROR = 1e-6


def draw_first_scores(n: int, generator: torch.Generator) -> torch.Tensor:
    """Scores to begin with, uniform in (0, 1)."""
    return torch.rand(n, generator=generator, device=generator.device)


def compute_truth_scores(reweighted: torch.Tensor, disentangled: torch.Tensor) -> torch.Tensor:
    """The score of each user from the attack's error on its two kinds of features, clipped to [0, 2]."""
    return (reweighted.detach() / disentangled.detach().clamp(min=MIN_ERROR)).clamp(0, MAX_TRUTH_SCORE)


def compute_sample_weights(
    scores: torch.Tensor, labelled: torch.Tensor, *, slope: float = 1.0, level: float = 0.0
) -> torch.Tensor:
    """What each user counts: `softplus(slope * score + level)`, scaled to mean 1 in the shadow and in the target.

    `labelled` says who is of the shadow. No gradient goes through the weights.
    """
    raw = torch.nn.functional.softplus(slope * scores.detach() + level)
    weights = torch.empty_like(raw)
    for part in (labelled, ~labelled):
        weights[part] = raw[part] / raw[part].mean()
    return weights
