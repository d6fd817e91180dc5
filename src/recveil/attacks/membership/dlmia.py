"""DL-MIA: membership from disentangled and re-weighted difference vectors.

Wang et al., Debiasing Learning for Membership Inference Attacks Against Recommender Systems (KDD 2022). An encoder
(`vae`) turns the difference vectors of the shadow and of the target into features, and an attack predicts membership
from them; both are trained together. Then two steps alternate: train with a weight for each user, and estimate the
weights again (`truth_weights`).

The target has no labels here. Where the paper needs some, for the weights, they are the attack's own predictions; the
released code uses the true ones.

Departs: losses are means, not sums, so that steps do not depend on the number of users. An epoch omits a few users so
that all batches have one size. Inputs are standardized by all users of the fit. The features before re-weighting are
those of encoder and attack after the joint training: with shared parameters every score would be 1. Latent sizes and
the width of the decoder are those of the released code (50, 50, 100), which the paper does not state; nor does it state
the batch size, 4 in that code and 512 here. `kl_weight` is the paper's 1; the released code has 1e-3 (Gaussian) and
1e-4 (vMF).

Limit: it sees what difference vectors show. Where the serving rule differs between members and non-members, it finds
that rule; the simple rules must run beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar, Self, cast

import numpy as np
import torch
from pydantic import Field
from torch.nn import functional

from recveil.attacks.membership.cuda_graph import GraphedStep
from recveil.attacks.membership.difference_vectors import compute_difference_vectors
from recveil.attacks.membership.truth_weights import compute_sample_weights, compute_truth_scores, draw_first_scores
from recveil.attacks.membership.vae import DualVAE, GaussianVAE, build_perceptron, compute_critic_loss
from recveil.core.device import resolve_device
from recveil.core.errors import DataError, TrainingError, UsageError, unknown_name
from recveil.core.option_types import Count, CountOrZero, NonNegativeFloat, PositiveFloat, Rate, Width, check_fields
from recveil.core.progress import track_progress
from recveil.core.random import make_torch_generator
from recveil.core.traits import MembershipAttackTraits
from recveil.core.types import BoolArray, FloatArray, Shadow, Watched

__all__ = ["DLMIA", "METHODS", "UserFeatures"]

METHODS = (
    MembershipAttackTraits(
        "dlmia",
        builder="DLMIA",
        paper="Wang et al., Debiasing Learning for Membership Inference Attacks Against Recommender Systems (KDD 2022)",
    ),
)

ENCODERS = ("dual", "beta-vae", "factor-vae")
ATTACK_LAYERS = (32, 8)
"""Hidden layers of the attack."""

BETA_VAE_WEIGHT = 4.0
"""Weight of beta-VAE's divergence."""

FACTOR_VAE_WEIGHT = 10.0
"""Weight of FactorVAE's total correlation."""

CRITIC_LEARNING_RATE = 1e-4

LEAK_RATE = 1e-3
"""Learning rate of the one optimizer with which the released code trains everything in its joint stage."""


@dataclass(frozen=True, eq=False)
class UserFeatures:
    """Features of each user: `invariant` (n, q) and `specific` (n, r).

    Encoders with one latent have no specific features (r = 0).
    """

    invariant: FloatArray
    specific: FloatArray


