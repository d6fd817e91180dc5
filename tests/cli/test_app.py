"""The command line as people meet it: real processes, real files, exit codes, stderr, and what is left on disk."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from recveil.cli.app import app
from recveil.data.io.release_files import write_vectors

QUICK = ["--folds", "3", "--seeds", "1"]


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


def recveil(*args: object, cwd: Path) -> Done:
    """The command in this process, which is quicker; `in_a_process` is the real thing."""
    with contextlib.chdir(cwd):
        result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return Done(result.exit_code, result.stdout, result.stderr)


def in_a_process(*args: object, cwd: Path, code: str = "from recveil.cli.app import main; main()") -> Done:
    command = [sys.executable, "-c", code, *map(str, args)]
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    return Done(result.returncode, result.stdout, result.stderr)


@pytest.fixture(autouse=True)
def no_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("RECVEIL_DATA", raising=False)
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path.parent / "cache"))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A leaky table E.parquet and its attributes A.parquet."""
    rng = np.random.default_rng(0)
    code = rng.integers(2, size=400)
    x = (rng.standard_normal((400, 6)) * 3 + 4.0 * code[:, None]).astype(np.float32)
    ids = rng.permutation(10_000)[:400]
    write_vectors(tmp_path / "E.parquet", "user_id", ids, x)
    order = rng.permutation(400)
    gender = np.array(["F", "M"], dtype=object)[code]
    pq.write_table(pa.table({"user_id": ids[order], "gender": gender[order]}), tmp_path / "A.parquet")
    return tmp_path


def table(folder: Path, **changes: object) -> None:
    """Write A.parquet anew with these columns beside the ids."""
    ids = pq.read_table(folder / "E.parquet")["user_id"]
    pq.write_table(pa.table({"user_id": ids, **changes}), folder / "A.parquet")


# Three folds, one deal: the statistics are tested elsewhere, here it is the command.
AUDIT = ("audit", "--embeddings", "E.parquet", "--attributes", "A.parquet", "--target", "gender", *QUICK)
CLOAK = ("cloak", "--embeddings", "E.parquet", "--attributes", "A.parquet", "--target", "gender", "--out", "C.parquet")


def test_audit_prints_one_json_document(files: Path) -> None:
    done = in_a_process(*AUDIT, "--json", cwd=files)
    assert done.returncode == 0, done.stderr
    gender = json.loads(done.stdout)["targets"]["gender"]
    assert gender["verdict"] == "leak"
    assert gender["chance"] == 0.5
    assert gender["headline"]["attack"] in gender["attacks"]
    assert 0 <= gender["headline"]["p_value"] < 0.05
    estimates = [gender["headline"]["balanced_accuracy"], gender["headline"]["advantage"]]
    estimates += [a["balanced_accuracy"] for a in gender["attacks"].values()]
    for e in estimates:
        assert set(e) == {"value", "low", "high", "n"}
        assert e["low"] <= e["value"] <= e["high"]
        assert e["n"] == 400


def test_audit_in_words_and_with_a_report(files: Path) -> None:
    done = recveil(*AUDIT, "--report", "out.html", cwd=files)
    assert done.returncode == 0, done.stderr
    assert "An outsider can guess gender" in done.stdout
    page = (files / "out.html").read_text()
    assert "gender" in page
    ids = pq.read_table(files / "E.parquet")["user_id"].to_pylist()
    assert str(ids[0]) not in page or len(str(ids[0])) < 4  # no user ids on the page


def test_audit_with_a_curve(files: Path) -> None:
    done = recveil(*AUDIT, "--curve", "--json", cwd=files)
    assert done.returncode == 0, done.stderr
    gender = json.loads(done.stdout)["targets"]["gender"]
    assert [step["ratio"] for step in gender["curve"]] == [0.2, 0.4, 0.6, 0.6667]
    assert gender["where"]["classes"][0]["label"] == "F"


def test_a_number_is_guessed_by_regression(files: Path) -> None:
    x = np.stack(pq.read_table(files / "E.parquet")["embedding"].to_numpy(zero_copy_only=False))
    age = 40 + x[:, 0] + np.random.default_rng(0).normal(size=400)
    table(files, gender=["F", "M"] * 200, age=age)
    done = recveil(*AUDIT, "--target", "gender,age", "--numeric", "age", "--json", "--report", "out.html", cwd=files)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["targets"]
    assert told["gender"]["verdict"] != "leak"
    assert told["age"]["verdict"] == "leak"
    assert 0.5 < told["age"]["headline"]["r2"]["low"] < told["age"]["headline"]["r2"]["value"] < 1
    page = (files / "out.html").read_text()
    assert "Attacks on age" in page
    assert "An outsider can guess age: R2" in page
    gate = recveil(*AUDIT, "--target", "age", "--numeric", "age", "--fail-if", "age.r2.low > 0.2", cwd=files)
    assert gate.returncode == 1
    done = recveil(*CLOAK, "--target", "age", "--numeric", "age", cwd=files)
    assert done.returncode == 3
    assert "Cut it into classes" in done.stderr


