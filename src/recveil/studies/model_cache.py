"""Trained models, kept by the hash of all that decides them, so that a new attacker or defense never trains one again.

    model = Kept(BPRMF(), "bprmf", cache)
    model.fit(split, rng=rng)                  # trained once, ever; then read

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

from recveil.core.device import resolve
from recveil.core.protocols import Penalty, Recommender
from recveil.core.types import Attribute, Dataset, Split
from recveil.models.persistence import load_model, save_model
from recveil.studies.plans import VERSION

__all__ = ["CachedModel", "hash_interactions", "hash_targets"]


@dataclass(eq=False)
class CachedModel:
    """A recommender whose training is looked up in `folder` first. `beside` names what else takes part in training.

    After `fit` it is the model as it was read back from disk, whether it was trained just now or a year ago: the same
    bytes, so the same records.
    """

    model: Recommender
    name: str
    folder: Path
    beside: Mapping[str, Any] = field(default_factory=dict)

    def fit(self, split: Split, *, penalty: Penalty | None = None, rng: np.random.Generator) -> Self:
        """Read the model of this training, or train it now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        place = self.folder / self._hash_training(split, rng)
        with _hold_lock(self.folder / f"{place.name}.lock"):
            if not place.is_dir():
                self.model.fit(split, penalty=penalty, rng=rng)
                _save_whole(self.model, self.name, place)
        self.model = load_model(place)
        return self

    def __getattr__(self, name: str) -> Any:
        if name == "model":  # asked for while it is being unpickled or copied
            raise AttributeError(name)
        return getattr(self.model, name)

    def _hash_training(self, split: Split, rng: np.random.Generator) -> str:
        options = {f.name: getattr(self.model, f.name) for f in fields(self.model) if f.init}  # type: ignore[arg-type]
        options["device"] = resolve(options.get("device")).type
        content = {
            "version": VERSION,
            "model": self.name,
            "options": options,
            "split": [hash_interactions(split.train), hash_interactions(split.valid)],
            "beside": dict(self.beside),
            "rng": str(rng.bit_generator.state),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def hash_interactions(data: Dataset) -> str:
    """A hash of who touched what, and when."""
    times = [] if data.time is None else [data.time]
    return _hash_arrays(f"{data.n_users} {data.n_items}", [data.user, data.item, *times])


def hash_targets(targets: Sequence[Attribute]) -> str:
    """A hash of what these attributes are of each user."""
    names = ",".join(target.name for target in targets)
    return _hash_arrays(names, [t.codes if t.values is None else t.values for t in targets])


def _hash_arrays(text: str, arrays: Sequence[NDArray[Any]]) -> str:
    seen = hashlib.sha256(text.encode())
    for array in arrays:
        seen.update(np.ascontiguousarray(array).tobytes())
    return seen.hexdigest()[:16]


def _save_whole(model: Recommender, name: str, place: Path) -> None:
    """All of the folder or nothing."""
    temporary = Path(tempfile.mkdtemp(dir=place.parent, prefix="."))
    try:
        save_model(model, temporary, name=name)
        os.replace(temporary, place)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Wait until nobody else is in here; a process that dies leaves."""
    with open(path, "a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