@dataclass
class DLMIA:
    """Network on disentangled and re-weighted difference vectors.

    `fit` with a reference that is then scored is the transductive attack of the paper; with another part of the target,
    or none, the inductive one. The score is the log-odds of membership.

    Args:
        encoder: `"dual"` (the paper), `"beta-vae"` or `"factor-vae"`.
        reweight: alternate training and re-weighting after the joint training.
        invariant: size of the invariant latent.
        specific: size of the specific latent.
        hidden: width of the decoder.
        kl_weight: weight of the divergences.
        pretrain: epochs of the joint training.
        alternate: epochs with weights.
        every: epochs between two estimates of the weights.
        batch_size: users in a batch.
        encoder_rate: learning rate of the encoder.
        attack_rate: learning rate of the attack.
        momentum: momentum of the attack's optimizer.
        rank_weights: give the first items of a list the largest weight.
        device: device to train on; None chooses one.
    """

    encoder: str = "dual"
    reweight: bool = True
    invariant: Width = 50
    specific: Annotated[Width, Field(ge=2)] = 50
    hidden: Width = 100
    kl_weight: NonNegativeFloat = 1.0
    pretrain: Count = 200
    alternate: CountOrZero = 100
    every: Count = 10
    batch_size: Count = 512
    encoder_rate: PositiveFloat = 1e-3
    attack_rate: PositiveFloat = 0.01
    momentum: Rate = 0.7
    rank_weights: bool = False
    device: str | None = None

    threshold: ClassVar[float | None] = None
    fitted_: FittedDLMIA | None = field(default=None, init=False, repr=False, compare=False)
    leaked_: BoolArray | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self)
        if self.encoder not in ENCODERS:
            raise unknown_name("encoder", self.encoder, ENCODERS)

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """Train on the shadow worlds and, if given, on the reference users."""
        if not shadows:
            raise UsageError("No shadow world was given. DL-MIA learns from at least one whose members are known.")
        member = np.concatenate([np.asarray(shadow.member, dtype=bool) for shadow in shadows])
        if member.all() or not member.any():
            raise DataError(f"All {len(member)} shadow users are {'' if member.all() else 'non-'}members: need both.")
        shadow_vectors = [self._compute_vectors(shadow.watched) for shadow in shadows]
        if len(member) != (n := sum(map(len, shadow_vectors))):
            raise DataError(f"Membership is known of {len(member)} shadow users, but {n} are seen: need one for each.")
        target_vectors = [] if reference is None else [self._compute_vectors(reference)]
        widths = {x.shape[1] for x in (*shadow_vectors, *target_vectors)}
        if len(widths) > 1:
            raise DataError(f"Item vectors of {sorted(widths)} dimensions were given: all worlds need the same.")
        table = np.concatenate([*shadow_vectors, *target_vectors])
        if self.leaked_ is not None and len(self.leaked_) != len(table) - len(member):
            raise DataError("The leaked labels are not one for each user of the reference.")
        self.fitted_ = train_dlmia(self, table, member, rng=rng, device=resolve_device(self.device))
        return self

    def commit_comparison(self, truth: BoolArray) -> Self:
        """Return a copy that makes the mistake of the released code with the true members of the reference.

        There the pseudo-labels of the target are compared with its true labels in place, so each becomes "was right",
        and the attack is trained on that. For a demonstration only.
        """
        copy = replace(self)
        copy.leaked_ = np.asarray(truth, dtype=bool)
        return copy

    def score(self, target: Watched) -> FloatArray:
        """Return the log-odds of membership of each user; nothing is drawn."""
        return self._require_fit().compute_scores(self._compute_vectors(target))

    def compute_features(self, target: Watched) -> UserFeatures:
        """Compute the expected invariant and specific features of each user."""
        return self._require_fit().compute_features(self._compute_vectors(target))

    def _compute_vectors(self, watched: Watched) -> FloatArray:
        return compute_difference_vectors(watched, rank_weights=self.rank_weights)

    def _require_fit(self) -> FittedDLMIA:
        if self.fitted_ is None:
            raise UsageError("This attack has not been trained. Call fit first.")
        return self.fitted_


