"""Classes of a large table are those of the same columns in memory, in the table or in another file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.data.io.user_tables import read_attributes
from recveil.streaming.block_table import Table, open_table
from recveil.streaming.labels import AttributeSource, Labels, build_labels, sort_by_hash
from recveil.streaming.value_counts import count_values, merge_values


def inside(table: Table, facts: AttributeSource, pieces: int = 4) -> Labels:
    rows = pq.read_table(table.path)
    counted = [count_values(rows.slice(i * 800, 800), facts.names) for i in range(pieces)]
    total = counted[0]
    for other in counted[1:]:
        total = merge_values(total, other)
    return build_labels(table, facts, total)


def codes(labels: Labels, rows: pa.Table) -> np.ndarray:
    return labels.codes[labels.assign_cells(rows, "here")]


def test_columns_of_the_table_make_the_classes_they_make_in_memory(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    table, rows = open_table(world.path), pq.read_table(world.path)
    labels = inside(table, AttributeSource(None, ("gender", "age"), (), {"age": [30, 45]}))
    pq.write_table(rows.drop_columns(["embedding"]), tmp_path / "facts.parquet")
    known = read_attributes(tmp_path / "facts.parquet", rows.column("user_id"), bins={"age": [30, 45]})
    got = codes(labels, rows)
    for j, name in enumerate(("gender", "age")):
        assert labels.targets[j].labels == known[name].labels
        np.testing.assert_array_equal(got[:, j], known[name].codes)
    counted = labels.count_classes(np.bincount(labels.assign_cells(rows, ""), minlength=labels.n_cells))
    assert list(counted["gender"].values()) == known["gender"].counts.tolist()
    assert labels.columns == ["gender", "age"]


@pytest.mark.parametrize("text", [False, True])
def test_another_table_is_joined_by_id_however_it_is_ordered(
    make: Callable[..., Any], tmp_path: Path, text: bool
) -> None:
    world = make()
    rng = np.random.default_rng(1)
    rows = pq.read_table(world.path)
    facts = rows.select(["user_id", "gender"]).take(rng.permutation(3000)[:2500])
    if text:
        facts = facts.set_column(0, "user_id", facts.column("user_id").cast(pa.string()))
    folder = tmp_path / "facts"
    folder.mkdir()
    for i in range(2):
        pq.write_table(facts.slice(i * 1250, 1250), folder / f"{i}.parquet")
    labels = build_labels(open_table(world.path), AttributeSource(folder, ("gender",)), None)
    wanted = read_attributes(_one(folder, tmp_path), rows.column("user_id"))["gender"].codes
    assert (wanted < 0).sum() > 500
    np.testing.assert_array_equal(codes(labels, rows)[:, 0], wanted)
    assert labels.columns == ["user_id"]


@pytest.mark.parametrize("spread", [2**40, 2**63])
def test_ids_are_sorted_with_their_cells_whether_they_leave_room_for_them_or_not(spread: int) -> None:
    rng = np.random.default_rng(0)
    hashes = np.unique(rng.integers(0, spread, 500, dtype=np.uint64) + np.uint64(3))
    cells = rng.integers(0, 4_000, len(hashes)).astype(np.int16)
    order = rng.permutation(len(hashes))
    got = sort_by_hash(hashes[order], cells[order])
    np.testing.assert_array_equal(got[0], hashes)
    np.testing.assert_array_equal(got[1], cells)
    assert got[1].dtype == np.int16


def _one(folder: Path, tmp_path: Path) -> Path:
    pq.write_table(pq.read_table(folder), tmp_path / "one.parquet")
    return tmp_path / "one.parquet"


def test_a_text_file_of_attributes_will_do(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=100)
    lines = [f"{user},{gender or ''}" for user, gender in zip(world.ids, world.gender, strict=True)]
    (tmp_path / "facts.csv").write_text("\n".join(["user_id,gender", *lines]) + "\n")
    labels = build_labels(open_table(world.path), AttributeSource(tmp_path / "facts.csv", ("gender",)), None)
    got = codes(labels, pq.read_table(world.path))[:, 0]
    np.testing.assert_array_equal(got, [{"F": 0, "M": 1, None: -1}[g] for g in world.gender])


def test_classes_of_one_user_become_one(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=400, unknown=0)
    odd = replace(world, gender=np.array(["x", "y", *world.gender[2:]], dtype=object))
    pq.write_table(odd.table, tmp_path / "x.parquet")
    labels = inside(open_table(tmp_path / "x.parquet"), AttributeSource(None, ("gender",)), pieces=1)
    assert labels.targets[0].labels == ("F", "M", "rest")
    assert codes(labels, odd.table)[:2, 0].tolist() == [2, 2]
    assert "'x', 'y' were made one class" in labels.notes[0]


def test_columns_that_cannot_be_targets_are_refused(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make(n=400)
    table = open_table(world.path)
    with pytest.raises(DataError, match="is a number, not a class"):
        inside(table, AttributeSource(None, ("age",), ("age",)), 1)
    alone = replace(world, gender=np.full(400, "F", dtype=object))
    pq.write_table(alone.table, tmp_path / "x.parquet")
    with pytest.raises(DataError, match="'F' for all 400 users"):
        inside(open_table(tmp_path / "x.parquet"), AttributeSource(None, ("gender",)), 1)
    pq.write_table(pa.concat_tables([alone.table.select(["user_id", "age"])] * 2), tmp_path / "twice.parquet")
    with pytest.raises(DataError, match="400 users more than once"):
        build_labels(table, AttributeSource(tmp_path / "twice.parquet", ("age",)), None)
    with pytest.raises(UsageError, match="Did you mean 'age'"):
        build_labels(table, AttributeSource(tmp_path / "twice.parquet", ("agee",)), None)
