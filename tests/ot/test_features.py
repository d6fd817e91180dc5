"""Kernel steps bring two samples together where their axes agree already, and leave equal samples alone."""

import torch

from recveil.ot.features import match_features, typical_distance


def ring(n: int, generator: torch.Generator) -> torch.Tensor:
    """Points on a circle, with the mean and the covariance of the standard normal distribution."""
    z = torch.randn(n, 2, generator=generator)
    return 2**0.5 * z / z.norm(dim=1, keepdim=True)


def gap(z: torch.Tensor, aim: torch.Tensor, width: float) -> float:
    """MMD^2 with a Gaussian kernel, pairs of one and the same point left out."""

    def mean(a: torch.Tensor, b: torch.Tensor) -> float:
        kernel = (-torch.cdist(a, b).square() / (2 * width)).exp()
        return float(kernel.sum() - kernel.diagonal().sum() * (a is b)) / (len(a) * (len(b) - (a is b)))

    return mean(z, z) + mean(aim, aim) - 2 * mean(z, aim)


def test_steps_bring_a_ring_to_a_gaussian() -> None:
    generator = torch.Generator().manual_seed(0)
    z, aim = ring(800, generator), torch.randn(800, 2, generator=generator)
    scale = typical_distance(aim, generator)
    before = gap(z, aim, 0.5 * scale)
    for _ in range(20):
        z = match_features(z, aim, scale, generator)
    assert before > 0.02
    assert gap(z, aim, 0.5 * scale) < 0.3 * before


def test_a_sample_that_is_there_already_stays() -> None:
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(300, 4, generator=generator)
    assert torch.equal(match_features(z, z, 8.0, generator), z)


def test_the_typical_distance_is_the_median() -> None:
    generator = torch.Generator().manual_seed(2)
    z = torch.randn(400, 8, generator=generator)
    assert abs(typical_distance(z, generator) - float(torch.pdist(z).square().median())) < 1e-4
    assert typical_distance(z[:1], generator) == 0
