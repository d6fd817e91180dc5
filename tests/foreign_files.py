"""Files of vectors as the libraries that people train with write them, for tests of every format.

Each maker writes vectors and shuffled ids to a path, and each reader takes the vectors back with the same library.
"""

from __future__ import annotations

import gzip
import json
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import torch
from safetensors.torch import load_file, save_file

__all__ = ["FILES", "ForeignFile", "make_recbole_checkpoint"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ForeignFile:
    """How a library writes a file of vectors, and how it reads the vectors again.

    Attributes:
        format: the format as the documentation calls it.
        library: the library.
        name: name of the file.
        write: writes ids and vectors.
        read: returns ids (None if the file holds none) and vectors.
        dtype: type of the numbers in the file.
    """

    format: str
    library: str
    name: str
    write: Callable[[Path, Array, Array], None]
    read: Callable[[Path], tuple[Any, Array]]
    dtype: str = "float32"

    @property
    def holds_ids(self) -> bool:
        """Whether the ids are in the file."""
        return self.name not in ("x.npy", "als.npz", "recbole.pth", "legacy.pt")


def frame(ids: Array, x: Array) -> pd.DataFrame:
    return pd.DataFrame({"user_id": ids, "embedding": list(x), "city": [f"c{i}" for i in range(len(ids))]})


def wide(ids: Array, x: Array) -> pd.DataFrame:
    columns = {f"emb_{j}": x[:, j] for j in range(x.shape[1])}
    return pd.DataFrame({"user_id": ids, **columns, "note": ["a,b"] * len(ids)})


def split_wide(table: Any) -> tuple[Any, Array]:
    names = [name for name in table.columns if name.startswith("emb_")]
    return list(table["user_id"]), np.asarray(table[names], dtype=np.float32)


def split_lists(table: Any) -> tuple[Any, Array]:
    return list(table["user_id"]), np.stack(list(table["embedding"]))


def write_json(path: Path, ids: Array, x: Array) -> None:
    lines = [
        json.dumps({"user_id": int(i), "embedding": [float(v) for v in row]}) for i, row in zip(ids, x, strict=True)
    ]
    text = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def read_json(path: Path) -> tuple[Any, Array]:
    table = pd.read_json(path, lines=True)
    return split_lists(table)


def write_word2vec(path: Path, ids: Array, x: Array) -> None:
    from gensim.models import KeyedVectors

    vectors = KeyedVectors(vector_size=x.shape[1])
    vectors.add_vectors([str(i) for i in ids], x)
    vectors.save_word2vec_format(str(path), binary=False)


def read_word2vec(path: Path) -> tuple[Any, Array]:
    from gensim.models import KeyedVectors

    vectors = KeyedVectors.load_word2vec_format(str(path), binary=False)
    return [int(key) for key in vectors.index_to_key], vectors.vectors


def write_npz(path: Path, ids: Array, x: Array) -> None:
    np.savez_compressed(path, user_factors=x.astype(np.float16), item_factors=np.ones((7, x.shape[1])), user_ids=ids)


def write_implicit(path: Path, ids: Array, x: Array) -> None:
    # The arrays that implicit's AlternatingLeastSquares.save writes.
    np.savez(path, user_factors=x, item_factors=x[:5], regularization=0.01, factors=x.shape[1], dtype="float32")


def read_npz(path: Path) -> tuple[Any, Array]:
    with np.load(path, allow_pickle=False) as arrays:
        ids = arrays["user_ids"].tolist() if "user_ids" in arrays else None
        return ids, arrays["user_factors"]


def write_safetensors(path: Path, ids: Array, x: Array) -> None:
    save_file({"weight": torch.tensor(x).bfloat16(), "user_id": torch.tensor(ids)}, path, metadata={"by": "me"})


def read_safetensors(path: Path) -> tuple[Any, Array]:
    tensors = load_file(path)
    assert tensors["weight"].dtype == torch.bfloat16
    return tensors["user_id"].tolist(), tensors["weight"].float().numpy()


def write_state_dict(path: Path, ids: Array, x: Array) -> None:
    model = torch.nn.ModuleDict({"user": torch.nn.Embedding(*x.shape), "item": torch.nn.Embedding(9, x.shape[1])})
    with torch.no_grad():
        model["user"].weight.copy_(torch.tensor(x))
    torch.save({**model.state_dict(), "user_ids": torch.tensor(ids)}, path)


def read_state_dict(path: Path) -> tuple[Any, Array]:
    tensors = torch.load(path, weights_only=True)
    return tensors["user_ids"].tolist(), tensors["user.weight"].numpy()


def write_old_torch(path: Path, ids: Array, x: Array) -> None:
    torch.save(torch.tensor(x), path, _use_new_zipfile_serialization=False)


def read_old_torch(path: Path) -> tuple[Any, Array]:
    return None, torch.load(path, weights_only=True).numpy()


def make_recbole_checkpoint(path: Path, ids: Array, x: Array) -> None:
    """Write what RecBole's trainer saves: an object of a class of its own, the state, and an optimizer."""
    module = types.ModuleType("recbole_like_config")
    exec("class Config:\n    pass", module.__dict__)  # a class that nobody can import when the file is read
    sys.modules["recbole_like_config"] = module
    try:
        config = module.Config()
        config.final_config_dict = {"device": torch.device("cpu"), "epochs": 3, "seed": np.int64(7)}
        users = torch.nn.Parameter(torch.tensor(x))
        optimizer = {"state": {0: {"step": torch.tensor(1.0), "exp_avg": torch.ones_like(users)}}, "param_groups": [{}]}
        state = {
            "config": config,
            "epoch": 3,
            "best_valid_score": 0.1,
            "state_dict": {"user_embedding.weight": users, "item_embedding.weight": torch.ones(9, x.shape[1])},
            "other_parameter": None,
            "optimizer": optimizer,
        }
        torch.save(state, path, pickle_protocol=4)
    finally:
        del sys.modules["recbole_like_config"]


def read_recbole(path: Path) -> tuple[Any, Array]:
    module = types.ModuleType("recbole_like_config")
    module.Config = type("Config", (), {"__module__": "recbole_like_config"})  # type: ignore[attr-defined]
    sys.modules["recbole_like_config"] = module
    try:
        state = torch.load(path, weights_only=False)
    finally:
        del sys.modules["recbole_like_config"]
    assert state["config"].final_config_dict["epochs"] == 3
    assert state["optimizer"]["state"][0]["exp_avg"].abs().sum() > 0
    return None, state["state_dict"]["user_embedding.weight"].detach().numpy()


def write_hdf5(path: Path, ids: Array, x: Array) -> None:
    with h5py.File(path, "w") as file:
        file.create_dataset("model/users/embedding", data=x.astype(np.float64), compression="gzip")
        file.create_dataset("user_id", data=[f"u{i}".encode() for i in ids])
        file["model"].attrs["trained"] = "today"


def read_hdf5(path: Path) -> tuple[Any, Array]:
    with h5py.File(path, "r") as file:
        assert file["model"].attrs["trained"] == "today"
        return [int(i[1:]) for i in file["user_id"].asstr()[()]], file["model/users/embedding"][()]


FILES = (
    ForeignFile(
        "Parquet",
        "pandas",
        "p.parquet",
        lambda p, i, x: frame(i, x).to_parquet(p),
        lambda p: split_lists(pd.read_parquet(p)),
    ),
    ForeignFile(
        "Parquet, 16-bit floats",
        "pyarrow",
        "h.parquet",
        lambda p, i, x: pq.write_table(
            pa.table(
                {
                    "user_id": i,
                    "embedding": pa.FixedSizeListArray.from_arrays(pa.array(x.astype(np.float16).ravel()), x.shape[1]),
                }
            ),
            p,
        ),
        lambda p: (pq.read_table(p)["user_id"].to_pylist(), np.stack(pq.read_table(p)["embedding"].to_numpy())),
        "float16",
    ),
    ForeignFile(
        "Feather",
        "pandas",
        "f.feather",
        lambda p, i, x: frame(i, x).to_feather(p),
        lambda p: split_lists(pd.read_feather(p)),
    ),
    ForeignFile(
        "Arrow IPC",
        "polars",
        "a.arrow",
        lambda p, i, x: pl.DataFrame({"user_id": i, "embedding": x.tolist()}).write_ipc(p),
        lambda p: split_lists(pl.read_ipc(p)),
        "float64",
    ),
    ForeignFile(
        "Arrow IPC stream",
        "polars",
        "s.arrow",
        lambda p, i, x: pl.DataFrame({"user_id": i, "embedding": x.tolist()}).write_ipc_stream(p),
        lambda p: split_lists(pl.read_ipc_stream(p)),
        "float64",
    ),
    ForeignFile(
        "CSV",
        "pandas",
        "c.csv",
        lambda p, i, x: wide(i, x).to_csv(p, index=False),
        lambda p: split_wide(pd.read_csv(p)),
    ),
    ForeignFile(
        "CSV with semicolons",
        "pandas",
        "d.csv",
        lambda p, i, x: wide(i, x).to_csv(p, index=False, sep=";"),
        lambda p: split_wide(pd.read_csv(p, sep=";")),
    ),
    ForeignFile(
        "CSV, gzip",
        "pandas",
        "c.csv.gz",
        lambda p, i, x: wide(i, x).to_csv(p, index=False),
        lambda p: split_wide(pd.read_csv(p, compression="gzip")),
    ),
    ForeignFile(
        "TSV, bzip2",
        "pandas",
        "t.tsv.bz2",
        lambda p, i, x: wide(i, x).to_csv(p, index=False, sep="\t"),
        lambda p: split_wide(pd.read_csv(p, sep="\t", compression="bz2")),
    ),
    ForeignFile("JSON lines", "json", "j.jsonl", write_json, read_json, "float64"),
    ForeignFile("JSON lines, gzip", "json", "j.jsonl.gz", write_json, read_json, "float64"),
    ForeignFile("word2vec text", "gensim", "w.w2v", write_word2vec, read_word2vec),
    ForeignFile("word2vec text, .txt", "gensim", "w.txt", write_word2vec, read_word2vec),
    ForeignFile(
        "NumPy .npy",
        "NumPy",
        "x.npy",
        lambda p, i, x: np.save(p, x.astype(np.float64)),
        lambda p: (None, np.load(p, allow_pickle=False)),
        "float64",
    ),
    ForeignFile("NumPy .npz, compressed", "NumPy", "x.npz", write_npz, read_npz, "float16"),
    ForeignFile("NumPy .npz", "NumPy, in implicit's layout", "als.npz", write_implicit, read_npz),
    ForeignFile("safetensors, bfloat16", "safetensors", "x.safetensors", write_safetensors, read_safetensors),
    ForeignFile("PyTorch state dict", "torch", "x.pt", write_state_dict, read_state_dict),
    ForeignFile("PyTorch before 1.6", "torch", "legacy.pt", write_old_torch, read_old_torch),
    ForeignFile(
        "RecBole checkpoint", "torch, in RecBole's layout", "recbole.pth", make_recbole_checkpoint, read_recbole
    ),
    ForeignFile("HDF5", "h5py", "x.h5", write_hdf5, read_hdf5, "float64"),
)