@dataclass(frozen=True, eq=False)
class FittedDLMIA:
    """A trained encoder and attack, with the units of their inputs.

    `weights` are the final weights of the users, the shadow's first.
    """

    mean: torch.Tensor
    spread: torch.Tensor
    vae: DualVAE | GaussianVAE
    attack: torch.nn.Module
    weights: FloatArray

    def standardize(self, x: FloatArray) -> torch.Tensor:
        """Return the vectors in the units of the fit."""
        if x.shape[1] != len(self.mean):
            raise DataError(f"Vectors of {x.shape[1]} dimensions were given, but the fit had {len(self.mean)}.")
        return (torch.tensor(x, dtype=torch.float32, device=self.mean.device) - self.mean) / self.spread

    @torch.no_grad()
    def compute_scores(self, x: FloatArray) -> FloatArray:
        """Compute the log-odds of membership of each row."""
        logits = self.attack(torch.cat(self.vae.compute_means(self.standardize(x)), 1))
        return cast(FloatArray, (logits[:, 1] - logits[:, 0]).cpu().numpy())

    @torch.no_grad()
    def compute_features(self, x: FloatArray) -> UserFeatures:
        """Compute the expected features of each row."""
        invariant, specific = self.vae.compute_means(self.standardize(x))
        return UserFeatures(invariant.cpu().numpy(), specific.cpu().numpy())


def train_dlmia(
    options: DLMIA, x: FloatArray, member: BoolArray, *, rng: np.random.Generator, device: torch.device
) -> FittedDLMIA:
    """Train both stages on the difference vectors of shadow and target.

    Args:
        options: options of the attack.
        x: difference vectors, those of the shadow users first.
        member: membership of the shadow users.
        rng: source of randomness.
        device: device to train on.

    Raises:
        TrainingError: the scores are not finite.
    """
    mean, spread = x.mean(0), x.std(0)
    flat = spread <= 1e-6 * np.abs(mean)  # a constant column would blow up rounding errors
    spread = np.where(flat, np.inf, spread)
    table = torch.tensor((x - mean) / spread, dtype=torch.float32, device=device)
    training = DLMIATraining(options, table, torch.tensor(member, device=device), make_torch_generator(rng, device))
    for _ in track_progress(range(options.pretrain), "attacking: DL-MIA, encoder and attack", options.pretrain):
        training.run_epoch()
    if options.reweight:
        training.alternate_weights(options.alternate, options.every)
    if not bool(torch.isfinite(training.compute_logits()).all()):
        raise TrainingError("The training of DL-MIA diverged: its scores are not finite. Lower its learning rates.")
    units = [torch.tensor(unit, dtype=torch.float32, device=device) for unit in (mean, spread)]
    return FittedDLMIA(units[0], units[1], training.vae, training.attack, training.weights.cpu().numpy())


