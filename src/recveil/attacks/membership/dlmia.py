"""DL-MIA: membership from difference vectors, with what differs between shadow and target taken apart.

Wang et al., Debiasing Learning for Membership Inference Attacks Against Recommender Systems (KDD 2022). An encoder
(`vae`) turns the difference vectors of the shadow and of the target into features, an attack reads membership off
them; both are trained together. Then in turns: train with a weight for each user (`weights`), fit the weights anew.

The target has no labels here. Where the paper needs some, for the weights, they are the attack's own guesses; the
released code lets the true ones in.

Departs: losses are means, not sums, so that steps do not depend on the number of users. A pass leaves out a few users
so that batches are of one size. Inputs are standardized by all users of the fit. The features before re-weighting are
those of encoder and attack as they were after the joint training: with shared parameters every score would be 1.
Latent sizes and the width of the decoder are those of the released code (50, 50, 100), which the paper does not state;
nor does it state the batch, 4 in that code and 512 here. `kl_weight` is the paper's 1; the released code has 1e-3
(Gaussian) and 1e-4 (vMF).

Limit: it sees what difference vectors show. Where the serving rule differs between members and others, it finds that
rule; the trivial rules must stand beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from recveil.attacks.membership.cuda_graph import GraphedStep
from recveil.attacks.membership.difference_vectors import compute_difference_vectors
from recveil.attacks.membership.truth_weights import compute_sample_weights, compute_truth_scores, draw_first_scores
from recveil.attacks.membership.vae import DualVAE, GaussianVAE, build_perceptron, compute_critic_loss
from recveil.core import device as devices
from recveil.core.errors import DataError, TrainingError, UsageError, unknown_name
from recveil.core.progress import track
from recveil.core.random import torch_generator
from recveil.core.types import FloatArray, Shadow, Watched

__all__ = ["DLMIA", "UserFeatures"]

ENCODERS = ("dual", "beta-vae", "factor-vae")
ATTACK_LAYERS = (32, 8)
"""Of the attack."""

BETA_VAE_WEIGHT = 4.0
"""The weight of beta-VAE's divergence."""

FACTOR_VAE_WEIGHT = 10.0
"""The weight of FactorVAE's total correlation."""

CRITIC_LEARNING_RATE = 1e-4


@dataclass(frozen=True, eq=False)
class UserFeatures:
    """What the encoder makes of each user: `invariant` (n, q) and `specific` (n, r; no columns for one latent)."""

    invariant: FloatArray
    specific: FloatArray


