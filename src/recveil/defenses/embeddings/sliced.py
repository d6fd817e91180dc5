"""Sampled sliced barycenter: make the classes indistinguishable, not only their moments.

Gaussian transport first. Then rounds, each along d random orthogonal axes: whiten, rotate, and carry every class to the
weighted average of the class quantile functions. In the last rounds the quantile function is read at sorted *uniform
draws*, so that along these axes the classes are independent samples of one distribution: equalizing them exactly would
push cross-validated attackers below chance, and a leak turned upside down is still a leak. The first rounds are exact,
because a sampled round moves the users more. Last, each class gets the mean and
covariance of a random draw from all users, which ends what is still zero-sum in the second moments (an attacker with
a quadratic boundary sees that).

Limit: needs every user's attribute when applied; a user with an unknown one only goes through the pooled Gaussian map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from recveil import device as devices
from recveil.core import FloatArray, IntArray
from recveil.defenses.embeddings.cells import Cells, cells_of, check_table
from recveil.defenses.embeddings.gaussian import carry
from recveil.ot import gaussian
from recveil.ot.moments import Moments
from recveil.ot.sliced import align_axes, random_rotation
from recveil.random import torch_generator

__all__ = ["Sliced"]


@dataclass(frozen=True)
class Sliced:
    """Every class a sample of one distribution, as far as random axes can tell.

    `rounds` is the number of rotations, of which the last `sampled` are read at random draws; `strength` walks straight
    from nothing (0) to all of it (1).
    """

    rounds: int = 20
    sampled: int = 5
    strength: float = 1.0
    device: str | None = None

    def __call__(
        self,
        x: FloatArray,
        codes: IntArray,
        *,
        rng: np.random.Generator,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> FloatArray:
        """The cloaked table; `utility` is not used."""
        check_table(x, codes, self.strength)
        where = devices.resolve(self.device)
        generator = torch_generator(rng, where)
        start = torch.tensor(x, dtype=torch.float64, device=where)
        passes = cells_of(codes, minimum=2 * x.shape[1])
        moved = carry(start, passes)
        for cells in passes:
            if cells.n_classes > 1:
                moved = _rounds(moved, cells, self._plan(len(passes)), generator)
                moved = _resample_moments(moved, cells, generator)
        return ((1 - self.strength) * start + self.strength * moved).to(torch.float32).cpu().numpy()

    def _plan(self, n_passes: int) -> list[bool]:
        """For each round of one pass, whether it is sampled; the rounds are shared out over the passes."""
        rounds, sampled = -(-self.rounds // n_passes), -(-self.sampled // n_passes)
        return [False] * (rounds - sampled) + [True] * min(sampled, rounds)


def _rounds(x: torch.Tensor, cells: Cells, plan: list[bool], generator: torch.Generator) -> torch.Tensor:
    codes = torch.as_tensor(cells.codes, device=x.device)
    members = [(codes == k).nonzero()[:, 0] for k in range(cells.n_classes)]
    known = codes >= 0
    for sampled in plan:
        m = x[known].mean(0)
        C = (x[known] - m).mT @ (x[known] - m) / known.sum()
        rotation = random_rotation(x.shape[1], generator)
        z = (x - m) @ gaussian.power(C, -0.5) @ rotation
        back = rotation.mT @ gaussian.power(C, 0.5)
        aligned = align_axes(z, members, generator if sampled else None)
        # Averaged quantiles read at random levels are a little narrower than the users were: scale back, all alike.
        aligned = aligned * (z[known].std(0) / aligned[known].std(0).clamp(min=1e-12))
        x = torch.where(known[:, None], x + (aligned - z) @ back, x)
    return x


def _resample_moments(x: torch.Tensor, cells: Cells, generator: torch.Generator) -> torch.Tensor:
    """Give class k the mean and covariance of n_k rows drawn with replacement from all users of any class."""
    codes = torch.as_tensor(cells.codes, device=x.device)
    known = (codes >= 0).nonzero()[:, 0]
    now = Moments.of(x, codes, cells.n_classes)
    draw = known[torch.randint(len(known), (len(known),), generator=generator, device=x.device)]
    aim = Moments.of(x[draw], codes[known], cells.n_classes)
    if bool((now.n <= x.shape[1]).any()):  # too few users to have a covariance: only the means are drawn anew
        shift = aim.mean - now.mean
        return torch.where((codes >= 0)[:, None], x + shift[codes.clamp(min=0)], x)
    A = gaussian.transport(now.covariance, aim.covariance)
    out = x.clone()
    for k in range(cells.n_classes):
        rows = codes == k
        out[rows] = (x[rows] - now.mean[k]) @ A[k] + aim.mean[k]
    return out
