"""From the moments and the sketch of the cells to one map for each cell: no row of the table is needed.

`gaussian` and `leace` are affine on every cell, whatever the targets, so their stages are composed on paper. `sliced`
learns its rounds from a part of the sketch, and the moments of what they leave from the rest of it.

Departs from `sliced` in memory: the rounds are learned from up to 50,000 users of a class instead of 10,000; where a
class has more users than the sketch holds, the moments that the draw sets out from are those of users the rounds were
not fitted to; the moments of the reference are drawn as those of Gaussian users; and moments are plain, not those of
the bulk, as they are in memory for classes of more than 10,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray
from scipy import stats

from recveil.core.errors import DataError, UsageError
from recveil.core.random import torch_generator
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings import gaussian, leace
from recveil.defenses.embeddings.cells import Cells, cells_of
from recveil.defenses.embeddings.fitted_maps import AffineMap, SlicedMap
from recveil.defenses.embeddings.sliced import MOST_OF_LARGE, Sliced, carry_rounds
from recveil.streaming.block_table import as_tensor
from recveil.streaming.sketch import Sketch
from recveil.transport import bures_wasserstein as transport
from recveil.transport.moments import Moments

__all__ = ["LEARNED", "Affine", "CellMap", "Method", "fit", "moved_by"]

LEARNED = 50_000
"""Of each class, the users from whom the rounds are learned."""

PIECE = 1 << 16
"""Rows of the sketch that go through the rounds at once."""

BLOCK = 1 << 12
"""Rows that are carried at once: few enough to stay in the processor's cache."""

FEW = (
    "A class has no more users than the vectors have dimensions. Covariances were regularized, and become equal only "
    "roughly."
)

Method = gaussian.Gaussian | leace.Leace | Sliced


@dataclass(frozen=True, eq=False)
class Affine:
    """x -> (x - center[c]) A[c] + m[c] for each cell c."""

    center: torch.Tensor  # (C, d)
    A: torch.Tensor  # (C, d, d)
    m: torch.Tensor  # (C, d)

    @classmethod
    def of(cls, stage: AffineMap, classes: Sequence[int]) -> Affine:
        """The stage as it acts on cells of these classes (-1: unknown, its last entry)."""
        at = torch.as_tensor(np.asarray(classes))
        return cls(stage.center[at], stage.A[at], stage.m.expand(len(at), -1))

    def then(self, other: Affine) -> Affine:
        """First this one, then the other."""
        m = torch.einsum("ci,cij->cj", self.m - other.center, other.A) + other.m
        return Affine(self.center, self.A @ other.A, m)

    def blended(self, strength: float) -> Affine:
        """This share of the way."""
        eye = torch.eye(self.A.shape[1], dtype=self.A.dtype)
        return Affine(self.center, torch.lerp(eye, self.A, strength), torch.lerp(self.center, self.m, strength))

    def carry(self, x: torch.Tensor, c: int) -> torch.Tensor:
        """Rows of one cell, in place."""
        return torch.addmm(self.m[c], x.sub_(self.center[c]), self.A[c])

    def float(self) -> Affine:
        """In 32 bits."""
        return Affine(self.center.float(), self.A.float(), self.m.float())


@dataclass(frozen=True, eq=False)
class CellMap:
    """What is done to the rows of each cell: an affine map, and with `rounds` these and another one after it.

    `classes[c]` is the class of cell c in the rounds; where it is -1, only the first map is applied.
    """

    first: Affine
    classes: tuple[int, ...] = ()
    rounds: SlicedMap | None = None
    last: Affine | None = None
    strength: float = 1.0

    def __call__(self, x: NDArray[np.float32], cells: NDArray[np.int16]) -> NDArray[np.float32]:
        """Where the rows go: grouped by cell a few thousand at a time, so that each cell is one product."""
        given = as_tensor(x)
        # From Arrow's pool, which hands the same memory out again: fresh pages cost as much as the products.
        out = torch.frombuffer(pa.allocate_buffer(max(x.nbytes, 4)), dtype=torch.float32)[: x.size].view(x.shape)
        for start in range(0, len(x), BLOCK):
            here = cells[start : start + BLOCK]
            order = np.argsort(here, kind="stable")
            present, first = np.unique(here[order], return_index=True)
            for c, rows in zip(present.tolist(), np.split(order, first[1:]), strict=True):
                at = torch.from_numpy(rows + start)
                out[at] = self._cell(given[at], c)
        return np.asarray(out)

    def _cell(self, x: torch.Tensor, c: int) -> torch.Tensor:
        if self.rounds is None or self.last is None or self.classes[c] < 0:
            return self.first.carry(x, c)
        y = self.first.carry(x.clone(), c)
        y = self.last.carry(self.rounds.moved(y, self.classes[c]), c)
        return torch.lerp(x, y, self.strength)

    def float(self) -> CellMap:
        """In 32 bits, as it is applied."""
        if self.rounds is None or self.last is None:
            return replace(self, first=self.first.float())
        rounds = SlicedMap(*(tensor.float() for tensor in vars(self.rounds).values()))
        return replace(self, first=self.first.float(), rounds=rounds, last=self.last.float())


