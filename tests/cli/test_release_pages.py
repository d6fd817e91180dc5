"""Requests for lists and keys that cannot be met; the commands of the pages are run by tests/test_docs_snippets.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.data.io.release_files import write_vectors


@pytest.fixture
def served_tables(tables: Path) -> Path:
    """The tables of the pages: users, attributes, items, interactions and a key."""
    rng = np.random.default_rng(4)
    (tables / "E.parquet").rename(tables / "users.parquet")
    (tables / "A.parquet").rename(tables / "attributes.parquet")
    users = pq.read_table(tables / "users.parquet")
    pq.write_table(users.slice(8), tables / "users-tuesday.parquet")
    write_vectors(tables / "items.parquet", "item_id", np.arange(80), rng.standard_normal((80, 6)).astype(np.float32))
    items = np.concatenate([rng.permutation(80)[:12] for _ in range(400)])
    ids = np.repeat(users["user_id"].to_numpy(), 12)
    time = np.tile(np.arange(12), 400)
    pq.write_table(pa.table({"user_id": ids, "item_id": items, "timestamp": time}), tables / "interactions.parquet")
    (tables / "key").write_bytes(bytes(range(32)))
    return tables


def test_requests_that_cannot_be_met_end_with_a_sentence(served_tables: Path, recveil: Callable) -> None:
    files = ("--embeddings", "users.parquet", "--attributes", "attributes.parquet", "--target", "gender")
    serving = ("--item-embeddings", "items.parquet", "--interactions", "interactions.parquet")
    (served_tables / "short").write_bytes(b"abc")
    for words, code, fact in (
        (("--lists-out", "l.parquet"), 2, "--lists-out needs --run"),
        ((*serving, "--lists-out", "l.csv"), 2, ".parquet"),
        ((*serving, "--lists-out", "l.parquet", "--list-strength", "2"), 2, "strength"),
        (("--key-file", "short"), 3, "fewer than 16 bytes"),
        (("--key-file", "none"), 3, "There is no file none"),
    ):
        done = recveil("cloak", *files, *words, "--method", "gaussian", "--out", "c.parquet", cwd=served_tables)
        assert (done.returncode, done.stderr.count("\n")) == (code, 1), done.stderr
        assert fact in done.stderr
        assert not (served_tables / "c.parquet").exists()
