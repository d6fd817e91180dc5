"""RAID: train the recommender while the user vectors of all classes are pulled to one distribution (Feng et al., 2025).

Phase I learns to recommend and nothing else. In Phase II every step adds

    eta * sum_i W2^2(P_i, P*);   user p of class i (Lemma 2): gradient 2 eta sum_q T_i(p, q) (y_p - atom_q)

where P_i are the users of class i, P* the barycenter of the classes on atoms, renewed every `xi` epochs, and T_i the
coupling of class i with it, renewed in every epoch.

The B users of a batch stand for all n users, and each counts n / B times; a repeated user counts as one. So a step sees
the whole pull on average, as it sees the whole recommendation loss, and `eta` is the weight of one beside the other,
whatever the number of users in a step and of steps in an epoch.

Departs: the barycenter exists from the first epoch of Phase II on (Algorithm 1 has none before epoch xi), `tau` and
`epsilon` are relative to the median squared distance of two users, and so is `eta` unless `unit="raw"`. The paper's 5 +
15 epochs fit NCF only, so Phase I is a quarter of the epochs unless set. Algorithm 1 ends with the last epoch; here the
best defended one is kept unless `keep="last"`.

Limit: the pull is a squared distance. Where the vectors hardly vary in most directions (towers, short training), it
leaves the class in those directions, and Phase II may bring more of it there with every epoch; `unit="whitened"` ends
that and is not the paper's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch

from recveil.core.errors import UsageError
from recveil.core.option_types import Count, NonNegativeFloat, PositiveFloat, Share
from recveil.core.protocols import Penalty
from recveil.core.traits import Choice, DefenseTraits, Range
from recveil.core.types import Attribute
from recveil.defenses.training.alignment import SEEDINGS, Atoms
from recveil.defenses.training.attribute_pull import UNITS, Pull
from recveil.defenses.training.option_checks import check_rows, check_targets, check_training_options

__all__ = ["Raid"]

METHODS = (
    DefenseTraits(
        "raid",
        builder="Raid",
        place="training",
        takes_tables=True,
        undisclosed_users="take no penalty",
        search_space={
            "eta": Range(0.01, 3.0, log=True),
            "epsilon": Range(0.005, 0.1, log=True),
            "atoms": Range(256, 4096, log=True),
            "xi": Range(1, 8),
            "phase_one": Range(0.1, 0.6),
            "keep": Choice(("last", "best")),
            "unit": Choice(("relative", "whitened")),
        },
        paper="Feng et al., RAID (2025)",
    ),
)

DEFAULT_PHASE_ONE = 0.25
"""Share of the epochs that is Phase I: 5 of NCF's 20 in the paper."""

CHOICES = {
    "unit": UNITS,
    "keep": ("last", "best"),
    "class_weighting": ("equal", "size"),
    "several": ("sum", "sequential"),
    "seeding": tuple(SEEDINGS),
}


