"""Truth-level scores solve the paper's equation, and weights have mean 1."""

from __future__ import annotations

import torch

from recveil.attacks.membership.truth_weights import (
    MAX_TRUTH_SCORE,
    compute_sample_weights,
    compute_truth_scores,
    draw_first_scores,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_scores_bring_one_error_to_the_other() -> None:
    before, after = torch.tensor([0.5, 1.0, 0.2]), torch.tensor([0.25, 1.0, 0.3])
    torch.testing.assert_close(compute_truth_scores(after, before) * before, after)


def test_scores_minimize_the_estimation_loss() -> None:
    """Eq. 11, by gradient descent on free scores."""
    before, after = torch.rand(2, 40, generator=generator()) * 0.5 + 0.5
    free = draw_first_scores(40, generator(1)).requires_grad_()
    descent = torch.optim.SGD([free], lr=10.0)
    for _ in range(500):
        descent.zero_grad()
        (free * before - after).square().mean().backward()
        descent.step()
    torch.testing.assert_close(compute_truth_scores(after, before), free.detach(), atol=1e-4, rtol=1e-4)


def test_scores_are_clipped_and_finite() -> None:
    scores = compute_truth_scores(torch.tensor([1.0, 0.0, 0.0, 100.0]), torch.tensor([0.0, 0.0, 1.0, 1.0]))
    assert scores.tolist() == [MAX_TRUTH_SCORE, 0.0, 0.0, MAX_TRUTH_SCORE]


def test_the_first_scores_are_uniform() -> None:
    scores = draw_first_scores(10_000, generator())
    assert scores.min() >= 0
    assert scores.max() < 1
    assert abs(float(scores.mean()) - 0.5) < 0.02


def test_weights_have_mean_one_in_each_world_and_follow_the_scores() -> None:
    scores, labelled = torch.rand(50, generator=generator()) * MAX_TRUTH_SCORE, torch.arange(50) < 30
    weights = compute_sample_weights(scores, labelled)
    for part in (labelled, ~labelled):
        torch.testing.assert_close(weights[part].mean(), torch.tensor(1.0))
        assert torch.equal(weights[part].argsort(), scores[part].argsort())
    assert (weights > 0).all()
    assert weights.std() > 0.1


def test_one_world_alone_is_enough_and_no_gradient_passes() -> None:
    scores = torch.rand(10, generator=generator()).requires_grad_()
    weights = compute_sample_weights(scores, torch.ones(10, dtype=torch.bool))
    assert torch.isfinite(weights).all()
    assert not weights.requires_grad
    assert not compute_truth_scores(scores, scores + 1).requires_grad
