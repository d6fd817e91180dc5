"""The flow of `recveil apply` for a table that is never in memory: compare its users with those of the fit, write."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from recveil.core.errors import UsageError
from recveil.defenses.embeddings.drift import DriftReference
from recveil.defenses.embeddings.map_files import MapOrigin, SavedMap
from recveil.streaming.applied_table import apply_to_table, measure_moments
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.target_columns import list_target_columns
from recveil.transport.moments import Moments
from recveil.workflows.inputs import InputFiles
from recveil.workflows.large_inputs import open_large_table
from recveil.workflows.notes import describe_target_columns
from recveil.workflows.saved_maps import (
    AppliedMap,
    ApplyRequest,
    check_dimensions,
    count_unprotected,
    describe_map,
    describe_unprotected,
    judge_drift,
)

__all__ = ["apply_large"]


def apply_large(
    map_path: Path, saved: SavedMap, origin: MapOrigin, files: InputFiles, request: ApplyRequest
) -> AppliedMap:
    """Carry the users of a folder or large file by a saved map, and write them."""
    if request.released is not None:
        raise UsageError("`released` cannot be used with a large table. Take a part of it that fits into memory.")
    if request.device not in (None, "cpu"):
        raise UsageError("`device` cannot be used with a large table, which is carried on the CPU. Leave it out.")
    large, engine = open_large_table(files, origin.attributes), ThreadEngine()
    table, source = large.table, large.facts
    check_dimensions(saved, table.d, map_path, table.path)
    if source.path is None and not set(origin.attributes) <= set(table.other_columns):
        source = replace(source, names=())  # nothing is known of the users
    known = {name: tuple(map(str, labels)) for name, labels in zip(origin.attributes, saved.classes, strict=True)}
    targets = list_target_columns(table.other_columns, tuple(origin.attributes))
    assert saved.drift is not None
    drift = saved.drift.judge_moments(_summarize_moments(measure_moments(table, engine)))
    notes = [describe_map(saved, origin), *judge_drift(drift, request)]
    unknown, read_notes = apply_to_table(
        table,
        replace(source, known=known),
        map_path,
        saved.fitted,
        request.out,
        n_attributes=len(origin.attributes),
        engine=engine,
        dropped=() if request.keep_target else targets,
    )
    unprotected = count_unprotected(saved, origin, unknown)
    notes += [*read_notes, *describe_target_columns(targets, request.out.name, kept=request.keep_target)]
    notes += describe_unprotected(saved, unprotected, table.rows)
    return AppliedMap(saved.method, table.rows, unprotected, tuple(notes))


def _summarize_moments(moments: Moments) -> DriftReference:
    return DriftReference(
        int(moments.n[0]), moments.mean[0].numpy(), moments.covariance[0].numpy(), thresholds=np.zeros(2)
    )
