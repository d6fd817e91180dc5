"""Fitted maps: what carried the users of a fit, kept for users who come later, on disk without pickle.

A map is a list of stages. Each cuts the users into cells and carries each cell by an `AffineMap` or by the rounds of a
`SlicedMap`. A user of an unknown class, or of one that was not there at the fit, takes what needs no label only.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch

from recveil.core import device as devices
from recveil.core.errors import DataError, UsageError
from recveil.core.files import writing
from recveil.core.random import generator
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.cells import find
from recveil.transport.quantile_alignment import apply_shifts

__all__ = ["AffineMap", "FittedMap", "Keeps", "SlicedMap", "Stage", "blend", "unit"]

FORMAT = "recveil map 1"
BLOCK = 1 << 14
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
            for rows in torch.split((codes == k).nonzero()[:, 0], BLOCK if x.device.type == "cpu" else 1 << 18):
                out[rows] = self.moved(out[rows].float(), k).double()
        return out

    def moved(self, x: torch.Tensor, k: int) -> torch.Tensor:
        """Users of class k, in 32 bits, where the rounds carry them."""
        m, to, back, shifts = (t.float() for t in (self.m, self.to, self.back, self.shifts))
        y = x - m
        for r in range(len(to)):
            y.addmm_(apply_shifts(y @ to[r], shifts[r, k]), back[r])
        return y + m


Carrier = AffineMap | SlicedMap
Stage = tuple[IntArray, Carrier]
"""The keys of the cells, and what carries them."""

KINDS: dict[str, Any] = {kind.__name__: kind for kind in (AffineMap, SlicedMap)}


@dataclass(frozen=True, eq=False)
class FittedMap:
    """The stages of a fit, `strength` of the way; `norm` is the length all users get first (0 = they keep theirs)."""

    stages: list[Stage]
    strength: float
    norm: float
    d: int

    def __call__(self, x: FloatArray, codes: IntArray, device: torch.device) -> FloatArray:
        """Where users go whose codes are known, in part or not at all (-1)."""
        if x.ndim != 2 or x.shape[1] != self.d:
            raise DataError(f"The map is for vectors of {self.d} dimensions; got a table of shape {x.shape}.")
        start = torch.tensor(x, device=device).double()
        moved = unit(start, self.norm)
        for keys, stage in self.stages:
            moved = _on(stage, device)(moved, torch.as_tensor(find(codes, keys), device=device))
        return blend(start, moved, self.strength)

    def save(self, path: str | Path) -> None:
        """Write the map to a file: safetensors, with what is not an array as JSON in its header."""
        from safetensors.numpy import save_file

        arrays = {}
        for n, (keys, stage) in enumerate(self.stages):
            arrays[f"{n}.keys"] = keys
            tensors = {k: v for k, v in vars(stage).items() if isinstance(v, torch.Tensor)}
            arrays |= {f"{n}.{k}": np.ascontiguousarray(v.cpu().numpy()) for k, v in tensors.items()}
        kinds = [type(stage).__name__ for _, stage in self.stages]
        about = {"strength": self.strength, "norm": self.norm, "d": self.d, "stages": kinds}
        with writing(path) as temporary:
            save_file(arrays, temporary, metadata={"format": FORMAT, "about": json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> FittedMap:
        """The map in a file that `save` wrote."""
        about, arrays = _read(Path(path))
        stages: list[Stage] = []
        try:
            for n, kind in enumerate(about["stages"]):
                parts = {k.partition(".")[2]: v for k, v in arrays.items() if k.partition(".")[0] == str(n)}
                keys, make = parts.pop("keys"), KINDS[kind]
                stages.append((keys, make(**{k: torch.from_numpy(v) for k, v in parts.items()})))
            return cls(stages, float(about["strength"]), float(about["norm"]), int(about["d"]))
        except (KeyError, TypeError, ValueError):
            raise DataError(f"Parts of the map in {path} are missing. Fit and save the map again.") from None


@dataclass
class Keeps(ABC):
    """A defense whose map can be kept: the methods of a scikit-learn transformer, for arrays.

    `y` holds codes, one for each user or a row of several attributes; -1 is unknown. Departs: no `BaseEstimator`, since
    a dataclass already says what the parameters are, and a pipeline hands no `y` to `transform`.
    """

    map_: FittedMap | None = field(init=False, default=None, repr=False, compare=False)

    @abstractmethod
    def release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """The table to publish, and the map for users who come later."""

    def __call__(
        self,
        x: FloatArray,
        codes: IntArray,
        *,
        rng: np.random.Generator,
        utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> FloatArray:
        """The cloaked table; `utility` is not used."""
        return self.release(x, codes, rng)[0]

    def fit(self, X: FloatArray, y: IntArray, *, rng: np.random.Generator | None = None) -> Self:
        """Learn the map of each class."""
        self.map_ = self.release(X, np.asarray(y), rng or generator(0, "cloak"))[1]
        return self

    def fit_transform(self, X: FloatArray, y: IntArray, *, rng: np.random.Generator | None = None) -> FloatArray:
        """Learn the map, and give the table to publish of these same users.

        What is random in a defense is meant for them; users who come later go through the exact map (`transform`).
        """
        out, self.map_ = self.release(X, np.asarray(y), rng or generator(0, "cloak"))
        return out

    def transform(self, X: FloatArray, y: IntArray | None = None) -> FloatArray:
        """Carry users who were not in the fit; without `y`, and where it is -1, by the map that needs no label."""
        codes = np.full(len(X), -1) if y is None else np.asarray(y)
        fitted = self._fitted()
        if y is None and fitted.stages:
            codes = np.full((len(X), fitted.stages[0][0].shape[1]), -1)
        return fitted(X, codes, devices.resolve(getattr(self, "device", None)))

    def save(self, path: str | Path) -> None:
        """Write the fitted map to a file (safetensors)."""
        self._fitted().save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """A defense with the fitted map of that file; ready to `transform`."""
        made = cls()
        made.map_ = FittedMap.load(path)
        return made

    def _fitted(self) -> FittedMap:
        if self.map_ is None:
            raise UsageError(f"This {type(self).__name__} has no map yet. Call fit(X, y), or load(path).")
        return self.map_


def unit(x: torch.Tensor, norm: float) -> torch.Tensor:
    """All users with vectors of this length; 0 leaves them alone."""
    return x / torch.linalg.vector_norm(x, dim=1, keepdim=True).clamp(min=1e-300) * norm if norm else x


def blend(start: torch.Tensor, moved: torch.Tensor, strength: float) -> FloatArray:
    """The straight way from one table to the other, this far."""
    out: FloatArray = torch.lerp(start, moved, strength).to(torch.float32).cpu().numpy()
    return out


def _on(stage: Carrier, device: torch.device) -> Carrier:
    moved: dict[str, Any] = {k: v.to(device) for k, v in vars(stage).items() if isinstance(v, torch.Tensor)}
    return replace(stage, **moved)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            header = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} cannot be read as a saved map ({error}). Fit and save the map again.") from error
    if header.get("format") != FORMAT:
        raise DataError(f"{path} is not a saved map ('{FORMAT}'). Name a file that `save` of a defense wrote.")
    try:
        about = dict(json.loads(header["about"]))
    except (KeyError, TypeError, ValueError):
        about = {}  # whatever is asked of it is missing
    return about, arrays
