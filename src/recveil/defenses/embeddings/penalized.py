"""A defense made for training, applied to a table that is already trained ("PoT" in RAID's Table 5).

The vectors take gradient steps on the penalty plus a retention loss, and the penalty finishes the table. What the model
could have learned in place of what is taken away, it cannot learn any more: that is the point of the comparison.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from recveil.core import device as devices
from recveil.core.errors import DataError, TrainingError, UsageError, unknown_name
from recveil.core.progress import track_progress
from recveil.core.protocols import TrainingDefense
from recveil.core.random import make_torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table
from recveil.defenses.embeddings.transformers import EmbeddingTransformer
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.raid import RaidPaper

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

Loss = Callable[[torch.Tensor], torch.Tensor]


@dataclass
class Penalized(EmbeddingTransformer):
    """A defense made for training, on a table that is already trained.

    `epochs` passes of `steps` steps of Adam, of which the rate falls from `learning_rate` (in standard deviations of
    the table) to nothing; `batch_size` is the most users of one step. `weight` is that of the retention loss: `"l2"`,
    the mean squared distance to the start (in units of the variance), or `"utility"`, the loss handed over with the
    call. `strength` walks straight from nothing (0) to all of it (1). Only users of whom something is known are moved
    by the steps; what the penalty's own finish does to the others is its affair. Defenses that read item vectors cannot
    be used so.
    """

    defense: TrainingDefense
    epochs: int = 20
    steps: int = 25
    learning_rate: float = 0.03
    weight: float = 0.015
    retention: str = "l2"
    batch_size: int = 8192
    strength: float = 1.0

    def __post_init__(self) -> None:
        if self.retention not in RETENTION_LOSSES:
            raise unknown_name("retention", self.retention, RETENTION_LOSSES)
        for name, least in (("epochs", 1), ("steps", 1), ("batch_size", 2), ("weight", 0)):
            if not getattr(self, name) >= least:
                raise UsageError(f"{name} must be {least} or more; got {getattr(self, name):g}.")
        if not (math.isfinite(self.learning_rate) and self.learning_rate > 0):
            raise UsageError(f"learning_rate must be a positive number; got {self.learning_rate:g}.")
        if not 0 <= self.strength <= 1:
            raise UsageError(f"strength must lie between 0 (nothing) and 1 (all of it); got {self.strength:g}.")

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: Loss | None = None
    ) -> FloatArray:
        """The cloaked table; `utility` is used only if `retention` says so."""
        check_table(x, codes, self.strength)
        if self.retention == "utility" and utility is None:
            raise UsageError(
                "retention='utility' needs a utility loss, and none was given. Hand one over, or use 'l2'."
            )
        targets = [t for t in _wrap_columns(codes.reshape(len(x), -1)) if np.count_nonzero(t.counts) > 1]
        unit = float(np.sqrt(np.asarray(x, dtype=np.float64).var(0).sum()))
        if self.strength == 0 or not targets or unit == 0:
            return np.array(x, dtype=np.float32)
        start = torch.tensor(x, dtype=torch.float64, device=devices.resolve_device(self.device))
        moved = self._descend_penalty((start / unit).float(), targets, rng, self._make_retention(start, unit, utility))
        return ((1 - self.strength) * start + self.strength * unit * moved).to(torch.float32).cpu().numpy()

    def _make_retention(self, start: torch.Tensor, unit: float, utility: Loss | None) -> Loss:
        """The retention loss of users in units of the table's spread."""
        if self.retention == "utility" and utility is not None:
            return lambda users: utility(users * unit)
        home = (start / unit).float()
        return lambda users: (users - home).square().sum(1).mean()

    def _descend_penalty(
        self, table: torch.Tensor, targets: list[Attribute], rng: np.random.Generator, retention: Loss
    ) -> torch.Tensor:
        penalty = self.defense(targets, epochs=self.epochs, rng=rng)
        if penalty.needs_items:
            raise UsageError(f"{type(self.defense).__name__} reads item vectors, and a table alone has none.")
        n, d = table.shape
        free = torch.as_tensor(np.any([t.known for t in targets], axis=0), device=table.device)[:, None]
        # Adam takes full steps however small a gradient is: where nobody varies, rounding errors would set their way.
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
                raise TrainingError(
                    f"In pass {epoch + 1} the vectors are no longer numbers. Use a smaller learning_rate."
                )
        with torch.no_grad():
            return penalty.finish(users.detach()).double()


def _wrap_columns(codes: IntArray) -> list[Attribute]:
    """The columns of codes as attributes whose names nobody knows."""
    if (codes < UNDISCLOSED).any():
        raise DataError("Codes must be 0 or more, or -1 for unknown.")
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

    defense: TrainingDefense = field(default_factory=RaidPaper)
