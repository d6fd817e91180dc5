"""The GitHub Action and the pre-commit hook: parsed, and the command that they compose is run."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
GATE = "gender.advantage.low > 0.05"
QUICK = ["--panel", "logistic", "--folds", "3", "--repeats", "1", "--max-repeats", "1"]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table that leaks gender, and a `recveil` on the path that runs this source tree."""
    folder = tmp_path_factory.mktemp("a folder with spaces")
    codes = np.arange(240) % 2
    x = np.random.default_rng(0).normal(size=(240, 4)).astype(np.float32) + 2 * codes[:, None]
    pq.write_table(pa.table({"user_id": np.arange(240), "embedding": x.tolist()}), folder / "E.parquet")
    pq.write_table(pa.table({"user_id": np.arange(240), "gender": np.array(["F", "M"])[codes]}), folder / "A.parquet")
    (folder / "bin").mkdir()
    program = folder / "bin" / "recveil"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m recveil "$@"\n')
    program.chmod(0o755)
    return folder


def run_script(script: str, tables: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{tables / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    return subprocess.run(
        ["bash", "-e", "-c", script], cwd=tables, env=environment, capture_output=True, text=True, check=False
    )


def read_step() -> tuple[str, dict[str, str]]:
    """Return the script of the audit and the input behind each of its variables."""
    step = ACTION["runs"]["steps"][-1]
    names = {variable: text.removeprefix("${{ inputs.").removesuffix(" }}") for variable, text in step["env"].items()}
    return step["run"], names


def test_every_input_has_a_description_and_reaches_a_step_as_a_variable() -> None:
    script, names = read_step()
    elsewhere = {"package", "python-version"}
    assert set(names.values()) | elsewhere == set(ACTION["inputs"])
    assert all(entry["description"] for entry in ACTION["inputs"].values())
    assert "${{" not in script  # an input is never text of the script
    assert all(f'"${variable}"' in script for variable in names)


@pytest.mark.thorough
def test_the_action_composes_the_command_and_fails_where_a_gate_fails(tables: Path) -> None:
    script, names = read_step()
    inputs = {name: str(entry.get("default", "")) for name, entry in ACTION["inputs"].items()}
    inputs |= {"embeddings": "E.parquet", "attributes": "A.parquet", "target": "gender", "report": ""}
    inputs["arguments"] = "\n".join(QUICK)
    passed = run_script(script, tables, **{variable: inputs[name] for variable, name in names.items()})
    assert passed.returncode == 0, passed.stderr
    assert 'failures="0"' in (tables / "recveil" / "junit.xml").read_text()
    inputs |= {"fail-if": f"{GATE}\ngender.advantage.low > 0.99", "baseline": "recveil/result.json"}
    inputs |= {"out": "", "junit": "recveil/gated.xml"}
    failed = run_script(script, tables, **{variable: inputs[name] for variable, name in names.items()})
    assert failed.returncode == 1, failed.stderr
    assert 'failures="1"' in (tables / "recveil" / "gated.xml").read_text()
    assert "baseline, no worse" in failed.stderr


@pytest.mark.thorough
def test_the_hook_calls_the_same_command(tables: Path) -> None:
    (hook,) = HOOKS
    assert "recveil audit" in read_step()[0]
    assert hook["entry"] == "recveil audit"
    assert hook["pass_filenames"] is False
    args = ["--embeddings", "E.parquet", "--attributes", "A.parquet", "--fail-if", GATE, *QUICK]
    done = run_script(f"{hook['entry']} {shlex.join(args)}", tables)
    assert done.returncode == 1, done.stderr


def test_an_input_cannot_run_a_command_of_its_own(tables: Path) -> None:
    script, names = read_step()
    hostile = dict.fromkeys(names, "") | {"EMBEDDINGS": "$(touch pwned)", "ATTRIBUTES": "`touch pwned`; x"}
    assert run_script(script, tables, **hostile).returncode in (2, 3)
    assert not (tables / "pwned").exists()
