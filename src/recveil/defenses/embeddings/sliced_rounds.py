"""Rounds along random axes, which carry every class towards the weighted average of the class quantile functions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from recveil.defenses.embeddings.cells import Cells
from recveil.defenses.embeddings.fitted_maps import SlicedMap
from recveil.transport.quantile_alignment import align_axes, draw_rotation, fit_shifts

__all__ = ["MAX_CLASS_USERS", "carry_rounds"]

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

MAX_CLASS_USERS = 10_000
"""Users of each class that the rounds are learned from; all users go through the fitted rounds."""


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
