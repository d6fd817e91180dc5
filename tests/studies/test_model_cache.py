"""A model is trained once for all that decides it, however many ask for it, and comes back as it was."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.core.protocols import FoldInRecommender
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.models import MODELS
from recveil.studies.model_cache import CachedModel, cache_model, hash_interactions, hash_targets

SMALL: dict[str, dict[str, Any]] = {
    "als": {"epochs": 2, "embedding_size": 4},
    "bprmf": {"epochs": 2, "embedding_size": 4},
    "itemknn": {},
    "lfm": {"epochs": 2, "embedding_size": 4},
    "ncf": {"epochs": 2, "embedding_size": 4},
}


@pytest.fixture(scope="module")
def split() -> Split:
    world = make_world(n_users=80, n_items=40, n_interactions=1_200, leaks={}, rng=make_generator(0, "w"))
    return leave_one_out(world.dataset)


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the models that were really trained."""
    names: list[str] = []

    def count(name: str, fit: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **more: Any) -> Any:
            names.append(name)
            return fit(self, *args, **more)

        return run

    for name in SMALL:
        builder: Any = MODELS.load(name)
        monkeypatch.setattr(builder, "fit", count(name, builder.fit))
    return names


def make(folder: Path, name: str = "bprmf", training: dict[str, Any] | None = None, **more: Any) -> CachedModel:
    return cache_model(MODELS.make(name, **{**SMALL[name], "device": "cpu", **more}), name, folder, training)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SMALL)
def test_the_second_asker_gets_the_same_model_untrained(
    name: str, split: Split, tmp_path: Path, trainings: list[str]
) -> None:
    users = np.arange(10)
    first, second = (make(tmp_path, name).fit(split, rng=make_generator(0, "t")) for _ in range(2))
    assert trainings == [name]
    assert first.score(users).tobytes() == second.score(users).tobytes()
    plain = MODELS.make(name, **SMALL[name], device="cpu")
    assert first.epochs == plain.epochs
    plain.fit(split, rng=make_generator(0, "t"))
    np.testing.assert_allclose(first.score(users), plain.score(users), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(first.user_vectors_, plain.user_vectors_, rtol=1e-5, atol=1e-6)
    assert isinstance(first, FoldInRecommender) == isinstance(plain, FoldInRecommender)
    if isinstance(first, FoldInRecommender):
        histories = [np.array([1, 2, 3]), np.array([4, 5])]
        ours, theirs = (model.fold_in(histories, rng=make_generator(1, "f")) for model in (first, plain))
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_whatever_decides_a_model_makes_another_one(split: Split, tmp_path: Path, trainings: list[str]) -> None:
    other = replace(split, train=split.train.take(np.arange(len(split.train) - 1)))
    make(tmp_path).fit(split, rng=make_generator(0, "t"))
    make(tmp_path).fit(split, rng=make_generator(1, "t"))
    make(tmp_path, epochs=3).fit(split, rng=make_generator(0, "t"))
    make(tmp_path).fit(other, rng=make_generator(0, "t"))
    make(tmp_path, training={"defense": "x"}).fit(split, rng=make_generator(0, "t"))
    assert len(trainings) == 5
    make(tmp_path).fit(split, rng=make_generator(0, "t"))
    assert len(trainings) == 5


def test_two_who_ask_at_once_train_once(split: Split, tmp_path: Path, trainings: list[str]) -> None:
    askers = [threading.Thread(target=lambda: make(tmp_path).fit(split, rng=make_generator(0, "t"))) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert len(trainings) == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_training_that_fails_leaves_nothing(split: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("recveil.studies.model_cache.save_model", fill_disk)
    with pytest.raises(OSError, match="No space"):
        make(tmp_path).fit(split, rng=make_generator(0, "t"))
    monkeypatch.undo()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]
    assert make(tmp_path).fit(split, rng=make_generator(0, "t")).user_vectors_.shape == (80, 4)


def test_hashes_change_with_every_interaction_and_every_label(split: Split) -> None:
    data = split.train
    assert hash_interactions(data) == hash_interactions(data.take(np.arange(len(data))))
    assert hash_interactions(data) != hash_interactions(data.take(np.arange(1, len(data))))
    assert hash_interactions(replace(data, time=None)) != hash_interactions(data)
    gender = Attribute("gender", np.array([0, 1]), ("F", "M"))
    assert hash_targets([gender]) != hash_targets([replace(gender, codes=np.array([1, 0]))])
    assert hash_targets([gender]) != hash_targets([replace(gender, name="sex")])
