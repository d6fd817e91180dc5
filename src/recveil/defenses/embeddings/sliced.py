"""Drawn sliced barycenter: make the classes indistinguishable, not only their moments.

1. Where tails are heavy, users far out are brought near, all by one map that is undone at the end.
   Gaussian transport: class means and covariances agree, by least displacement.
2. Exact rounds. Each looks along d axes and carries every class to the weighted average of the class quantile
   functions. The axes are random, but in turn among the leading 1/8, 1/4, 1/2 and all of the principal directions, and
   the columns of the table, where trees look (what this gains over random axes: docs/sliced.md).
3. The draw. Classes made equal *exactly* are anti-correlated between any two halves of the users: cross-validated
   attackers fall below chance, and a leak upside down is still a leak. So each class gets a reference of its own, n_k
   rows drawn from all users, and is carried to it: moments first, then a few rounds. Classes are then samples of one
   distribution, as far as these axes tell.

Departs: the prototype drew along each axis independently; one reference is the same sample along all of them.
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
from recveil.defenses.embeddings.gaussian import fit_stages
from recveil.defenses.embeddings.maps import FittedMap, Keeps, SlicedMap, Squash, blend, unit
from recveil.errors import UsageError
from recveil.ot import gaussian
from recveil.ot.moments import Moments
from recveil.ot.sliced import align_axes, fit_shifts, match_axes, random_rotation
from recveil.random import torch_generator

__all__ = ["MOST_OF_LARGE", "Sliced", "exact_rounds"]

CYCLE = (8, 4, 2, 1, 0)
"""In turn: rotate among the leading 1/8, 1/4, 1/2, all of the principal directions; 0: the columns as they are."""

ROTATED = CYCLE[:-1]
"""What the draw looks along. Not the columns: where they depend on each other, moves along each alone shake the
directions in which users hardly vary, and QDA saw that (docs/sliced.md)."""

HEAVY = 2.0
"""Tails are heavy where the mean fourth power of the distance from the center is this many times the squared mean
square: 1.1 to 1.6 for vectors that models learned, above 3 for SVD factors."""

FLAT = 1e-3
"""Directions with less than this share of the largest scale are not looked along: with few users, blown up, they run
away from round to round."""

FEWEST, MOST, MOST_OF_LARGE = 10, 90, 60
"""Exact rounds, where the number is not given."""

LARGE = 10_000
"""Of a larger class this many users are drawn to learn the rounds from; all go through what was learned."""


@dataclass
class Sliced(Keeps):
    """Every class a sample of one distribution, as far as random axes can tell.

    `rounds` is the number of exact rounds: half as many as there are users for each dimension, from 10 to 90, unless
    given (more fit the sample, and users begin to avoid their own class: docs/sliced.md). `drawn` is that of the rounds
    towards the drawn reference (0: none is drawn, and attackers fall below chance); `strength` walks straight from
    nothing (0) to all of it (1). With `norm="unit"` all vectors are first given the same length: free where the score
    is a dot product without bias, whose ranking does not change, and wrong for every other model.
    """

    rounds: int | None = None
    drawn: int = 5
    strength: float = 1.0
    norm: str = "keep"
    device: str | None = None

    def __post_init__(self) -> None:
        if self.norm not in ("keep", "unit"):
            raise UsageError(f"norm must be 'keep' or 'unit' (dot products without bias only); got '{self.norm}'.")
        if (self.rounds or 0) < 0 or self.drawn < 0:
            raise UsageError(f"rounds and drawn must not be negative; got {self.rounds} and {self.drawn}.")

    def __call__(
        self,
        x: FloatArray,
        codes: IntArray,
        *,
        rng: np.random.Generator,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> FloatArray:
        """The cloaked table; `utility` is not used."""
        return self._carried(x, codes, rng, kept=False)[0]

    def release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """The cloaked table, and the exact maps for users who come later."""
        return self._carried(x, codes, rng, kept=True)

    def _carried(
        self, x: FloatArray, codes: IntArray, rng: np.random.Generator, *, kept: bool
    ) -> tuple[FloatArray, FittedMap]:
        """The same table whether the map is to be kept or not; a map that is not has no rounds in it."""
        check_table(x, codes, self.strength)
        where = devices.resolve(self.device)
        draws = torch_generator(rng, where)
        start = torch.tensor(x, dtype=torch.float64, device=where)
        passes = [cells for cells in cells_of(codes, minimum=2 * x.shape[1]) if cells.n_classes > 1]
        if not passes:
            return blend(start, start, self.strength), FittedMap([], self.strength, 0.0, x.shape[1])
        norm = float(torch.linalg.vector_norm(start, dim=1).mean()) if self.norm == "unit" else 0.0
        start_from = unit(start, norm)
        squash = Squash.of(start_from) if _heavy(start_from) else None
        moved, stages = fit_stages(squash(start_from) if squash else start_from, passes)
        for cells in passes:
            moved, rounds = exact_rounds(moved, cells, -(-self._rounds(x) // len(passes)), draws, kept=kept)
            stages.append((cells.keys, rounds))
        for cells in dict.fromkeys(passes if self.drawn else []):
            moved = _draw(moved, cells, self.drawn, draws)
        if squash:
            everybody, stretch = passes[0].keys, squash.undone()
            moved, stages = stretch(moved), [(everybody, squash), *stages, (everybody, stretch)]
        return blend(start, moved, self.strength), FittedMap(stages, self.strength, norm, x.shape[1])

    def _rounds(self, x: FloatArray) -> int:
        if self.rounds is not None:
            return self.rounds
        n, d = x.shape
        return int(min(MOST if n <= 2 * LARGE else MOST_OF_LARGE, max(FEWEST, n // (2 * d))))


def _heavy(x: torch.Tensor) -> bool:
    """Whether few users lie so far out that they are most of what squares of distances see."""
    r = (x - x.mean(0)).square().sum(1)
    return bool(r.square().mean() > HEAVY * r.mean() ** 2)


class _Frames:
    """The axes to look along, in the space where the users have mean 0 and variance 1 in every direction."""

    def __init__(self, x: torch.Tensor, draws: torch.Generator) -> None:
        self.m, self.d, self.draws = x.mean(0), x.shape[1], draws
        C = (x - self.m).mT @ (x - self.m) / len(x)
        values, vectors = torch.linalg.eigh(C)
        self.vectors, self.scale = vectors.flip(1), values.flip(0).clamp(min=0).sqrt()
        self.columns = C.diagonal().sqrt()

    def __call__(self, share: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Matrices there and back; directions in which nobody varies are left out of both."""
        if share == 0:
            return torch.diag(_inverse(self.columns)), torch.diag(self.columns)
        first = min(self.d, max(2, self.d // share))
        blocks = [random_rotation(n, self.draws) for n in (first, self.d - first) if n]
        rotation = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
        return self.vectors * _inverse(self.scale) @ rotation, rotation.mT @ (self.vectors * self.scale).mT


def _inverse(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > FLAT * scale.max(), 1 / scale.clamp(min=1e-300), 0.0)


def exact_rounds(
    x: torch.Tensor, cells: Cells, rounds: int, draws: torch.Generator, *, kept: bool, most: int = LARGE
) -> tuple[torch.Tensor, SlicedMap]:
    """The users after the exact rounds, and what was done to each class as tables, if that is kept or needed.

    The rounds are learned from at most so many users of a class.
    """
    codes = torch.as_tensor(cells.codes, device=x.device)
    members = [_some((codes == k).nonzero()[:, 0], most, draws) for k in range(cells.n_classes)]
    learned = torch.cat(members)
    starts = torch.tensor([0, *map(len, members)]).cumsum(0)
    within = [torch.arange(a, b, device=x.device) for a, b in zip(starts[:-1], starts[1:], strict=True)]
    y, frames = x[learned], _Frames(x[codes >= 0], draws)
    axes = [frames(CYCLE[r % len(CYCLE)]) for r in range(rounds)]
    part = len(learned) < int((codes >= 0).sum())
    shifts = []
    for to, fro in axes:
        z = (y - frames.m) @ to
        aligned = align_axes(z, within)
        y = y + (aligned - z) @ fro
        if kept or part:
            shifts.append(torch.stack([fit_shifts(z[rows], aligned[rows]) for rows in within]))
    if not shifts:
        return x.index_copy(0, learned, y), SlicedMap(frames.m, *(x.new_zeros(0) for _ in range(3)))
    there, back = (torch.stack(matrices) for matrices in zip(*axes, strict=True))
    fitted = SlicedMap(frames.m, there, back, torch.stack(shifts).float())
    if part:
        return fitted(x, codes), fitted
    return x.index_copy(0, learned, y), fitted


def _some(rows: torch.Tensor, most: int, draws: torch.Generator) -> torch.Tensor:
    if len(rows) <= most:
        return rows
    return rows[torch.randperm(len(rows), generator=draws, device=rows.device)[:most]]


def _draw(x: torch.Tensor, cells: Cells, rounds: int, draws: torch.Generator) -> torch.Tensor:
    """Carry each class to a reference: as many rows as it has, drawn with replacement from all users."""
    codes = torch.as_tensor(cells.codes, device=x.device)
    known = (codes >= 0).nonzero()[:, 0]
    aim = x.clone()
    aim[known] = x[known[torch.randint(len(known), (len(known),), generator=draws, device=x.device)]]
    x, frames = _to_moments(x, aim, codes, cells.n_classes, draws), _Frames(x[known], draws)
    # What is exact matters in sample only, and of a large class most users were not in the sample.
    small = [rows for k in range(cells.n_classes) if len(rows := (codes == k).nonzero()[:, 0]) <= LARGE]
    for r in range(-rounds, 0):
        to, fro = frames(ROTATED[r % len(ROTATED)])
        for rows in small:
            z = (x[rows] - frames.m) @ to
            x[rows] += (match_axes(z, (aim[rows] - frames.m) @ to) - z) @ fro
    return x


def _to_moments(
    x: torch.Tensor, aim: torch.Tensor, codes: torch.Tensor, n_classes: int, draws: torch.Generator
) -> torch.Tensor:
    """Give each class the mean of its reference and a covariance drawn as that of n_k Gaussian users would be.

    Not the covariance of the reference: on heavy-tailed tables QDA saw that (docs/sliced.md).
    """
    now = Moments.of(x, codes, n_classes)
    mean = Moments.of(aim, codes, n_classes).mean
    A = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(n_classes, -1, -1)
    if bool((now.n > x.shape[1]).all()):  # fewer users have no covariance to speak of: only the means are drawn anew
        root = gaussian.power(now.pooled().covariance[0], 0.5)
        noise = torch.randn(x.shape, generator=draws, device=x.device, dtype=x.dtype) @ root
        A = gaussian.transport(now.covariance, Moments.of(noise, codes, n_classes).covariance)
    out = x.clone()
    for k in range(n_classes):
        out[codes == k] = (x[codes == k] - now.mean[k]) @ A[k] + mean[k]
    return out
