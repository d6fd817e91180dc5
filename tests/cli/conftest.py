"""Commands as people meet them: in this process, which is quick, or in one of their own."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from documents import *  # noqa: F403
from recveil.cli.app import app
from recveil.data.io.release_files import write_vectors

START = "from recveil.cli.app import main; main()"


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def recveil() -> Callable[..., Done]:
    """A function that runs a command in this process: (*args, cwd) -> Done."""

    def run(*args: object, cwd: Path) -> Done:
        with contextlib.chdir(cwd):
            result = CliRunner().invoke(app, [str(a) for a in args])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return Done(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture
def recveil_process() -> Callable[..., Done]:
    """A function that runs a command in a process of its own: (*args, cwd, code) -> Done."""

    def run(*args: object, cwd: Path, code: str = START) -> Done:
        command = [sys.executable, "-c", code, *map(str, args)]
        result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
        return Done(result.returncode, result.stdout, result.stderr)

    return run


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a leaky table E.parquet and its attributes A.parquet; no data folder is known."""
    monkeypatch.delenv("RECVEIL_DATA", raising=False)
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path.parent / "cache"))
    rng = np.random.default_rng(0)
    code = rng.integers(2, size=400)
    x = (rng.standard_normal((400, 6)) * 3 + 4.0 * code[:, None]).astype(np.float32)
    ids = rng.permutation(10_000)[:400] + 10_000
    write_vectors(tmp_path / "E.parquet", "user_id", ids, x)
    order = rng.permutation(400)
    gender = np.array(["F", "M"], dtype=object)[code]
    pq.write_table(pa.table({"user_id": ids[order], "gender": gender[order]}), tmp_path / "A.parquet")
    return tmp_path


@pytest.fixture
def write_attributes(tables: Path) -> Callable[..., None]:
    """A function that replaces A.parquet by these columns beside the ids."""

    def write(**columns: object) -> None:
        ids = pq.read_table(tables / "E.parquet")["user_id"]
        pq.write_table(pa.table({"user_id": ids, **columns}), tables / "A.parquet")

    return write


@pytest.fixture(autouse=True)
def _quick(quick_self_check: None) -> None:
    """Check defended tables quickly."""