def fit(
    method: Method, moments: Moments, codes: IntArray, sketch: Sketch | None, rng: np.random.Generator
) -> tuple[CellMap, list[str]]:
    """The map of each cell, and what whoever reads the numbers should know. `codes` are the classes of each cell."""
    if isinstance(method, leace.Leace):
        return CellMap(_leace(moments, codes).blended(method.strength)), []
    passes = _passes(moments, codes)
    first, notes = _gaussian(moments, passes)
    if not isinstance(method, Sliced):
        return CellMap(first.blended(method.strength)), notes
    if len(passes) != 1:
        raise DataError(
            "Some combinations of the targets' classes have too few users for `sliced` on a large table (two for each "
            "dimension are needed). Name one target, or use --method gaussian."
        )
    assert sketch is not None
    fitted = _sliced(method, first, passes[0], moments, sketch, rng)
    unknown = torch.as_tensor(np.asarray(fitted.classes) < 0)
    partly = first.blended(method.strength)
    mixed = Affine(*(_where(unknown, a, b) for a, b in zip(vars(partly).values(), vars(first).values(), strict=True)))
    return replace(fitted, first=mixed), notes


def moved_by(fitted: CellMap, moments: Moments, sketch: Sketch | None) -> float:
    """How far the users are moved, as a share of how far they lie from their mean (root mean squares).

    Of an affine map that follows from the moments; of rounds, from the users of the sketch.
    """
    first = fitted.first
    step = first.A - torch.eye(moments.mean.shape[1], dtype=torch.float64)
    shift = moments.carried(first.center, first.A, first.m).mean - moments.mean
    squares = torch.einsum("cij,cjk,cki->c", step.mT, moments.scatter, step) + moments.n * (shift**2).sum(1)
    if fitted.rounds is not None and sketch is not None:
        gap = fitted.float()(sketch.x, sketch.cells) - sketch.x
        apart = np.einsum("ni,ni->n", gap, gap, dtype=np.float64)
        n = np.bincount(sketch.cells, minlength=len(squares))
        mean = np.bincount(sketch.cells, apart, len(squares)) / np.maximum(n, 1)
        squares = torch.where(torch.from_numpy(n > 0), torch.from_numpy(mean) * moments.n, squares)
    spread = float(moments.pooled().scatter[0].diagonal().sum())
    return (float(squares.sum()) / spread) ** 0.5 if spread > 0 else 0.0


def _where(mask: torch.Tensor, yes: torch.Tensor, no: torch.Tensor) -> torch.Tensor:
    return torch.where(mask.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)


def _passes(moments: Moments, codes: IntArray) -> list[Cells]:
    """The passes of `cells_of`, with the cells that have rows in place of users."""
    held = (moments.n > 0).numpy()
    known = held & (codes >= 0).any(1)
    smallest = int(moments.n.numpy()[known].min()) if known.any() else 0
    enough = smallest >= 2 * moments.mean.shape[1]
    passes = []
    for cells in cells_of(codes[held], minimum=0 if enough else 1 << 62):
        everywhere = np.full(len(codes), -1, dtype=np.int64)
        everywhere[held] = cells.codes
        if cells.n_classes > 1:
            passes.append(Cells(everywhere, cells.keys))
    return passes


def _identity(moments: Moments) -> Affine:
    eye = torch.eye(moments.mean.shape[1], dtype=torch.float64).expand(len(moments.n), -1, -1)
    return Affine(moments.mean, eye, moments.mean)


def _gaussian(moments: Moments, passes: list[Cells]) -> tuple[Affine, list[str]]:
    total, regularized = _identity(moments), False
    for cells in passes:
        stage = gaussian.fit_map(moments.grouped(cells.codes.tolist(), cells.n_classes))
        step = Affine.of(stage, cells.codes.tolist())
        moments = moments.carried(step.center, step.A, step.m)
        total, regularized = total.then(step), regularized or stage.regularized
    return total, [FEW] if regularized else []


