"""A map applied part by part: users without a class are counted, and a job goes on only with the same map."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.defenses.embeddings.fitted_maps import AffineMap, FittedMap
from recveil.streaming import applied_table, block_table
from recveil.streaming.applied_table import apply_to_table, count_unknown, measure_moments
from recveil.streaming.block_table import open_table
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.labels import AttributeSource

CLASSES = {"gender": ("F", "M")}


def shift_by(*steps: float) -> FittedMap:
    """A map that moves each class, and undisclosed users last, by a step of its own."""
    center = -torch.tensor(steps, dtype=torch.float64)[:, None].expand(-1, 2)
    stage = AffineMap(center, torch.eye(2, dtype=torch.float64).expand(len(steps), -1, -1), torch.zeros(2))
    return FittedMap([(np.array([[0], [1]]), stage)], 1.0, 0.0, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "users").mkdir()
    x = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(12, dtype=np.float32)), 2)
    users = pa.table({"user_id": range(6), "gender": ["F", "M", None, "F", "M", "M"], "embedding": x})
    for number in range(2):
        pq.write_table(users.slice(3 * number, 3), tmp_path / "users" / f"{number}.parquet")
    (tmp_path / "a.map").write_bytes(b"one map")
    (tmp_path / "b.map").write_bytes(b"another")
    return tmp_path


def test_each_class_goes_its_own_way_and_the_others_are_counted(folder: Path) -> None:
    table, source = open_table(folder / "users"), AttributeSource(None, ("gender",), known=CLASSES)
    unknown, _ = apply_to_table(
        table, source, folder / "a.map", shift_by(10, 20, 30), folder / "out", n_attributes=1, engine=ThreadEngine()
    )
    assert unknown == [1]
    out = pq.read_table(folder / "out")
    moved = np.stack(out["embedding"].to_pylist()) - np.arange(12).reshape(6, 2)
    np.testing.assert_allclose(moved[:, 0], [10, 20, 30, 10, 20, 20], atol=1e-5)


def test_a_job_with_another_map_does_not_go_on_with_the_parts_of_the_first(folder: Path) -> None:
    table, nobody = open_table(folder / "users"), AttributeSource(None, ())

    def apply(name: str) -> list[int]:
        fitted = shift_by(1, 2, 3)
        place = folder / "out"
        return apply_to_table(table, nobody, folder / name, fitted, place, n_attributes=1, engine=ThreadEngine())[0]

    assert apply("a.map") == [6]
    (folder / "out" / "1.parquet").unlink()
    assert apply("a.map") == [6]
    assert (folder / "out" / "1.parquet").exists()
    with pytest.raises(UsageError, match="this job did not write"):
        apply("b.map")


def test_moments_are_those_of_all_parts(folder: Path) -> None:
    moments = measure_moments(open_table(folder / "users"), ThreadEngine())
    x = np.arange(12).reshape(6, 2)
    np.testing.assert_allclose(moments.mean[0], x.mean(0))
    np.testing.assert_allclose(moments.covariance[0], np.cov(x.T, bias=True))


def test_of_many_users_some_are_measured_whatever_the_blocks_but_all_are_looked_at(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(applied_table, "MEASURED_USERS", 3)
    x = np.arange(12).reshape(6, 2)
    for size in (8, 16, 1 << 20):
        monkeypatch.setattr(block_table, "BLOCK_BYTES", size)
        moments = measure_moments(open_table(folder / "users"), ThreadEngine())
        assert moments.n.tolist() == [3]
        np.testing.assert_allclose(moments.mean[0], x[::2].mean(0))
    users = pq.read_table(folder / "users" / "1.parquet")
    broken = pa.FixedSizeListArray.from_arrays(pa.array([1, 2, 3, 4, np.nan, 6], pa.float32()), 2)
    pq.write_table(users.set_column(2, "embedding", broken), folder / "users" / "1.parquet")
    with pytest.raises(DataError, match="the first in row 2"):
        measure_moments(open_table(folder / "users"), ThreadEngine())


def test_users_are_counted_by_attribute() -> None:
    codes = np.array([[-1, -1], [0, -1], [1, 0]])
    assert count_unknown(codes, np.array([2, 3, 4])) == [2, 5]
