"""Addresses in place of paths, as people type them, for inputs and outputs of a command."""

from __future__ import annotations

from pathlib import Path

import fsspec
import pytest

from recveil.cli.addresses import parse_place, stage_addresses
from recveil.core.errors import DataError, UsageError


def test_paths_stay_paths_and_addresses_stay_as_typed() -> None:
    query = "duckdb:a.db?query=SELECT a // b, './x' FROM t"
    for text in ("s3://bucket/a//b.parquet", "memory://x", query, "postgres:dbname=x?query=SELECT 1"):
        assert parse_place(text) == text
    for text in ("a.parquet", "/a/b", "c:/d", "s3:/one/slash", "postgres.csv", "row-number"):
        assert parse_place(text) == Path(text)


def test_inputs_are_copied_here_and_outputs_there(tmp_path: Path) -> None:
    store = fsspec.filesystem("memory")
    store.pipe("/stage/in.csv", b"user_id\n1\n")
    names: dict[str, str] = {}
    values = {"embeddings": "memory://stage/in.csv", "out": "memory://stage/new/out.csv", "report": None, "seed": 3}
    paths = ["embeddings", "out", "report"]
    with stage_addresses(values, paths, names) as staged:
        assert staged["embeddings"].read_bytes() == b"user_id\n1\n"
        assert staged["seed"] == 3
        assert names[str(staged["out"])] == "memory://stage/new/out.csv"
        staged["out"].write_bytes(b"done")
    assert store.cat("/stage/new/out.csv") == b"done"
    assert not staged["embeddings"].exists()
    with stage_addresses({**values, "out": "memory://stage/in.csv"}, paths, {}) as staged:
        assert staged["out"] == staged["embeddings"]  # so that the command refuses to overwrite its input
    with (
        pytest.raises(DataError, match="nothing at memory://stage/none.csv"),
        stage_addresses({**values, "embeddings": "memory://stage/none.csv"}, paths, {}),
    ):
        pass
    with (
        pytest.raises(UsageError, match="read and not written"),
        stage_addresses({**values, "out": "duckdb:x.db?query=SELECT 1"}, paths, {}),
    ):
        pass


def test_nothing_is_copied_for_a_command_that_wrote_nothing() -> None:
    with pytest.raises(ZeroDivisionError), stage_addresses({"out": "memory://stage/never.csv"}, ["out"], {}):
        raise ZeroDivisionError
    assert not fsspec.filesystem("memory").exists("/stage/never.csv")
