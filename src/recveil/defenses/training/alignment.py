"""Alignments of RAID: a place for each user such that all classes become one distribution.

An alignment reads the whole table and returns a place for each user. With `renew` it computes the common target of all
classes (the barycenter); otherwise users are only led to the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from sklearn.cluster import kmeans_plusplus

from recveil.core.random import make_torch_generator
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import plan_cells
from recveil.defenses.embeddings.gaussian import carry_gaussian
from recveil.defenses.embeddings.sliced_rounds import carry_rounds
from recveil.transport.barycenter import Barycenter, fit_barycenter, fit_free_barycenter
from recveil.transport.distances import compute_squared_distances, compute_typical_distance
from recveil.transport.sinkhorn import sinkhorn

__all__ = ["SEEDINGS", "Alignment", "Atoms", "ClassMaps", "Places", "draw_far_apart", "draw_stratified"]

ROUNDS_IN_TRAINING = 10
"""Rounds of `sliced` in training, where only the direction of the moves matters; the final map has all rounds."""

SOLVER_TOLERANCE = 1e-2
"""Gap of the barycenter, and mass at wrong atoms; users move on before either matters more."""


@dataclass(frozen=True, eq=False)
class Places:
    """Places that users are pulled to.

    Attributes:
        toward: (n, d) place of each user.
        spread: (n,) mean squared distance of the atoms behind a place from it.
    """

    toward: torch.Tensor
    spread: torch.Tensor


class Alignment(Protocol):
    """A way to make the classes alike."""

    def __call__(self, x: torch.Tensor, *, renew: bool) -> Places:
        """Return the places of these users, who all disclose the attribute."""


@dataclass(eq=False)
class Atoms:
    """The paper's alignment: a barycenter on atoms drawn among the users; a place is the mean of a user's atoms.

    Attributes:
        codes: class of each user.
        rng: source of the atoms.
        atoms: number of atoms.
        tau: regularization of the barycenter, as a share of the median squared distance of two users.
        epsilon: regularization of the coupling, as a share of the same distance.
        free_support: let the atoms move.
        seeding: how the atoms are drawn; see `SEEDINGS`.
        center: the last barycenter.
        potentials: potentials of the last coupling, from which the next starts.
    """

    codes: torch.Tensor
    rng: np.random.Generator
    atoms: int
    tau: float
    epsilon: float
    free_support: bool
    seeding: str = "stratified"
    center: Barycenter | None = field(init=False, default=None)
    potentials: torch.Tensor | None = field(init=False, default=None)

    def __call__(self, x: torch.Tensor, *, renew: bool) -> Places:
        """Project the users to the barycenter."""
        scale = compute_typical_distance(x)
        if renew or self.center is None:
            rows = SEEDINGS[self.seeding](x.cpu().numpy(), self.codes.cpu().numpy(), self.atoms, self.rng)
            solve = fit_free_barycenter if self.free_support else fit_barycenter
            self.center = solve(
                x,
                self.codes,
                x[torch.as_tensor(rows, device=x.device)],
                tau=self.tau * scale,
                tolerance=SOLVER_TOLERANCE,
            )
            self.potentials = None
        plan = sinkhorn(
            compute_squared_distances(x, self.center.atoms),
            self.codes,
            self.center.weights,
            epsilon=self.epsilon * scale,
            tolerance=SOLVER_TOLERANCE,
            start=self.potentials,
        )
        self.potentials = plan.potentials
        return Places(*plan.project_points(self.center.atoms))


@dataclass(eq=False)
class ClassMaps:
    """Our alignment: continuous class maps as in `gaussian` or `sliced`, which keep users distinct.

    The maps are fitted when the target is renewed. In between each user keeps its displacement, less the mean progress
    of its class since then, else the classes would move past each other.

    Attributes:
        codes: class of each user.
        rng: source of the axes.
        sliced: use the rounds of `sliced`, else Gaussian transport.
        device: where maps are computed; where the vectors are by default.
        displacement: displacement of each user at the last renewal.
    """

    codes: torch.Tensor
    rng: np.random.Generator
    sliced: bool
    device: str | None
    displacement: torch.Tensor | None = field(init=False, default=None)

    def __call__(self, x: torch.Tensor, *, renew: bool) -> Places:
        """Return the places that the class maps carry the users to."""
        if renew or self.displacement is None:
            start = x.double() if self.device is None else x.double().to(self.device)
            self.sizes = torch.bincount(self.codes)[:, None]
            self.displacement, self.lead = self._carry_users(start).to(x) - x, self._measure_lead(x)
        progress = self._measure_lead(x) - self.lead
        return Places(x + self.displacement - progress[self.codes], x.new_zeros(len(x)))

    def _carry_users(self, x: torch.Tensor) -> torch.Tensor:
        (cells,) = plan_cells(self.codes.cpu().numpy(), minimum=0)
        if not self.sliced:
            return carry_gaussian(x, [cells])
        return carry_rounds(x, cells, ROUNDS_IN_TRAINING, make_torch_generator(self.rng, x.device), keep_map=False)[0]

    def _measure_lead(self, x: torch.Tensor) -> torch.Tensor:
        """Measure how far the mean of each class is from the mean of all users."""
        means = x.new_zeros(len(self.sizes), x.shape[1]).index_add_(0, self.codes, x) / self.sizes
        return means - x.mean(0)


def draw_stratified(x: FloatArray, codes: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw users at random, from each class as many as its share."""
    shuffled = rng.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    return by_class[((np.arange(count) + 0.5) * len(codes) / count).astype(np.int64)]


def draw_far_apart(x: FloatArray, codes: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """Draw users far from each other by k-means++."""
    _, chosen = kmeans_plusplus(x, count, random_state=int(rng.integers(2**31)))
    return np.asarray(chosen, dtype=np.int64)


SEEDINGS: Mapping[str, Callable[[FloatArray, IntArray, int, np.random.Generator], IntArray]] = {
    "stratified": draw_stratified,
    "k-means++": draw_far_apart,
}
"""Ways to draw the atoms among the users."""
