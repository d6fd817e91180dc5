"""Arrays from damaged or unusual files: read as they are meant, or refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from recveil.core.errors import DataError
from recveil.data.io.array_files import check_scale, convert_id_array
from recveil.data.io.formats.npy import load_npy
from recveil.data.io.vectors import read_embeddings

X = np.array([[0.1, -2.0], [3.5, 0.25], [1e-7, 4.0]], dtype=np.float32)


def write_header(path: Path, header: bytes) -> Path:
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    return path


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808, 2), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1099511627776, 2), }",
        b"{'descr': 'no such type', 'fortran_order': False, 'shape': (3, 2), }",
        b"(" * 4000,
    ],
)
def test_damaged_headers_are_refused(tmp_path: Path, header: bytes) -> None:
    with pytest.raises(DataError, match="not a whole .npy file"):
        load_npy(write_header(tmp_path / "e.npy", header))


@pytest.mark.parametrize("factor", [1e20, -1e20, 1e-42])
def test_vectors_that_cannot_be_computed_with_are_refused(factor: float) -> None:
    with pytest.raises(DataError, match="Multiply all vectors by one number"):
        check_scale((X * factor).astype(np.float32), "f")
    check_scale(X, "f")
    check_scale(X * 0, "f")


def test_archives_are_refused(tmp_path: Path) -> None:
    (tmp_path / "e.npy").write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(DataError, match="archive of arrays"):
        load_npy(tmp_path / "e.npy")
    np.savez(tmp_path / "e.npz", X)
    (tmp_path / "e.npz").rename(tmp_path / "e.npy")
    with pytest.raises(DataError, match="archive of arrays"):
        load_npy(tmp_path / "e.npy")


@pytest.mark.parametrize(
    "array",
    [
        np.zeros(3, dtype=complex),
        np.zeros(3, dtype=[("a", "i4"), ("b", "f4")]),
        np.zeros(3, dtype="datetime64[s]"),
        np.array([True, False, True]),
        np.array([0x110000, 2, 3], dtype=np.uint32).view("U1"),
    ],
)
def test_ids_that_are_neither_numbers_nor_text_are_refused(tmp_path: Path, array: np.ndarray) -> None:
    np.save(tmp_path / "e.npy", X)
    np.save(tmp_path / "i.npy", array)
    with pytest.raises(DataError, match="as a whole number or as text"):
        read_embeddings(tmp_path / "e.npy", tmp_path / "i.npy")


def test_a_table_of_ids_is_not_read_row_by_row() -> None:
    with pytest.raises(DataError, match="2 x 3"):
        convert_id_array(np.zeros((2, 3), dtype=np.int64), "ids.npy")
    assert convert_id_array(np.array([[1], [2]]), "ids.npy").to_pylist() == [1, 2]


def test_ids_of_any_byte_order_are_read() -> None:
    assert convert_id_array(np.array([3, 1], dtype=">i4"), "f").to_pylist() == [3, 1]
    assert convert_id_array(np.array([["a"], ["b"]], dtype=">U1"), "f").to_pylist() == ["a", "b"]


@pytest.mark.parametrize("ids", [torch.tensor(7), torch.zeros(3, 2, dtype=torch.int64), torch.arange(4)])
def test_id_tensors_must_have_one_number_for_each_row(tmp_path: Path, ids: torch.Tensor) -> None:
    # A second table is no rival of one that is called embedding.
    save_file({"embedding": torch.tensor(X), "user_id": ids}, tmp_path / "e.safetensors")
    with pytest.raises(DataError, match="'user_id' .* does not fit its 3 vectors"):
        read_embeddings(tmp_path / "e.safetensors")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool])
def test_id_tensors_must_hold_plain_numbers(tmp_path: Path, dtype: torch.dtype) -> None:
    ids = torch.tensor([1, 0, 2]).to(dtype)
    save_file({"embedding": torch.tensor(X), "user_id": ids}, tmp_path / "e.safetensors")
    with pytest.raises(DataError, match="as a whole number or as text"):
        read_embeddings(tmp_path / "e.safetensors")


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bool])
def test_vectors_must_be_numbers(tmp_path: Path, dtype: torch.dtype) -> None:
    save_file({"embedding": torch.tensor(X).to(dtype), "user_id": torch.arange(3)}, tmp_path / "e.safetensors")
    with pytest.raises(DataError, match="not numbers"):
        read_embeddings(tmp_path / "e.safetensors")