@dataclass(frozen=True)
class DLMIA:
    """DL-MIA: disentangle, re-weight, attack.

    `encoder` is `"dual"` (the paper), `"beta-vae"` or `"factor-vae"`; without `reweight` only the joint training of
    `pretrain` passes is done, else `alternate` more, with new weights after every `every`. `fit` with a reference that
    is then scored is the transductive attack of the paper; with another part of the target, or none, the inductive one.
    """

    encoder: str = "dual"
    reweight: bool = True
    invariant: int = 50
    specific: int = 50
    hidden: int = 100
    kl_weight: float = 1.0
    pretrain: int = 200
    alternate: int = 100
    every: int = 10
    batch_size: int = 512
    encoder_rate: float = 1e-3
    attack_rate: float = 0.01
    momentum: float = 0.7
    rank_weights: bool = False
    device: str | None = None
    fitted: FittedDLMIA | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise unknown_name("encoder", self.encoder, ENCODERS)
        least = {"invariant": 1, "specific": 2, "hidden": 1, "pretrain": 1, "alternate": 0, "every": 1, "batch_size": 1}
        for name, lowest in least.items():
            if getattr(self, name) < lowest:
                raise UsageError(f"{name} must be {lowest} or more; got {getattr(self, name)}.")
        for name in ("encoder_rate", "attack_rate"):
            if not 0 < getattr(self, name) < np.inf:
                raise UsageError(f"{name} must be a positive number; got {getattr(self, name):g}.")
        if not 0 <= self.momentum < 1:
            raise UsageError(f"momentum must be at least 0 and below 1; got {self.momentum:g}.")
        if not 0 <= self.kl_weight < np.inf:
            raise UsageError(f"kl_weight must be zero or more; got {self.kl_weight:g}.")

    def fit(self, shadows: Sequence[Shadow], *, reference: Watched | None = None, rng: np.random.Generator) -> Self:
        """The attack, trained on the shadow worlds and on what is seen of the target, where that is given."""
        if not shadows:
            raise UsageError("No shadow world was given. DL-MIA learns from at least one whose members are known.")
        member = np.concatenate([np.asarray(shadow.member, dtype=bool) for shadow in shadows])
        if member.all() or not member.any():
            raise DataError(f"All {len(member)} shadow users are {'' if member.all() else 'non-'}members: need both.")
        known = [self._compute_vectors(shadow.watched) for shadow in shadows]
        if len(member) != (n := sum(map(len, known))):
            raise DataError(f"{len(member)} users are known as members or not, but {n} are seen: need one for each.")
        seen = [] if reference is None else [self._compute_vectors(reference)]
        widths = {x.shape[1] for x in (*known, *seen)}
        if len(widths) > 1:
            raise DataError(f"Item vectors of {sorted(widths)} dimensions were given: all worlds need the same.")
        table = np.concatenate([*known, *seen])
        return replace(self, fitted=train_dlmia(self, table, member, rng=rng, where=devices.resolve(self.device)))

    def score(self, target: Watched) -> FloatArray:
        """How likely each user is a member, as log-odds; nothing is drawn."""
        fitted = self._require_fit()
        return fitted.scores(self._compute_vectors(target))

    def features(self, target: Watched) -> UserFeatures:
        """The invariant and specific features of each user, as expected by the encoder."""
        return self._require_fit().features(self._compute_vectors(target))

    def _compute_vectors(self, watched: Watched) -> FloatArray:
        return compute_difference_vectors(watched, rank_weights=self.rank_weights)

    def _require_fit(self) -> FittedDLMIA:
        if self.fitted is None:
            raise UsageError("This DL-MIA has not been trained. Use what its fit(...) hands back.")
        return self.fitted


@dataclass(frozen=True, eq=False)
class FittedDLMIA:
    """A trained encoder and attack, and how inputs are standardized."""

    mean: torch.Tensor
    spread: torch.Tensor
    vae: DualVAE | GaussianVAE
    attack: torch.nn.Module
    weights: FloatArray
    """What each user of the fit counted in the end, the shadow's first."""

    def standardized(self, x: FloatArray) -> torch.Tensor:
        """The vectors in the units of the fit."""
        if x.shape[1] != len(self.mean):
            raise DataError(f"Vectors of {x.shape[1]} dimensions were given, but the fit had {len(self.mean)}.")
        return (torch.tensor(x, dtype=torch.float32, device=self.mean.device) - self.mean) / self.spread

    @torch.no_grad()
    def scores(self, x: FloatArray) -> FloatArray:
        """Log-odds of membership of each row."""
        logits = self.attack(torch.cat(self.vae.means(self.standardized(x)), 1))
        return cast(FloatArray, (logits[:, 1] - logits[:, 0]).cpu().numpy())

    @torch.no_grad()
    def features(self, x: FloatArray) -> UserFeatures:
        """Expected features of each row."""
        invariant, specific = self.vae.means(self.standardized(x))
        return UserFeatures(invariant.cpu().numpy(), specific.cpu().numpy())


def train_dlmia(
    options: DLMIA, x: FloatArray, member: NDArray[np.bool_], *, rng: np.random.Generator, where: torch.device
) -> FittedDLMIA:
    """Both stages, on the difference vectors of the shadow users, of whom `member` is known, and then the target's."""
    mean, spread = x.mean(0), x.std(0)
    flat = spread <= 1e-6 * np.abs(mean)  # nobody varies: rounding errors would be blown up
    spread = np.where(flat, np.inf, spread)
    table = torch.tensor((x - mean) / spread, dtype=torch.float32, device=where)
    training = DLMIATraining(options, table, torch.tensor(member, device=where), torch_generator(rng, where))
    for _ in track(range(options.pretrain), "attacking: DL-MIA, encoder and attack", options.pretrain):
        training.epoch()
    if options.reweight:
        training.alternate(options.alternate, options.every)
    if not bool(torch.isfinite(training.logits()).all()):
        raise TrainingError("The training of DL-MIA ran away: its scores are no numbers. Lower its learning rates.")
    units = [torch.tensor(u, dtype=torch.float32, device=where) for u in (mean, spread)]
    return FittedDLMIA(units[0], units[1], training.vae, training.attack, training.weights.cpu().numpy())


