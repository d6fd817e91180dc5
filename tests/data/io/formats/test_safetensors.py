from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Layout, read_embeddings


def test_one_of_several_tables_is_named_and_the_rest_stays(tmp_path: Path) -> None:
    tensors = {"a": torch.ones(3, 2).half(), "b": torch.zeros(5, 2), "gender": torch.arange(3)}
    save_file(tensors, tmp_path / "e.safetensors", metadata={"made": "by hand"})
    vectors = read_embeddings(tmp_path / "e.safetensors", "row-number", layout=Layout(("a",)))
    write_embeddings(tmp_path / "out.safetensors", vectors.drop_names(["gender"]), vectors.x * 2)
    after = load_file(tmp_path / "out.safetensors")
    assert sorted(after) == ["a", "b"]
    assert after["a"].dtype == torch.float16
    np.testing.assert_array_equal(after["a"], 2)
    with safe_open(tmp_path / "out.safetensors", "pt") as file:
        assert file.metadata() == {"made": "by hand"}
