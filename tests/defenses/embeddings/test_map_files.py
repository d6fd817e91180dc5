"""Maps on disk: what is no map, or not all of one, is refused, and nothing is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from recveil.core.errors import DataError
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.map_files import SavedMap
from recveil.defenses.embeddings.transformers import load_map


def save_gaussian(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Save the map of a small table, and return the arrays and the header of the file."""
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    Gaussian(device="cpu").fit(x, np.where(np.arange(40) % 2, "m", "f")).save(path)
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["header"])  # noqa: SIM118


def write_map(path: Path, arrays: dict[str, np.ndarray], header: object) -> None:
    save_file(arrays, path, metadata={"format": "recveil map 2", "header": json.dumps(header)})


def test_the_header_names_method_options_and_classes(tmp_path: Path) -> None:
    arrays, header = save_gaussian(tmp_path / "map")
    assert header["method"] == "gaussian"
    assert header["options"] == {"random_state": 0, "strength": 1.0}
    assert header["classes"] == [["f", "m"]]
    write_map(tmp_path / "again", arrays, header)
    saved = SavedMap.read_file(tmp_path / "again")
    assert saved.classes[0].tolist() == ["f", "m"]
    assert isinstance(saved.fitted.stages[0][1].m, torch.Tensor)


def test_what_is_no_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read"):
        load_map(tmp_path / "absent")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(DataError, match="cannot be read"):
        load_map(tmp_path / "text")
    save_gaussian(tmp_path / "map")
    whole = (tmp_path / "map").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read"):
        load_map(tmp_path / "half")
    save_file({"a": np.zeros(1)}, tmp_path / "other")
    with pytest.raises(DataError, match="not a saved map"):
        load_map(tmp_path / "other")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": ["AffineMap", "AffineMap"]}, "are missing"),
        ({"stages": ["Pickled"]}, "header of the map .* is damaged .stages.0"),
        ({"stages": ["SlicedMap"]}, "are missing"),
        ({"strength": 2.0}, "is damaged .strength"),
        ({"options": {"strength": [1]}}, "is damaged .options.strength"),
        ({"dimensions": 4}, "do not fit together"),
        ({"classes": [["f", "m"], ["a"]]}, "do not fit together"),
        ({"feature_names": ["a"]}, "do not fit together"),
        ({"stages": []}, "do not fit together"),
        ({"norm": float("nan")}, "NaN is not a number"),
        ({"dimensions": 10**40}, "an integer has 41 digits"),
        ({"options": {"strength": 3}}, "another version or package"),
        ({"method": "attrcloak"}, "keeps no map"),
        ({"method": "os.system"}, "another version or package"),
        ({"options": {"speed": 1}}, "another version or package"),
    ],
)
def test_a_map_with_parts_missing_or_changed_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    arrays, header = save_gaussian(tmp_path / "map")
    write_map(tmp_path / "map", arrays, {**header, **change})
    with pytest.raises(DataError, match=message):
        load_map(tmp_path / "map")


@pytest.mark.parametrize("header", [["a list"], "text", {}])
def test_a_header_of_another_form_is_refused(header: object, tmp_path: Path) -> None:
    write_map(tmp_path / "map", {}, header)
    with pytest.raises(DataError, match="The header of the map in .* is damaged"):
        load_map(tmp_path / "map")


@pytest.mark.parametrize("name", ["0.keys", "0.center", "0.A", "0.m", "0.regularized", "0.x", "9.m", "score"])
def test_arrays_of_another_shape_or_type_are_refused(name: str, tmp_path: Path) -> None:
    arrays, header = save_gaussian(tmp_path / "map")
    array = arrays.get(name, np.ones(1))
    changes = [
        array[0],
        array[None],
        array[:-1],
        array[:0],
        array.ravel()[:1],
        array.astype(bool),
        array.astype(np.int8),
    ]
    changes += [
        np.array(1.0),
        np.array(1),
        np.full(array.shape, np.nan),
        np.full(array.shape, np.inf),
        array.astype(np.complex64),
    ]
    for change in changes:
        if name == "0.keys" and (change.dtype, change.shape) == (np.int8, array.shape):
            continue  # other integers are as good
        write_map(tmp_path / "map", {**arrays, name: np.ascontiguousarray(change)}, header)
        with pytest.raises(DataError, match="the map in|as a saved map"):
            load_map(tmp_path / "map")
    write_map(tmp_path / "map", arrays, header)
    load_map(tmp_path / "map")


@pytest.mark.parametrize("name", ["0.center", "0.A", "0.m"])
def test_a_map_in_single_precision_is_applied_and_one_in_half_is_refused(name: str, tmp_path: Path) -> None:
    arrays, header = save_gaussian(tmp_path / "map")
    x = np.random.default_rng(1).standard_normal((6, 3)).astype(np.float32)
    write_map(tmp_path / "single", {**arrays, name: arrays[name].astype(np.float32)}, header)
    expected = load_map(tmp_path / "map").transform(x, ["f", "m"] * 3)
    np.testing.assert_allclose(load_map(tmp_path / "single").transform(x, ["f", "m"] * 3), expected, atol=1e-4)
    write_map(tmp_path / "half", {**arrays, name: arrays[name].astype(np.float16)}, header)
    with pytest.raises(DataError, match="not an array of finite numbers"):
        load_map(tmp_path / "half")
