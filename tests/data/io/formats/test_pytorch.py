from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from foreign_files import make_recbole_checkpoint
from recveil.core.errors import DataError, UsageError
from recveil.data.io.vector_output import write_embeddings
from recveil.data.io.vectors import Layout, read_embeddings

X = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)


def test_a_tensor_alone_and_a_named_one(tmp_path: Path) -> None:
    torch.save(torch.tensor(X), tmp_path / "x.pt")
    np.testing.assert_array_equal(read_embeddings(tmp_path / "x.pt", "row-number").x, X)
    torch.save({"a": torch.tensor(X), "b": torch.zeros(2, 2), "n": 3}, tmp_path / "two.pth")
    with pytest.raises(DataError, match=r"2 tables among its arrays .* by `vectors`"):
        read_embeddings(tmp_path / "two.pth", "row-number")
    named = read_embeddings(tmp_path / "two.pth", "row-number", layout=Layout(("a",)))
    np.testing.assert_array_equal(named.x, X)
    with pytest.raises(DataError, match="no array 'c'"):
        read_embeddings(tmp_path / "two.pth", "row-number", layout=Layout(("c",)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_views_and_types_are_written_back_in_their_place(tmp_path: Path, dtype: torch.dtype) -> None:
    whole = torch.arange(24, dtype=dtype).reshape(6, 4)
    tensors = {"user": whole[:, 1:3], "item": whole[:, 3:], "turned": torch.ones(3, 6).T}
    torch.save(tensors, tmp_path / "x.pt")
    vectors = read_embeddings(tmp_path / "x.pt", "row-number", layout=Layout(("user",)))
    np.testing.assert_array_equal(vectors.x, whole[:, 1:3].float())
    write_embeddings(tmp_path / "out.pt", vectors, vectors.x + 1)
    for mapped in (False, True):
        after = torch.load(tmp_path / "out.pt", weights_only=True, mmap=mapped)
        assert after["user"].dtype == dtype
        assert torch.equal(after["user"], whole[:, 1:3] + 1)
        assert torch.equal(after["item"], whole[:, 3:])


def test_a_checkpoint_keeps_everything_but_the_vectors(tmp_path: Path) -> None:
    make_recbole_checkpoint(tmp_path / "c.pth", np.arange(6), X)
    vectors = read_embeddings(tmp_path / "c.pth", "row-number")
    assert vectors.columns == ("state_dict.user_embedding.weight",)
    items = read_embeddings(tmp_path / "c.pth", "row-number", owner="item")
    assert items.columns == ("state_dict.item_embedding.weight",)
    with pytest.raises(UsageError, match="holds no user ids"):
        read_embeddings(tmp_path / "c.pth")


def test_dropped_tensors_lose_their_content(tmp_path: Path) -> None:
    torch.save({"embedding": torch.tensor(X), "gender": torch.arange(6)}, tmp_path / "x.pt")
    vectors = read_embeddings(tmp_path / "x.pt", "row-number").drop_names(["gender"])
    write_embeddings(tmp_path / "out.pt", vectors, X)
    assert torch.load(tmp_path / "out.pt", weights_only=True)["gender"].tolist() == [0] * 6


def test_files_that_cannot_hold_the_vectors_are_refused(tmp_path: Path) -> None:
    torch.save({"embedding": torch.arange(6).reshape(3, 2)}, tmp_path / "whole.pt")
    vectors = read_embeddings(tmp_path / "whole.pt", "row-number")
    with pytest.raises(UsageError, match="whole numbers"):
        write_embeddings(tmp_path / "out.pt", vectors, vectors.x)
    torch.save({"embedding": torch.ones(3, 2).half()}, tmp_path / "half.pt")
    vectors = read_embeddings(tmp_path / "half.pt", "row-number")
    with pytest.raises(UsageError, match=r"do not fit into torch.float16"):
        write_embeddings(tmp_path / "out.pt", vectors, vectors.x * 1e6)
    assert not (tmp_path / "out.pt").exists()
    (tmp_path / "no.pt").write_bytes(b"PK\x03\x04 and nothing else")
    with pytest.raises(DataError):
        read_embeddings(tmp_path / "no.pt", "row-number")
