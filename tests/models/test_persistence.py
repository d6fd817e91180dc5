from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.models.bprmf import BPRMF
from recveil.models.persistence import load_model, save_model
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


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 9}'])
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
