"""`recveil cloak --save-map` and `recveil apply`: the way of a map from one table to the next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

FILES = ("--embeddings", "E.parquet", "--attributes", "A.parquet", "--target", "gender", "--device", "cpu")
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "undisclosed-users.md"
QUICK = ("--panel", "logistic", "--folds", "3", "--seeds", "1", "--max-repeats", "1")
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


@pytest.mark.slow
def test_the_commands_of_the_page_run(tables: Path, recveil: Callable) -> None:
    (tables / "E.parquet").rename(tables / "users.parquet")
    (tables / "A.parquet").rename(tables / "attributes.parquet")
    (tables / "new-users.parquet").write_bytes((tables / "users.parquet").read_bytes())
    blocks = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)
    commands = [line for block in blocks for line in block.replace("\\\n", " ").splitlines() if line]
    assert len(commands) == 4
    for command in commands:
        name, *words = shlex.split(command)[1:]
        quick = () if name == "apply" else QUICK
        done = recveil(name, *words, *quick, cwd=tables)
        assert done.returncode in (0, 1), done.stderr  # 1 where the self-check of so few users finds something
    assert pq.read_table(tables / "new-safe.parquet").num_rows == 400
