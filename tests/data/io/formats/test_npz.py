from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.data.io.formats.npz import FORMAT
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import read_embeddings

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float16)


def test_objects_are_passed_over_and_copied_unread(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "e.npz", embedding=X, extra=np.array([{"a": 1}], dtype=object), user_id=list("dcba"))
    assert FORMAT.list_arrays(tmp_path / "e.npz") == {"embedding": (4, 3), "user_id": (4,)}
    vectors = read_embeddings(tmp_path / "e.npz")
    assert vectors.ids.to_pylist() == list("dcba")
    write_embeddings(tmp_path / "out.npz", vectors, vectors.x)
    with zipfile.ZipFile(tmp_path / "e.npz") as one, zipfile.ZipFile(tmp_path / "out.npz") as two:
        assert one.read("extra.npy") == two.read("extra.npy")
        assert two.getinfo("embedding.npy").compress_type == zipfile.ZIP_DEFLATED
    with np.load(tmp_path / "out.npz", allow_pickle=False) as arrays:
        assert arrays["embedding"].dtype == np.float16


def test_archives_of_something_else_are_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "e.npz", "w") as packed:
        packed.writestr("embedding.npy", b"no array")
    with pytest.raises(DataError, match="not a whole .npz file"):
        read_embeddings(tmp_path / "e.npz", "row-number")
    header = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999, 999), }".ljust(
        118
    )
    with zipfile.ZipFile(tmp_path / "e.npz", "w") as packed:
        packed.writestr("embedding.npy", header + b"\n")
    with pytest.raises(DataError, match="not a whole .npz file"):
        read_embeddings(tmp_path / "e.npz", "row-number")
