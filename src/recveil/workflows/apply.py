"""The flow of `recveil apply`: read a saved map and later users, check that they fit, carry them, write."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.outputs import check_outputs, hold_outputs
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.data.io.array_files import check_scale
from recveil.data.io.ids import match_users
from recveil.data.io.user_tables import (
    Vectors,
    check_vector_output,
    read_embeddings,
    write_embeddings,
)
from recveil.defenses.embeddings.class_labels import match_classes
from recveil.defenses.embeddings.map_files import MapOrigin, SavedMap
from recveil.workflows.apply_large import apply_large
from recveil.workflows.cloak import drop_targets
from recveil.workflows.inputs import InputFiles
from recveil.workflows.large_inputs import is_large_table
from recveil.workflows.notes import describe_target_columns
from recveil.workflows.saved_maps import (
    AppliedMap,
    ApplyRequest,
    check_dimensions,
    count_unprotected,
    describe_map,
    describe_unprotected,
    judge_drift,
    read_saved_map,
)

__all__ = ["apply_files"]


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
    inputs = [*files.list_paths(), ("map", map_path), ("released", request.released)]
    check_outputs({"out": request.out}, inputs, folder="out" if files.embeddings.is_dir() else "")
    saved, origin = read_saved_map(map_path)
    if is_large_table(files):
        return apply_large(map_path, saved, origin, files, request)
    vectors = read_embeddings(files.embeddings, files.ids, layout=files.layout)
    check_scale(vectors.x, files.embeddings)
    check_vector_output(request.out, vectors)
    check_dimensions(saved, vectors.x.shape[1], map_path, files.embeddings)
    assert saved.drift is not None
    notes = [describe_map(saved, origin), *judge_drift(saved.drift.measure_drift(vectors.x), request)]
    codes, read_notes = _read_codes(saved, origin, files, vectors)
    unprotected = count_unprotected(saved, origin, (codes < 0).sum(0).tolist())
    vectors, columns = drop_targets(vectors, origin.attributes, keep=request.keep_target)
    notes += [*read_notes, *describe_target_columns(columns, request.out.name, kept=request.keep_target)]
    notes += describe_unprotected(saved, unprotected, len(vectors.x))
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
        known = [str(label) for label in saved.classes[j]]
        codes[:, j] = match_classes(attributes[name], np.ones(len(codes), dtype=np.int64), known)
    return codes, attributes.notes
