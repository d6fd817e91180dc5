"""Fitted maps: they carried the users of a fit, and are kept for later users.

A map is a list of stages. Each partitions the users into cells and carries each cell by an `AffineMap` or by the rounds
of a `SlicedMap`, or carries all users by scores of their vectors (`ScoreMap`). A user of an undisclosed class, or of a
class that the fit did not meet, takes only the part that needs no label.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch

from recveil.core.device import use_one_thread
from recveil.core.errors import DataError
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import find_cells
from recveil.defenses.embeddings.few_rows import FEW_ROWS, AffineRows, RowCarrier, SlicedRows, scale_rows
from recveil.defenses.embeddings.score_maps import ScoreMap
from recveil.transport.coordinates import Coordinates
from recveil.transport.quantile_alignment import KNOTS, interpolate_shifts

__all__ = ["AffineMap", "Carrier", "FittedMap", "SlicedMap", "Stage", "blend_tables", "scale_to_norm"]

BLOCK_ROWS = 1 << 14
"""Rows that go through all rounds together; so few stay in the processor's cache."""

BLOCK_ROWS_ON_GPU = 1 << 18


@dataclass(frozen=True, eq=False)
class AffineMap:
    """An affine map for each class: x -> (x - center[k]) A[k] + m.

    Attributes:
        center: (K + 1, d); the last row is for undisclosed users.
        A: (K + 1, d, d); the last matrix is for undisclosed users.
        m: (d,)
        regularized: whether covariances had to be regularized at the fit.
    """

    center: torch.Tensor
    A: torch.Tensor
    m: torch.Tensor
    regularized: bool = False

    def __call__(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Carry the users by the map of their class, in float64."""
        center, A, m = self.center.double(), self.A.double(), self.m.double()
        out = torch.empty(x.shape, dtype=torch.float64, device=x.device)
        for k in range(len(A)):  # code -1 is row K, the last
            rows = (codes == k) if k < len(A) - 1 else (codes < 0)
            out[rows] = (x[rows].double() - center[k]) @ A[k] + m
        return out

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that make up the map, by name."""
        return {"center": self.center, "A": self.A, "m": self.m}

    def has_shape(self, n_cells: int, dimensions: int) -> bool:
        """Whether the map is for so many cells of vectors of so many dimensions."""
        shapes = [tuple(tensor.shape) for tensor in (self.center, self.A, self.m)]
        return shapes == [(n_cells + 1, dimensions), (n_cells + 1, dimensions, dimensions), (dimensions,)]


@dataclass(frozen=True, eq=False)
class SlicedMap:
    """Rounds: z = (x - m) to[r], each coordinate of z moved by the shifts of the class, and back.

    Undisclosed users stay where they are.

    Attributes:
        m: (d,) center.
        to: (R, d, d) axes of each round.
        back: (R, d, d) way back from the axes.
        shifts: (R, K, d, KNOTS) shifts of each class along each axis.
    """

    m: torch.Tensor
    to: torch.Tensor
    back: torch.Tensor
    shifts: torch.Tensor

    def __call__(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """Carry the users by the rounds of their class, computed in float32."""
        out, on_cpu = x.double(), x.device.type == "cpu"
        size = BLOCK_ROWS if on_cpu else BLOCK_ROWS_ON_GPU
        classes = range(self.shifts.shape[1] if len(self.to) else 0)
        blocks = [(k, rows) for k in classes for rows in torch.split((codes == k).nonzero()[:, 0], size)]

        def carry_block(block: tuple[int, torch.Tensor]) -> None:
            k, rows = block
            out[rows] = self.carry_class(out[rows].float(), k).double()

        # Each block is computed by one thread alone, so the bytes do not depend on the number of threads.
        with ThreadPoolExecutor((os.cpu_count() or 1) if on_cpu else 1) as pool, use_one_thread():
            list(pool.map(carry_block, blocks))
        return out

    def carry_class(self, x: torch.Tensor, k: int) -> torch.Tensor:
        """Carry users of class k, given in float32, by all rounds."""
        m, to, back, shifts = (t.float() for t in (self.m, self.to, self.back, self.shifts))
        y = x - m
        for r in range(len(to)):
            y.addmm_(interpolate_shifts(y @ to[r], shifts[r, k]), back[r])
        return y + m

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """Return the tensors that make up the map, by name."""
        return {"m": self.m, "to": self.to, "back": self.back, "shifts": self.shifts}

    def has_shape(self, n_cells: int, dimensions: int) -> bool:
        """Whether the map is for so many cells of vectors of so many dimensions."""
        rounds, square = len(self.to), (len(self.to), dimensions, dimensions)
        shifts = (rounds, n_cells, dimensions, KNOTS)
        shapes = [tuple(tensor.shape) for tensor in (self.to, self.back, self.shifts)]
        return self.m.shape == (dimensions,) and (not rounds or shapes == [square, square, shifts])


Carrier = AffineMap | SlicedMap | ScoreMap
Stage = tuple[IntArray, Carrier]
"""Keys of the cells, and the map that carries them."""


@dataclass(frozen=True, eq=False)
class FittedMap:
    """The stages of a fit.

    Attributes:
        stages: maps to apply in turn.
        strength: share of the straight way that users go.
        norm: length that all vectors get first; 0 leaves them alone.
        dimensions: length of the vectors.
        coordinates: label-free coordinates in which the stages work.
    """

    stages: list[Stage]
    strength: float
    norm: float
    dimensions: int
    coordinates: Coordinates = field(default_factory=Coordinates)

    def __call__(self, x: FloatArray, codes: IntArray, device: torch.device) -> FloatArray:
        """Carry users by their codes; -1 for undisclosed attributes."""
        if x.ndim != 2 or x.shape[1] != self.dimensions:
            raise DataError(f"The map is for vectors of {self.dimensions} dimensions; got a table of shape {x.shape}.")
        if len(x) <= FEW_ROWS and device.type == "cpu":
            return self._carry_few_rows(x, codes)
        start = torch.from_numpy(np.require(x, np.float64, "W")).to(device)  # torch warns of arrays that are read only
        moved = self._encode(scale_to_norm(start, self.norm))
        for keys, stage in self.stages:
            moved = _move_to(stage, device)(moved, torch.as_tensor(find_cells(codes, keys), device=device))
        return blend_tables(start, self._decode(moved), self.strength)

    @property
    def only_scores(self) -> ScoreMap | None:
        """The map by scores if it is all there is, else None."""
        is_plain = len(self.stages) == 1 and not self.norm and self.coordinates.scores is None
        stage = self.stages[0][1] if is_plain else None
        return stage if isinstance(stage, ScoreMap) else None

    def _encode(self, x: torch.Tensor) -> torch.Tensor:
        return x if self.coordinates.scores is None else torch.from_numpy(self.coordinates.encode(_to_numpy(x))).to(x)

    def _decode(self, z: torch.Tensor) -> torch.Tensor:
        return z if self.coordinates.scores is None else torch.from_numpy(self.coordinates.decode(_to_numpy(z))).to(z)

    def _carry_few_rows(self, x: FloatArray, codes: IntArray) -> FloatArray:
        """Carry a few users without torch."""
        start = np.asarray(x, dtype=np.float64)
        moved = self.coordinates.encode(scale_rows(start, self.norm))
        for (keys, _), stage in zip(self.stages, self._row_carriers, strict=True):
            moved = stage.carry_rows(moved, find_cells(codes, keys))
        moved = self.coordinates.decode(moved)
        out: FloatArray = (start + self.strength * (moved - start)).astype(np.float32)
        return out

    @cached_property
    def _row_carriers(self) -> list[RowCarrier]:
        """The stages as arrays, converted when a few users come for the first time."""
        return [_make_row_carrier(stage) for _, stage in self.stages]


def scale_to_norm(x: torch.Tensor, norm: float) -> torch.Tensor:
    """Scale all vectors to this length; 0 leaves them alone."""
    return x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-300) * norm if norm else x


def blend_tables(start: torch.Tensor, moved: torch.Tensor, strength: float) -> FloatArray:
    """Return the table a share `strength` of the straight way from one table to the other."""
    blended = moved if strength == 1.0 else torch.lerp(start, moved, strength)
    out: FloatArray = blended.to(torch.float32).cpu().numpy()
    return out


def _to_numpy(x: torch.Tensor) -> FloatArray:
    out: FloatArray = x.detach().cpu().numpy()
    return out


def _make_row_carrier(stage: Carrier) -> RowCarrier:
    if isinstance(stage, ScoreMap):
        return _ScoreRows(stage)
    if isinstance(stage, AffineMap):
        return AffineRows.from_tensors(stage.to_tensors())
    return SlicedRows.from_tensors(stage.to_tensors()) or _TorchRows(stage)


@dataclass(frozen=True, eq=False)
class _ScoreRows:
    """A `ScoreMap`, which is computed in NumPy anyway."""

    stage: ScoreMap

    def carry_rows(self, x: FloatArray, cells: IntArray) -> FloatArray:
        """Carry rows; `cells` are not looked at."""
        return self.stage.carry_rows(x)


@dataclass(frozen=True, eq=False)
class _TorchRows:
    """A `SlicedMap` whose axes lose something, so that its rounds cannot be chained."""

    stage: SlicedMap

    def carry_rows(self, x: FloatArray, cells: IntArray) -> FloatArray:
        """Carry rows by torch, which takes longer."""
        return _to_numpy(self.stage(torch.from_numpy(x), torch.from_numpy(cells)))


def _move_to(stage: Carrier, device: torch.device) -> Carrier:
    if isinstance(stage, ScoreMap):
        return stage  # it is computed on the CPU
    moved = {name: tensor.to(device) for name, tensor in stage.to_tensors().items()}
    return replace(stage, **moved)  # type: ignore[arg-type]
