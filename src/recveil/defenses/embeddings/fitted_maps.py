"""Fitted maps: what carried the users of a fit, kept for later users.

A map is a list of stages. Each cuts the users into cells and carries each cell by an `AffineMap` or by the rounds of a
`SlicedMap`. A user of an unknown class, or of one that was not there at the fit, takes what needs no label only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from recveil.core.errors import DataError
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import find_cells
from recveil.transport.quantile_alignment import KNOTS, interpolate_shifts

__all__ = ["AffineMap", "FittedMap", "SlicedMap", "Stage", "blend_tables", "scale_to_norm"]

BLOCK_ROWS = 1 << 14
"""Rows that go through all rounds together: few enough to stay in the processor's cache."""


@dataclass(frozen=True, eq=False)
class AffineMap:
    """x -> (x - center[k]) A[k] + m for class k; the last class is for users whose attribute is unknown."""

    center: torch.Tensor  # (K + 1, d)
    A: torch.Tensor  # (K + 1, d, d)
    m: torch.Tensor  # (d,)
    regularized: bool = False

    def __call__(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """The users where the map carries them, in float64."""
        out = torch.empty(x.shape, dtype=torch.float64, device=x.device)
        for k in range(len(self.A)):  # code -1 is row K, the last
            rows = (codes == k) if k < len(self.A) - 1 else (codes < 0)
            out[rows] = (x[rows].double() - self.center[k]) @ self.A[k] + self.m
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
    """R rounds: z = (x - m) to[r], each coordinate of z moved by the shifts of the class, and back.

    Users of unknown class stay where they are.
    """

    m: torch.Tensor  # (d,)
    to: torch.Tensor  # (R, d, d)
    back: torch.Tensor  # (R, d, d)
    shifts: torch.Tensor  # (R, K, d, KNOTS)

    def __call__(self, x: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        """The users where the rounds carry them; computed in float32."""
        out = x.double()
        for k in range(self.shifts.shape[1] if len(self.to) else 0):
            for rows in torch.split((codes == k).nonzero()[:, 0], BLOCK_ROWS if x.device.type == "cpu" else 1 << 18):
                out[rows] = self.carry_class(out[rows].float(), k).double()
        return out

    def carry_class(self, x: torch.Tensor, k: int) -> torch.Tensor:
        """Users of class k, in 32 bits, where the rounds carry them."""
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


Carrier = AffineMap | SlicedMap
Stage = tuple[IntArray, Carrier]
"""The keys of the cells, and what carries them."""


@dataclass(frozen=True, eq=False)
class FittedMap:
    """The stages of a fit, `strength` of the way; `norm` is the length all users get first (0 = they keep theirs)."""

    stages: list[Stage]
    strength: float
    norm: float
    dimensions: int

    def __call__(self, x: FloatArray, codes: IntArray, device: torch.device) -> FloatArray:
        """Where users go whose codes are known, in part or not at all (-1)."""
        if x.ndim != 2 or x.shape[1] != self.dimensions:
            raise DataError(f"The map is for vectors of {self.dimensions} dimensions; got a table of shape {x.shape}.")
        start = torch.tensor(x, device=device).double()
        moved = scale_to_norm(start, self.norm)
        for keys, stage in self.stages:
            moved = _move_to(stage, device)(moved, torch.as_tensor(find_cells(codes, keys), device=device))
        return blend_tables(start, moved, self.strength)


def scale_to_norm(x: torch.Tensor, norm: float) -> torch.Tensor:
    """All users with vectors of this length; 0 leaves them alone."""
    return x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-300) * norm if norm else x


def blend_tables(start: torch.Tensor, moved: torch.Tensor, strength: float) -> FloatArray:
    """The straight way from one table to the other, this far."""
    out: FloatArray = torch.lerp(start, moved, strength).to(torch.float32).cpu().numpy()
    return out


def _move_to(stage: Carrier, device: torch.device) -> Carrier:
    moved = {name: tensor.to(device) for name, tensor in stage.to_tensors().items()}
    return replace(stage, **moved)  # type: ignore[arg-type]
