"""Tasks of the passes: they gather the statistics of memory, and name rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from recveil.core.errors import DataError
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import scan_labels
from recveil.streaming.engines import ThreadEngine, merge_in_tree
from recveil.streaming.labels import AttributeSource
from recveil.streaming.passes import CellState, GatherTask
from recveil.transport.moments import Moments

GENDER = AttributeSource(None, ("gender",))


def work_in(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


def test_the_first_pass_gathers_the_moments_of_the_whole(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    table = open_table(world.path)
    labels, counts = scan_labels(table, GENDER, ThreadEngine(2), work_in(tmp_path))
    cells = labels.assign_cells(world.table, "")
    np.testing.assert_array_equal(counts, np.bincount(cells))
    got = merge_in_tree(
        [GatherTask(table, labels, None, 0)(span) for span in table.list_spans()], CellState.merge
    ).moments
    wanted = Moments.from_rows(torch.from_numpy(world.x), torch.from_numpy(cells), 3)
    for name in vars(got):
        torch.testing.assert_close(getattr(got, name), getattr(wanted, name), rtol=1e-9, atol=1e-9)
    assert [p.name for p in (tmp_path / "work").iterdir()] == ["values.parquet"]  # the hashes are gone


def test_an_id_in_two_files_is_named_with_both(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    path = world.path / "part-2.parquet"
    rows = pq.read_table(path)
    ids = rows.column("user_id").to_numpy().copy()
    ids[17] = 7 * 4
    pq.write_table(rows.set_column(0, "user_id", [ids]), path)
    message = r"has 1 user more than once, for instance '28' in part-0\.parquet and part-2\.parquet"
    with pytest.raises(DataError, match=message):
        scan_labels(open_table(world.path), GENDER, ThreadEngine(2), work_in(tmp_path))


def test_texts_that_only_share_a_hash_are_no_repetition(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.streaming.passes.hash_ids", lambda ids, where, text: np.zeros(len(ids), np.uint64))
    labels, _ = scan_labels(open_table(make(n=50).path), GENDER, ThreadEngine(1), work_in(tmp_path))
    assert labels.targets[0].labels == ("F", "M")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_vector_with_nan_is_named_with_its_row(make: Callable[..., Any], tmp_path: Path, bad: float) -> None:
    world = make()
    x = world.x.copy()
    x[2100, 3] = bad
    part = world.path / "part-2.parquet"
    rows = pq.read_table(part)
    import pyarrow as pa

    pq.write_table(rows.set_column(1, "embedding", pa.FixedSizeListArray.from_arrays(x[2000:].reshape(-1), 5)), part)
    table = open_table(world.path)
    labels, _ = scan_labels(table, GENDER, ThreadEngine(2), work_in(tmp_path))
    with pytest.raises(DataError, match=r"part-2\.parquet on hold NaN or infinite numbers, the first in row 100\."):
        ThreadEngine(2).reduce(GatherTask(table, labels, None, 0), table.list_spans(), CellState.merge, "")
