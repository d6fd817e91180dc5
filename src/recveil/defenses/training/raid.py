"""RAID: train the recommender so that the user vectors of all classes are one distribution (Feng et al., 2025).

Phase I learns to recommend and nothing else. In Phase II every step (ours: one of sixteen, counted sixteen times) adds

    eta / s * sum_i W2^2(P_i, P*);   user p of class i (Lemma 2): gradient (2 eta / s) sum_q T_i(p, q) (y_p - atom_q)

where P_i are the users of class i, P* the barycenter of the classes, renewed every `xi` epochs, and T_i the coupling of
class i with it, renewed in every epoch (class maps: with the barycenter). `s` is the median squared distance of two
users, so that `eta` does not depend on the unit of the vectors: with user vectors twice as long and item vectors half
as long, both gradients halve.

The B users of a batch stand for all n users, and each counts n / B times; a repeated user counts as one. So a step sees
the whole pull on average, as it sees the whole recommendation loss, and `eta` is the weight of one beside the other,
whatever the number of users in a step and of steps in an epoch.

Departs, in `Raid`: with fixed atoms users gather in few places, much of the ranking is lost and trees keep most of the
leak; and a pull towards where a user *was* supposed to go holds the user back from learning. So the places come from
continuous class maps, the pull is along the displacement (`pull="displacement"`: the place moves along with the user),
and one full map at the end removes what training left. With that map Phase I is all of training, unless `phase_one` is
given: Phase II goes on from the epoch that was kept, and its result is released only if, mapped, it ranks the
validation items clearly better than the model it started from. So RAID costs no more than `sliced` after training, as
far as these items show. `RaidPaper` is the literal method.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import Count, NonNegativeFloat, PositiveFloat, Share, check_fields
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
"""Value of the option `pull` with which a place moves along with its user."""

STEP_INTERVAL = 16
"""The pull acts in one of so many steps and counts as often, because on a GPU launching its many small kernels is what
a step costs."""

CHOICES = {
    "alignment": ("atoms", "gaussian", "sliced"),
    "pull": (PULL_ALONG, "position"),
    "class_weighting": ("equal", "size"),
    "several": ("sum", "sequential"),
    "seeding": tuple(SEEDINGS),
}


@dataclass(frozen=True)
class Raid:
    """RAID with continuous class maps: user vectors are drawn together in training, and mapped at the end.

    Undisclosed users take no penalty; the final map carries them without a label.

    Args:
        strength: factor of the pull, and share of the way of the final map; 0 does nothing.
        eta: weight of the pull beside the recommendation loss.
        phase_one: share of the epochs without the pull. By default Phase I ends when the model has been trained; after
            a quarter of the epochs in other training loops, without validation items or without a full final map.
        xi: epochs between two renewals of the common target.
        alignment: where the places come from: `sliced`, `gaussian` or `atoms`.
        pull: `displacement`, where the place moves along with the user, or `position`.
        final_map: carry the trained table by `sliced` at the end.
        atoms: number of atoms (`alignment="atoms"`, as the next four).
        tau: regularization of the barycenter, as a share of the median squared distance.
        epsilon: regularization of the couplings, as a share of the median squared distance.
        free_support: let the atoms move.
        seeding: `stratified`, atoms from each class by its share, or `k-means++`, far from each other.
        class_weighting: `equal` for the paper's equal weight of classes, which pulls users of a small class harder, or
            `size` for equal weight of users.
        several: `sum` to protect all attributes at once, or `sequential`, each in its part of Phase II.
        device: where maps are computed; where the vectors are by default.
    """

    strength: Share = 1.0
    eta: NonNegativeFloat = 0.001
    phase_one: Share | None = None
    xi: Count = 4
    alignment: str = "sliced"
    pull: str = PULL_ALONG
    final_map: bool = True
    atoms: Count = 512
    tau: NonNegativeFloat = 1.0
    epsilon: PositiveFloat = 0.05
    free_support: bool = False
    seeding: str = "stratified"
    class_weighting: str = "equal"
    several: str = "sum"
    device: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise UsageError(f"{name} must be one of {', '.join(words)}; got '{getattr(self, name)}'.")

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty that protects these attributes in a training of so many epochs."""
        if not targets:
            raise UsageError("No attribute was given to protect. Give at least one target.")
        if epochs < 1:
            raise UsageError(f"epochs is {epochs}. It must be at least 1.")
        for target in targets:
            if target.is_numeric:
                raise DataError(
                    f"Attribute '{target.name}' is a number, and RAID aligns classes. Cut it into classes with bins."
                )
            known = int(target.known.sum())
            if self.alignment == "atoms" and self.atoms > known:
                raise UsageError(
                    f"atoms is {self.atoms}, and only {known} users disclose '{target.name}'. Atoms are drawn among "
                    f"them, so use atoms={known} or fewer."
                )
        return _RaidPenalty(self, targets, epochs, rng)


