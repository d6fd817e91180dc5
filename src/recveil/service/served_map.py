"""The saved map that the service applies: labels to codes, vectors through the map, drift of the users over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import numpy as np
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.data.io.array_files import check_scale
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.class_labels import refuse_unseen_class
from recveil.defenses.embeddings.drift import Drift
from recveil.defenses.embeddings.map_files import MapOrigin, SavedMap
from recveil.service.documents import MapDocument
from recveil.workflows.saved_maps import (
    count_unprotected,
    describe_drift,
    describe_map,
    describe_unprotected,
    read_saved_map,
)

__all__ = ["CarriedRows", "ServedMap"]

MIN_ROWS_FOR_DRIFT = 100
"""Users of one request from which they are compared with those of the fit; one user is never like the mean."""

WINDOW_ROWS = 1_000
"""Users of small requests that are collected before they are compared together."""

Label = str | int | None


@dataclass(frozen=True, eq=False)
class CarriedRows:
    """Carried vectors, the users that the map does not protect, and what to know of them."""

    x: FloatArray
    unprotected: dict[str, int]
    notes: list[str]


@dataclass(eq=False)
class ServedMap:
    """A saved map in memory.

    Attributes:
        saved: the map.
        origin: where it comes from.
        needs_labels: users whose class is not known stay unprotected.
        drift: drift of the users of the last full window of small requests.
    """

    saved: SavedMap
    origin: MapOrigin
    needs_labels: bool
    drift: Drift | None = None
    _window: list[FloatArray] = field(default_factory=list)
    _window_rows: int = 0
    _lock: Lock = field(default_factory=Lock)

    @classmethod
    def load(cls, path: Path) -> ServedMap:
        """Read a map that `recveil cloak --save-map` wrote, and carry one vector so that the first request is fast."""
        saved, origin = read_saved_map(path)
        served = cls(saved, origin, DEFENSES.traits(saved.method).needs_labels)
        codes = np.full((1, len(origin.attributes)), UNDISCLOSED, dtype=np.int64)
        saved.fitted(np.zeros((1, saved.fitted.dimensions), np.float32), codes, torch.device("cpu"))
        return served

    def describe(self) -> MapDocument:
        """Return what clients need to know of the map."""
        classes = [[str(label) for label in labels] for labels in self.saved.classes]
        drift = self.drift
        return MapDocument(
            method=self.saved.method,
            attributes=dict(zip(self.origin.attributes, classes, strict=True)),
            dimensions=self.saved.fitted.dimensions,
            needs_labels=self.needs_labels,
            sentence=describe_map(self.saved, self.origin),
            drift=describe_drift(drift) if drift is not None and drift.warns else None,
        )

    def encode_labels(self, labels: Mapping[str, Sequence[Label]] | None, n_users: int) -> IntArray:
        """Return the codes of the map for class labels by attribute.

        Raises:
            UsageError: the map needs labels and there are none, or they belong to other attributes or users.
            DataError: the fit did not meet a class.
        """
        names = self.origin.attributes
        self._check_names(labels, names)
        codes = np.full((n_users, len(names)), UNDISCLOSED, dtype=np.int64)
        for j, name in enumerate(names):
            given = (labels or {}).get(name)
            if given is None:
                continue
            if len(given) != n_users:
                raise UsageError(
                    f"There are {n_users:,} vectors and {len(given):,} labels of {name}. Give one for each."
                )
            codes[:, j] = self._find_codes(j, given)
        return codes

    def carry(self, x: FloatArray, codes: IntArray, *, allow_drift: bool = False) -> CarriedRows:
        """Carry users by the map.

        Args:
            x: float32 vectors.
            codes: as `encode_labels` returns them.
            allow_drift: carry many users even if they are not like those of the fit.

        Raises:
            DataError: the vectors have another number of dimensions, are too large, or are too far from the fit.
        """
        if x.shape[1] != self.saved.fitted.dimensions:
            raise DataError(
                f"The map is for vectors of {self.saved.fitted.dimensions} dimensions, and these have {x.shape[1]}. "
                "Send vectors of the model that it was fitted on."
            )
        check_scale(x, Path("the request"))
        notes = self._check_drift(x, allow_drift=allow_drift)
        unprotected = count_unprotected(self.saved, self.origin, (codes < 0).sum(0).tolist())
        notes += describe_unprotected(self.saved, unprotected, len(x))
        return CarriedRows(self.saved.fitted(x, codes, torch.device("cpu")), unprotected, notes)

    def _check_names(self, labels: Mapping[str, Sequence[Label]] | None, names: Sequence[str]) -> None:
        missing = [name for name in names if self.needs_labels and name not in (labels or {})]
        if missing:
            raise UsageError(
                f"The map of {self.saved.method} needs the class of each user, and there are no labels of "
                f'{missing[0]}. Send "labels": {{"{missing[0]}": [...]}}, with null for a user who did not disclose it.'
            )
        unknown = [name for name in labels or {} if name not in names]
        if unknown:
            raise UsageError(f"The map does not protect '{unknown[0][:50]}'; it protects {', '.join(names)}.")

    def _find_codes(self, attribute: int, labels: Sequence[Label]) -> list[int]:
        known = [str(label) for label in self.saved.classes[attribute]]
        place: dict[str | None, int] = {label: code for code, label in enumerate(known)}
        place[None] = UNDISCLOSED
        texts = [None if label is None else str(label) for label in labels]
        unseen = [text for text in texts if text not in place]
        if unseen:
            raise refuse_unseen_class(self.origin.attributes[attribute], str(unseen[0])[:50], known)
        return [place[text] for text in texts]

    def _check_drift(self, x: FloatArray, *, allow_drift: bool) -> list[str]:
        """Compare many users at once; collect those of small requests."""
        assert self.saved.drift is not None
        if len(x) < MIN_ROWS_FOR_DRIFT:
            self._collect_rows(x)
            return []
        drift = self.saved.drift.measure_drift(x)
        if drift.refuses and not allow_drift:
            raise DataError(f"{describe_drift(drift)} Fit a new map, or send allow_drift.")
        return [f"WARNING: {describe_drift(drift)} What was measured may not hold for them."] if drift.warns else []

    def _collect_rows(self, x: FloatArray) -> None:
        with self._lock:
            self._window.append(x)
            self._window_rows += len(x)
            if self._window_rows < WINDOW_ROWS:
                return
            window, self._window, self._window_rows = np.concatenate(self._window), [], 0
        assert self.saved.drift is not None
        self.drift = self.saved.drift.measure_drift(window)
