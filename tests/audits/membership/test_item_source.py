"""Item vectors of an outsider: from texts or a table by id, or factored by the registered model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from recveil.audits.membership.item_source import ItemSource, factor_item_table
from recveil.core.errors import UsageError
from recveil.data.io.release_files import write_vectors
from recveil.data.synthetic import make_world


def test_texts_are_matched_by_id(tmp_path: Path) -> None:
    texts = tmp_path / "texts.csv"
    texts.write_text("item_id,text\n" + "".join(f"{5000 + i},word{i % 3}\n" for i in range(60)))
    table = ItemSource(texts=texts).read_table(pa.array([5000, 5003, 5001, 9]))
    assert table is not None
    np.testing.assert_array_equal(table.vectors[0], table.vectors[1])
    assert (table.vectors[0] != table.vectors[2]).any()
    assert np.isnan(table.vectors[3]).all()
    assert table.source == "texts, hashed"


def test_vectors_are_matched_by_id(tmp_path: Path) -> None:
    write_vectors(tmp_path / "v.parquet", "item_id", np.array([2, 1]), np.array([[2.0], [1.0]]))
    table = ItemSource(vectors=tmp_path / "v.parquet").read_table(pa.array([1, 2]))
    assert table is not None
    assert table.vectors[:, 0].tolist() == [1.0, 2.0]
    assert table.source == "given"


def test_one_file_or_none_may_be_given(tmp_path: Path) -> None:
    assert ItemSource().read_table(pa.array([1])) is None
    with pytest.raises(UsageError, match="Give one of them"):
        ItemSource(tmp_path / "v.parquet", tmp_path / "t.csv")


def test_items_are_factored_by_a_model_that_may_be_cached() -> None:
    world = make_world(n_users=60, n_items=30, n_interactions=600, leaks={}, rng=np.random.default_rng(0)).dataset
    names: list[str] = []

    def wrap_model(name: str, model):
        names.append(name)
        return model

    table = factor_item_table(world, "all users", device="cpu", rng=np.random.default_rng(0), wrap_model=wrap_model)
    assert len(table.vectors) == world.n_items
    assert np.isfinite(table.vectors).all()
    assert table.source == "factored from all users (LFM)"
    assert names == ["lfm"]
