"""RAID: train the recommender so that the user vectors of all classes are one distribution (Feng et al., 2025).

Phase I learns to recommend and nothing else. In Phase II every step (ours: one of sixteen, counted sixteen times) adds

    eta / s * sum_i W2^2(P_i, P*);   user p of class i (Lemma 2): gradient (2 eta / s) sum_q T_i(p, q) (y_p - atom_q)

where P_i are the users of class i, P* the barycenter of the classes, renewed every `xi` passes, and T_i the coupling of
class i with it, renewed in every pass (class maps: with the barycenter). `s` is the median squared distance of two
users, so that `eta` does not depend on the unit of the vectors (user vectors twice as long, item vectors half as long,
and both gradients halve).

Of a batch, the B users stand for all n, and each counts n / B times (who is there twice, as one). So a step sees the
whole pull on average, as it sees the whole recommendation loss, and `eta` is what the one counts beside the other: it
means the same whatever the number of users in a step and of steps in a pass.

Departs, in `Raid`: fixed atoms pile the users up, cost much of the ranking and leave trees most of the leak, and a pull
towards where a user *was* supposed to go holds the user back from learning. So the places come from continuous class
maps, the pull is along the displacement (`pull="displacement"`: the place moves along with the user), and one full map
at the end takes what training left. With that map Phase I is all of training, unless a share of it is asked for: Phase
II goes on from the pass that was kept, and what it makes is released only where, mapped, it ranks the validation items
clearly better than what it started from. So it costs no more than `sliced` after training, as far as these items can
tell. `RaidPaper` is the literal one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import Penalty
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import Attribute
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.training.alignment import SEEDINGS, Alignment, Atoms, ClassMaps
from recveil.defenses.training.attribute_pull import Pull

__all__ = ["Raid", "RaidPaper"]

METHODS = (
    DefenseTraits(
        "raid",
        builder="Raid",
        place="training",
        undisclosed_users="take no penalty, and go through the label-free map at the end",
        search_space={
            "eta": Range(0.003, 0.3, log=True),
            "xi": Range(1, 8),
            "phase_one": Range(0.1, 0.6),
        },
        paper="Feng et al., RAID (2025), with continuous class maps",
    ),
    DefenseTraits(
        "raid-paper",
        builder="RaidPaper",
        place="training",
        undisclosed_users="take no penalty",
        search_space={
            "eta": Range(0.05, 10.0, log=True),
            "xi": Range(1, 8),
            "phase_one": Range(0.1, 0.6),
        },
        paper="Feng et al., RAID (2025)",
    ),
)

PULL_ALONG = "displacement"
STEP_INTERVAL = 16
"""Of so many steps the pull acts in one, and counts as often: on a GPU a step costs what its many small kernels take to
launch, whatever they do."""

CHOICES = {
    "alignment": ("atoms", "gaussian", "sliced"),
    "pull": (PULL_ALONG, "position"),
    "class_weighting": ("equal", "size"),
    "several": ("sum", "sequential"),
    "seeding": tuple(SEEDINGS),
}


@dataclass(frozen=True)
class Raid:
    """User vectors of all classes drawn together while the model learns, and one map at the end.

    `strength` scales the pull and the final map; 0 is nothing at all. `phase_one` is the share of the passes without a
    defense. Unless set, it ends when the model has been trained; in a loop of one's own, without validation items or
    without a whole map at the end, after a quarter. `class_weighting="equal"` counts every class the same, as the paper
    does, so users of a small class are pulled harder; `"size"` counts every user the same. `several="sequential"`
    protects one attribute after the other, each in its part of Phase II; `"sum"` all at once. `atoms`, `tau`,
    `epsilon`, `seeding` and `free_support` belong to `alignment="atoms"`; `tau` and `epsilon` are shares of the median
    squared distance, and atoms are drawn from each class by its share (`seeding="stratified"`) or far from each other
    (`"k-means++"`). `device` is where maps are computed; where the vectors are, unless set.

    Users whose attribute is unknown take no penalty; the final map carries them without a label.
    """

    strength: float = 1.0
    eta: float = 0.001
    phase_one: float | None = None
    xi: int = 4
    alignment: str = "sliced"
    pull: str = PULL_ALONG
    final_map: bool = True
    atoms: int = 512
    tau: float = 1.0
    epsilon: float = 0.05
    free_support: bool = False
    seeding: str = "stratified"
    class_weighting: str = "equal"
    several: str = "sum"
    device: str | None = None

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise UsageError(f"{name} must be one of {', '.join(known)}; got '{getattr(self, name)}'.")
        for name in ("eta", "tau"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0):
                raise UsageError(f"{name} must be a number that is not negative; got {getattr(self, name)}.")
        if not (math.isfinite(self.epsilon) and self.epsilon > 0):
            raise UsageError(f"epsilon must be above 0; got {self.epsilon}. Small values are slow; 0.05 is usual.")
        if not 0 <= self.strength <= 1:
            raise UsageError(f"strength must lie between 0 (nothing) and 1 (all of it); got {self.strength}.")
        if self.phase_one is not None and not 0 <= self.phase_one <= 1:
            raise UsageError(f"phase_one is a share of the passes, between 0 and 1; got {self.phase_one}.")
        if self.xi < 1 or self.atoms < 1:
            raise UsageError(f"xi and atoms must be at least 1; got {self.xi} and {self.atoms}.")

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """The penalty that protects these attributes in a training of so many passes."""
        if not targets:
            raise UsageError("RAID needs to know what to protect. Name at least one attribute, as in --target gender.")
        if epochs < 1:
            raise UsageError(f"epochs is {epochs}. It must be at least 1.")
        for target in targets:
            if target.is_numeric:
                raise DataError(
                    f"Attribute '{target.name}' is a number, and RAID aligns classes. Cut it into classes, as in "
                    f"--bins {target.name}=35,45."
                )
            known = int(target.known.sum())
            if self.alignment == "atoms" and self.atoms > known:
                raise UsageError(
                    f"{self.atoms} atoms were asked for, and only {known} users disclose '{target.name}'. Atoms are "
                    f"drawn among them: use atoms={known} or fewer."
                )
        return _RaidPenalty(self, targets, epochs, rng)


@dataclass(frozen=True)
class RaidPaper(Raid):
    """RAID as its paper has it: a barycenter on fixed atoms, and users pulled to where they are led, to the end.

    Departs: `eta` and `tau` are relative to the median squared distance (see `Raid`), and the barycenter is there from
    the first pass of Phase II (Algorithm 1 would have none before pass xi).
    """

    eta: float = 1.0
    alignment: str = "atoms"
    pull: str = "position"
    final_map: bool = False


class _RaidPenalty:
    """RAID in one training: counts the passes, and knows where each user should go."""

    needs_items = False

    def __init__(self, options: Raid, targets: Sequence[Attribute], epochs: int, rng: np.random.Generator) -> None:
        self.options, self.epochs = options, epochs
        self.step_interval = STEP_INTERVAL if options.pull == PULL_ALONG else 1  # the paper's: in every step
        share = 0.25 if options.phase_one is None else options.phase_one
        self.first = round(share * epochs)
        self.last_draws, draws = rng, rng.spawn(len(targets))  # whose own draws no spawning touches
        self.codes = np.stack([t.codes for t in targets], axis=1)
        every = [
            Pull(
                t,
                partial(_make_alignment, options, own),
                weighting=options.class_weighting,
                along=options.pull == PULL_ALONG,
            )
            for t, own in zip(targets, draws, strict=True)
        ]
        self.targets = [pull for pull in every if pull.n_classes > 1]
        self.active: list[Pull] = []
        self.passes = 0

    @property
    def covers_any_epoch(self) -> bool:
        """Whether any pass from now on may be kept: the map at the end hides the classes, whatever training left."""
        return self._whole_map and self.passes > self.first

    @property
    def waits_for_training(self) -> bool:
        """Whether Phase I may be all of training: the map at the end hides the classes, whatever training left."""
        return self._whole_map and self.options.phase_one is None

    @property
    def _whole_map(self) -> bool:
        return self.options.final_map and self.options.strength == 1

    def begin(self, epochs: int) -> None:
        """The recommender has learned: Phase II is now, and has so many passes."""
        self.first, self.epochs = self.passes, self.passes + epochs

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Before each pass: in Phase II, where the users should go from where they are."""
        self._check_table(user_vectors)
        since, self.passes = self.passes - self.first, self.passes + 1
        self.active = self._select_active(since) if since >= 0 and self.options.eta * self.options.strength > 0 else []
        for target in self.active:
            target.refresh_aim(user_vectors.detach(), renew=since % self.options.xi == 0)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The loss of these users, 0 in Phase I; items play no part."""
        if not self.active:
            return user_vectors.new_zeros(())
        times = torch.zeros(len(self.codes), device=users.device)
        once = times.index_add_(0, users, torch.ones_like(users, dtype=times.dtype))[users].reciprocal_()
        counts = once * (self.options.eta * self.options.strength * len(self.codes) / once.sum())
        first, *others = (target(users, user_vectors, counts) for target in self.active)
        return sum(others, first)

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """The table to release: with `final_map`, carried once more by `sliced`, all attributes together.

        The same table is always finished the same way, so that it can be judged before it is released.
        """
        self._check_table(user_vectors)
        if not (self.options.final_map and self.options.strength and self.targets):
            return user_vectors
        where = self.options.device or str(user_vectors.device)
        method = Sliced(strength=self.options.strength, device=where)
        moved = method(user_vectors.detach().cpu().numpy(), self.codes, rng=copy.deepcopy(self.last_draws))
        return torch.as_tensor(moved).to(user_vectors)

    def _select_active(self, since: int) -> list[Pull]:
        """Whose turn it is in this pass of Phase II."""
        if self.options.several == "sum" or not self.targets:
            return self.targets
        at = since * len(self.targets) // max(1, self.epochs - self.first)
        return [self.targets[min(at, len(self.targets) - 1)]]

    def _check_table(self, user_vectors: torch.Tensor) -> None:
        if len(user_vectors) != len(self.codes):
            raise DataError(
                f"The table has {len(user_vectors):,} users, and the attributes are of {len(self.codes):,}. "
                "Give the whole table, one row for each user."
            )


def _make_alignment(options: Raid, rng: np.random.Generator, codes: torch.Tensor) -> Alignment:
    if options.alignment == "atoms":
        return Atoms(
            codes, rng, options.atoms, options.tau, options.epsilon, options.free_support, seeding=options.seeding
        )
    return ClassMaps(codes, rng, options.alignment == "sliced", options.device)
