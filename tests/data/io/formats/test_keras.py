from __future__ import annotations

import os
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Layout, read_embeddings

X = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
USERS = "layers/embedding/vars/0"


def test_weights_are_read_and_written_back_in_their_place(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file[USERS], file["layers/embedding_1/vars/0"] = X, np.ones((7, 3), np.float32)
    with zipfile.ZipFile(tmp_path / "m.keras", "w") as packed:
        packed.writestr("config.json", "{}")
        packed.write(tmp_path / "w.h5", "model.weights.h5")
    vectors = read_embeddings(tmp_path / "m.keras", "row-number", layout=Layout((USERS,)))
    np.testing.assert_array_equal(vectors.x, X)
    write_embeddings(tmp_path / "out.keras", vectors, X + 1)
    again = read_embeddings(tmp_path / "out.keras", "row-number", layout=Layout((USERS,)))
    np.testing.assert_array_equal(again.x, X + 1)
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(UsageError, match="would be a Keras file, and the input is none"):
        write_embeddings(tmp_path / "new.keras", read_embeddings(tmp_path / "x.npy", "row-number"), X)
    (tmp_path / "m.keras").write_bytes(b"PK no zip")
    with pytest.raises(DataError, match="not a whole Keras model"):
        read_embeddings(tmp_path / "m.keras", "row-number")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_model_of_keras_is_read_and_loaded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    user, item = keras.Input((1,), name="user"), keras.Input((1,), name="item")
    left = keras.layers.Embedding(5, 3, name="user_table")(user)
    right = keras.layers.Embedding(7, 3, name="item_table")(item)
    model = keras.Model([user, item], keras.layers.Dot(axes=2)([left, right]))
    model.get_layer("user_table").set_weights([X])
    model.save(tmp_path / "m.keras")
    vectors = read_embeddings(tmp_path / "m.keras", "row-number", layout=Layout((USERS,)))
    np.testing.assert_array_equal(vectors.x, X)
    write_embeddings(tmp_path / "out.keras", vectors, X + 1)
    loaded = keras.models.load_model(tmp_path / "out.keras")
    np.testing.assert_array_equal(loaded.get_layer("user_table").get_weights()[0], X + 1)
