"""The encoders of DL-MIA, from difference vectors to latent features.

`DualVAE` is the paper's: a Gaussian latent for features that recommenders have in common (invariant) and a von
Mises-Fisher one for features of a single recommender (specific). `GaussianVAE` has one Gaussian latent: with a weight
on its divergence it is beta-VAE (Higgins 2017), with a penalty on the total correlation of its coordinates FactorVAE
(Kim and Mnih 2018).

The posteriors are linear in the vector, a perceptron of three hidden layers reconstructs it, and the loss of a user is
half the squared error plus the divergences, the negative of the paper's eq. 5.

Departs: the concentration starts at a quarter of the dimensions, where both latents carry information (started near 0
the specific one is never used); FactorVAE's critic is as large as the decoder, not 6 layers of 1,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional

from recveil.attacks.membership import vmf

__all__ = ["DualVAE", "Encoded", "GaussianVAE", "compute_critic_loss", "compute_gaussian_kl", "build_perceptron"]

MAX_LOG_VARIANCE = 10.0
"""Bound of the log variance: a user far from all others would overflow it."""

START_CONCENTRATION_PER_DIMENSION = 0.25
"""Initial concentration of the specific latent, for each dimension."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Sampled features (n, q), and the negative ELBO of each user."""

    features: torch.Tensor
    loss: torch.Tensor


class DualVAE(torch.nn.Module):
    """A Gaussian (invariant) and a von Mises-Fisher (specific) latent, one decoder.

    `kl_weight` multiplies both divergences; 1 is the paper's.
    """

    def __init__(
        self, d: int, invariant: int, specific: int, hidden: int, *, kl_weight: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.kl_weight = kl_weight
        self.critic = None
        self.sizes = [invariant, invariant, specific, 1]
        self.heads = build_perceptron((d, sum(self.sizes)), generator)
        with torch.no_grad():  # near 0 the draws are noise, and no gradient would ever reach the direction
            list(self.heads.parameters())[-1][-1] = START_CONCENTRATION_PER_DIMENSION * specific
        self.decoder = build_perceptron((invariant + specific, hidden, hidden, hidden, d), generator)

    def draw_noise(self, n: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Draw the random numbers of n users, one row in each tensor."""
        return [_draw_normal(n, self.sizes[0], generator), *vmf.draw_noise(n, self.sizes[2], generator)]

    def forward(self, x: torch.Tensor, noise: Sequence[torch.Tensor]) -> Encoded:
        """Sample features for each row, with their loss."""
        mean, log_variance, direction, k = self._compute_posterior(x)
        normal, beta, log_uniform, side = noise
        specific = vmf.draw_samples(direction, k, (beta, log_uniform, side))
        features = torch.cat([_reparameterize(mean, log_variance, normal), specific], 1)
        divergence = compute_gaussian_kl(mean, log_variance) + vmf.kl_to_uniform(k, direction.shape[1])
        return Encoded(features, _compute_squared_error(self.decoder(features), x) + self.kl_weight * divergence)

    def compute_means(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the expected invariant and specific features; nothing is drawn."""
        mean, _, direction, k = self._compute_posterior(x)
        return mean, vmf.compute_mean_length(k, direction.shape[1])[:, None] * direction

    def _compute_posterior(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance, direction, k = self.heads(x).split(self.sizes, 1)
        return (
            mean,
            log_variance.clamp(max=MAX_LOG_VARIANCE),
            functional.normalize(direction),
            functional.softplus(k[:, 0]),
        )


class GaussianVAE(torch.nn.Module):
    """One Gaussian latent; all its features count as invariant, none as specific.

    `beta` multiplies the divergence; `gamma`, where it is not zero, the total correlation that a critic estimates.
    """

    def __init__(
        self, d: int, latent: int, hidden: int, *, beta: float, gamma: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.beta, self.gamma, self.latent = beta, gamma, latent
        self.heads = build_perceptron((d, 2 * latent), generator)
        self.decoder = build_perceptron((latent, hidden, hidden, hidden, d), generator)
        self.critic = build_perceptron((latent, hidden, hidden, hidden, 1), generator) if gamma else None

    def draw_noise(self, n: int, generator: torch.Generator) -> list[torch.Tensor]:
        """Draw the random numbers of n users, one row each; the critic's come last."""
        mixing = (
            [] if self.critic is None else [torch.rand(n, self.latent, generator=generator, device=generator.device)]
        )
        return [_draw_normal(n, self.latent, generator), *mixing]

    def forward(self, x: torch.Tensor, noise: Sequence[torch.Tensor]) -> Encoded:
        """Sample features for each row, with their loss."""
        mean, log_variance = self._compute_posterior(x)
        features = _reparameterize(mean, log_variance, noise[0])
        loss = _compute_squared_error(self.decoder(features), x) + self.beta * compute_gaussian_kl(mean, log_variance)
        if self.critic is not None:
            loss = loss + self.gamma * self.critic(features)[:, 0]
        return Encoded(features, loss)

    def compute_means(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Compute the expected features, and no specific ones; nothing is drawn."""
        mean, _ = self._compute_posterior(x)
        return mean, mean[:, :0]

    def _compute_posterior(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.heads(x).chunk(2, 1)
        return mean, log_variance.clamp(max=MAX_LOG_VARIANCE)


def compute_critic_loss(critic: torch.nn.Module, features: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
    """Compute the loss of a critic on features and on mixed features.

    The best critic is the log density of the features over that of independent coordinates; its mean is their total
    correlation.

    Args:
        critic: network from features to a log ratio.
        features: features of the users, (n, q).
        noise: uniform numbers, (n, q); their order decides which user each coordinate of a mixed row is taken from.
    """
    real = features.detach()
    mixed = real.gather(0, noise.argsort(0))
    on_real, on_mixed = critic(torch.cat([real, mixed])).chunk(2)
    return functional.softplus(torch.cat([-on_real, on_mixed])).sum() / len(real)


def compute_gaussian_kl(mean: torch.Tensor, log_variance: torch.Tensor) -> torch.Tensor:
    """Compute the divergence of each row from standard Gaussians (eq. 6)."""
    return 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(1)


def build_perceptron(sizes: tuple[int, ...], generator: torch.Generator) -> torch.nn.Sequential:
    """Build linear layers with ReLU between them.

    They are drawn from our own generator, not from torch's global one.
    """
    layers: list[torch.nn.Module] = []
    for inputs, outputs in zip(sizes[:-1], sizes[1:], strict=True):
        layer = torch.nn.Linear(inputs, outputs, device="meta").to_empty(device=generator.device)
        with torch.no_grad():
            layer.weight.uniform_(-(inputs**-0.5), inputs**-0.5, generator=generator)
            layer.bias.zero_()
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def _draw_normal(n: int, size: int, generator: torch.Generator) -> torch.Tensor:
    return torch.randn(n, size, generator=generator, device=generator.device)


def _reparameterize(mean: torch.Tensor, log_variance: torch.Tensor, normal: torch.Tensor) -> torch.Tensor:
    return mean + (0.5 * log_variance).exp() * normal


def _compute_squared_error(reconstruction: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return 0.5 * (reconstruction - x).square().sum(1)