def test_a_gate_fails_the_build_on_a_leak(files: Path) -> None:
    assert recveil(*AUDIT, "--fail-if", "gender.advantage.low > 0.05", cwd=files).returncode == 1
    done = recveil(*AUDIT, "--fail-if", "gender.advantage > 0.05", cwd=files)
    assert done.returncode == 2
    assert "TARGET.METRIC.BOUND" in done.stderr


def test_cloak_keeps_rows_and_ids_and_makes_class_moments_equal(files: Path) -> None:
    done = recveil(*CLOAK, "--method", "gaussian", cwd=files)
    assert done.returncode == 0, done.stderr
    before, after = pq.read_table(files / "E.parquet"), pq.read_table(files / "C.parquet")
    assert after["user_id"].equals(before["user_id"])
    assert after.schema.equals(before.schema)
    facts = dict(zip(*(pq.read_table(files / "A.parquet")[c].to_pylist() for c in ("user_id", "gender")), strict=True))
    label = np.array([facts[u] for u in after["user_id"].to_pylist()])
    x = np.stack(after["embedding"].to_numpy())
    women, men = x[label == "F"], x[label == "M"]
    assert np.abs(women.mean(0) - men.mean(0)).max() < 1e-4
    assert np.abs(np.cov(women.T, ddof=0) - np.cov(men.T, ddof=0)).max() < 1e-4


def test_cloak_by_default_ends_the_leak_and_says_what_it_did(files: Path) -> None:
    done = recveil(*CLOAK, *QUICK, "--json", "--report", "r.html", cwd=files)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["before"]["gender"]["verdict"] == "leak"
    assert document["targets"]["gender"]["verdict"] != "leak"
    assert document["seconds"] > 0
    assert document["defense"]["displacement"]["relative"] > 0
    assert (files / "r.html").is_file()


def test_same_seed_same_bytes(files: Path) -> None:
    for name in ("1.parquet", "2.parquet"):
        assert recveil(*CLOAK[:-1], name, "--seed", 3, cwd=files).returncode == 0
    assert (files / "1.parquet").read_bytes() == (files / "2.parquet").read_bytes()