@dataclass(frozen=True)
class Raid:
    """RAID: user vectors of all classes are pulled to their common barycenter in training.

    Undisclosed users take no penalty.

    Args:
        strength: factor of the pull; 0 does nothing.
        eta: weight of the pull beside the recommendation loss.
        unit: `relative` divides squared ways by the median squared distance of two users, so that `eta` means the same
            for vectors of any length; `raw` is the formula of the paper; `whitened` measures each direction by its own
            spread, so that the pull sees directions in which users hardly vary, too.
        phase_one: share of the epochs without the pull; a quarter by default.
        xi: epochs between two renewals of the barycenter.
        dynamic_xi: also renew it as soon as users no longer come nearer to it ("dynamically adjusted", section 4.3).
        keep: `last` for the last epoch (Algorithm 1), or `best` for the one that ranks the validation items best among
            the epochs of Phase II in which the class means are together in all directions, and where there is none the
            one in which they are nearest.
        atoms: number of atoms, at most; all users where there are fewer.
        tau: regularization of the barycenter, as a share of the median squared distance.
        epsilon: regularization of the couplings, as a share of the median squared distance.
        free_support: let the atoms move.
        seeding: `stratified`, atoms from each class by its share, or `k-means++`, far from each other.
        tables: user tables side by side in a vector (2 for NCF), each with its own median distance.
        class_weighting: `equal` for the paper's equal weight of classes, which pulls users of a small class harder, or
            `size` for equal weight of users.
        several: `sum` to protect all attributes at once, or `sequential`, each in its part of Phase II (the paper).
        device: accepted for all defenses; the pull is computed where the vectors are.
    """

    strength: Share = 1.0
    eta: NonNegativeFloat = 1.0
    unit: str = "relative"
    phase_one: Share | None = None
    xi: Count = 4
    dynamic_xi: bool = False
    keep: str = "best"
    atoms: Count = 512
    tau: NonNegativeFloat = 1.0
    epsilon: PositiveFloat = 0.01
    free_support: bool = False
    seeding: str = "stratified"
    tables: Count = 1
    class_weighting: str = "equal"
    several: str = "sum"
    device: str | None = None

    def __post_init__(self) -> None:
        check_training_options(self)
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise UsageError(f"{name} must be one of {', '.join(words)}; got '{getattr(self, name)}'.")

    def __call__(self, targets: Sequence[Attribute], *, epochs: int, rng: np.random.Generator) -> Penalty:
        """Make the penalty that protects these attributes in a training of so many epochs."""
        check_targets(targets, numbers=False)
        if epochs < 1:
            raise UsageError(f"epochs is {epochs}. It must be at least 1.")
        return _RaidPenalty(self, targets, epochs, rng)


class _RaidPenalty:
    """RAID in one training: it counts the epochs and holds the place of each user."""

    needs_items = False

    def __init__(self, options: Raid, targets: Sequence[Attribute], epochs: int, rng: np.random.Generator) -> None:
        self.options, self.epochs, self.n_users = options, epochs, len(targets[0].codes)
        share = DEFAULT_PHASE_ONE if options.phase_one is None else options.phase_one
        self.first_epoch = round(share * epochs)  # of Phase II
        pulls = [
            Pull(
                target,
                partial(_make_alignment, options, stream),
                unit=options.unit,
                tables=options.tables,
                weighting=options.class_weighting,
            )
            for target, stream in zip(targets, rng.spawn(len(targets)), strict=True)
        ]
        self.pulls = [pull for pull in pulls if pull.n_classes > 1]
        self.active: list[Pull] = []
        self.epoch = 0

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Compute in Phase II where the users should go from where they are."""
        check_rows(user_vectors, self.n_users)
        since, self.epoch = self.epoch - self.first_epoch, self.epoch + 1
        self.active = self._select_active(since) if since >= 0 and self.options.eta * self.options.strength > 0 else []
        for pull in self.active:
            stalled = self.options.dynamic_xi and pull.has_stalled
            pull.refresh_aim(user_vectors.detach(), renew=pull.age >= self.options.xi or stalled)

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the loss of these users, 0 in Phase I; item vectors are not used."""
        if not self.active:
            return user_vectors.new_zeros(())
        repeats = torch.zeros(self.n_users, device=users.device)
        shares = repeats.index_add_(0, users, torch.ones_like(users, dtype=repeats.dtype))[users].reciprocal_()
        counts = shares * (self.options.eta * self.options.strength * self.n_users / shares.sum())
        first, *further = (pull(users, user_vectors, counts) for pull in self.active)
        return sum(further, first)

    def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
        """Measure with `keep="best"` how far the class means are apart beyond chance, after an epoch of Phase II."""
        if self.options.keep == "last" or not self.active:
            return math.inf
        return max(pull.measure_excess(user_vectors) for pull in self.pulls)

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """Return the table as it was trained."""
        check_rows(user_vectors, self.n_users)
        return user_vectors

    def _select_active(self, since: int) -> list[Pull]:
        """Select the attributes that pull in this epoch of Phase II."""
        if self.options.several == "sum" or not self.pulls:
            return self.pulls
        place = since * len(self.pulls) // max(1, self.epochs - self.first_epoch)
        return [self.pulls[min(place, len(self.pulls) - 1)]]


def _make_alignment(options: Raid, rng: np.random.Generator, codes: torch.Tensor) -> Atoms:
    return Atoms(
        codes,
        rng,
        min(options.atoms, len(codes)),
        options.tau,
        options.epsilon,
        options.free_support,
        seeding=options.seeding,
    )
