"""Saving the map of a cloak, so that `recveil apply` can carry later users."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np

from recveil.core.device import deterministic_algorithms
from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.results import CloakResult
from recveil.core.types import IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.drift import DriftReference
from recveil.defenses.embeddings.fitted_maps import FittedMap
from recveil.defenses.embeddings.map_files import MapOrigin, Option, SavedMap
from recveil.defenses.embeddings.transformers import MapTransformer
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable
from recveil.workflows.defended_release import ChosenDefense, stack_codes
from recveil.workflows.notes import merge_small_classes
from recveil.workflows.self_check import AUTO

__all__ = ["check_map_request", "save_fitted_map"]


def check_map_request(defense: ChosenDefense, *, is_large: bool) -> None:
    """Refuse a map that could not be saved, before the work.

    Args:
        defense: the chosen defense.
        is_large: the table is read in blocks.

    Raises:
        UsageError: the defense keeps no map, or the table is a large one.
    """
    if is_large:
        raise UsageError("`save_map` cannot be used with a large table. Fit the map on a part that fits into memory.")
    if defense.name != AUTO and not DEFENSES.traits(defense.name).keeps_map:
        able = [traits.name for traits in DEFENSES.all_traits() if traits.keeps_map]
        raise UsageError(f"{defense.name} keeps no map, so there is nothing to save. Use {' or '.join(able)}.")


def save_fitted_map(path: Path, table: ClearTable, result: CloakResult, protocol: AuditProtocol) -> None:
    """Fit the map of the defense that was used, with the same seed, and write it with what was measured.

    Args:
        path: file to write, readable by its owner alone.
        table: the undefended table.
        result: what the cloak found.
        protocol: the rules of the audits; seed and device are used.
    """
    used = result.defense
    targets = merge_small_classes(table.targets)[0]
    method = ChosenDefense(used.name, {**used.options, "strength": used.strength}).make(protocol.device)
    assert isinstance(method, MapTransformer)
    with deterministic_algorithms():
        fitted = method.compute_release(table.x, stack_codes(targets), make_generator(protocol.draw_seed, "cloak"))[1]
    options: dict[str, Option] = {n: v for n, v in method.get_params(deep=False).items() if n != "device"}
    orders = [np.argsort(np.array(target.labels)) for target in targets]
    origin = MapOrigin(
        attributes=[target.name for target in targets],
        n_users=len(table.x),
        date=datetime.datetime.now(datetime.UTC).date().isoformat(),
        version=version("recveil"),
        measured=_describe_check(result),
        passed=None if result.self_check is None else result.self_check.passed,
    )
    drift = DriftReference.fit(table.x, make_generator(protocol.seed, "drift"))
    classes = [np.array(target.labels)[order] for target, order in zip(targets, orders, strict=True)]
    SavedMap(used.name, options, classes, None, _sort_classes(fitted, orders), origin, drift).write_file(path)


def _sort_classes(fitted: FittedMap, orders: Sequence[IntArray]) -> FittedMap:
    """Return the map with codes that follow the sorted classes, as transformers expect them."""
    stages = []
    for keys, stage in fitted.stages:
        sorted_keys = keys.copy()
        for j, order in enumerate(orders):
            known = keys[:, j] >= 0
            sorted_keys[known, j] = np.argsort(order)[keys[known, j]]
        stages.append((sorted_keys, stage))
    return replace(fitted, stages=stages)


def _describe_check(result: CloakResult) -> str:
    """Return in one sentence what the self-check found."""
    if result.self_check is None:
        return "Nothing was measured."
    parts = [
        f"{name} {target.before.value:.2f} before and {target.after.value:.2f} after"
        for name, target in result.self_check.targets.items()
    ]
    return f"Advantage of the strongest attack by the self-check: {', '.join(parts)}."
