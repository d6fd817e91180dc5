from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.hdf5 import list_datasets
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Layout, read_embeddings

X = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


def test_numbers_of_other_files_are_not_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = X
    (tmp_path / "raw").write_bytes(X.tobytes())
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["plain"] = X
        file["linked"] = h5py.ExternalLink("secret.h5", "x")
        file["soft"] = h5py.SoftLink("/linked")
        file.create_dataset("outside", X.shape, "f4", external=[(str(tmp_path / "raw"), 0, X.nbytes)])
        layout = h5py.VirtualLayout(X.shape, "f4")
        layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "x", X.shape)
        file.create_virtual_dataset("virtual", layout)
    assert list(list_datasets(tmp_path / "e.h5")) == ["plain"]
    with pytest.raises(DataError, match="no array 'linked'"):
        read_embeddings(tmp_path / "e.h5", "row-number", layout=Layout(("linked",)))


def test_a_table_becomes_hdf5_and_targets_are_removed(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["users/embedding"], file["users/id"] = X, [3, 1, 4, 2]
        file["users/gender"] = np.arange(4)
        file["users/count"] = np.arange(8).reshape(4, 2)
    vectors = read_embeddings(tmp_path / "e.h5", layout=Layout(("users/embedding",), "users/id"))
    assert vectors.ids.to_pylist() == [3, 1, 4, 2]
    write_embeddings(tmp_path / "out.h5", vectors.drop_names(["users/gender"]), X)
    assert "users/gender" not in list_datasets(tmp_path / "out.h5")
    write_embeddings(tmp_path / "out.npz", vectors, X)
    assert read_embeddings(tmp_path / "out.npz").ids.to_pylist() == [3, 1, 4, 2]
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "ids.txt").write_text("a\nb\nc\nd\n")
    write_embeddings(tmp_path / "new.h5", read_embeddings(tmp_path / "x.npy", tmp_path / "ids.txt"), X)
    assert read_embeddings(tmp_path / "new.h5").ids.to_pylist() == ["a", "b", "c", "d"]
    whole = read_embeddings(tmp_path / "e.h5", layout=Layout(("users/count",), "users/id"))
    with pytest.raises(UsageError, match="whole numbers"):
        write_embeddings(tmp_path / "whole.h5", whole, whole.x)