@dataclass(frozen=True)
class RaidPaper(Raid):
    """RAID as in its paper: a barycenter on fixed atoms, and users pulled to their places until the end.

    Departs: `eta` and `tau` are relative to the median squared distance (see `Raid`), and the barycenter exists from
    the first epoch of Phase II on (Algorithm 1 has none before epoch xi).
    """

    eta: NonNegativeFloat = 1.0
    alignment: str = "atoms"
    pull: str = "position"
    final_map: bool = False


class _RaidPenalty:
    """RAID in one training: it counts the epochs and holds the place of each user."""

    needs_items = False

    def __init__(self, options: Raid, targets: Sequence[Attribute], epochs: int, rng: np.random.Generator) -> None:
        self.options, self.epochs = options, epochs
        self.step_interval = STEP_INTERVAL if options.pull == PULL_ALONG else 1  # the paper's: in every step
        share = 0.25 if options.phase_one is None else options.phase_one
        self.first_epoch = round(share * epochs)  # of Phase II
        self.final_rng, streams = rng, rng.spawn(len(targets))  # spawning does not change the draws of `rng` itself
        self.codes = np.stack([t.codes for t in targets], axis=1)
        pulls = [
            Pull(
                target,
                partial(_make_alignment, options, stream),
                weighting=options.class_weighting,
                along=options.pull == PULL_ALONG,
            )
            for target, stream in zip(targets, streams, strict=True)
        ]
        self.pulls = [pull for pull in pulls if pull.n_classes > 1]
        self.active: list[Pull] = []
        self.epoch = 0

    @property
    def covers_any_epoch(self) -> bool:
        """Whether any epoch from now on may be kept: the final map hides the classes, whatever training left."""
        return self._has_full_map and self.epoch > self.first_epoch

    @property
    def waits_for_training(self) -> bool:
        """Whether Phase I may be all of training: the final map hides the classes, whatever training left."""
        return self._has_full_map and self.options.phase_one is None

    @property
    def _has_full_map(self) -> bool:
        return self.options.final_map and self.options.strength == 1

    def begin(self, epochs: int) -> None:
        """Start Phase II now, with so many epochs to go."""
        self.first_epoch, self.epochs = self.epoch, self.epoch + epochs

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Compute in Phase II where the users should go from where they are."""
        self._check_table(user_vectors)
        since, self.epoch = self.epoch - self.first_epoch, self.epoch + 1
        self.active = self._select_active(since) if since >= 0 and self.options.eta * self.options.strength > 0 else []
        for pull in self.active:
            pull.refresh_aim(user_vectors.detach(), renew=since % self.options.xi == 0)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the loss of these users, 0 in Phase I; item vectors are not used."""
        if not self.active:
            return user_vectors.new_zeros(())
        repeats = torch.zeros(len(self.codes), device=users.device)
        shares = repeats.index_add_(0, users, torch.ones_like(users, dtype=repeats.dtype))[users].reciprocal_()
        counts = shares * (self.options.eta * self.options.strength * len(self.codes) / shares.sum())
        first, *further = (pull(users, user_vectors, counts) for pull in self.active)
        return sum(further, first)

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """Return the table to release: with `final_map`, carried once more by `sliced`, all attributes together.

        The same table is always finished in the same way, so that it can be evaluated before it is released.
        """
        self._check_table(user_vectors)
        if not (self.options.final_map and self.options.strength and self.pulls):
            return user_vectors
        device = self.options.device or str(user_vectors.device)
        method = Sliced(strength=self.options.strength, device=device)
        moved = method(user_vectors.detach().cpu().numpy(), self.codes, rng=copy.deepcopy(self.final_rng))
        return torch.as_tensor(moved).to(user_vectors)

    def _select_active(self, since: int) -> list[Pull]:
        """Select the attributes that pull in this epoch of Phase II."""
        if self.options.several == "sum" or not self.pulls:
            return self.pulls
        place = since * len(self.pulls) // max(1, self.epochs - self.first_epoch)
        return [self.pulls[min(place, len(self.pulls) - 1)]]

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
