"""A defense made for training, applied to a trained table ("PoT" in RAID's Table 5).

The vectors take gradient steps on the penalty plus a retention loss, and the penalty finishes the table. The model
cannot learn anything in place of what is removed; the comparison with training shows what that costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from recveil.core.device import resolve_device, use_one_thread
from recveil.core.errors import DataError, TrainingError, UsageError, unknown_name
from recveil.core.option_types import Count, NonNegativeFloat, PositiveFloat, Share, check_fields
from recveil.core.progress import track_progress
from recveil.core.protocols import TrainingDefense, UtilityLoss
from recveil.core.random import make_torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table
from recveil.defenses.embeddings.transformers import EmbeddingTransformer
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.raid import Raid

__all__ = ["AdversarialPoT", "Penalized", "RaidPoT"]

METHODS = (
    DefenseTraits(
        "adversarial-pot",
        builder="AdversarialPoT",
        for_comparison=True,
        search_space={"weight": Range(0.001, 1.0, log=True)},
        paper="Feng et al., RAID (2025), Table 5",
    ),
    DefenseTraits(
        "raid-pot",
        builder="RaidPoT",
        for_comparison=True,
        search_space={"weight": Range(0.001, 1.0, log=True)},
        paper="Feng et al., RAID (2025), Table 5",
    ),
)

RETENTION_LOSSES = ("l2", "utility")


@dataclass
class Penalized(EmbeddingTransformer):
    """A defense made for training, on a table that is already trained.

    The steps move only users who disclose an attribute; the `finish` of the penalty may move others too. Defenses that
    read item vectors cannot be used.

    Args:
        defense: the defense in training.
        epochs: epochs; the penalty is refreshed before each.
        steps: steps of Adam in each epoch.
        learning_rate: first step, in standard deviations of the table; it falls to zero in a straight line.
        weight: weight of the retention loss.
        retention: `l2`, the mean squared distance to the start in units of the variance, or `utility`, the loss of the
            call.
        batch_size: most users of one step.
        strength: share of the straight way from the start to the result.
        device: where tensors are computed.
        random_state: seed of `fit_transform`.
    """

    defense: TrainingDefense
    epochs: Count = 20
    steps: Count = 25
    learning_rate: PositiveFloat = 0.03
    weight: NonNegativeFloat = 0.015
    retention: str = "l2"
    batch_size: Annotated[Count, Field(ge=2)] = 8192
    strength: Share = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.retention not in RETENTION_LOSSES:
            raise unknown_name("retention", self.retention, RETENTION_LOSSES)

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `utility` is used only with `retention="utility"`."""
        check_table(x, codes, self.strength)
        if self.retention == "utility" and utility is None:
            raise UsageError("retention='utility' needs a utility loss, and none was given. Give utility, or use 'l2'.")
        targets = [t for t in _wrap_columns(codes.reshape(len(x), -1)) if np.count_nonzero(t.counts) > 1]
        unit = float(np.sqrt(np.asarray(x, dtype=np.float64).var(0).sum()))
        if self.strength == 0 or not targets or unit == 0:
            return np.array(x, dtype=np.float32)
        start = torch.tensor(x, dtype=torch.float64, device=resolve_device(self.device))
        moved = self._descend_penalty((start / unit).float(), targets, rng, self._make_retention(start, unit, utility))
        return ((1 - self.strength) * start + self.strength * unit * moved).to(torch.float32).cpu().numpy()

    def _make_retention(self, start: torch.Tensor, unit: float, utility: UtilityLoss | None) -> UtilityLoss:
        """Make the retention loss of users in units of the table's spread."""
        if self.retention == "utility" and utility is not None:
            return lambda users: utility(users * unit)
        home = (start / unit).float()
        return lambda users: (users - home).square().sum(1).mean()

    @use_one_thread()
    def _descend_penalty(
        self, table: torch.Tensor, targets: list[Attribute], rng: np.random.Generator, retention: UtilityLoss
    ) -> torch.Tensor:
        penalty = self.defense(targets, epochs=self.epochs, rng=rng)
        if penalty.needs_items:
            raise UsageError(f"{type(self.defense).__name__} reads item vectors, which a table alone does not have.")
        n, d = table.shape
        free = torch.as_tensor(np.any([t.known for t in targets], axis=0), device=table.device)[:, None]
        # Adam takes full steps however small a gradient is; in constant columns rounding errors would direct them.
        free = free & (table.std(0, correction=0) > 1e-6)
        draws, users = make_torch_generator(rng, table.device), table.clone().requires_grad_()
        adam = torch.optim.Adam([users], lr=self.learning_rate / d**0.5)
        for epoch in track_progress(range(self.epochs), f"cloaking ({type(self.defense).__name__})", self.epochs):
            adam.param_groups[0]["lr"] = self.learning_rate / d**0.5 * (1 - epoch / self.epochs)
            penalty.start_epoch(users.detach().clone())
            for _ in range(self.steps):
                rows = torch.randperm(n, generator=draws, device=table.device)[: self.batch_size]
                loss = penalty(rows, users[rows]) + self.weight * retention(users)
                (users.grad,) = torch.autograd.grad(loss, users)
                users.grad *= free
                adam.step()
            if not bool(torch.isfinite(users).all()):
                raise TrainingError(f"The vectors are not finite after epoch {epoch + 1}. Use a smaller learning_rate.")
        with torch.no_grad():
            return penalty.finish(users.detach()).double()


def _wrap_columns(codes: IntArray) -> list[Attribute]:
    """Wrap each column of codes in an attribute."""
    if (codes < UNDISCLOSED).any():
        raise DataError("Codes must be 0 or more, or -1 for undisclosed attributes.")
    return [
        Attribute(
            f"attribute {j}", np.ascontiguousarray(column, dtype=np.int64), tuple(map(str, range(column.max() + 1)))
        )
        for j, column in enumerate(codes.T)
    ]


@dataclass
class AdversarialPoT(Penalized):
    """Adversarial discriminators against a table that is already trained."""

    defense: TrainingDefense = field(default_factory=Adversarial)


@dataclass
class RaidPoT(Penalized):
    """RAID's pull to the barycenter of the classes, on a table that is already trained."""

    defense: TrainingDefense = field(default_factory=Raid)
