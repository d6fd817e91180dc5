"""labelfree on tables larger than memory: one map for all users, learned from a sample of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

from recveil.core.errors import UsageError
from recveil.defenses.embeddings.cell_maps import CellMap, CellStatistics
from recveil.defenses.embeddings.labelfree import LabelFree
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import CloakedTable, cloak_table
from recveil.streaming.labels import AttributeSource
from recveil.transport.moments import Moments

GENDER = AttributeSource(None, ("gender",))


def run(source: Path, out: Path, **options: Any) -> tuple[CloakedTable, np.ndarray]:
    done = cloak_table(open_table(source), GENDER, LabelFree(**options), out)
    return done, np.stack(pq.read_table(out).column("embedding").to_pylist())


def attack(x: np.ndarray, codes: np.ndarray, learned: np.ndarray) -> float:
    guess = QuadraticDiscriminantAnalysis().fit(x[learned], codes[learned]).predict(x[~learned])
    return balanced_accuracy(compute_confusion(codes[~learned], guess, 2))


def test_undisclosed_users_of_a_large_table_are_protected(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=24_000, unknown=0.5)
    done, out = run(world.path, tmp_path / "out")
    assert any("learned from 2,4" in note for note in done.notes)
    disclosed = np.array([g is not None for g in world.gender])
    codes = np.random.default_rng(0).integers(0, 2, 24_000)  # the first draw of the fixture
    assert (np.array(["F", "M"])[codes[disclosed]] == world.gender[disclosed]).all()
    some_more = disclosed & (np.arange(len(codes)) % 2 == 0)
    for learned in (disclosed, some_more, ~disclosed):
        assert attack(world.x, codes, learned) > 0.7
        assert attack(out, codes, learned) < 0.56
    assert attack(out, disclosed.astype(int), np.arange(len(codes)) % 2 == 0) < 0.52
    assert 0.1 < done.displacement < 1


def test_half_the_strength_goes_half_the_way(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=12_000)
    whole, half = run(world.path, tmp_path / "whole")[1], run(world.path, tmp_path / "half", strength=0.5)[1]
    np.testing.assert_allclose(half, (world.x + whole) / 2, atol=1e-4)


def test_the_saved_map_is_the_map_and_the_same_for_all_cells() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, 12_000)
    x = (rng.standard_normal((12_000, 5)) + codes[:, None]).astype(np.float32)
    moments = Moments.from_rows(torch.from_numpy(x).double(), torch.from_numpy(codes), 2)
    statistics = CellStatistics(moments, np.array([[0], [1]]), x, codes.astype(np.int16))
    fitted, _ = LabelFree().fit_cells(statistics, rng)
    restored, rows = CellMap.from_arrays(fitted.to_arrays()), torch.from_numpy(x[:100])
    assert (fitted.carry_rows(rows, 0) - rows).abs().max() > 0.1
    for cell in (0, 1):
        np.testing.assert_array_equal(restored.carry_rows(rows, cell), fitted.carry_rows(rows, 0))


def test_the_parts_of_a_table_do_not_matter(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=12_000)
    one = tmp_path / "one.parquet"
    pq.write_table(world.table, one)
    np.testing.assert_allclose(run(one, tmp_path / "a.parquet")[1], run(world.path, tmp_path / "b")[1], atol=1e-5)


def test_a_small_table_is_refused(make: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"this one has 3,000\. Use it in memory"):
        run(make().path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