class DLMIATraining:
    """Encoder, attack and their optimizers at work on one table; the first rows are the shadow's, with labels."""

    def __init__(self, options: DLMIA, x: torch.Tensor, member: torch.Tensor, generator: torch.Generator) -> None:
        self.x, self.generator = x, generator
        self.batches = -(-len(x) // options.batch_size)
        self.labelled = torch.arange(len(x), device=x.device) < len(member)
        self.y = functional.pad(member.long(), (0, len(x) - len(member)))  # what is filled in is never looked at
        self.weights = torch.ones(len(x), device=x.device)
        self.vae = _build_vae(options, x.shape[1], generator)
        self.attack = build_perceptron((options.invariant + options.specific, *ATTACK_LAYERS, 2), generator)
        encoding = [*self.vae.heads.parameters(), *self.vae.decoder.parameters()]
        self.optimizers: list[torch.optim.Optimizer] = [
            torch.optim.Adam(encoding, lr=options.encoder_rate, fused=True),
            torch.optim.SGD(self.attack.parameters(), lr=options.attack_rate, momentum=options.momentum, fused=True),
        ]
        critics = [] if self.vae.critic is None else [self.vae.critic]
        self.judging = [
            torch.optim.Adam(critic.parameters(), lr=CRITIC_LEARNING_RATE, betas=(0.5, 0.9), fused=True)
            for critic in critics
        ]
        self.step = GraphedStep(self._step, [*self.optimizers, *self.judging])

    def epoch(self) -> None:
        """One pass over all users in random order, in batches of one size: fewer users than batches are left out."""
        size = len(self.x) // self.batches
        order = torch.randperm(len(self.x), generator=self.generator, device=self.x.device)[: size * self.batches]
        table = [t[order] for t in (self.x, self.y, self.labelled.float(), self.weights)]
        noise = self.vae.noise(len(order), self.generator)
        for part in zip(*(torch.split(t, size) for t in (*table, *noise)), strict=True):
            self.step(*part)

    def _step(
        self, x: torch.Tensor, y: torch.Tensor, labelled: torch.Tensor, weight: torch.Tensor, *noise: torch.Tensor
    ) -> None:
        encoded = self.vae(x, noise)
        error = functional.cross_entropy(self.attack(encoded.features), y, reduction="none")
        guessing = (weight * labelled * error).sum() / labelled.sum().clamp(min=1)
        _take_step(guessing + (weight * encoded.loss).mean(), *self.optimizers)
        if self.vae.critic is not None:
            _take_step(compute_critic_loss(self.vae.critic, encoded.features, noise[-1]), *self.judging)

    def alternate(self, epochs: int, every: int) -> None:
        """Train with weights and fit the weights anew, in turns."""
        before = self.logits()  # of the copy that stays as it is: all that is asked of it
        scores = draw_first_scores(len(self.x), self.generator)
        for done in track(range(0, epochs, every), "attacking: DL-MIA, re-weighting", -(-epochs // every)):
            self.weights = compute_sample_weights(scores, self.labelled)
            for _ in range(min(every, epochs - done)):
                self.epoch()
            after = self.logits()
            believed = torch.where(self.labelled, self.y, after.argmax(1))
            errors = [functional.cross_entropy(logits, believed, reduction="none") for logits in (after, before)]
            scores = compute_truth_scores(*errors)

    @torch.no_grad()
    def logits(self) -> torch.Tensor:
        """What the attack now says of every user, nothing being drawn."""
        return cast(torch.Tensor, self.attack(torch.cat(self.vae.means(self.x), 1)))


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