def _leace(moments: Moments, codes: IntArray) -> Affine:
    told = []
    for column in codes.T:
        present = np.unique(column[(moments.n > 0).numpy() & (column >= 0)])
        if len(present) > 1:
            groups = np.where(np.isin(column, present), np.searchsorted(present, column), -1)
            told.append(moments.grouped(groups.tolist(), len(present)))
    if not told:
        return _identity(moments)
    return Affine.of(leace.fit_map(moments.pooled(), told), [-1] * len(moments.n))


def _sliced(
    method: Sliced, first: Affine, cells: Cells, moments: Moments, sketch: Sketch, rng: np.random.Generator
) -> CellMap:
    """The rounds and what follows them; `first` has been fitted already."""
    if method.norm != "keep":
        raise UsageError("norm='unit' is not offered for large tables. Use norm='keep'.")
    draws, K = torch_generator(rng), cells.n_classes
    codes = cells.codes[sketch.cells]
    n = moments.grouped(cells.codes.tolist(), K).n
    learned, left = (np.flatnonzero(rows) for rows in _shares(codes, n.numpy()))
    wanted = MOST_OF_LARGE if method.rounds is None else method.rounds
    few = Cells(codes[learned], cells.keys)
    rounds = carry_rounds(_carried(first, sketch.take(learned)), few, wanted, draws, kept=True, most=LEARNED)[1]
    now = Moments.empty(K, sketch.x.shape[1], torch.device("cpu"))
    for rows in np.array_split(left, len(left) // PIECE + 1):  # a few at a time: in 64 bits they take room
        after = rounds(_carried(first, sketch.take(rows)), torch.from_numpy(codes[rows]))
        now = now.merge(Moments.of(after, torch.from_numpy(codes[rows]), K))
    now = Moments(n, now.mean, now.covariance * n[:, None, None])
    last = _drawn(now, rng) if method.drawn else _identity(now)
    classes = torch.as_tensor(cells.codes)
    spread = Affine(last.center[classes], last.A[classes], last.m[classes])
    return CellMap(first, tuple(cells.codes.tolist()), rounds, spread, method.strength)


def _carried(first: Affine, sketch: Sketch) -> torch.Tensor:
    """The rows of the sketch after the first map, in 64 bits."""
    y = torch.empty(sketch.x.shape, dtype=torch.float64)
    for c in np.unique(sketch.cells).tolist():
        at = torch.from_numpy(np.flatnonzero(sketch.cells == c))
        y[at] = first.carry(torch.from_numpy(sketch.x)[at].double(), c)
    return y


def _shares(codes: IntArray, n: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """From whom the rounds are learned, and from whom the moments: the others, or all where the sketch has all."""
    learned, left = np.zeros(len(codes), dtype=bool), np.zeros(len(codes), dtype=bool)
    for k in range(len(n)):
        rows = np.flatnonzero(codes == k)
        whole = len(rows) >= n[k]
        cut = min(len(rows), LEARNED) if whole else min(len(rows) // 5, LEARNED)
        learned[rows[:cut]] = True
        left[rows if whole else rows[cut:]] = True
    return learned, left


def _drawn(now: Moments, rng: np.random.Generator) -> Affine:
    """Give each class the mean and covariance that n_k users drawn from all would have by chance."""
    K, d = now.mean.shape
    whole = now.pooled()
    C, m = whole.covariance[0], whole.mean[0]
    root = transport.power(C, 0.5)
    sizes = now.n.clamp(min=2)
    mean = m + torch.from_numpy(rng.standard_normal((K, d))) @ root / sizes.sqrt()[:, None]
    A = torch.eye(d, dtype=torch.float64).expand(K, -1, -1)
    if bool((now.n > d).all()):
        aims = [root @ torch.from_numpy(_wishart(float(n), d, rng)) @ root for n in sizes]
        A = transport.transport(now.covariance, torch.stack(aims))
    return Affine(now.mean, A, mean)


def _wishart(n: float, d: int, rng: np.random.Generator) -> FloatArray:
    """The covariance of n users of a standard Gaussian."""
    drawn = np.asarray(stats.wishart.rvs(df=n - 1, scale=np.eye(d) / n, random_state=rng), dtype=np.float64)
    return drawn.reshape(d, d)
