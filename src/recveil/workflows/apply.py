"""The flow of `recveil apply`: read a saved map and later users, check that they fit, carry them, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.outputs import check_outputs, hold_outputs
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray
from recveil.data.io.array_files import check_scale
from recveil.data.io.ids import match_users
from recveil.data.io.user_tables import (
    Vectors,
    check_vector_output,
    read_embeddings,
    write_embeddings,
)
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.drift import Drift
from recveil.defenses.embeddings.map_files import MapOrigin, SavedMap
from recveil.defenses.embeddings.transformers import restore_transformer
from recveil.workflows.cloak import drop_targets
from recveil.workflows.inputs import InputFiles
from recveil.workflows.notes import describe_target_columns

__all__ = [
    "AppliedMap",
    "ApplyRequest",
    "apply_files",
    "count_unprotected",
    "describe_drift",
    "describe_map",
    "describe_unprotected",
    "read_saved_map",
    "refuse_unseen_class",
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


def apply_files(map_path: Path, files: InputFiles, request: ApplyRequest) -> AppliedMap:
    """Carry the users in the files by a saved map, and write them.

    Args:
        map_path: file that `recveil cloak --save-map` wrote.
        files: the table of vectors and, if known, the attributes of the users.
        request: outputs and what is put up with.

    Raises:
        DataError: the map or the table cannot be used, or they do not belong together.
        UsageError: an argument cannot be used.
    """
    if files.embeddings is None:
        raise UsageError("Give `embeddings`, the table of the users to carry.")
    if files.embeddings.is_dir():
        raise UsageError(f"`embeddings` {files.embeddings} is a folder. Apply the map to one file at a time.")
    check_outputs({"out": request.out}, [*files.list_paths(), ("map", map_path), ("released", request.released)])
    saved, origin = read_saved_map(map_path)
    vectors = read_embeddings(files.embeddings, files.ids, layout=files.layout)
    check_scale(vectors.x, files.embeddings)
    check_vector_output(request.out, vectors)
    if vectors.x.shape[1] != saved.fitted.dimensions:
        raise DataError(
            f"The map in {map_path} is for vectors of {saved.fitted.dimensions} dimensions, and those in "
            f"{files.embeddings} have {vectors.x.shape[1]}. Give the table of the same model, or fit a new map."
        )
    notes = [describe_map(saved, origin), *_check_drift(saved, vectors, request)]
    codes, read_notes = _read_codes(saved, origin, files, vectors)
    unprotected = count_unprotected(saved, origin, codes)
    vectors, columns = drop_targets(vectors, origin.attributes, keep=request.keep_target)
    notes += [*read_notes, *describe_target_columns(columns, request.out.name, kept=request.keep_target)]
    notes += [describe_unprotected(saved, name, n, len(vectors.x)) for name, n in unprotected.items() if n]
    carried = saved.fitted(vectors.x, codes, resolve_device(request.device))
    if request.released is not None:
        carried, kept = _keep_released(carried, vectors, request.released)
        notes.append(kept)
    with hold_outputs(request.out):
        write_embeddings(request.out, vectors, carried)
    return AppliedMap(saved.method, len(vectors.x), unprotected, tuple(notes))


def _keep_released(carried: FloatArray, vectors: Vectors, path: Path) -> tuple[FloatArray, str]:
    """Return the table with the vectors that users had in an earlier release, and a sentence that counts them.

    A user whose defended vector changes from one release to the next gives away the class: the change follows the map
    of the class. A vector that stays gives away nothing new.
    """
    earlier = read_embeddings(path)
    if earlier.x.shape[1] != carried.shape[1]:
        raise DataError(
            f"The vectors in {path} have {earlier.x.shape[1]} numbers and the new ones {carried.shape[1]}. "
            "Give the defended table that was released last."
        )
    rows = match_users(vectors.ids, earlier.ids, path)
    kept = int((rows >= 0).sum())
    table = np.where(rows[:, None] >= 0, earlier.x[rows], carried).astype(carried.dtype)
    return table, f"{kept:,} of {len(rows):,} users keep the vectors of {path.name}; the map carried the others."


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


def _check_drift(saved: SavedMap, vectors: Vectors, request: ApplyRequest) -> list[str]:
    """Compare the users with those of the fit; refuse those that are too far from them."""
    assert saved.drift is not None
    drift = saved.drift.measure_drift(vectors.x)
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


def _read_codes(
    saved: SavedMap, origin: MapOrigin, files: InputFiles, vectors: Vectors
) -> tuple[IntArray, Sequence[str]]:
    """Read the classes of the users as the map counts them; all are undisclosed without a file."""
    codes = np.full((len(vectors.x), len(origin.attributes)), UNDISCLOSED, dtype=np.int64)
    has_own = set(origin.attributes) <= set(vectors.other_names) and vectors.source is not None
    if files.attributes is None and not has_own:
        return codes, []
    attributes = files.read_facts(files.attributes, vectors, origin.attributes)
    for j, name in enumerate(origin.attributes):
        codes[:, j] = _match_classes(attributes[name], [str(label) for label in saved.classes[j]])
    return codes, attributes.notes


def _match_classes(attribute: Attribute, known: Sequence[str]) -> IntArray:
    """Return the codes of the map for the classes of an attribute; a class that it never saw is an error."""
    place = {label: code for code, label in enumerate(known)}
    unseen = [attribute.labels[k] for k in np.flatnonzero(attribute.counts) if attribute.labels[k] not in place]
    if unseen:
        raise refuse_unseen_class(attribute.name, unseen[0], known)
    codes = np.array([place.get(label, UNDISCLOSED) for label in attribute.labels] + [UNDISCLOSED], dtype=np.int64)
    return np.asarray(codes[attribute.codes])


def refuse_unseen_class(name: str, label: str, known: Sequence[str]) -> DataError:
    """Return the error for a class that the fit did not meet."""
    return DataError(
        f"The map never saw the class '{label}' of '{name}'; it knows {', '.join(known)}. Write the classes alike, or "
        "leave the attribute of these users blank."
    )


def count_unprotected(saved: SavedMap, origin: MapOrigin, codes: IntArray) -> dict[str, int]:
    """Count the users that the map does not protect: those whose class it would need and does not get."""
    is_needed = DEFENSES.traits(saved.method).needs_labels
    return {name: int((codes[:, j] < 0).sum()) if is_needed else 0 for j, name in enumerate(origin.attributes)}


def describe_unprotected(saved: SavedMap, name: str, count: int, n_users: int) -> str:
    """Return the warning that users without a known class stay unprotected."""
    able = " or ".join(traits.name for traits in DEFENSES.all_traits() if traits.protects_undisclosed)
    return (
        f"WARNING: {count:,} of {n_users:,} users have no known {name} and stay unprotected: {saved.method} needs the "
        f"class of a user. A map of {able} protects them."
    )
