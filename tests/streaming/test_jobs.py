"""Jobs: an id for what they do, a saved map while they run, and no file of another job overwritten."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.defenses.embeddings.cell_maps import CellAffine, CellMap
from recveil.defenses.embeddings.fitted_maps import SlicedMap
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.streaming.block_table import open_table
from recveil.streaming.jobs import (
    FitSummary,
    compute_job_id,
    load_cell_map,
    plan_outputs,
    remove_leftovers,
    save_cell_map,
)
from recveil.streaming.labels import AttributeSource
from recveil.streaming.map_application import apply_cell_map

SUMMARY = FitSummary({"gender": {"F": 3, "M": 4}}, 1.5, ["a note"])


def test_another_input_target_method_or_seed_is_another_job(make: Callable[..., Any]) -> None:
    world = make(n=60)
    table, facts = open_table(world.path), AttributeSource(None, ("gender",))
    one = compute_job_id(table, facts, Gaussian(), 0)
    assert compute_job_id(open_table(world.path), facts, Gaussian(device="cpu"), 0) == one
    others = [
        compute_job_id(table, facts, Gaussian(), 1),
        compute_job_id(table, facts, Gaussian(strength=0.5), 0),
        compute_job_id(table, facts, Sliced(), 0),
        compute_job_id(table, AttributeSource(None, ("age",)), Gaussian(), 0),
    ]
    os.utime(world.path / "part-1.parquet", ns=(1, 1))
    others.append(compute_job_id(table, facts, Gaussian(), 0))
    others.append(compute_job_id(table, facts, Gaussian(), 0, ["gender"]))
    assert len({one, *others}) == 7


@pytest.mark.parametrize("rounds", [False, True])
def test_a_saved_map_is_loaded_by_its_own_job_only(tmp_path: Path, rounds: bool) -> None:
    rng = np.random.default_rng(0)

    def some(*shape: int) -> torch.Tensor:
        return torch.from_numpy(rng.standard_normal(shape))

    affine = CellAffine(some(3, 2), some(3, 2, 2), some(3, 2))
    more = (SlicedMap(some(2), some(1, 2, 2), some(1, 2, 2), some(1, 2, 2, 129)), affine) if rounds else (None, None)
    fitted = CellMap(affine, (-1, 0, 1), *more, strength=0.5)
    save_cell_map(tmp_path, "job", fitted, SUMMARY)
    assert (tmp_path / "map.safetensors").stat().st_mode & 0o777 == 0o600
    assert load_cell_map(tmp_path, "another") is None
    back, about = load_cell_map(tmp_path, "job") or (None, None)
    assert back is not None
    assert about == SUMMARY
    x, cells = rng.standard_normal((9, 2)).astype(np.float32), (np.arange(9) % 3).astype(np.int16)
    np.testing.assert_array_equal(
        apply_cell_map(back.to_float32(), x, cells), apply_cell_map(fitted.to_float32(), x, cells)
    )


def test_files_of_another_job_are_not_overwritten(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=60)
    table, out = open_table(world.path), tmp_path / "out"
    todo, found = plan_outputs(table, out, "job")
    assert ([o.path.name for o in todo], found) == ([f"part-{i}.parquet" for i in range(3)], 0)
    out.mkdir()
    (out / "part-0.parquet").write_bytes(b"something else")
    with pytest.raises(UsageError, match=r"holds part-0\.parquet, which this job did not write"):
        plan_outputs(table, out, "job")
    with pytest.raises(UsageError, match="is the table itself"):
        plan_outputs(table, world.path, "job")
    one = open_table(world.path / "part-0.parquet")
    with pytest.raises(UsageError, match="has another ending"):
        plan_outputs(one, tmp_path / "x.npy", "job")


def test_a_damaged_map_is_learned_again(tmp_path: Path) -> None:
    for data in (b"", b"\x08\0\0\0\0\0\0\0{}      ", b"no map at all"):
        (tmp_path / "map.safetensors").write_bytes(data)
        assert load_cell_map(tmp_path, "job") is None


def test_half_written_files_of_killed_runs_are_removed(make: Callable[..., Any], tmp_path: Path) -> None:
    table, out = open_table(make(n=60).path), tmp_path / "out"
    out.mkdir()
    (out / ".part-0.parquet.abc.parquet").touch()
    (out / ".part-0.parquet.crc").touch()
    remove_leftovers(table, out)
    assert [path.name for path in out.iterdir()] == [".part-0.parquet.crc"]  # not ours
