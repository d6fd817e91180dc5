"""Where RAID wants the users of each class to be, so that all classes are one distribution.

An alignment looks at the whole table and answers with a place for each user. `renew` asks for a new aim of all classes
(the barycenter); otherwise users are only led anew to the last one.
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
from recveil.defenses.embeddings.sliced import carry_rounds
from recveil.transport.barycenter import Barycenter, fit_barycenter, fit_free_barycenter
from recveil.transport.distances import compute_squared_distances, compute_typical_distance
from recveil.transport.sinkhorn import sinkhorn

__all__ = ["SEEDINGS", "Alignment", "Atoms", "ClassMaps", "Places", "draw_far_apart", "draw_stratified"]

ROUNDS_IN_TRAINING = 10
"""Of `sliced` only rounds are made in training, so many: enough to say in which direction to go. The map at the end has
all of it."""

SOLVER_TOLERANCE = 1e-2
"""Gap of the barycenter, and mass at wrong atoms: the users move on before either matters more."""


@dataclass(frozen=True, eq=False)
class Places:
    """A place for each user, and how far (squared) what it stands for is spread around it."""

    toward: torch.Tensor  # (n, d)
    spread: torch.Tensor  # (n,)


class Alignment(Protocol):
    """One way to make the classes alike."""

    def __call__(self, x: torch.Tensor, *, renew: bool) -> Places:
        """The places of these users, all of known class."""


@dataclass(eq=False)
class Atoms:
    """The paper: the barycenter on atoms drawn among the users, and for each user the mean of the atoms it is led to.

    `tau` and `epsilon` are shares of the median squared distance of two users.
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
        """Barycentric projections of the users."""
        scale = compute_typical_distance(x)
        if renew or self.center is None:
            drawn = SEEDINGS[self.seeding](x.cpu().numpy(), self.codes.cpu().numpy(), self.atoms, self.rng)
            solve = fit_free_barycenter if self.free_support else fit_barycenter
            self.center = solve(
                x,
                self.codes,
                x[torch.as_tensor(drawn, device=x.device)],
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
    """Ours: continuous class maps as in `gaussian` or `sliced`, which keep users apart that atoms would pile up.

    They are looked for when the aim is renewed. In between each user keeps the way it was given, less what its class
    has come closer since, in the mean: else the classes would walk past each other.
    """

    codes: torch.Tensor
    rng: np.random.Generator
    sliced: bool
    device: str | None
    way: torch.Tensor | None = field(init=False, default=None)

    def __call__(self, x: torch.Tensor, *, renew: bool) -> Places:
        """Where the class maps carry the users."""
        if renew or self.way is None:
            start = x.double() if self.device is None else x.double().to(self.device)
            self.sizes = torch.bincount(self.codes)[:, None]
            self.way, self.lead = self._carry_users(start).to(x) - x, self._measure_lead(x)
        return Places(x + self.way - (self._measure_lead(x) - self.lead)[self.codes], x.new_zeros(len(x)))

    def _carry_users(self, x: torch.Tensor) -> torch.Tensor:
        (cells,) = plan_cells(self.codes.cpu().numpy(), minimum=0)
        if not self.sliced:
            return carry_gaussian(x, [cells])
        return carry_rounds(x, cells, ROUNDS_IN_TRAINING, make_torch_generator(self.rng, x.device), kept=False)[0]

    def _measure_lead(self, x: torch.Tensor) -> torch.Tensor:
        """How far the mean of each class is from the mean of all."""
        means = x.new_zeros(len(self.sizes), x.shape[1]).index_add_(0, self.codes, x) / self.sizes
        return means - x.mean(0)


def draw_stratified(x: FloatArray, codes: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """So many users, of each class as many as its share (to the nearest whole), wherever they are."""
    mixed = rng.permutation(len(codes))
    by_class = mixed[np.argsort(codes[mixed], kind="stable")]
    return by_class[((np.arange(count) + 0.5) * len(codes) / count).astype(np.int64)]


def draw_far_apart(x: FloatArray, codes: IntArray, count: int, rng: np.random.Generator) -> IntArray:
    """So many users far from each other: each the likelier, the farther from those before (k-means++)."""
    _, chosen = kmeans_plusplus(x, count, random_state=int(rng.integers(2**31)))
    return np.asarray(chosen, dtype=np.int64)


SEEDINGS: Mapping[str, Callable[[FloatArray, IntArray, int, np.random.Generator], IntArray]] = {
    "stratified": draw_stratified,
    "k-means++": draw_far_apart,
}
"""How the atoms are drawn among the users."""
