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
from recveil.defenses.embeddings.map_files import FORMAT, SavedMap
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.transformers import MapTransformer, load_map


def save_gaussian(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Save the map of a small table, and return the arrays and the header of the file."""
    return save_map(path, Gaussian(device="cpu"))


def save_sliced(path: Path, coordinates: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Save a map in coordinates of one kind, and return the arrays and the header of the file."""
    return save_map(path, Sliced(rounds=1, coordinates=coordinates, trade=False, device="cpu"))


def save_map(path: Path, defense: MapTransformer) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    defense.fit(x, np.where(np.arange(40) % 2, "m", "f")).save(path)
    with safe_open(path, framework="numpy") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, json.loads(file.metadata()["header"])  # noqa: SIM118


def write_map(path: Path, arrays: dict[str, np.ndarray], header: object) -> None:
    save_file(arrays, path, metadata={"format": FORMAT, "header": json.dumps(header)})


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


def test_a_map_of_an_earlier_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    arrays, header = save_gaussian(tmp_path / "map")
    save_file(arrays, tmp_path / "map", metadata={"format": "recveil map 2", "header": json.dumps(header)})
    with pytest.raises(DataError, match=r"of another version \('recveil map 2'.*Fit and save the map again"):
        load_map(tmp_path / "map")


COORDINATE_ARRAYS = {
    "columns": set(),
    "scores": {"coordinates.levels", "coordinates.knots"},
    "polar": {"coordinates.levels", "coordinates.knots", "coordinates.varies", "coordinates.scale"},
}


@pytest.mark.parametrize("kind", COORDINATE_ARRAYS)
def test_coordinates_are_read_again_and_carry_later_users_alike(kind: str, tmp_path: Path) -> None:
    arrays, header = save_sliced(tmp_path / "map", kind)
    assert {name for name in arrays if name.startswith("coordinates.")} == COORDINATE_ARRAYS[kind]
    write_map(tmp_path / "again", arrays, header)
    first, second = (load_map(tmp_path / name).set_params(device="cpu") for name in ("map", "again"))
    assert first.map_.coordinates.kind == second.map_.coordinates.kind == kind
    x = 2 * np.random.default_rng(1).standard_normal((50, 3)).astype(np.float32)
    codes = np.where(np.arange(50) % 2, "m", "f")
    np.testing.assert_array_equal(first.transform(x, codes), second.transform(x, codes))
    assert np.abs(first.transform(x, codes) - x).max() > 0


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind, names in COORDINATE_ARRAYS.items() for name in sorted(names)]
)
def test_coordinates_that_are_damaged_or_missing_are_refused(kind: str, name: str, tmp_path: Path) -> None:
    arrays, header = save_sliced(tmp_path / "map", kind)
    array = arrays[name]
    without = {other: value for other, value in arrays.items() if other != name}
    shapes = [array[0], array[None], array[:-1], array[:0], array.ravel()[:1], array[..., None], np.array(1.0)]
    types = [array.astype(kind_of_number) for kind_of_number in (bool, np.int64, np.float32, np.complex64)]
    values = [np.full(array.shape, np.nan), np.full(array.shape, np.inf), -1 - np.abs(array)]
    if name.endswith(("levels", "knots")):
        values.append(array[::-1])  # in descending order
    for change in (*shapes, *types, *values):
        write_map(tmp_path / "map", {**without, name: np.ascontiguousarray(change)}, header)
        with pytest.raises(DataError, match=r"Parts of the map in .* do not fit together|as a saved map"):
            load_map(tmp_path / "map")
    write_map(tmp_path / "map", without, header)
    with pytest.raises(DataError, match="do not fit together"):
        load_map(tmp_path / "map")
    write_map(tmp_path / "map", {**arrays, "coordinates.other": np.ones(3)}, header)
    with pytest.raises(DataError, match="do not fit together"):
        load_map(tmp_path / "map")


def test_coordinates_of_another_map_are_refused(tmp_path: Path) -> None:
    """Stages in the columns of the table do not fit polar coordinates, which have one column more."""
    columns, header = save_sliced(tmp_path / "map", "columns")
    polar, _ = save_sliced(tmp_path / "polar", "polar")
    parts = {name: array for name, array in polar.items() if name.startswith("coordinates.")}
    write_map(tmp_path / "map", {**columns, **parts}, header)
    with pytest.raises(DataError, match="do not fit together"):
        load_map(tmp_path / "map")
