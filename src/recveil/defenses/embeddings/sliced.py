"""Drawn sliced barycenter: make the classes indistinguishable, not only their moments.

1. Gaussian transport: the means and covariances of the bulk of each class agree, by least displacement.
2. Rounds. Each looks along d axes and carries every class towards the weighted average of the class quantile
   functions. The axes are random, but in turn among the leading 1/8, 1/4, 1/2 and all of the principal directions, and
   the columns of the table, where trees look. Along every axis a class goes the less far, the less its way is more than
   what chance alone would have it go. Of several attributes the joint cells are carried first, then each one's classes.
3. The draw. Moments made equal *exactly* are anti-correlated between any two halves of the users: cross-validated
   attackers fall below chance, and a leak upside down is still a leak. So each class gets the moments of a reference of
   its own: n_k rows drawn from all users.

Departs: the prototype moved all the way in every round and drew along each axis.
Limit: needs every user's attribute when applied; a user with an unknown one only goes through the pooled Gaussian map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch

from recveil.core import device as devices
from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics, plan_passes
from recveil.defenses.embeddings.cells import Cells, check_table, plan_cells, split_attributes
from recveil.defenses.embeddings.fitted_maps import FittedMap, SlicedMap, blend_tables, scale_to_norm
from recveil.defenses.embeddings.gaussian import compose_stages, fit_stages
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.transport import bures_wasserstein as gaussian
from recveil.transport.moments import Moments
from recveil.transport.quantile_alignment import align_axes, draw_rotation, fit_shifts
from recveil.transport.robust_moments import fit_bulk_moments

__all__ = ["MAX_ROUNDS_OF_LARGE", "Sliced", "carry_rounds"]

METHODS = (
    DefenseTraits(
        "sliced",
        builder="Sliced",
        streams=True,
        equalizes_covariances=True,
        undisclosed_users="went through the label-free map",
        search_space={"rounds": Range(10, 150, log=True), "strength": Range(0.3, 1.0)},
    ),
)

SUBSPACE_CYCLE = (8, 4, 2, 1, 0)
"""In turn: rotate among the leading 1/8, 1/4, 1/2, all of the principal directions; 0: the columns as they are."""

CHANCE_SHARE = 0.2
"""The share of what chance alone would move that is taken off every move, for each class but one; more where users are
fewer than `CHANCE_USERS`. Without it rounds fit the sample: users are moved far for nothing, and come to avoid their own
class; with all of it neighbors still tell (research/notes/sliced.md)."""

COLUMN_CHANCE_SHARE = 1.0
"""The same along the columns, the only axes that come again and again: trees would see them fitted."""

CHANCE_USERS = 6_000
"""Users. Of fewer, more of what a round fits is chance."""

MIN_SCALE_SHARE = 1e-3
"""Directions with less than this share of the largest scale are not looked along: with few users, blown up, they run
away from round to round."""

USERS_PER_ROUND, USERS_PER_ROUND_IN_TAILS = 75, 40
"""For so many users there is one round, where tails are light, where they are heavy. With fewer rounds neighbors and
trees still tell the class, with more, neighbors come to be of another class more often than chance has it, for 32
dimensions as for 128 (research/notes/sliced.md)."""

LIGHT_KURTOSIS, HEAVY_KURTOSIS = 4.0, 4.5
"""Kurtosis of the columns (their median) up to which tails are light, from which on they are heavy. A normal
distribution has 3, a logistic one 4.2."""

MIN_ROUNDS, MAX_ROUNDS, MAX_ROUNDS_OF_LARGE = 10, 150, 60
"""Rounds, where the number is not given."""

MAX_CLASS_USERS = 10_000
"""Of a larger class this many users are drawn to learn the rounds from; all go through what was learned."""


@dataclass
class Sliced(MapTransformer):
    """Every class a sample of one distribution, as far as random axes can tell.

    `rounds`: one for every 75 users (40 where the table has heavy tails), at most five for each dimension, from 10 to
    150 (60 for very many users), unless given. Without the draw (`drawn=False`) attackers fall below chance.
    `strength` walks straight from nothing (0) to all of it (1). With `norm="unit"` all vectors are first given the same
    length: free where the score is a dot product without bias, whose ranking does not change, and wrong for every other
    model.
    """

    needs_sample: ClassVar[bool] = True

    rounds: int | None = None
    drawn: bool = True
    strength: float = 1.0
    norm: str = "keep"

    def __call__(
        self,
        x: FloatArray,
        codes: IntArray,
        *,
        rng: np.random.Generator,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> FloatArray:
        """The cloaked table; `utility` is not used."""
        return self._carry_table(x, codes, rng, kept=False)[0]

    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """The cloaked table, and the exact maps for users who come later."""
        return self._carry_table(x, codes, rng, kept=True)

    def fit_cells(self, statistics: CellStatistics, rng: np.random.Generator) -> tuple[CellMap, list[str]]:
        """Fit the map of each cell from its moments and a sample of its rows, for tables larger than memory."""
        from recveil.defenses.embeddings.sliced_cells import fit_rounds  # it imports this module

        if self.norm != "keep":
            raise UsageError("norm='unit' is not offered for large tables. Use norm='keep'.")
        passes = plan_passes(statistics)
        if len(passes) != 1:
            raise DataError(
                "Some combinations of the targets' classes have too few users: a large table needs two for each "
                "dimension. Name one target, or merge classes."
            )
        first, notes = compose_stages(statistics.moments, passes)
        rounds = MAX_ROUNDS_OF_LARGE if self.rounds is None else self.rounds
        full = fit_rounds(first, passes[0], statistics, rounds=rounds, drawn=self.drawn, rng=rng)
        return full.blend_with_identity(self.strength), notes

    def _carry_table(
        self, x: FloatArray, codes: IntArray, rng: np.random.Generator, *, kept: bool
    ) -> tuple[FloatArray, FittedMap]:
        """The same table whether the map is to be kept or not; a map that is not has no rounds in it."""
        if self.norm not in ("keep", "unit"):
            raise UsageError(f"norm must be 'keep' or 'unit' (dot products without bias only); got '{self.norm}'.")
        if (self.rounds or 0) < 0:
            raise UsageError(f"rounds must not be negative; got {self.rounds}.")
        check_table(x, codes, self.strength)
        where = devices.resolve_device(self.device)
        draws = make_torch_generator(rng, where)
        start = torch.tensor(x, device=where).double()
        passes = [cells for cells in plan_cells(codes, minimum=2 * x.shape[1]) if cells.n_classes > 1]
        if not passes:
            return blend_tables(start, start, self.strength), FittedMap([], self.strength, 0.0, x.shape[1])
        norm = float(torch.linalg.vector_norm(start, dim=1).mean()) if self.norm == "unit" else 0.0
        begin = scale_to_norm(start, norm)
        wanted = self._choose_rounds(begin)
        moved, stages = fit_stages(begin, passes, _fit_moments)
        for cells, count in _plan_turns(codes, passes, wanted):
            moved, rounds = carry_rounds(moved, cells, count, draws, kept=kept)
            stages.append((cells.keys, rounds))
        for cells in dict.fromkeys(passes if self.drawn else []):
            moved = _draw_moments(moved, cells, draws)
        return blend_tables(start, moved, self.strength), FittedMap(stages, self.strength, norm, x.shape[1])

    def _choose_rounds(self, x: torch.Tensor) -> int:
        if self.rounds is not None:
            return self.rounds
        n, d = x.shape
        most, users = (
            (MAX_ROUNDS, _choose_users_per_round(x))
            if n <= 2 * MAX_CLASS_USERS
            else (MAX_ROUNDS_OF_LARGE, USERS_PER_ROUND)
        )
        return min(most, max(MIN_ROUNDS, min(int(n / users), 5 * d)))


def _plan_turns(codes: IntArray, passes: list[Cells], wanted: int) -> list[tuple[Cells, int]]:
    """Which classes are carried in turn, each by how many rounds.

    After joint cells every attribute alone, all of them together half as many rounds again: what a small cell keeps
    along an axis because it may be chance adds up over the cells of one class (research/notes/sliced.md).
    """
    turns = [(cells, -(-wanted // len(passes))) for cells in passes]
    joint = len(passes) == 1 and codes.ndim > 1 and codes.shape[1] > 1
    single = [cells for cells in split_attributes(codes) if cells.n_classes > 1] if joint else []
    if len(single) > 1:
        turns += [(cells, -(-wanted // (2 * len(single)))) for cells in single]
    return turns


def _choose_users_per_round(x: torch.Tensor) -> float:
    """From `USERS_PER_ROUND` to `USERS_PER_ROUND_IN_TAILS`, by the kurtosis of the columns; no class is looked at."""
    squared = (x - x.mean(0)).square()
    variance = squared.mean(0)
    columns = variance > 0
    if not columns.any():
        return USERS_PER_ROUND
    kurtosis = float((squared.square().mean(0) / variance.square())[columns].median())
    heavy = min(1.0, max(0.0, (kurtosis - LIGHT_KURTOSIS) / (HEAVY_KURTOSIS - LIGHT_KURTOSIS)))
    return USERS_PER_ROUND + heavy * (USERS_PER_ROUND_IN_TAILS - USERS_PER_ROUND)


def _fit_moments(x: torch.Tensor, cells: Cells) -> Moments:
    return fit_bulk_moments(x, torch.as_tensor(cells.codes, device=x.device), cells.n_classes, max_rows=MAX_CLASS_USERS)


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
            return torch.diag(_invert_scale(self.columns)), torch.diag(self.columns)
        first = min(self.d, max(2, self.d // share))
        blocks = [draw_rotation(n, self.draws) for n in (first, self.d - first) if n]
        rotation = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
        return self.vectors * _invert_scale(self.scale) @ rotation, rotation.mT @ (self.vectors * self.scale).mT


def _invert_scale(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > MIN_SCALE_SHARE * scale.max(), 1 / scale.clamp(min=1e-300), 0.0)


def carry_rounds(
    x: torch.Tensor, cells: Cells, rounds: int, draws: torch.Generator, *, kept: bool, most: int = MAX_CLASS_USERS
) -> tuple[torch.Tensor, SlicedMap]:
    """The users after the rounds, and what was done to each class as tables, if that is kept or needed.

    The rounds are learned from at most so many users of a class.
    """
    codes = torch.as_tensor(cells.codes, device=x.device)
    members = [_sample_rows((codes == k).nonzero()[:, 0], most, draws) for k in range(cells.n_classes)]
    learned = torch.cat(members)
    starts = np.cumsum([0, *map(len, members)]).tolist()
    within = [slice(a, b) for a, b in pairwise(starts)]
    frames = _Frames(x[codes >= 0], draws)
    axes = [frames(SUBSPACE_CYCLE[r % len(SUBSPACE_CYCLE)]) for r in range(rounds)]
    part = len(learned) < int((codes >= 0).sum())
    begin = (x[learned] - frames.m).float()
    y, shifts = begin.clone(), []
    chance = _measure_chance_moves(y @ axes[0][0].float(), within, draws) if axes else []
    mixed = min(1.0, CHANCE_SHARE * (len(within) - 1) * max(1.0, CHANCE_USERS / len(learned)) ** 2)
    for number, (to, fro) in enumerate(axes):
        share = mixed if SUBSPACE_CYCLE[number % len(SUBSPACE_CYCLE)] else COLUMN_CHANCE_SHARE
        z = y @ to.float()
        moves = align_axes(z, within).sub_(z)
        for rows, dealt in zip(within, chance, strict=True):
            gone = moves[rows].square().mean(0).clamp(min=1e-30)
            moves[rows] *= (1 - share * dealt / gone).clamp(min=0)
        y.addmm_(moves, fro.float())
        if kept or part:
            shifts.append(torch.stack([fit_shifts(z[rows], z[rows] + moves[rows]) for rows in within]))
    after = x.index_add(0, learned, (y - begin).double())
    if not shifts:
        return after, SlicedMap(frames.m, *(x.new_zeros(0) for _ in range(3)))
    there, back = (torch.stack(matrices) for matrices in zip(*axes, strict=True))
    fitted = SlicedMap(frames.m, there, back, torch.stack(shifts).float())
    return (fitted(x, codes) if part else after), fitted


def _measure_chance_moves(z: torch.Tensor, within: list[slice], draws: torch.Generator) -> list[torch.Tensor]:
    """The mean square of the way each class would go had classes been dealt at random, with equal mean and spread."""
    dealt = z[torch.randperm(len(z), generator=draws, device=z.device)]
    for rows in within:
        spread = dealt[rows].std(0, correction=0)
        dealt[rows] = (dealt[rows] - dealt[rows].mean(0)) / spread.where(spread > 0, 1.0) * z.std(0, correction=0)
    moves = align_axes(dealt, within).sub_(dealt)
    return [moves[rows].square().mean() for rows in within]


def _sample_rows(rows: torch.Tensor, most: int, draws: torch.Generator) -> torch.Tensor:
    if len(rows) <= most:
        return rows
    return rows[torch.randperm(len(rows), generator=draws, device=rows.device)[:most]]


def _draw_moments(x: torch.Tensor, cells: Cells, draws: torch.Generator) -> torch.Tensor:
    """Give each class the moments of a reference: as many rows as it has, drawn with replacement from all users."""
    codes = torch.as_tensor(cells.codes, device=x.device)
    known = (codes >= 0).nonzero()[:, 0]
    aim = x.clone()
    aim[known] = x[known[torch.randint(len(known), (len(known),), generator=draws, device=x.device)]]
    now, then = _fit_moments(x, cells), _fit_moments(aim, cells)
    A = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(cells.n_classes, -1, -1)
    if bool((now.n > x.shape[1]).all()):  # fewer users have no covariance to speak of: only the means are drawn anew
        A = gaussian.compute_transport(now.covariance, then.covariance)
    out = x.clone()
    for k in range(cells.n_classes):
        out[codes == k] = (x[codes == k] - now.mean[k]) @ A[k] + then.mean[k]
    return out
