"""U2U and D2D in training: the losses of `defenses.embeddings.au_pot` beside the recommendation loss.

Li et al. (ACM MM 2023) act after training; RAID's Table 5 asks what the same losses do in training, where the
recommendation loss takes the place of the retention loss.

Departs: the losses are those of one batch of users, scaled to a total variance of one. So the unit of the vectors does
not matter, and nothing is gained by shrinking the whole table, which U2U would do without limit. D2D takes some users
of a large batch, since its time is quadratic in them.

Limit: **U2U injects the label**, in training as after it: one class is pulled into the middle of another, and attackers
that are not linear recognize it by its density.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch
from pydantic import Field

from recveil.core.option_types import Count, NonNegativeFloat, Share
from recveil.core.protocols import Penalty
from recveil.core.random import make_torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.embeddings.au_pot import Objective, compute_pair_distance, mmd
from recveil.defenses.training.option_checks import (
    check_rows,
    check_targets,
    check_training_options,
    make_early_call_error,
)
from recveil.defenses.training.penalties import NoPenalty, PlainPenalty

__all__ = ["D2DInT", "U2UInT"]

METHODS = (
    DefenseTraits(
        "u2u-int",
        builder="U2UInT",
        place="training",
        undisclosed_users="take no penalty",
        search_space={"weight": Range(0.01, 10.0, log=True)},
        paper="Li et al., Making Users Indistinguishable (ACM MM 2023), in training",
    ),
    DefenseTraits(
        "d2d-int",
        builder="D2DInT",
        place="training",
        undisclosed_users="take no penalty",
        search_space={"weight": Range(0.01, 10.0, log=True)},
        paper="Li et al., Making Users Indistinguishable (ACM MM 2023), in training",
    ),
)


@dataclass(frozen=True)
class U2UInT:
    """User-to-user unlearning in training: users of different classes are pulled together. Injects the label for trees.

    Undisclosed users take no penalty.

    Args:
        weight: weight of the loss, in units of the recommendation loss.
        users: most users of one step.
        strength: factor of `weight`, from 0 to 1.
        device: where the loss is computed; where the vectors are by default.
    """

    injects: ClassVar[bool] = True
    """Attackers that are not linear may find more than before; the audit shows it."""

    weight: NonNegativeFloat = 0.1
    users: Annotated[Count, Field(ge=2)] = 8192
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_training_options(self)

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty for these attributes; `epochs` is not used."""
        return _make_penalty(self, compute_pair_distance, targets, rng)


@dataclass(frozen=True)
class D2DInT:
    """Distribution-to-distribution unlearning in training: class distributions are pulled together by their MMD.

    An attribute whose unbiased MMD is zero or less pulls no more. The options are those of `U2UInT`.
    """

    weight: NonNegativeFloat = 0.3
    users: Annotated[Count, Field(ge=2)] = 1024
    strength: Share = 1.0
    device: str | None = None

    def __post_init__(self) -> None:
        check_training_options(self)

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty for these attributes; `epochs` is not used."""
        return _make_penalty(self, mmd, targets, rng)


def _make_penalty(
    options: U2UInT | D2DInT, objective: Objective, targets: Sequence[Attribute], rng: np.random.Generator
) -> Penalty:
    n_users = check_targets(targets, numbers=False)
    codes = np.array([t.codes for t in targets if np.count_nonzero(t.counts) > 1]).reshape(-1, n_users)
    return _Unlearning(options, objective, codes, rng) if options.strength > 0 and len(codes) else NoPenalty()


class _Unlearning(PlainPenalty):
    """Loss of the classes of a batch, with a gradient in closed form."""

    def __init__(
        self, options: U2UInT | D2DInT, objective: Objective, codes: np.ndarray, rng: np.random.Generator
    ) -> None:
        self.options, self.objective = options, objective
        self.codes = torch.as_tensor(codes)  # (n_attributes, n_users)
        (self.rng,) = rng.spawn(1)
        self.generator: torch.Generator | None = None

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Check that the table is of the right users, and find its device."""
        check_rows(user_vectors, self.codes.shape[1])
        if self.generator is None:
            device = user_vectors.device if self.options.device is None else torch.device(self.options.device)
            self.generator, self.codes = make_torch_generator(self.rng, device), self.codes.to(device)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the loss of these users, or of a sample of them."""
        if self.generator is None:
            raise make_early_call_error()
        order = torch.randperm(len(users), generator=self.generator, device=self.generator.device)
        sample = order[: self.options.users]
        x = user_vectors.to(self.generator.device, torch.float32)[sample]
        losses = [_compute_loss(self.objective, x, codes[users.to(codes.device)[sample]]) for codes in self.codes]
        # The sum and not the mean: one more attribute takes nothing from the others.
        return (self.options.strength * self.options.weight * torch.stack(losses).sum()).to(user_vectors)


def _compute_loss(objective: Objective, vectors: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    """Compute the objective of the classes in the batch as a differentiable number."""
    zero = vectors.new_zeros(())
    known = codes != UNDISCLOSED
    present = torch.unique(codes[known])
    if len(present) < 2 or not (variance := vectors[known].var(0, correction=0).sum()) > 0:
        return zero
    x = vectors / variance.sqrt()
    now = x.detach()
    value, gradient = objective(now, [(codes == k).nonzero()[:, 0] for k in present])
    # Below zero the classes are more alike than two samples of one distribution.
    return value + (gradient * (x - now)).sum() if value > 0 else zero
