"""A model is trained once for all that decides it, however many ask for it, and comes back as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.audits.catalog import MODELS
from recveil.core.random import generator
from recveil.core.types import Attribute, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.studies.model_cache import CachedModel, hash_interactions, hash_targets

SMALL: dict[str, dict[str, Any]] = {
    "als": {"epochs": 2, "embedding_size": 4},
    "bprmf": {"epochs": 2, "embedding_size": 4},
    "itemknn": {},
    "lfm": {"epochs": 2, "embedding_size": 4},
    "ncf": {"epochs": 2, "embedding_size": 4},
}


@pytest.fixture(scope="module")
def split() -> Split:
    world = make_world(n_users=80, n_items=40, n_interactions=1_200, leaks={}, rng=generator(0, "w"))
    return leave_one_out(world.dataset)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that were really trained."""
    seen: list[str] = []

    def counted(name: str, fit: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **more: Any) -> Any:
            seen.append(name)
            return fit(self, *args, **more)

        return run

    for name in SMALL:
        monkeypatch.setattr(MODELS[name], "fit", counted(name, MODELS[name].fit))  # type: ignore[attr-defined]
    return seen


def kept(folder: Path, name: str = "bprmf", **more: Any) -> CachedModel:
    return CachedModel(MODELS[name](**{**SMALL[name], "device": "cpu", **more}), name, folder)


@pytest.mark.parametrize("name", SMALL)
def test_the_second_asker_gets_the_same_model_untrained(
    name: str, split: Split, tmp_path: Path, trainings: list[str]
) -> None:
    users = np.arange(10)
    first, second = (kept(tmp_path, name).fit(split, rng=generator(0, "t")) for _ in range(2))
    assert trainings == [name]
    assert first.score(users).tobytes() == second.score(users).tobytes()
    plain = MODELS[name](**SMALL[name], device="cpu").fit(split, rng=generator(0, "t"))
    np.testing.assert_allclose(first.score(users), plain.score(users), rtol=1e-5, atol=1e-6)
    if hasattr(plain, "fold_in"):
        histories = [np.array([1, 2, 3]), np.array([4, 5])]
        rows = first.fold_in(histories, rng=generator(1, "f"))
        np.testing.assert_allclose(rows, plain.fold_in(histories, rng=generator(1, "f")), rtol=1e-4, atol=1e-5)


def test_whatever_decides_a_model_makes_another_one(split: Split, tmp_path: Path, trainings: list[str]) -> None:
    kept(tmp_path).fit(split, rng=generator(0, "t"))
    kept(tmp_path).fit(split, rng=generator(1, "t"))
    kept(tmp_path, epochs=3).fit(split, rng=generator(0, "t"))
    other = replace(split, train=split.train.take(np.arange(len(split.train) - 1)))
    kept(tmp_path).fit(other, rng=generator(0, "t"))
    CachedModel(MODELS["bprmf"](**SMALL["bprmf"], device="cpu"), "bprmf", tmp_path, {"defense": "x"}).fit(
        split, rng=generator(0, "t")
    )
    assert len(trainings) == 5
    kept(tmp_path).fit(split, rng=generator(0, "t"))
    assert len(trainings) == 5


def test_two_who_ask_at_once_train_once(split: Split, tmp_path: Path, trainings: list[str]) -> None:
    askers = [threading.Thread(target=lambda: kept(tmp_path).fit(split, rng=generator(0, "t"))) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(trainings) == 1
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_training_that_fails_leaves_nothing(split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recveil.studies.model_cache.save", full)
    with pytest.raises(OSError, match="No space"):
        kept(tmp_path).fit(split, rng=generator(0, "t"))
    monkeypatch.undo()
    assert not [p for p in tmp_path.iterdir() if p.is_dir()]
    assert kept(tmp_path).fit(split, rng=generator(0, "t")).user_vectors_.shape == (80, 4)


def test_hashes_see_every_interaction_and_every_label(split: Split) -> None:
    data = split.train
    assert hash_interactions(data) == hash_interactions(data.take(np.arange(len(data))))
    assert hash_interactions(data) != hash_interactions(data.take(np.arange(1, len(data))))
    assert hash_interactions(replace(data, time=None)) != hash_interactions(data)
    gender = Attribute("gender", np.array([0, 1]), ("F", "M"))
    assert hash_targets([gender]) != hash_targets([replace(gender, codes=np.array([1, 0]))])
    assert hash_targets([gender]) != hash_targets([replace(gender, name="sex")])
