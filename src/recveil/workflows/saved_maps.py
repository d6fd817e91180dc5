"""What a saved map says of itself and of the users that it carries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recveil.core.errors import DataError
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.drift import Drift
from recveil.defenses.embeddings.map_files import MapOrigin, SavedMap
from recveil.defenses.embeddings.transformers import restore_transformer

__all__ = [
    "AppliedMap",
    "ApplyRequest",
    "check_dimensions",
    "count_unprotected",
    "describe_drift",
    "describe_map",
    "describe_unprotected",
    "judge_drift",
    "read_saved_map",
]


@dataclass(frozen=True)
class ApplyRequest:
    """What is written, and what is put up with.

    Attributes:
        out: where the carried table goes.
        allow_drift: apply the map even if the users are far from those it was fitted on.
        keep_target: keep columns of the table that hold a protected attribute.
        device: where the map is computed.
        released: the last release; its users keep the vectors that they have there.
    """

    out: Path
    allow_drift: bool = False
    keep_target: bool = False
    device: str | None = None
    released: Path | None = None


@dataclass(frozen=True)
class AppliedMap:
    """What was done.

    Attributes:
        method: name of the defense that fitted the map.
        n_users: users that were carried.
        unprotected: users that the map does not protect, by attribute.
        notes: sentences for the operator.
    """

    method: str
    n_users: int
    unprotected: dict[str, int]
    notes: tuple[str, ...]


def read_saved_map(path: Path) -> tuple[SavedMap, MapOrigin]:
    """Read a map that `recveil cloak` saved, and where it comes from.

    Raises:
        DataError: the file is no such map, or one of a method or option that this version does not know.
    """
    saved = SavedMap.read_file(path)
    restore_transformer(saved, path)
    if saved.origin is None or saved.drift is None:
        raise DataError(f"The map in {path} does not say where it comes from. Save it by `recveil cloak`.")
    return saved, saved.origin


def describe_map(saved: SavedMap, origin: MapOrigin) -> str:
    """Return in two sentences where a map comes from and what was measured."""
    return (
        f"The map was fitted by {saved.method} on {origin.n_users:,} users on {origin.date} (recveil {origin.version}) "
        f"to protect {' and '.join(origin.attributes)}. {origin.measured}"
    )


def check_dimensions(saved: SavedMap, d: int, map_path: Path, table: Path) -> None:
    """Refuse vectors of another length than those of the fit."""
    if d != saved.fitted.dimensions:
        raise DataError(
            f"The map in {map_path} is for vectors of {saved.fitted.dimensions} dimensions, and those in "
            f"{table} have {d}. Give the table of the same model, or fit a new map."
        )


def judge_drift(drift: Drift, request: ApplyRequest) -> list[str]:
    """Return the warning that users are not like those of the fit, if they are not; refuse those that are too far."""
    if not drift.warns:
        return []
    if drift.refuses and not request.allow_drift:
        raise DataError(f"{describe_drift(drift)} Fit a new map, or apply this one with `allow_drift`.")
    return [f"WARNING: {describe_drift(drift)} What was measured may not hold for them."]


def describe_drift(drift: Drift) -> str:
    """Return in one sentence how far users are from those of the fit."""
    return (
        f"These users are not like those that the map was fitted on: the mean is {drift.mean:.2f} standard deviations "
        f"away and the covariance {drift.covariance:.2f} of its size."
    )


def count_unprotected(saved: SavedMap, origin: MapOrigin, unknown: Sequence[int]) -> dict[str, int]:
    """Count the users that the map does not protect: those whose class it would need and does not get.

    Args:
        saved: the map.
        origin: where it comes from.
        unknown: users without a known class, for each attribute.
    """
    is_needed = DEFENSES.traits(saved.method).needs_labels
    return {name: n if is_needed else 0 for name, n in zip(origin.attributes, unknown, strict=True)}


def describe_unprotected(saved: SavedMap, unprotected: Mapping[str, int], n_users: int) -> list[str]:
    """Return the warnings that users without a known class stay unprotected."""
    able = " or ".join(traits.name for traits in DEFENSES.all_traits() if traits.protects_undisclosed)
    return [
        f"WARNING: {count:,} of {n_users:,} users have no known {name} and stay unprotected: {saved.method} needs the "
        f"class of a user. A map of {able} protects them."
        for name, count in unprotected.items()
        if count
    ]
