from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import FloatArray
from recveil.models.bprmf import BPRMF
from recveil.models.persistence import _is_array_type, load_model, save_model
from recveil.testing.worlds import make_checkerboard


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = BPRMF(embedding_size=4, epochs=2, reg=0.125).fit(make_checkerboard(), rng=make_generator(0, "t"))
    save_model(model, tmp_path / "run", name="bprmf")
    return tmp_path / "run"


def test_options_and_arrays_come_back(saved: Path) -> None:
    model = load_model(saved)
    assert isinstance(model, BPRMF)
    assert model.reg == 0.125
    assert model.user_vectors_.shape == (96, 4)
    assert sorted(p.name for p in saved.iterdir()) == ["model.json", "model.safetensors"]


def test_a_loaded_model_folds_users_in(saved: Path) -> None:
    vectors = load_model(saved).fold_in([np.array([0, 1])], rng=make_generator(0, "t"))  # type: ignore[attr-defined]
    assert vectors.shape == (1, 4)


def test_the_same_model_is_the_same_file(saved: Path, tmp_path: Path) -> None:
    save_model(load_model(saved), tmp_path / "again", name="bprmf")
    for name in ("model.json", "model.safetensors"):
        assert (saved / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_an_empty_folder_an_unknown_model_and_unknown_options_are_errors(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no saved model"):
        load_model(tmp_path)
    content = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(content | {"model": "bprmff"}))
    with pytest.raises(UsageError, match="No model is called 'bprmff'.*'bprmf'"):
        load_model(saved)
    assert isinstance(load_model(saved, builder=BPRMF), BPRMF)
    content["options"]["speed"] = 1
    (saved / "model.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match="does not take.*speed"):
        load_model(saved)


@pytest.mark.parametrize("name", ["score", "fit", "__class__", "__dict__", "device", "epochs", "user_vectors_", "x"])
def test_only_declared_learned_fields_are_set(saved: Path, name: str) -> None:
    content = json.loads((saved / "model.json").read_text())
    (saved / "model.json").write_text(json.dumps(content | {"learned": {**content["learned"], name: 1}}))
    with pytest.raises(DataError, match=f"holds '{name}', which is no learned part of it"):
        load_model(saved)
    (saved / "model.json").write_text(json.dumps(content))
    load_model(saved)
    if name != "user_vectors_":
        arrays = load_file(saved / "model.safetensors")
        for key in (name, f"{name}.inside"):
            save_file({**arrays, key: np.zeros((2, 2), np.float32)}, saved / "model.safetensors")
            with pytest.raises(DataError, match=f"holds '{name}'"):
                load_model(saved)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda table: None, "lacks its learned part 'item_vectors_'"),
        (lambda table: np.array(1.0, np.float32), "do not fit together"),
        (lambda table: table.ravel(), "do not fit together"),
        (lambda table: table[None], "do not fit together"),
        (lambda table: table[:, :-1].copy(), "do not fit together"),
        (lambda table: table.astype(np.int64), "no learned part"),
        (lambda table: table * np.nan, "no learned part"),
    ],
)
def test_arrays_of_another_shape_or_type_are_errors(saved: Path, change: Callable[..., Any], reason: str) -> None:
    arrays = load_file(saved / "model.safetensors")
    changed = {**arrays, "item_vectors_": change(arrays["item_vectors_"])}
    save_file({name: array for name, array in changed.items() if array is not None}, saved / "model.safetensors")
    with pytest.raises(DataError, match=reason):
        load_model(saved)


def test_options_that_the_model_refuses_are_errors_of_the_file(saved: Path) -> None:
    content = json.loads((saved / "model.json").read_text())
    for option in ({"epochs": -1}, {"reg": "much"}, {"embedding_size": True}):
        (saved / "model.json").write_text(json.dumps(content | {"options": {**content["options"], **option}}))
        with pytest.raises(DataError, match="does not take"):
            load_model(saved)
    for model in ([], {}, 3, None):
        (saved / "model.json").write_text(json.dumps(content | {"model": model}))
        with pytest.raises(DataError, match="model: Input should be a valid string"):
            load_model(saved)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 9}', "[" * 5_000, '{"format": NaN}'])
def test_a_broken_description_is_an_error(saved: Path, text: str) -> None:
    (saved / "model.json").write_text(text)
    with pytest.raises(DataError, match="model.json"):
        load_model(saved)


def test_cut_arrays_are_errors(saved: Path) -> None:
    data = (saved / "model.safetensors").read_bytes()
    (saved / "model.safetensors").write_bytes(data[: len(data) // 2])
    with pytest.raises(DataError, match="safetensors"):
        load_model(saved)
    (saved / "model.safetensors").unlink()
    with pytest.raises(DataError, match="safetensors"):
        load_model(saved)


def test_arrays_are_known_by_aliases_too() -> None:
    """NumPy 2.5 declares NDArray as an alias of a type, which hides the array behind `__value__`."""

    class Alias:
        __value__ = np.ndarray

    assert _is_array_type(Alias)
    assert _is_array_type(FloatArray)
    assert not _is_array_type(float)
