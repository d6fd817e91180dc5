"""A pickle is read without running: containers and tensors come out, everything else is inert or refused."""

from __future__ import annotations

import collections
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError
from recveil.data.io.formats.closed_pickle import Opaque, StoredTensor, UnsafePickle, read_structure
from recveil.data.io.vectors import read_embeddings

PLAIN = {
    "text": "é",
    "numbers": [1, -2, 3.5, 2**70, True, None],
    "nested": {"a": {"b": (1, 2, (3, 4), ())}},
    "bytes": b"\x00\xff",
    5: {"set": [1]},
}


class RunsCode:
    """Runs a command when it is unpickled."""

    def __init__(self, path: Path, function: str) -> None:
        self._path, self._function = path, function

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        import os
        import subprocess

        functions = {"system": os.system, "popen": subprocess.Popen, "eval": eval, "touch": Path.touch}
        argument = self._path if self._function == "touch" else f"touch {self._path}"
        return functions[self._function], (argument,)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_structures_are_read_as_they_are(protocol: int) -> None:
    value = PLAIN if protocol >= 3 else {key: part for key, part in PLAIN.items() if key != "bytes"}
    assert read_structure(pickle.dumps(value, protocol=protocol)) == value
    ordered = collections.OrderedDict(a=1, b=[2])
    assert read_structure(pickle.dumps(ordered, protocol=protocol)) == {"a": 1, "b": [2]}


def test_shared_and_circular_values_are_read() -> None:
    loop: dict[str, object] = {"x": 1}
    loop["self"] = loop
    structure = read_structure(pickle.dumps({"a": loop, "b": loop}))
    assert structure["a"] is structure["b"]
    assert structure["a"]["self"] is structure["a"]


def test_objects_are_opaque() -> None:
    structure = read_structure(pickle.dumps({"config": Path("x"), "array": np.ones(2), "kind": Opaque}))
    assert all(isinstance(value, Opaque) for value in structure.values())
    assert structure["kind"].name.endswith("closed_pickle.Opaque")


@pytest.mark.parametrize("function", ["system", "popen", "eval", "touch"])
@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_a_malicious_file_runs_nothing_and_is_refused(tmp_path: Path, function: str, protocol: int) -> None:
    sign = tmp_path / "sign"
    bad = {"embedding": torch.ones(3, 2), "config": RunsCode(sign, function)}
    torch.save(bad, tmp_path / "bad.pt", pickle_protocol=max(protocol, 2))
    if function == "touch":  # a function of a class is not called either, and the tensor is read
        assert read_embeddings(tmp_path / "bad.pt", "row-number").x.shape == (3, 2)
    else:
        with pytest.raises(DataError, match="runs code, so it was not read"):
            read_embeddings(tmp_path / "bad.pt", "row-number")
        with pytest.raises(UnsafePickle):
            read_structure(pickle.dumps(bad["config"], protocol=protocol))
    torch.save(bad, tmp_path / "old.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(DataError, match="holds more than tensors"):
        read_embeddings(tmp_path / "old.pt", "row-number")
    assert not sign.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b"\x80\x02",
        b".",
        b"\x80\x04\x95" + b"\xff" * 8,
        b"(((.",
        b"\x80\x02h\x05.",
        b"\x80\x02]q\x00Ra.",
        b"\x82\x01.",
    ],
)
def test_damaged_programs_are_errors(program: bytes) -> None:
    with pytest.raises((ValueError, IndexError, KeyError, TypeError, AttributeError)):
        read_structure(program)


def test_tensors_with_impossible_sizes_are_refused(tmp_path: Path) -> None:
    torch.save({"embedding": torch.ones(3, 2)}, tmp_path / "x.pt")
    with zipfile.ZipFile(tmp_path / "x.pt") as packed:
        members = {name: packed.read(name) for name in packed.namelist()}
    program = members["x/data.pkl"]
    stored = read_structure(program)["embedding"]
    assert stored == StoredTensor("0", "FloatStorage", 0, (3, 2), (2, 1))
    # The size 3 becomes 200: the tensor would leave its block of numbers.
    members["x/data.pkl"] = program.replace(b"K\x03K\x02\x86", b"K\xc8K\x02\x86")
    assert members["x/data.pkl"] != program
    with zipfile.ZipFile(tmp_path / "large.pt", "w") as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    with pytest.raises(DataError, match="not a whole file"):
        read_embeddings(tmp_path / "large.pt", "row-number")


def test_random_bytes_never_end_in_a_traceback(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    torch.save({"embedding": torch.ones(4, 2), "n": [1, "a"]}, buffer)
    content, rng, refused = buffer.getvalue(), np.random.default_rng(0), 0
    for number in range(60):
        damaged = bytearray(content)
        for place in rng.integers(0, len(damaged), 8):
            damaged[place] = rng.integers(256)
        path = tmp_path / f"{number}.pt"
        path.write_bytes(damaged)
        try:  # any other error fails the test
            read_embeddings(path, "row-number")
        except DataError:
            refused += 1
    assert 0 < refused < 60  # damage in unused bytes changes nothing