class DLMIATraining:
    """Encoder, attack and their optimizers in training on one table.

    The first rows are the shadow's, with labels.
    """

    def __init__(self, options: DLMIA, x: torch.Tensor, member: torch.Tensor, generator: torch.Generator) -> None:
        self.x, self.generator = x, generator
        self.batches = -(-len(x) // options.batch_size)
        self.labelled = torch.arange(len(x), device=x.device) < len(member)
        self.y = functional.pad(member.long(), (0, len(x) - len(member)))  # the padding is never read
        self.leaks = options.leaked_ is not None
        if options.leaked_ is not None:
            self.y[len(member) :] = torch.as_tensor(options.leaked_, device=x.device).long()
        self.weights = torch.ones(len(x), device=x.device)
        self.vae = _build_vae(options, x.shape[1], generator)
        self.attack = build_perceptron((options.invariant + options.specific, *ATTACK_LAYERS, 2), generator)
        encoding = [*self.vae.heads.parameters(), *self.vae.decoder.parameters()]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Adam(encoding, lr=options.encoder_rate, fused=True),
            torch.optim.SGD(self.attack.parameters(), lr=options.attack_rate, momentum=options.momentum, fused=True),
        ]
        critics = [] if self.vae.critic is None else [self.vae.critic]
        self.critic_optimizers = [
            torch.optim.Adam(critic.parameters(), lr=CRITIC_LEARNING_RATE, betas=(0.5, 0.9), fused=True)
            for critic in critics
        ]
        self.step = GraphedStep(self._run_step, [*self.optimizers, *self.critic_optimizers])

    def run_epoch(self) -> None:
        """Run one epoch in random order and in batches of one size.

        That omits fewer users than there are batches.
        """
        size = len(self.x) // self.batches
        order = torch.randperm(len(self.x), generator=self.generator, device=self.x.device)[: size * self.batches]
        table = [t[order] for t in (self.x, self.y, self.labelled.float(), self.weights)]
        noise = self.vae.draw_noise(len(order), self.generator)
        for part in zip(*(torch.split(t, size) for t in (*table, *noise)), strict=True):
            self.step(*part)

    def _run_step(
        self, x: torch.Tensor, y: torch.Tensor, labelled: torch.Tensor, weight: torch.Tensor, *noise: torch.Tensor
    ) -> None:
        encoded = self.vae(x, noise)
        error = functional.cross_entropy(self.attack(encoded.features), y, reduction="none")
        attack_loss = (weight * labelled * error).sum() / labelled.sum().clamp(min=1)
        _take_step(attack_loss + (weight * encoded.loss).mean(), *self.optimizers)
        if self.vae.critic is not None:
            _take_step(compute_critic_loss(self.vae.critic, encoded.features, noise[-1]), *self.critic_optimizers)

    def _run_leaking_step(
        self, x: torch.Tensor, y: torch.Tensor, labelled: torch.Tensor, weight: torch.Tensor, *noise: torch.Tensor
    ) -> None:
        """Train on the target too, its labels "the prediction is right": members stay, others go to the boundary."""
        encoded = self.vae(x, noise)
        logits = self.attack(encoded.features)
        was_right = (logits.detach().argmax(1) == y).long()
        error = functional.cross_entropy(logits, torch.where(labelled > 0, y, was_right), reduction="none")
        parts = [(weight * part * error).sum() / part.sum().clamp(min=1) for part in (labelled, 1 - labelled)]
        _take_step((parts[0] + parts[1]) / 2 + (weight * encoded.loss).mean(), *self.optimizers)

    def _begin_leak(self) -> None:
        """Train encoder and attack by one optimizer from now on, as the released code does in its joint stage."""
        networks = (self.vae.heads, self.vae.decoder, self.attack)
        everything = [weight for network in networks for weight in network.parameters()]
        self.optimizers = [torch.optim.Adam(everything, lr=LEAK_RATE, fused=True)]
        self.step = GraphedStep(self._run_leaking_step, self.optimizers)

    def alternate_weights(self, epochs: int, every: int) -> None:
        """Alternate between training with weights and estimating the weights again."""
        if self.leaks:
            self._begin_leak()
        before = self.compute_logits()  # the disentangled features are needed for these logits alone
        scores = draw_first_scores(len(self.x), self.generator)
        for done in track_progress(range(0, epochs, every), "attacking: DL-MIA, re-weighting", -(-epochs // every)):
            self.weights = compute_sample_weights(scores, self.labelled)
            for _ in range(min(every, epochs - done)):
                self.run_epoch()
            after = self.compute_logits()
            labels = torch.where(self.labelled, self.y, after.argmax(1))
            errors = [functional.cross_entropy(logits, labels, reduction="none") for logits in (after, before)]
            scores = compute_truth_scores(*errors)

    @torch.no_grad()
    def compute_logits(self) -> torch.Tensor:
        """Compute the present logits of every user; nothing is drawn."""
        return cast(torch.Tensor, self.attack(torch.cat(self.vae.compute_means(self.x), 1)))


def _build_vae(options: DLMIA, d: int, generator: torch.Generator) -> DualVAE | GaussianVAE:
    if options.encoder == "dual":
        sizes = options.invariant, options.specific, options.hidden
        return DualVAE(d, *sizes, kl_weight=options.kl_weight, generator=generator)
    latent = options.invariant + options.specific
    beta, gamma = (BETA_VAE_WEIGHT, 0.0) if options.encoder == "beta-vae" else (1.0, FACTOR_VAE_WEIGHT)
    weight = options.kl_weight
    return GaussianVAE(d, latent, options.hidden, beta=beta * weight, gamma=gamma * weight, generator=generator)


def _take_step(loss: torch.Tensor, *optimizers: torch.optim.Optimizer) -> None:
    for optimizer in optimizers:
        optimizer.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    for optimizer in optimizers:
        optimizer.step()
