"""`recveil cloak --save-map` and `recveil apply`: the way of a map from one table to the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

FILES = ("--embeddings", "E.parquet", "--attributes", "A.parquet", "--target", "gender", "--device", "cpu")
MAP = ("--save-map", "gender.map")


@pytest.mark.thorough
def test_a_saved_map_carries_the_next_table(tables: Path, recveil: Callable) -> None:
    cloaked = recveil("cloak", *FILES, *MAP, "--method", "labelfree", "--allow-leak", "--out", "C.parquet", cwd=tables)
    assert cloaked.returncode == 0, cloaked.stderr
    assert "gender.map" in cloaked.stdout
    done = recveil("apply", "gender.map", "--embeddings", "E.parquet", "--out", "D.parquet", cwd=tables)
    assert done.returncode == 0, done.stderr
    assert "labelfree on 400 users" in done.stderr
    assert "D.parquet" in done.stdout
    assert pq.read_table(tables / "D.parquet")["user_id"].equals(pq.read_table(tables / "E.parquet")["user_id"])


def test_bad_requests_end_with_their_codes(tables: Path, recveil: Callable) -> None:
    refused = recveil("cloak", *FILES, *MAP, "--method", "exchange", "--out", "C.parquet", cwd=tables)
    assert refused.returncode == 2
    assert "gaussian" in refused.stderr
    assert not (tables / "C.parquet").exists()
    foreign = recveil("apply", "--map", "A.parquet", "--embeddings", "E.parquet", "--out", "D.parquet", cwd=tables)
    assert foreign.returncode == 3
    nameless = recveil("apply", "--embeddings", "E.parquet", "--out", "D.parquet", cwd=tables)
    assert nameless.returncode == 2
    assert "recveil apply gender.map" in nameless.stderr
    assert foreign.stderr.count("\n") == 1
