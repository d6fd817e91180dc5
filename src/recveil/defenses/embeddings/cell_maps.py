"""Maps of cells, for tables larger than memory: fitted from statistics of the cells, applied to rows block by block.

A cell is one combination of classes of the protected attributes, "undisclosed" being a class of its own. Affine maps
are composed by formula, so no row of the table is needed to fit them; rounds along axes are learned from a sample.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from recveil.core.types import IntArray
from recveil.defenses.embeddings.cells import Cells, plan_cells
from recveil.defenses.embeddings.fitted_maps import AffineMap, SlicedMap
from recveil.defenses.embeddings.score_maps import ScoreMap
from recveil.transport.moments import Moments

__all__ = ["CellAffine", "CellMap", "CellStatistics", "StreamingDefense", "plan_partitions"]


@dataclass(frozen=True, eq=False)
class CellStatistics:
    """Statistics of the cells of a table.

    Attributes:
        moments: count, mean and scatter of the rows of each cell.
        codes: (cells, attributes) class of each attribute in each cell, -1 if undisclosed.
        sample: vectors of rows drawn without replacement from each cell; empty unless the defense needs it.
        sample_cells: cell of each row of the sample.
    """

    moments: Moments
    codes: IntArray
    sample: NDArray[np.float32] = field(default_factory=lambda: np.empty((0, 0), np.float32))
    sample_cells: NDArray[np.int16] = field(default_factory=lambda: np.empty(0, np.int16))


@runtime_checkable
class StreamingDefense(Protocol):
    """An embedding defense that can be fitted from statistics of cells.

    Attributes:
        needs_sample: the fit reads a sample of the rows of each cell besides the moments.
        samples_undisclosed: the sample also has users who disclosed nothing.
    """

    needs_sample: ClassVar[bool]
    samples_undisclosed: ClassVar[bool]

    def fit_cells(self, statistics: CellStatistics, rng: np.random.Generator) -> tuple[CellMap, list[str]]:
        """Fit the map of each cell; the notes tell readers what limits the result."""


@dataclass(frozen=True, eq=False)
class CellAffine:
    """An affine map of each cell c: x -> (x - center[c]) A[c] + m[c]."""

    center: torch.Tensor  # (C, d)
    A: torch.Tensor  # (C, d, d)
    m: torch.Tensor  # (C, d)

    @classmethod
    def from_stage(cls, stage: AffineMap, classes: Sequence[int]) -> CellAffine:
        """Spread a map of classes over the cells that belong to them.

        Class -1 (undisclosed) is the last entry of the stage.
        """
        at = torch.as_tensor(np.asarray(classes))
        return cls(stage.center[at], stage.A[at], stage.m.expand(len(at), -1))

    @classmethod
    def identity(cls, moments: Moments) -> CellAffine:
        """Return the map that leaves all rows where they are, centered at the means."""
        eye = torch.eye(moments.mean.shape[1], dtype=torch.float64).expand(len(moments.n), -1, -1)
        return cls(moments.mean, eye, moments.mean)

    def select_cells(self, cells: torch.Tensor) -> CellAffine:
        """Return the maps of these cells, in this order."""
        return CellAffine(self.center[cells], self.A[cells], self.m[cells])

    def compose_with(self, following: CellAffine) -> CellAffine:
        """Return the map that applies this one and then the following one."""
        m = torch.einsum("ci,cij->cj", self.m - following.center, following.A) + following.m
        return CellAffine(self.center, self.A @ following.A, m)

    def blend_with_identity(self, strength: float) -> CellAffine:
        """Return the map that goes this share of the way.

        It is x + strength (map(x) - x), which is affine too.
        """
        eye = torch.eye(self.A.shape[1], dtype=self.A.dtype)
        return CellAffine(self.center, torch.lerp(eye, self.A, strength), torch.lerp(self.center, self.m, strength))

    def carry_rows(self, x: torch.Tensor, cell: int) -> torch.Tensor:
        """Carry rows of one cell; `x` is overwritten. NumPy's product takes three quarters of the time of torch's."""
        rows = x.numpy()
        rows -= self.center[cell].numpy()
        moved = rows @ self.A[cell].numpy()
        moved += self.m[cell].numpy()
        return torch.from_numpy(moved)

    def to_float32(self) -> CellAffine:
        """Return the map in single precision."""
        return CellAffine(self.center.float(), self.A.float(), self.m.float())


@dataclass(frozen=True, eq=False)
class CellMap:
    """The map of each cell: affine, with or without rounds after it.

    Rounds are followed by another affine map. A map by scores takes the place of all of them.

    Attributes:
        first: affine map of all cells.
        classes: class of each cell in the rounds; a cell of class -1 goes through `first` only.
        rounds: moves along axes.
        last: affine map after the rounds.
        strength: share of the way that rows with rounds or scores go.
        scores: map by scores of the vector alone, the same for all cells.
    """

    first: CellAffine
    classes: tuple[int, ...] = ()
    rounds: SlicedMap | None = None
    last: CellAffine | None = None
    strength: float = 1.0
    scores: ScoreMap | None = None

    def carry_rows(self, x: torch.Tensor, cell: int) -> torch.Tensor:
        """Carry rows of one cell; `x` may be overwritten."""
        if self.scores is not None:
            return self.scores.blend_rows(x, self.strength)
        if self.rounds is None or self.last is None or self.classes[cell] < 0:
            return self.first.carry_rows(x, cell)
        y = self.first.carry_rows(x.clone(), cell)
        y = self.last.carry_rows(self.rounds.carry_class(y, self.classes[cell]), cell)
        return torch.lerp(x, y, self.strength)

    def blend_with_identity(self, strength: float) -> CellMap:
        """Return the map that goes this share of the way.

        This map must be at full strength.
        """
        part = self.first.blend_with_identity(strength)
        if self.rounds is None:
            return replace(self, first=part)
        # Only cells that skip the rounds are blended in their affine map; the others are once the rounds are through.
        undisclosed = torch.as_tensor(np.asarray(self.classes) < 0)
        m, A = undisclosed[:, None], undisclosed[:, None, None]
        first = CellAffine(part.center, torch.where(A, part.A, self.first.A), torch.where(m, part.m, self.first.m))
        return replace(self, first=first, strength=strength)

    def to_float32(self) -> CellMap:
        """Return the map in single precision, in which it is applied."""
        if self.rounds is None or self.last is None:
            return replace(self, first=self.first.to_float32())
        rounds = SlicedMap(*(tensor.float() for tensor in vars(self.rounds).values()))
        return replace(self, first=self.first.to_float32(), rounds=rounds, last=self.last.to_float32())

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the map as named arrays, from which `from_arrays` makes it again."""
        parts = {"first": self.first, "rounds": self.rounds, "last": self.last}
        arrays = {
            f"{part}.{name}": np.ascontiguousarray(tensor.numpy())
            for part, held in parts.items()
            if held is not None
            for name, tensor in vars(held).items()
        }
        by_scores = {} if self.scores is None else self.scores.to_tensors()
        arrays |= {f"scores.{name}": np.ascontiguousarray(tensor.numpy()) for name, tensor in by_scores.items()}
        return {**arrays, "classes": np.array(self.classes, np.int64), "strength": np.array([self.strength])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> CellMap:
        """Make the map that `to_arrays` was called on."""

        def read_part(part: str) -> dict[str, torch.Tensor]:
            prefix = f"{part}."
            return {k.removeprefix(prefix): torch.from_numpy(v) for k, v in arrays.items() if k.startswith(prefix)}

        rounds, last, scores = read_part("rounds"), read_part("last"), read_part("scores")
        return cls(
            CellAffine(**read_part("first")),
            tuple(arrays["classes"].tolist()),
            SlicedMap(**rounds) if rounds else None,
            CellAffine(**last) if last else None,
            float(arrays["strength"][0]),
            ScoreMap.from_tensors(**scores) if scores else None,
        )


def plan_partitions(statistics: CellStatistics) -> list[Cells]:
    """Cut the cells into the classes that a defense equalizes in turn.

    Cells without rows belong to no class. Joint cells are used if each has at least two rows for each dimension.
    """
    moments, codes = statistics.moments, statistics.codes
    held = (moments.n > 0).numpy()
    known = held & (codes >= 0).any(1)
    smallest = int(moments.n.numpy()[known].min()) if known.any() else 0
    joint = smallest >= 2 * moments.mean.shape[1]
    partitions = []
    # Here a cell counts as one row of codes, so `minimum` says yes or no in place of a number of users.
    for cells in plan_cells(codes[held], minimum=0 if joint else 1 << 62):
        everywhere = np.full(len(codes), -1, dtype=np.int64)
        everywhere[held] = cells.codes
        if cells.n_classes > 1:
            partitions.append(Cells(everywhere, cells.keys))
    return partitions
