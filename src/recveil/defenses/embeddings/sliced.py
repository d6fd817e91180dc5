"""Drawn sliced barycenter: make whole class distributions alike, not only their moments.

1. Coordinates. Moves that depend on the class stand out wherever users lie closer together than the moves are long. So
   all else is done in label-free coordinates: the columns as they are, length and direction by ranks, or the columns by
   ranks. Each is tried in turn until learners find no more of the classes than chance gives. If they find more in all,
   the best table is carried once more, in each coordinates, and kept if that removes most of what was left.
2. Gaussian transport makes the means and covariances of the bulk of each class equal, by least displacement.
3. Rounds. Each takes d axes and carries every class towards the weighted average of the class quantile functions. The
   axes are random, in turn among the leading 1/8, 1/4, 1/2 and all of the principal directions, and then the columns of
   the table, which trees read. Moves along an axis are shortened by the moves that chance alone would cause. With
   several attributes the joint cells are carried first, then the classes of each attribute.
4. The draw. Moments made equal *exactly* are anti-correlated between any two halves of the users: cross-validated
   attackers fall below chance, and an attacker can invert its guess. So each class gets the moments that as many
   made-up users have (`transport.made_up_rows`).
5. Trades. What learners still find is removed by users who trade their rows (`transport.place_exchange`).

Departs: the prototype moved all the way in every round and drew along each axis, in the columns alone.
Limit: it needs every user's attribute when applied; undisclosed users only go through the pooled Gaussian map. The map
for later users is that of the first turn.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from recveil.defenses.embeddings.fitted_maps import FittedMap, scale_to_norm
from recveil.defenses.embeddings.gaussian import compose_stages, fit_stages
from recveil.defenses.embeddings.sliced_cells import fit_rounds
from recveil.defenses.embeddings.sliced_rounds import MAX_CLASS_USERS, carry_rounds
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.transport.bures_wasserstein import compute_transport
from recveil.transport.class_evidence import ClassEvidence, weigh_evidence
from recveil.transport.coordinates import COLUMNS, COORDINATES, Coordinates
from recveil.transport.made_up_rows import draw_made_up_rows
from recveil.transport.moments import Moments
from recveil.transport.place_exchange import exchange_places
from recveil.transport.robust_moments import fit_bulk_moments
from recveil.transport.row_order import sort_rows

__all__ = ["MAX_ROUNDS_OF_LARGE", "Sliced"]

METHODS = (
    DefenseTraits(
        "sliced",
        builder="Sliced",
        guarantee="classes that are alike in its coordinates are alike in the table",
        max_dimensions=1_024,
        streams=True,
        keeps_map=True,
        equalizes_covariances=True,
        undisclosed_users="went through the label-free map",
        auto_rank=10,
        search_space={"rounds": Range(10, 80, log=True), "strength": Range(0.3, 1.0)},
    ),
)

AUTO = "auto"
"""The first coordinates in which learners find no more than chance, else those in which they find least."""

Kinds = tuple[str, ...]
"""Coordinates in which a table is carried, in turn."""

MAX_TURNS = 2
"""Turns: in the first each coordinates start from the undefended table, then from the best table so far."""

TURN_SHARE = 0.5
"""Share of the evidence that a further turn may leave. One that leaves more costs more than the trades it saves."""

USERS_PER_ROUND = 75
"""Users for each round. With fewer rounds neighbors and trees still reveal the class; with more, neighbors are of
another class more often than by chance, with 32 dimensions as with 128 (research/notes/sliced.md)."""

MAX_ROUNDS = 80
"""Most rounds: with more of them on 15,000 users, neighbors are of another class more often than by chance."""

MAX_ROUNDS_OF_LARGE = 60
"""Most rounds if classes have more users than the rounds are learned from."""

MAX_USERS_TO_CHOOSE = 20_000
"""Users above which the coordinates are chosen on a sample."""

USERS_TO_CHOOSE = 6_000
"""Users of that sample."""

MAX_TRADERS = 100_000
"""Users above which nobody trades, because it would take too long; the self-check tells whether it was needed."""


@dataclass
class Sliced(MapTransformer):
    """Every class a sample of one distribution, as far as random axes can tell.

    Args:
        rounds: number of rounds. By default one for every 75 users, at most five for each dimension and 80 in all (60
            for very many users).
        drawn: give each class the moments of made-up users; without it attackers fall below chance.
        coordinates: `columns`, `polar` or `scores`, or `auto` to find out which are right for the table.
        trade: let users trade rows where something is left. Later users (`transform`) never trade.
        strength: share of the straight way from the undefended table to the fully defended one.
        norm: `keep`, or `unit` to give all vectors the same length first. That costs nothing if scores are dot products
            without bias, whose ranking does not change, and is wrong for every other model.
        device: where tensors are computed.
        random_state: seed of everything that is drawn. The order of the users does not matter.

    Example:
        >>> import numpy as np, recveil as rv
        >>> y = np.arange(200) % 2
        >>> X = np.random.default_rng(0).normal(size=(200, 3)) + 2 * y[:, None]
        >>> safe = rv.Sliced(random_state=0).fit_transform(X, y)
        >>> gap = np.abs(safe[y == 0].mean(0) - safe[y == 1].mean(0)).max()
        >>> bool(gap < 0.5)
        True
    """

    needs_sample: ClassVar[bool] = True
    samples_undisclosed: ClassVar[bool] = False

    rounds: CountOrZero | None = None
    drawn: bool = True
    coordinates: str = AUTO
    trade: bool = True
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
        if self.norm != "keep":
            raise UsageError("norm='unit' is not offered for large tables. Use norm='keep'.")
        if self.coordinates not in (AUTO, COLUMNS):
            raise UsageError(f"coordinates='{self.coordinates}' is not offered for large tables. Use 'columns'.")
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
        self._check_options()
        check_table(x, codes, self.strength)
        device = resolve_device(self.device)
        order = sort_rows(x, codes, device)
        start = torch.tensor(x, device=device)[order].double()
        labels = codes[order]
        if self.strength == 0 or all(cells.n_classes < 2 for cells in plan_cells(codes, minimum=0)):
            return np.asarray(x, dtype=np.float32).copy(), FittedMap([], self.strength, 0.0, x.shape[1])
        kinds, of_sample = self._choose_on_sample(start, labels, rng)
        if kinds:
            carried, fitted = self._carry_in_turn(start, labels, rng, kinds, keep_map=keep_map)
            evidence = of_sample
        else:
            carried, fitted, _, evidence = self._choose_coordinates(start, labels, rng, keep_map=keep_map)
        if self.trade and len(x) <= MAX_TRADERS and (evidence is None or evidence.is_beyond_chance):
            joint = plan_cells(labels, minimum=0)[0].codes
            carried = carried[exchange_places(carried.cpu().numpy(), joint, rng, device=device)]
        out = torch.empty(x.shape, dtype=torch.float32, device=device)
        out[order] = (start + self.strength * (carried - start)).float()
        return out.cpu().numpy(), fitted

    def _check_options(self) -> None:
        if self.norm not in ("keep", "unit"):
            raise UsageError(f"norm must be 'keep' or 'unit' (dot products without bias only); got '{self.norm}'.")
        if self.coordinates not in (AUTO, *COORDINATES):
            raise UsageError(f"coordinates must be one of {', '.join((AUTO, *COORDINATES))}; got '{self.coordinates}'.")
        if (self.rounds or 0) < 0:
            raise UsageError(f"rounds must not be negative; got {self.rounds}.")

    def _choose_on_sample(
        self, x: torch.Tensor, codes: IntArray, rng: np.random.Generator
    ) -> tuple[Kinds, ClassEvidence | None]:
        """Return the coordinates to use, if they are known; of a large table they are chosen on a sample."""
        if self.coordinates != AUTO:
            return (self.coordinates,), None
        if len(x) <= MAX_USERS_TO_CHOOSE:
            return (), None
        sample = np.sort(rng.permutation(len(x))[:USERS_TO_CHOOSE])
        _, _, kinds, evidence = self._choose_coordinates(x[sample], codes[sample], rng, keep_map=False)
        return kinds, evidence

    def _choose_coordinates(
        self, x: torch.Tensor, codes: IntArray, rng: np.random.Generator, *, keep_map: bool
    ) -> tuple[torch.Tensor, FittedMap, Kinds, ClassEvidence]:
        """Carry the table in each coordinates until learners find no more than chance; go on once from the best."""
        joint = plan_cells(codes, minimum=0)[0].codes
        known = np.flatnonzero(joint >= 0)
        labels = np.unique(joint[known], return_inverse=True)[1]  # a sample may lack a rare class
        best: tuple[torch.Tensor, FittedMap, Kinds, ClassEvidence] | None = None
        goal = np.inf
        for turn in range(MAX_TURNS):
            reached = best
            for name in COORDINATES:
                begin, first, kinds = (x, None, ()) if reached is None else reached[:3]
                carried, fitted = self._carry_classes(begin, codes, rng, name, keep_map=keep_map and turn == 0)
                rows = carried[known].cpu().numpy()
                evidence = weigh_evidence(rows, labels, rng, carried.device, enough=goal)
                if best is None or evidence.statistic < goal or not evidence.is_beyond_chance:
                    best, goal = (carried, first or fitted, (*kinds, name), evidence), evidence.statistic
                if not evidence.is_beyond_chance:
                    return best
            goal *= TURN_SHARE
        assert best is not None
        return best

    def _carry_in_turn(
        self, x: torch.Tensor, codes: IntArray, rng: np.random.Generator, kinds: Kinds, *, keep_map: bool
    ) -> tuple[torch.Tensor, FittedMap]:
        """Carry the table in each of these coordinates, from where the one before left it; the map is the first."""
        carried, fitted = self._carry_classes(x, codes, rng, kinds[0], keep_map=keep_map)
        for kind in kinds[1:]:
            carried, _ = self._carry_classes(carried, codes, rng, kind, keep_map=False)
        return carried, fitted

    def _carry_classes(
        self, x: torch.Tensor, codes: IntArray, rng: np.random.Generator, kind: str, *, keep_map: bool
    ) -> tuple[torch.Tensor, FittedMap]:
        """Carry the classes in coordinates of one kind, without trades."""
        draws = make_torch_generator(rng, x.device)
        norm = float(torch.linalg.vector_norm(x, dim=1).mean()) if self.norm == "unit" else 0.0
        scaled = scale_to_norm(x, norm)
        keys = rng.integers(0, 2**64, len(x), dtype=np.uint64)  # equal users are not to be tied
        coordinates, start = Coordinates(), scaled
        if kind != COLUMNS:
            rows = scaled.cpu().numpy()
            coordinates = Coordinates.fit(kind, rows)
            start = torch.from_numpy(coordinates.encode_jointly(rows, keys, rng)).to(x.device)
        partitions = [cells for cells in plan_cells(codes, minimum=2 * start.shape[1]) if cells.n_classes > 1]
        moved, stages = fit_stages(start, partitions, _fit_moments)
        for cells, count in _plan_turns(codes, partitions, self._choose_rounds(*start.shape)):
            moved, rounds = carry_rounds(moved, cells, count, draws, keep_map=keep_map, max_users=MAX_CLASS_USERS)
            stages.append((cells.keys, rounds))
        for cells in dict.fromkeys(partitions if self.drawn else []):
            moved = _draw_moments(moved, cells, draws)
        carried = moved if kind == COLUMNS else torch.from_numpy(coordinates.decode(moved.cpu().numpy())).to(x.device)
        return carried, FittedMap(stages, self.strength, norm, x.shape[1], coordinates)

    def _choose_rounds(self, n: int, d: int) -> int:
        if self.rounds is not None:
            return self.rounds
        most = MAX_ROUNDS_OF_LARGE if n > 2 * MAX_CLASS_USERS else MAX_ROUNDS
        return max(1, min(n // USERS_PER_ROUND, 5 * d, most))


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


def _measure_classes(x: torch.Tensor, cells: Cells) -> Moments:
    """Measure the bulk of each class; a class of too few users to span the space has the covariance within all classes.

    By a covariance of their own its users would be carried to places together, and be known by that.
    """
    codes = torch.as_tensor(cells.codes, device=x.device)
    moments = fit_bulk_moments(x, codes, cells.n_classes, max_rows=MAX_CLASS_USERS)
    within = moments.scatter.sum(0) / moments.n.sum()
    few = (moments.n <= x.shape[1])[:, None, None]
    return Moments(moments.n, moments.mean, (within * moments.n[:, None, None]).where(few, moments.scatter))


def _fit_moments(x: torch.Tensor, cells: Cells) -> Moments:
    """Fit the moments of the classes; means of few users are drawn to that of all by what chance explains.

    As in James-Stein estimates. Means of many users are not, since the draw at the end makes up for chance.
    """
    moments = _measure_classes(x, cells)
    d, few = x.shape[1], moments.n <= x.shape[1]
    if not few.any():
        return moments
    whole = moments.pool_classes()
    gaps = moments.mean - whole.mean
    squared = (gaps @ torch.linalg.pinv(whole.covariance[0], hermitian=True) * gaps).sum(1)
    share = 1 - d / (moments.n * squared).clamp(min=d)
    mean = (whole.mean + share[:, None] * gaps).where(few[:, None], moments.mean)
    return Moments(moments.n, mean, moments.scatter)


def _draw_moments(x: torch.Tensor, cells: Cells, draws: torch.Generator) -> torch.Tensor:
    """Give each class the moments that as many made-up users have; those of all users together stay as they are."""
    codes = torch.as_tensor(cells.codes, device=x.device)
    known = (codes >= 0).nonzero()[:, 0]
    now = _measure_classes(x, cells)
    pool, made_up = now.pool_classes(), x.clone()
    made_up[known] = draw_made_up_rows(x[known], pool, now.n[codes[known]], draws)
    drawn = _measure_classes(made_up, cells)
    drawn_pool = drawn.pool_classes()
    T = compute_transport(drawn_pool.covariance[0].cpu(), pool.covariance[0].cpu()).to(x.device)
    target = drawn.apply_affine(drawn_pool.mean, T.expand(cells.n_classes, -1, -1), pool.mean)
    A = compute_transport(now.covariance.cpu(), target.covariance.cpu()).to(x.device)
    out = x.clone()
    for k in range(cells.n_classes):
        out[codes == k] = (x[codes == k] - now.mean[k]) @ A[k] + target.mean[k]
    return out
