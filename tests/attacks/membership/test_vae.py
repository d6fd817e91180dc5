"""The encoders of DL-MIA: losses against closed forms, reconstruction, and the effect of the penalties."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from recveil.attacks.membership.vae import (
    DualVAE,
    Encoded,
    GaussianVAE,
    build_perceptron,
    compute_critic_loss,
    compute_gaussian_kl,
)
from recveil.attacks.membership.vmf import kl_to_uniform

D = 8


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n: int = 300) -> torch.Tensor:
    """Vectors of two strong directions and a little noise."""
    mix = torch.randn(2, D, generator=generator(1)) * 3
    return torch.randn(n, 2, generator=generator(2)) @ mix + 0.1 * torch.randn(n, D, generator=generator(3))


def dual(kl_weight: float = 1.0) -> DualVAE:
    return DualVAE(D, 3, 4, 32, kl_weight=kl_weight, generator=generator())


def gaussian(beta: float = 1.0, gamma: float = 0.0) -> GaussianVAE:
    return GaussianVAE(D, 5, 32, beta=beta, gamma=gamma, generator=generator())


def encode(vae: DualVAE | GaussianVAE, x: torch.Tensor, chance: torch.Generator) -> Encoded:
    return vae(x, vae.draw_noise(len(x), chance))


def train(vae: DualVAE | GaussianVAE, steps: int = 150) -> DualVAE | GaussianVAE:
    x, draws = rows(), generator(4)
    adam = torch.optim.Adam([*vae.heads.parameters(), *vae.decoder.parameters()], lr=1e-2)
    for _ in range(steps):
        adam.zero_grad()
        encode(vae, x, draws).loss.mean().backward()
        adam.step()
    return vae


def test_the_gaussian_divergence_matches_torch() -> None:
    mean, log_variance = torch.randn(2, 20, 6, generator=generator())
    expected = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0, 1)).sum(1)
    torch.testing.assert_close(compute_gaussian_kl(mean, log_variance), expected)


def test_the_loss_is_the_squared_error_plus_both_divergences() -> None:
    x = rows(5)
    full, bare = (encode(dual(kl_weight), x, generator(7)) for kl_weight in (1.0, 0.0))
    torch.testing.assert_close(full.features, bare.features)
    vae = dual()
    torch.testing.assert_close(bare.loss, 0.5 * (vae.decoder(bare.features) - x).square().sum(1))
    mean, log_variance, _, k = vae._compute_posterior(x)
    torch.testing.assert_close(full.loss - bare.loss, compute_gaussian_kl(mean, log_variance) + kl_to_uniform(k, 4))


def test_specific_features_lie_on_the_sphere_and_their_means_inside() -> None:
    vae, x = dual(), rows()
    torch.testing.assert_close(encode(vae, x, generator()).features[:, 3:].norm(dim=1), torch.ones(len(x)))
    invariant, specific = vae.compute_means(x)
    assert invariant.shape == (300, 3)
    assert specific.shape == (300, 4)
    assert (specific.norm(dim=1) < 1).all()


@pytest.mark.parametrize("vae", [dual(), gaussian()], ids=["dual", "gaussian"])
def test_means_are_the_average_of_samples(vae: DualVAE | GaussianVAE) -> None:
    x = rows(1).expand(20_000, D)
    expected = torch.cat(vae.compute_means(x[:1]), 1)[0]
    features = encode(vae, x, generator(5)).features
    error = (features.mean(0) - expected) / (features.std(0) / math.sqrt(len(x)))
    assert error.abs().max() < 4.5


@pytest.mark.thorough
@pytest.mark.parametrize("vae", [dual(), gaussian()], ids=["dual", "gaussian"])
def test_training_reconstructs_better_than_the_mean(vae: DualVAE | GaussianVAE) -> None:
    x = rows()
    alone = 0.5 * (x - x.mean(0)).square().sum(1).mean()
    before = encode(vae, x, generator()).loss.mean()
    after = encode(train(vae), x, generator()).loss.mean()
    assert after < 0.5 * alone
    assert after < before


def test_beta_reduces_the_information_in_the_features() -> None:
    strong, weak = (
        compute_gaussian_kl(*train(gaussian(beta))._compute_posterior(rows())).mean() for beta in (20.0, 1.0)
    )
    assert strong < 0.7 * weak


@pytest.mark.thorough
def test_a_critic_learns_the_total_correlation_and_finds_none_where_there_is_none() -> None:
    """Of two Gaussians of correlation r it is -log(1 - r^2) / 2."""
    for r in (0.0, 0.8):
        draws = torch.randn(2000, 2, generator=generator(1))
        z = torch.stack([draws[:, 0], r * draws[:, 0] + math.sqrt(1 - r**2) * draws[:, 1]], 1)
        critic, chance = build_perceptron((2, 32, 32, 1), generator()), generator(2)
        adam = torch.optim.Adam(critic.parameters(), lr=1e-2)
        for _ in range(150):
            adam.zero_grad()
            compute_critic_loss(critic, z, torch.rand(z.shape, generator=chance)).backward()
            adam.step()
        assert float(critic(z).detach().mean()) == pytest.approx(-0.5 * math.log(1 - r**2), abs=0.1)


def test_the_critic_enters_the_loss_of_factor_vae_only() -> None:
    x = rows(20)
    assert gaussian(gamma=0.0).critic is None
    assert dual().critic is None
    vae = gaussian(gamma=10.0)
    assert vae.critic is not None
    encoded = encode(vae, x, generator(1))
    plain = 0.5 * (vae.decoder(encoded.features) - x).square().sum(1) + compute_gaussian_kl(*vae._compute_posterior(x))
    torch.testing.assert_close(encoded.loss - plain, 10 * vae.critic(encoded.features)[:, 0], atol=1e-4, rtol=1e-4)


def test_outliers_do_not_overflow() -> None:
    far = 1e3 * rows(10)
    for vae in (dual(), gaussian()):
        encoded = encode(vae, far, generator())
        encoded.loss.mean().backward()
        assert torch.isfinite(encoded.loss).all()
        assert all(torch.isfinite(p.grad).all() for p in vae.parameters() if p.grad is not None)


def test_the_global_generator_is_not_used() -> None:
    state = torch.get_rng_state()
    first = encode(dual(), rows(5), generator(1)).features
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(encode(dual(), rows(5), generator(1)).features, first)
