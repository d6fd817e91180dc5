"""Trained models, stored by the hash of everything that decides them: a new attacker or defense trains none again.

    model = cache_model(BPRMF(), "bprmf", folder)
    model.fit(split, rng=rng)                  # trained once, then read

Two processes that want the same model at the same time train it once: the second waits for the first.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from recveil.core.device import resolve_device
from recveil.core.protocols import FoldInRecommender, OwnLossRecommender, Penalty, Recommender, UtilityLoss
from recveil.core.types import Attribute, Dataset, FloatArray, IntArray, Split, TrainingHistory
from recveil.models.persistence import load_model, save_model
from recveil.studies.cells import VERSION

__all__ = ["CachedModel", "cache_model", "hash_interactions", "hash_targets"]


@dataclass(eq=False)
class CachedModel:
    """A recommender whose training is looked up in `folder` first.

    After `fit` it is the model as it was read back from disk, whether it was trained just now or long ago: the same
    bytes, so the same records. The history of a training is not stored.

    Attributes:
        model: the model.
        name: its name in the registry.
        folder: folder of trained models.
        training: what else takes part in training, such as a defense.
    """

    model: Recommender
    name: str
    folder: Path
    training: Mapping[str, Any] = field(default_factory=dict)
    epochs: int = field(init=False)
    user_vectors_: FloatArray = field(init=False, repr=False)
    item_vectors_: FloatArray = field(init=False, repr=False)
    history_: TrainingHistory | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.epochs = self.model.epochs

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Read the model of this training, or train it now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / self._hash_training(split, rng)
        with _hold_lock(self.folder / f"{place.name}.lock"):
            if not place.is_dir():
                self.model.fit(split, penalty=penalty, rng=rng)
                _save_whole(self.model, self.name, place)
        self.model = load_model(place)
        self.user_vectors_, self.item_vectors_ = self.model.user_vectors_, self.model.item_vectors_
        return self

    def score(self, users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        """Score every item, as the model does."""
        return self.model.score(users, user_vectors)

    def _hash_training(self, split: Split, rng: np.random.Generator) -> str:
        options = {f.name: getattr(self.model, f.name) for f in fields(self.model) if f.init}  # type: ignore[arg-type]
        options["device"] = resolve_device(options.get("device")).type
        content = {
            "version": VERSION,
            "model": self.name,
            "options": options,
            "split": [hash_interactions(split.train), hash_interactions(split.valid)],
            "beside": dict(self.training),
            "rng": str(rng.bit_generator.state),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


class CachedFoldInModel(CachedModel):
    """A cached recommender that can serve users of no training data."""

    def fold_in(self, histories: Sequence[IntArray], *, rng: np.random.Generator) -> FloatArray:
        """Compute the user vectors of these histories, as the model does."""
        assert isinstance(self.model, FoldInRecommender)
        return self.model.fold_in(histories, rng=rng)


class CachedOwnLossModel(CachedFoldInModel):
    """A cached recommender with a training loss of user vectors; all that have one can also fold in."""

    def make_user_loss(self, train: Dataset, *, rng: np.random.Generator) -> UtilityLoss:
        """Make the training loss of a table of user vectors, as the model does."""
        assert isinstance(self.model, OwnLossRecommender)
        return self.model.make_user_loss(train, rng=rng)


def cache_model(model: Recommender, name: str, folder: Path, training: Mapping[str, Any] | None = None) -> CachedModel:
    """Wrap a model so that it is trained once for everything that decides it.

    Args:
        model: the untrained model, a dataclass.
        name: its name in the registry.
        folder: folder of trained models.
        training: what else takes part in training, such as a defense and the attributes it protects.
    """
    cached = CachedFoldInModel if isinstance(model, FoldInRecommender) else CachedModel
    if isinstance(model, OwnLossRecommender):
        cached = CachedOwnLossModel
    return cached(model, name, folder, training or {})


def hash_interactions(data: Dataset) -> str:
    """Hash the interactions of a data set: users, items and times."""
    times = [] if data.time is None else [data.time]
    return _hash_arrays(f"{data.n_users} {data.n_items}", [data.user, data.item, *times])


def hash_targets(targets: Sequence[Attribute]) -> str:
    """Hash the values of these attributes for all users."""
    names = ",".join(target.name for target in targets)
    return _hash_arrays(names, [t.codes if t.values is None else t.values for t in targets])


def _hash_arrays(text: str, arrays: Sequence[NDArray[Any]]) -> str:
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _save_whole(model: Recommender, name: str, place: Path) -> None:
    """Write the folder of a model whole or not at all."""
    temporary = Path(tempfile.mkdtemp(dir=place.parent, prefix="."))
    try:
        save_model(model, temporary, name=name)
        os.replace(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Hold the lock of one model; the operating system releases it if the process dies."""
    with open(path, "a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
