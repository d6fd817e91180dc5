"""The alignment of RAID: a place for each user such that the places of all classes are about one distribution.

It reads the whole table and returns a place for each user. With `renew` it computes the common target of all classes
(the barycenter); otherwise users are only led to the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from sklearn.cluster import kmeans_plusplus

from recveil.core.types import FloatArray, IntArray
from recveil.transport.barycenter import Barycenter, fit_barycenter, fit_free_barycenter
from recveil.transport.distances import compute_squared_distances, compute_typical_distance
from recveil.transport.sinkhorn import sinkhorn

__all__ = ["SEEDINGS", "Alignment", "Atoms", "Places", "draw_far_apart", "draw_stratified"]

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
    """A barycenter on atoms drawn among the users; a place is the mean of a user's atoms.

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
