"""The command line as a whole: exit codes, one sentence for what is wrong, nothing left behind, a light start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.data.io.release_files import write_vectors

AUDIT = ("audit", "--embeddings", "E.parquet", "--attributes", "A.parquet", "--target", "gender", "--panel", "logistic")
CLOAK = ("cloak", "--embeddings", "E.parquet", "--attributes", "A.parquet", "--target", "gender", "--out", "C.parquet")
HEAVY = {"torch", "sklearn", "pandas", "scipy"}


def replace_vectors(folder: Path, x: np.ndarray, ids: np.ndarray | None = None) -> None:
    write_vectors(folder / "E.parquet", "user_id", np.arange(len(x)) if ids is None else ids, x)


def replace_attributes(folder: Path, **columns: object) -> None:
    ids = pq.read_table(folder / "E.parquet")["user_id"]
    pq.write_table(pa.table({"user_id": ids, **columns}), folder / "A.parquet")


EMPTY = pa.schema({"user_id": pa.int64(), "embedding": pa.list_(pa.float32(), 3)}).empty_table()
STRANGERS = pa.table({"user_id": ["x", "y"], "gender": ["F", "M"]})
NAN = np.where(np.arange(1200).reshape(400, 3) == 22, np.nan, 1.0).astype(np.float32)

BAD_INPUT: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing file": (lambda f: (f / "E.parquet").unlink(), "E.parquet"),
    "missing attributes": (lambda f: (f / "A.parquet").unlink(), "A.parquet"),
    "wrong columns": (lambda f: pq.write_table(pa.table({"a": [1]}), f / "E.parquet"), "user_id"),
    "unknown ids": (lambda f: pq.write_table(STRANGERS, f / "A.parquet"), "ids do not match"),
    "unknown attribute": (lambda f: replace_attributes(f, gendr=["F", "M"] * 200), "gendr"),
    "duplicate users": (lambda f: replace_vectors(f, np.ones((400, 3)), np.zeros(400, int)), "more than once"),
    "NaN": (lambda f: replace_vectors(f, NAN), "NaN"),
    "infinity": (lambda f: replace_vectors(f, np.full((400, 3), np.inf)), "infinite"),
    "one class": (lambda f: replace_attributes(f, gender=["F"] * 400), "gender"),
    "only nulls": (lambda f: replace_attributes(f, gender=pa.nulls(400, pa.string())), "gender"),
    "a class of one user": (lambda f: replace_attributes(f, gender=["F"] + ["M"] * 399), "gender"),
    "an empty table": (lambda f: pq.write_table(EMPTY, f / "E.parquet"), "no rows"),
    "a truncated file": (
        lambda f: (f / "E.parquet").write_bytes((f / "E.parquet").read_bytes()[:-40]),
        "E.parquet",
    ),
    "a pickle in disguise": (lambda f: (f / "E.parquet").write_bytes(b"\x80\x04N."), "E.parquet"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", BAD_INPUT)
def test_bad_input_gets_one_sentence_and_leaves_nothing(tables: Path, name: str, recveil: Callable) -> None:
    spoil, word = BAD_INPUT[name]
    spoil(tables)
    before = sorted(os.listdir(tables))
    for command in (AUDIT, CLOAK):
        done = recveil(*command, cwd=tables)
        assert done.returncode == 3, done.stderr
        assert word in done.stderr
        assert done.stderr.startswith("recveil: ")
        assert "Traceback" not in done.stderr
        assert done.stderr.count("\n") <= 2  # one message, with at most a warning before it
        assert done.stdout == ""
    assert sorted(os.listdir(tables)) == before


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ([*CLOAK[:-1], "A.parquet/C.parquet"], 2, "is a file, not a folder"),
        ([*AUDIT, "--report", "A.parquet/r.html"], 2, "is a file, not a folder"),
        (["demo", "--out", "A.parquet"], 2, "it is a file"),
        ([*CLOAK, "--method", "slicde"], 2, "Did you mean 'sliced'"),
        ([*CLOAK, "--strength", "1.5"], 2, "equal to 1"),
        ([*CLOAK, "--engine", "spark"], 2, "No engine is called 'spark'"),
        ([*CLOAK, "--address", "auto"], 2, "--engine ray"),
        ([*CLOAK, "--stream", "--frontier"], 2, "--frontier cannot be used with a large table"),
        ([*AUDIT, "--panel", "fats"], 2, "Did you mean 'fast'"),
        ([*AUDIT, "--bins", "age"], 2, "age=35,45"),
        ([*AUDIT, "--device", "cuda:77"], 2, "CUDA"),
        ([*AUDIT, "--fail-if", "gender.advantage > 0.05"], 2, "TARGET.METRIC.BOUND"),
        (["audit", "--embeddings", "E.parquet"], 2, "--attributes"),
        (["train", "--data", "demo", "--model", "lightgnc", "--out", "run"], 2, "No model is called 'lightgnc'"),
        (["train", "--data", "demo", "--option", "epohcs=1", "--out", "run"], 2, "Did you mean 'epochs'"),
        (["train", "--data", "demo", "--defense", "gaussian", "--out", "run"], 2, "--target"),
        (["train", "--data", "ml-1mm", "--out", "run"], 2, "ml-1m"),
        (["data", "get", "ml-1m", "--from", "none.zip"], 3, "none.zip"),
        (["list", "atacks"], 2, "Did you mean 'attacks'"),
    ],
)
def test_bad_calls_say_what_to_do(tables: Path, args: list[str], code: int, word: str, recveil: Callable) -> None:
    done = recveil(*args, cwd=tables)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(tables)) == ["A.parquet", "E.parquet"]


LIGHT_CALLS = [
    ("--help", 0),
    ("list", 0),
    ("audit --help", 0),
    ("audit --embeddings nowhere.parquet --attributes nowhere.parquet", 3),
    ("cloak --embeddings nowhere.parquet --attributes nowhere.parquet --out x.parquet", 3),
    ("membership --target-histories nowhere.csv", 3),
]
CALL_ALL = f"""
import sys
from recveil.cli.app import main
for call, code in {LIGHT_CALLS}:
    sys.argv = ["recveil", *call.split()]
    try:
        main()
    except SystemExit as exit:
        assert (exit.code or 0) == code, (call, exit.code)
    imported = {HEAVY} & set(sys.modules)
    assert not imported, (call, imported)
"""


def test_nothing_heavy_is_imported_before_arguments_and_files_were_checked(
    tmp_path: Path, recveil_process: Callable
) -> None:
    done = recveil_process(cwd=tmp_path, code=CALL_ALL)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("nowhere") == 3


def test_an_internal_error_is_a_sentence_with_code_70(
    tables: Path, recveil: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.workflows.audit.audit_files", None)
    done = recveil(*AUDIT, cwd=tables)
    assert done.returncode == 70
    assert "fault of recveil" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_reader_who_closes_the_pipe_gets_no_error(tmp_path: Path) -> None:
    script = f"'{sys.executable}' -m recveil data list | head -n 1"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_the_version_is_printed(tmp_path: Path, recveil: Callable) -> None:
    assert recveil("--version", cwd=tmp_path).stdout.strip() == f"recveil {metadata.version('recveil')}"


def test_summaries_of_commands_fit_in_their_list(tmp_path: Path, recveil: Callable) -> None:
    page = recveil("--help", cwd=tmp_path).stdout
    rows = [line.split(None, 1) for line in page.partition("Commands:")[2].splitlines() if line.strip()]
    assert {"audit", "cloak", "train", "membership", "demo", "list", "doctor"} <= {row[0] for row in rows}
    assert not [row for row in rows if row[1].endswith("...")]