def test_lists_help_and_doctor_answer(tmp_path: Path) -> None:
    for args, word in [
        (["list"], "bprmf"),
        (["list", "defenses"], "sliced"),
        (["doctor"], "torch"),
        (["data", "list"], "ml-1m"),
        (["data", "describe", "demo"], "gender"),
        (["audit", "--help"], "Example:"),
    ]:
        done = recveil(*args, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert word in done.stdout


def test_the_package_is_a_command_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recveil", "list", "defenses"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "sliced" in done.stdout


def test_the_version_is_told() -> None:
    done = CliRunner().invoke(app, ["--version"])
    assert done.exit_code == 0
    assert done.output.strip() == f"recveil {metadata.version('recveil')}"


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def with_vectors(folder: Path, x: np.ndarray, ids: np.ndarray | None = None) -> None:
    write_vectors(folder / "E.parquet", "user_id", np.arange(len(x)) if ids is None else ids, x)


def nan_vector(folder: Path) -> None:
    x = np.ones((400, 3), dtype=np.float32)
    x[7, 1] = np.nan
    with_vectors(folder, x)


def empty_vectors(folder: Path) -> None:
    kinds = pa.schema({"user_id": pa.int64(), "embedding": pa.list_(pa.float32(), 3)})
    pq.write_table(kinds.empty_table(), folder / "E.parquet")


def half_a_class(folder: Path) -> None:
    table(folder, gender=["F"] + ["M"] * 399)


BAD = {
    "missing file": (lambda f: (f / "E.parquet").unlink(), 3, "E.parquet"),
    "missing attributes": (lambda f: (f / "A.parquet").unlink(), 3, "A.parquet"),
    "wrong columns": (lambda f: pq.write_table(pa.table({"a": [1]}), f / "E.parquet"), 3, "user_id"),
    "unknown ids": (
        lambda f: pq.write_table(pa.table({"user_id": ["x", "y"], "gender": ["F", "M"]}), f / "A.parquet"),
        3,
        "ids do not match",
    ),
    "unknown attribute": (lambda f: table(f, gendr=["F", "M"] * 200), 3, "gendr"),
    "duplicate users": (lambda f: with_vectors(f, np.ones((400, 3)), np.zeros(400, int)), 3, "more than once"),
    "NaN": (nan_vector, 3, "NaN"),
    "Inf": (lambda f: with_vectors(f, np.full((400, 3), np.inf)), 3, "infinite"),
    "one class": (lambda f: table(f, gender=["F"] * 400), 3, "nothing to guess"),
    "only nulls": (lambda f: table(f, gender=pa.nulls(400, pa.string())), 3, "No user disclosed 'gender'"),
    "a class with one user": (half_a_class, 3, "1 user"),
    "an empty table": (empty_vectors, 3, "no rows"),
    "a truncated Parquet": (lambda f: truncated(f / "E.parquet"), 3, "E.parquet"),
    "a pickle in disguise": (lambda f: (f / "E.parquet").write_bytes(b"\x80\x04N."), 3, "E.parquet"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_sentence_and_leaves_nothing(files: Path, name: str) -> None:
    spoil, code, word = BAD[name]
    spoil(files)
    before = sorted(os.listdir(files))
    for command in (AUDIT, CLOAK):
        done = recveil(*command, cwd=files)
        assert done.returncode == code, done.stderr
        assert word in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stderr.startswith("recveil: ")
        assert done.stderr.count("\n") <= 2  # one sentence, with at most a warning before it
        assert done.stdout == ""
    assert sorted(os.listdir(files)) == before


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        ([*CLOAK[:-1], "no/C.parquet"], 2, "does not exist"),
        ([*AUDIT, "--report", "no/r.html"], 2, "does not exist"),
        ([*CLOAK, "--method", "slicde"], 2, "Did you mean 'sliced'"),
        ([*CLOAK, "--strength", "1.5"], 2, "between 0"),
        ([*AUDIT, "--panel", "fats"], 2, "Did you mean 'fast'"),
        ([*AUDIT, "--bins", "age"], 2, "age=35,45"),
        ([*AUDIT, "--device", "cuda:77"], 2, "CUDA"),
        (["audit", "--embeddings", "E.parquet"], 2, "--attributes"),
        (["train", "--data", "demo", "--model", "lightgnc", "--out", "run"], 2, "No model is called 'lightgnc'"),
        (["train", "--data", "demo", "--option", "epohcs=1", "--out", "run"], 2, "Did you mean 'epochs'"),
        (["train", "--data", "ml-1mm", "--out", "run"], 2, "ml-1m"),
        (["demo", "--out", "no/where"], 2, "does not exist"),
        (["data", "get", "ml-1m", "--from", "none.zip"], 3, "none.zip"),
    ],
)
def test_bad_calls_say_what_to_do(files: Path, args: list[str], code: int, word: str) -> None:
    done = recveil(*args, cwd=files)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(os.listdir(files)) == ["A.parquet", "E.parquet"]


def test_an_internal_error_is_a_sentence_with_code_70(files: Path) -> None:
    code = "import recveil.workflows.audit as w; w.audit_files = None; from recveil.cli.app import main; main()"
    done = in_a_process(*AUDIT, cwd=files, code=code)
    assert done.returncode == 70
    assert "fault of recveil" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_real_process_ends_with_the_code_and_the_sentence(files: Path) -> None:
    (files / "E.parquet").unlink()
    done = in_a_process(*AUDIT, cwd=files)
    assert done.returncode == 3
    assert done.stderr.startswith("recveil: ")
    assert "Traceback" not in done.stderr


def test_a_reader_who_has_seen_enough_is_not_bothered(tmp_path: Path) -> None:
    code = "from recveil.cli.app import main; main()"
    script = f"'{sys.executable}' -c '{code}' data describe demo | head -n 1"
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


def test_ci_gets_its_files_and_the_last_release_is_not_undercut(files: Path) -> None:
    leaky = recveil(*AUDIT, "--out", "now.json", "--junit", "j.xml", "--sarif", "s.json", cwd=files)
    assert leaky.returncode == 0, leaky.stderr
    assert 'failures="1"' in (files / "j.xml").read_text()
    assert json.loads((files / "s.json").read_text())["runs"][0]["results"][0]["ruleId"] == "attribute-leak"
    assert recveil(*AUDIT, "--baseline", "now.json", cwd=files).returncode == 0
    before = json.loads((files / "now.json").read_text())
    before["targets"]["gender"]["headline"]["advantage"] = {"value": 0.01, "low": 0.0, "high": 0.02, "n": 400}
    before["targets"]["gender"]["verdict"] = "none"
    (files / "then.json").write_text(json.dumps(before))
    worse = recveil(*AUDIT, "--baseline", "then.json", "--junit", "w.xml", cwd=files)
    assert worse.returncode == 1
    assert "baseline, worse" in worse.stderr
    assert 'failures="2"' in (files / "w.xml").read_text()
    (files / "old.json").write_text(json.dumps({**before, "schema": 0}))
    old = recveil(*AUDIT, "--baseline", "old.json", cwd=files)
    assert old.returncode == 3
    assert "Run the audit of the last release again" in old.stderr
