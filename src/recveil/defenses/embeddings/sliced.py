"""Drawn sliced barycenter: make whole class distributions alike, not only their moments.

1. Gaussian transport makes the means and covariances of the bulk of each class equal, by least displacement.
2. Rounds. Each takes d axes and carries every class towards the weighted average of the class quantile functions. The
   axes are random, in turn among the leading 1/8, 1/4, 1/2 and all of the principal directions, and then the columns of
   the table, which trees read. Moves along an axis are shortened by the moves that chance alone would cause. With
   several attributes the joint cells are carried first, then the classes of each attribute.
3. The draw. Moments made equal *exactly* are anti-correlated between any two halves of the users: cross-validated
   attackers fall below chance, and an attacker can invert its guess. So each class gets the moments of a reference of
   its own: n_k rows drawn from all users.

Departs: the prototype moved all the way in every round and drew along each axis.
Limit: it needs every user's attribute when applied; undisclosed users only go through the pooled Gaussian map.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch

from recveil.core.device import resolve_device, use_one_thread
from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import CountOrZero, Share
from recveil.core.protocols import UtilityLoss
from recveil.core.random import make_torch_generator
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics, plan_partitions
from recveil.defenses.embeddings.cells import Cells, check_table, plan_cells, split_attributes
from recveil.defenses.embeddings.fitted_maps import FittedMap, SlicedMap, blend_tables, scale_to_norm
from recveil.defenses.embeddings.gaussian import compose_stages, fit_stages
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.transport.bures_wasserstein import compute_transport
from recveil.transport.moments import Moments
from recveil.transport.quantile_alignment import align_axes, draw_rotation, fit_shifts
from recveil.transport.robust_moments import fit_bulk_moments

__all__ = ["MAX_ROUNDS_OF_LARGE", "Sliced", "carry_rounds"]

METHODS = (
    DefenseTraits(
        "sliced",
        builder="Sliced",
        max_dimensions=1_024,
        streams=True,
        keeps_map=True,
        equalizes_covariances=True,
        undisclosed_users="went through the label-free map",
        auto_rank=10,
        search_space={"rounds": Range(10, 150, log=True), "strength": Range(0.3, 1.0)},
    ),
)

SUBSPACE_CYCLE = (8, 4, 2, 1, 0)
"""Axes of the rounds, in turn: rotations of the leading 1/8, 1/4, 1/2, all principal directions; 0 is the columns."""

CHANCE_SHARE = 0.2
"""Share of the moves by chance that is subtracted from every move, for each class but one; more with fewer than
`CHANCE_USERS`. With 0 the rounds fit the sample: users move far for nothing, and come to avoid their own class. With 1
neighbors still reveal the class (research/notes/sliced.md)."""

COLUMN_CHANCE_SHARE = 1.0
"""The same along the columns, the only axes that recur in the same form: trees would see that they were fitted."""

CHANCE_USERS = 6_000
"""Users below which chance is a larger part of what a round fits."""

MIN_SCALE_SHARE = 1e-3
"""Directions with less than this share of the largest scale are skipped: standardized with few users, they diverge."""

USERS_PER_ROUND = 75
"""Users for each round if tails are light. With fewer rounds neighbors and trees still reveal the class; with more,
neighbors are of another class more often than by chance, with 32 dimensions as with 128 (research/notes/sliced.md)."""

USERS_PER_ROUND_IN_TAILS = 40
"""Users for each round if tails are heavy."""

LIGHT_KURTOSIS = 4.0
"""Median kurtosis of the columns up to which tails are light. A normal distribution has 3, a logistic one 4.2."""

HEAVY_KURTOSIS = 4.5
"""Median kurtosis of the columns from which on tails are heavy."""

MIN_ROUNDS = 10
MAX_ROUNDS = 150
MAX_ROUNDS_OF_LARGE = 60
"""Most rounds if classes have more users than the rounds are learned from."""

MAX_CLASS_USERS = 10_000
"""Users of each class that the rounds are learned from; all users go through the fitted rounds."""


@dataclass
class Sliced(MapTransformer):
    """Every class a sample of one distribution, as far as random axes can tell.

    Args:
        rounds: number of rounds. By default one for every 75 users (40 if the table has heavy tails), at most five for
            each dimension, from 10 to 150 (60 for very many users).
        drawn: give each class the moments of a random reference; without it attackers fall below chance.
        strength: share of the straight way from the undefended table to the fully defended one.
        norm: `keep`, or `unit` to give all vectors the same length first. That costs nothing if scores are dot products
            without bias, whose ranking does not change, and is wrong for every other model.
        device: where tensors are computed.
        random_state: seed of the axes, of the reference and of the users that the rounds are learned from.
    """

    needs_sample: ClassVar[bool] = True

    rounds: CountOrZero | None = None
    drawn: bool = True
    strength: Share = 1.0
    norm: str = "keep"

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table without fitting a map for later users; `utility` is not used."""
        return self._carry_table(x, codes, rng, keep_map=False)[0]

    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the defended table, and the map for later users."""
        return self._carry_table(x, codes, rng, keep_map=True)

    def fit_cells(self, statistics: CellStatistics, rng: np.random.Generator) -> tuple[CellMap, list[str]]:
        """Fit the map of each cell from its moments and a sample of its rows, for tables larger than memory."""
        from recveil.defenses.embeddings.sliced_cells import fit_rounds  # it imports this module

        if self.norm != "keep":
            raise UsageError("norm='unit' is not offered for large tables. Use norm='keep'.")
        partitions = plan_partitions(statistics)
        if len(partitions) != 1:
            raise DataError(
                "Some combinations of the targets' classes have too few users: a large table needs two for each "
                "dimension. Name one target, or merge classes."
            )
        first, notes = compose_stages(statistics.moments, partitions)
        rounds = MAX_ROUNDS_OF_LARGE if self.rounds is None else self.rounds
        full = fit_rounds(first, partitions[0], statistics, rounds=rounds, drawn=self.drawn, rng=rng)
        return full.blend_with_identity(self.strength), notes

    @use_one_thread()
    def _carry_table(
        self, x: FloatArray, codes: IntArray, rng: np.random.Generator, *, keep_map: bool
    ) -> tuple[FloatArray, FittedMap]:
        """Return the same table with and without a map to keep; without, the map has no rounds."""
        if self.norm not in ("keep", "unit"):
            raise UsageError(f"norm must be 'keep' or 'unit' (dot products without bias only); got '{self.norm}'.")
        if (self.rounds or 0) < 0:
            raise UsageError(f"rounds must not be negative; got {self.rounds}.")
        check_table(x, codes, self.strength)
        device = resolve_device(self.device)
        draws = make_torch_generator(rng, device)
        start = torch.tensor(x, device=device).double()
        partitions = [cells for cells in plan_cells(codes, minimum=2 * x.shape[1]) if cells.n_classes > 1]
        if not partitions:
            return blend_tables(start, start, self.strength), FittedMap([], self.strength, 0.0, x.shape[1])
        norm = float(torch.linalg.vector_norm(start, dim=1).mean()) if self.norm == "unit" else 0.0
        scaled = scale_to_norm(start, norm)
        total_rounds = self._choose_rounds(scaled)
        moved, stages = fit_stages(scaled, partitions, _fit_moments)
        for cells, count in _plan_turns(codes, partitions, total_rounds):
            moved, rounds = carry_rounds(moved, cells, count, draws, keep_map=keep_map)
            stages.append((cells.keys, rounds))
        for cells in dict.fromkeys(partitions if self.drawn else []):
            moved = _draw_moments(moved, cells, draws)
        return blend_tables(start, moved, self.strength), FittedMap(stages, self.strength, norm, x.shape[1])

    def _choose_rounds(self, x: torch.Tensor) -> int:
        if self.rounds is not None:
            return self.rounds
        n, d = x.shape
        is_large = n > 2 * MAX_CLASS_USERS
        users_per_round = USERS_PER_ROUND if is_large else _choose_users_per_round(x)
        rounds = max(MIN_ROUNDS, min(int(n / users_per_round), 5 * d))
        return min(MAX_ROUNDS_OF_LARGE if is_large else MAX_ROUNDS, rounds)


def _plan_turns(codes: IntArray, partitions: list[Cells], total_rounds: int) -> list[tuple[Cells, int]]:
    """Plan which partitions are carried in turn, and by how many rounds each.

    Joint cells are followed by the single attributes, with half as many rounds in total. A small cell keeps part of its
    moves because they may be chance, and these parts add up over the cells of one class (research/notes/sliced.md).
    """
    turns = [(cells, -(-total_rounds // len(partitions))) for cells in partitions]
    joint = len(partitions) == 1 and codes.ndim > 1 and codes.shape[1] > 1
    single = [cells for cells in split_attributes(codes) if cells.n_classes > 1] if joint else []
    if len(single) > 1:
        turns += [(cells, -(-total_rounds // (2 * len(single)))) for cells in single]
    return turns


def _choose_users_per_round(x: torch.Tensor) -> float:
    """Choose between `USERS_PER_ROUND` and `USERS_PER_ROUND_IN_TAILS` by the kurtosis of the columns of all users."""
    squared = (x - x.mean(0)).square()
    variance = squared.mean(0)
    columns = variance > 0
    if not columns.any():
        return USERS_PER_ROUND
    kurtosis = float((squared.square().mean(0) / variance.square())[columns].median())
    heaviness = min(1.0, max(0.0, (kurtosis - LIGHT_KURTOSIS) / (HEAVY_KURTOSIS - LIGHT_KURTOSIS)))
    return USERS_PER_ROUND + heaviness * (USERS_PER_ROUND_IN_TAILS - USERS_PER_ROUND)


def _fit_moments(x: torch.Tensor, cells: Cells) -> Moments:
    return fit_bulk_moments(x, torch.as_tensor(cells.codes, device=x.device), cells.n_classes, max_rows=MAX_CLASS_USERS)


class _Frames:
    """Axes in the space in which users have mean 0 and variance 1 in every direction."""

    def __init__(self, x: torch.Tensor, draws: torch.Generator) -> None:
        self.m, self.d, self.draws = x.mean(0), x.shape[1], draws
        C = (x - self.m).mT @ (x - self.m) / len(x)
        values, vectors = torch.linalg.eigh(C)
        self.vectors, self.scale = vectors.flip(1), values.flip(0).clamp(min=0).sqrt()
        self.columns = C.diagonal().sqrt()

    def __call__(self, share: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw axes; return the matrices to them and back, both without directions in which users do not vary."""
        if share == 0:
            return torch.diag(_invert_scale(self.columns)), torch.diag(self.columns)
        first = min(self.d, max(2, self.d // share))
        blocks = [draw_rotation(n, self.draws) for n in (first, self.d - first) if n]
        rotation = torch.block_diag(*blocks)  # type: ignore[no-untyped-call]
        return self.vectors * _invert_scale(self.scale) @ rotation, rotation.mT @ (self.vectors * self.scale).mT


def _invert_scale(scale: torch.Tensor) -> torch.Tensor:
    return torch.where(scale > MIN_SCALE_SHARE * scale.max(), 1 / scale.clamp(min=1e-300), 0.0)


def carry_rounds(
    x: torch.Tensor,
    cells: Cells,
    rounds: int,
    draws: torch.Generator,
    *,
    keep_map: bool,
    max_users: int = MAX_CLASS_USERS,
) -> tuple[torch.Tensor, SlicedMap]:
    """Fit and apply rounds along random axes.

    Args:
        x: user vectors.
        cells: class of each user.
        rounds: number of rounds.
        draws: source of the axes and of the users to learn from.
        keep_map: fit shifts for later users.
        max_users: most users of a class that the rounds are learned from.

    Returns:
        The users after the rounds, and the rounds as a map. The map is empty if it is neither kept nor needed.
    """
    codes = torch.as_tensor(cells.codes, device=x.device)
    members = [_sample_rows((codes == k).nonzero()[:, 0], max_users, draws) for k in range(cells.n_classes)]
    learned = torch.cat(members)
    starts = np.cumsum([0, *map(len, members)]).tolist()
    within = [slice(a, b) for a, b in pairwise(starts)]
    frames = _Frames(x[codes >= 0], draws)
    axes = [frames(SUBSPACE_CYCLE[r % len(SUBSPACE_CYCLE)]) for r in range(rounds)]
    is_sample = len(learned) < int((codes >= 0).sum())
    start = (x[learned] - frames.m).float()
    y, shifts = start.clone(), []
    chance = _measure_chance_moves(y @ axes[0][0].float(), within, draws) if axes else []
    chance_share = min(1.0, CHANCE_SHARE * (len(within) - 1) * max(1.0, CHANCE_USERS / len(learned)) ** 2)
    for number, (to, back) in enumerate(axes):
        share = chance_share if SUBSPACE_CYCLE[number % len(SUBSPACE_CYCLE)] else COLUMN_CHANCE_SHARE
        z = y @ to.float()
        moves = align_axes(z, within).sub_(z)
        for rows, chance_move in zip(within, chance, strict=True):
            squared_move = moves[rows].square().mean(0).clamp(min=1e-30)
            moves[rows] *= (1 - share * chance_move / squared_move).clamp(min=0)  # as in James-Stein shrinkage
        y.addmm_(moves, back.float())
        if keep_map or is_sample:
            shifts.append(torch.stack([fit_shifts(z[rows], z[rows] + moves[rows]) for rows in within]))
    after = x.index_add(0, learned, (y - start).double())
    if not shifts:
        return after, SlicedMap(frames.m, *(x.new_zeros(0) for _ in range(3)))
    matrices_to, matrices_back = (torch.stack(matrices) for matrices in zip(*axes, strict=True))
    fitted = SlicedMap(frames.m, matrices_to, matrices_back, torch.stack(shifts).float())
    return (fitted(x, codes) if is_sample else after), fitted


def _measure_chance_moves(z: torch.Tensor, within: list[slice], draws: torch.Generator) -> list[torch.Tensor]:
    """Measure the mean squared move of each class if users were assigned to classes at random.

    The random classes are given equal means and spreads first, as the Gaussian transport does with the true ones.
    """
    shuffled = z[torch.randperm(len(z), generator=draws, device=z.device)]
    for rows in within:
        spread = shuffled[rows].std(0, correction=0)
        centered = shuffled[rows] - shuffled[rows].mean(0)
        shuffled[rows] = centered / spread.where(spread > 0, 1.0) * z.std(0, correction=0)
    moves = align_axes(shuffled, within).sub_(shuffled)
    return [moves[rows].square().mean() for rows in within]


def _sample_rows(rows: torch.Tensor, max_rows: int, draws: torch.Generator) -> torch.Tensor:
    if len(rows) <= max_rows:
        return rows
    return rows[torch.randperm(len(rows), generator=draws, device=rows.device)[:max_rows]]


def _draw_moments(x: torch.Tensor, cells: Cells, draws: torch.Generator) -> torch.Tensor:
    """Give each class the moments of a reference: as many rows as it has, drawn with replacement from all users."""
    codes = torch.as_tensor(cells.codes, device=x.device)
    known = (codes >= 0).nonzero()[:, 0]
    reference = x.clone()
    reference[known] = x[known[torch.randint(len(known), (len(known),), generator=draws, device=x.device)]]
    now, target = _fit_moments(x, cells), _fit_moments(reference, cells)
    A = torch.eye(x.shape[1], dtype=x.dtype, device=x.device).expand(cells.n_classes, -1, -1)
    if bool((now.n > x.shape[1]).all()):  # else covariances are singular, and only the means are drawn
        A = compute_transport(now.covariance, target.covariance)
    out = x.clone()
    for k in range(cells.n_classes):
        out[codes == k] = (x[codes == k] - now.mean[k]) @ A[k] + target.mean[k]
    return out
