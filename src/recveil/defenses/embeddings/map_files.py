"""Fitted maps on disk: arrays as safetensors, everything else as JSON in the header. Nothing is unpickled.

A file says by which method and options the map was fitted and which classes it knows, so it is made readable by its
owner alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from recveil.core.errors import DataError
from recveil.core.files import write_atomically
from recveil.core.json_files import describe_mistake, parse_json
from recveil.defenses.embeddings.drift import DriftReference
from recveil.defenses.embeddings.fitted_maps import AffineMap, Carrier, FittedMap, SlicedMap, Stage
from recveil.defenses.embeddings.score_maps import ScoreMap
from recveil.transport.coordinates import Coordinates

__all__ = ["MapOrigin", "Option", "SavedMap"]

FORMAT = "recveil map 3"
DRIFT_PREFIX = "drift."
COORDINATES_PREFIX = "coordinates."
ADVICE = "Fit and save the map again."
STAGE_TYPES: dict[str, Callable[..., Carrier]] = {
    "AffineMap": AffineMap,
    "SlicedMap": SlicedMap,
    "ScoreMap": ScoreMap.from_tensors,
}

Option = bool | int | float | str | None
"""Value of an option, as JSON has it."""


class MapOrigin(BaseModel):
    """Where a map comes from, for those who apply it.

    Attributes:
        attributes: names of the protected attributes, in the order of the classes.
        n_users: users of the fit.
        date: day of the fit, year first.
        version: version of recveil that fitted it.
        measured: what was measured on the defended table, in one sentence.
        passed: whether the self-check passed; None if there was none.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    attributes: list[str]
    n_users: int = Field(ge=1)
    date: str
    version: str
    measured: str
    passed: bool | None


class _Header(BaseModel):
    """Everything in a map file that is not an array."""

    model_config = ConfigDict(extra="forbid", strict=True)

    method: str
    options: dict[str, Option]
    classes: list[list[int] | list[str]]
    feature_names: list[str] | None
    stages: list[Literal["AffineMap", "SlicedMap", "ScoreMap"]]
    strength: float = Field(ge=0, le=1)
    norm: float = Field(ge=0, allow_inf_nan=False)
    dimensions: int = Field(ge=1)
    origin: MapOrigin | None = None


@dataclass(frozen=True, eq=False)
class SavedMap:
    """A fitted map and what a transformer needs to apply it.

    Attributes:
        method: name of the defense that fitted the map.
        options: its options.
        classes: sorted classes of each attribute.
        feature_names: names of the columns of the table, if it had any.
        fitted: the map.
        origin: where the map comes from, if it was saved by `recveil cloak`.
        drift: moments of the users of the fit, with the origin.
    """

    method: str
    options: dict[str, Option]
    classes: list[NDArray[Any]]
    feature_names: list[str] | None
    fitted: FittedMap
    origin: MapOrigin | None = None
    drift: DriftReference | None = None

    def write_file(self, path: str | Path) -> None:
        """Write the map to a file that only its owner can read."""
        from safetensors.numpy import save_file

        arrays: dict[str, NDArray[Any]] = {}
        for n, (keys, stage) in enumerate(self.fitted.stages):
            arrays[f"{n}.keys"] = keys
            for name, tensor in stage.to_tensors().items():
                arrays[f"{n}.{name}"] = np.ascontiguousarray(tensor.cpu().numpy())
        header = _Header(
            method=self.method,
            options=self.options,
            classes=[labels.tolist() for labels in self.classes],
            feature_names=self.feature_names,
            stages=[type(stage).__name__ for _, stage in self.fitted.stages],  # type: ignore[misc]
            strength=float(self.fitted.strength),
            norm=self.fitted.norm,
            dimensions=self.fitted.dimensions,
            origin=self.origin,
        )
        parts = self.fitted.coordinates.to_arrays()
        arrays |= {f"{COORDINATES_PREFIX}{name}": array for name, array in parts.items()}
        if self.drift is not None:
            arrays |= {f"{DRIFT_PREFIX}{name}": array for name, array in self.drift.to_arrays().items()}
        with write_atomically(path, private=True) as temporary:
            save_file(arrays, temporary, metadata={"format": FORMAT, "header": header.model_dump_json()})

    @classmethod
    def read_file(cls, path: str | Path) -> SavedMap:
        """Read a file that `write_file` wrote; a file with parts missing or of other shapes is an error."""
        header, arrays = _read_parts(Path(path))
        drift = _take_drift(header, arrays, path)
        coordinates = _take_coordinates(header, arrays, path)
        stages = [_read_stage(kind, n, arrays, path) for n, kind in enumerate(header.stages)]
        n_names = header.dimensions if header.feature_names is None else len(header.feature_names)
        n_arrays = sum(1 + len(stage.to_tensors()) for _, stage in stages)
        fits = n_names == header.dimensions and n_arrays == len(arrays)
        for keys, stage in stages:
            has_keys = keys.ndim == 2 and keys.shape[1] == len(header.classes)
            fits = fits and has_keys and stage.has_shape(len(keys), coordinates.count_columns(header.dimensions))
        if not fits:
            raise DataError(f"Parts of the map in {path} do not fit together. {ADVICE}")
        fitted = FittedMap(stages, header.strength, header.norm, header.dimensions, coordinates)
        classes = [np.array(labels, dtype=None if labels else np.int64) for labels in header.classes]
        return cls(header.method, header.options, classes, header.feature_names, fitted, header.origin, drift)


def _take_coordinates(header: _Header, arrays: dict[str, NDArray[Any]], path: str | Path) -> Coordinates:
    """Take the coordinates in which the stages work out of the arrays."""
    parts = _take_parts(arrays, COORDINATES_PREFIX)
    of_scores = {"levels", "knots"}
    is_known = set(parts) in (set[str](), of_scores, of_scores | {"varies", "scale"})
    is_whole = is_known and all(a.dtype == np.float64 and np.isfinite(a).all() for a in parts.values())
    is_whole = is_whole and parts.get("scale", np.zeros(2)).shape == (2,)
    is_whole = is_whole and bool(np.isin(parts.get("varies", np.zeros(0)), (0, 1)).all())
    coordinates = Coordinates.from_arrays(parts) if is_whole else None
    if coordinates is None or not coordinates.has_shape(header.dimensions):
        raise DataError(f"Parts of the map in {path} do not fit together. {ADVICE}")
    return coordinates


def _take_parts(arrays: dict[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Take the arrays whose names begin so out of the others."""
    names = [name for name in arrays if name.startswith(prefix)]
    return {name.removeprefix(prefix): arrays.pop(name) for name in names}


def _take_drift(header: _Header, arrays: dict[str, NDArray[Any]], path: str | Path) -> DriftReference | None:
    """Take the moments of the users of the fit out of the arrays, where the map says where it comes from."""
    if header.origin is None:
        return None
    parts = _take_parts(arrays, DRIFT_PREFIX)
    is_whole = set(parts) == {"mean", "covariance", "thresholds"} and all(np.isfinite(a).all() for a in parts.values())
    drift = DriftReference.from_arrays(header.origin.n_users, parts) if is_whole else None
    if drift is None or not drift.has_shape(header.dimensions) or len(header.origin.attributes) != len(header.classes):
        raise DataError(f"Parts of the map in {path} do not fit together. {ADVICE}")
    return drift


def _read_stage(kind: str, number: int, arrays: dict[str, NDArray[Any]], path: str | Path) -> Stage:
    prefix = f"{number}."
    parts = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
    for name, array in parts.items():
        is_number = array.dtype.kind in "iu" if name == "keys" else array.dtype in (np.float32, np.float64)
        if not array.ndim or not is_number or not np.isfinite(array).all():
            raise DataError(f"'{name}' of the map in {path} is not an array of finite numbers. {ADVICE}")
    try:
        keys = parts.pop("keys")
        return keys, STAGE_TYPES[kind](**{name: torch.from_numpy(array) for name, array in parts.items()})
    except (KeyError, TypeError):
        raise DataError(f"Parts of the map in {path} are missing. {ADVICE}") from None


def _read_parts(path: Path) -> tuple[_Header, dict[str, NDArray[Any]]]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:  # the last three: number formats
        raise DataError(f"{path} cannot be read as a saved map ({error}). {ADVICE}") from error
    found = metadata.get("format", "")
    if found != FORMAT and found.startswith("recveil map "):
        raise DataError(f"The map in {path} is of another version ('{found}'; this one reads '{FORMAT}'). {ADVICE}")
    if found != FORMAT:
        raise DataError(f"{path} is not a saved map ('{FORMAT}'). Name a file that `save` of a defense wrote.")
    try:
        return _Header.model_validate(parse_json(metadata.get("header", ""))), arrays
    except ValidationError as error:
        raise DataError(f"The header of the map in {path} is damaged ({describe_mistake(error)}). {ADVICE}") from None
    except ValueError as error:
        raise DataError(f"The header of the map in {path} is not a JSON document ({error}). {ADVICE}") from None
