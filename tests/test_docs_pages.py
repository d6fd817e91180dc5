"""Every snippet of the pages on models, notebooks and CI runs, in the order of the page."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "how-to"
FENCE = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
NEEDS = re.compile(r"# needs: (\w+)")
N_USERS, N_ITEMS = 300, 40


def list_snippets(page: str, language: str) -> list[str]:
    return [code for name, code in FENCE.findall((PAGES / page).read_text(encoding="utf-8")) if name == language]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the pages name."""
    rng = np.random.default_rng(0)
    codes = np.arange(N_USERS) % 2
    gender = np.array(["F", "M"])[codes]
    x = (rng.normal(size=(N_USERS, 4)) + codes[:, None]).astype(np.float32)
    ids = [f"u{i:03}" for i in range(N_USERS)]
    items = [f"i{item:02}" for item in rng.integers(N_ITEMS, size=8 * N_USERS)]
    pairs = pd.DataFrame({"user_id": np.repeat(ids, 8), "item_id": items, "timestamp": np.arange(8 * N_USERS)})
    extra = pd.DataFrame({"user_id": ids[0], "item_id": [f"i{i:02}" for i in range(N_ITEMS)], "timestamp": 0})
    pairs = pd.concat([pairs, extra]).drop_duplicates(["user_id", "item_id"])
    pairs.to_parquet(tmp_path / "interactions.parquet")
    users = pd.DataFrame({"user_id": ids, "gender": gender})
    if "adapters" in os.environ.get("PYTEST_CURRENT_TEST", ""):
        users.to_parquet(tmp_path / "users.parquet")
    else:
        pd.DataFrame({"user_id": ids, "embedding": x.tolist()}).to_parquet(tmp_path / "users.parquet")
    users.to_parquet(tmp_path / "attributes.parquet")
    users.assign(embedding=x.tolist()).to_parquet(tmp_path / "table.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("page", ["adapters.md", "dataframes-and-notebooks.md"])
def test_the_python_of_a_page_runs(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    n_run = 0
    for snippet in list_snippets(page, "python"):
        needed = NEEDS.search(snippet)
        if needed and importlib.util.find_spec(needed[1]) is None:
            continue
        exec(compile(snippet, page, "exec"), names)  # our own documentation
        n_run += 1
    assert n_run >= 3
    assert "leak" in capsys.readouterr().out or page == "adapters.md"


@pytest.mark.thorough
def test_the_commands_of_the_gate_run(folder: Path) -> None:
    (commands,) = list_snippets("ci-gate.md", "sh")
    for command in commands.replace("\\\n", " ").strip().splitlines():
        words = shlex.split(command)
        assert words[0] == "recveil"
        done = subprocess.run([sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert 'failures="0"' in (folder / "junit.xml").read_text()


def test_inputs_and_hooks_that_the_gate_page_names_exist() -> None:
    import yaml

    action, hooks = (yaml.safe_load(text) for text in list_snippets("ci-gate.md", "yaml"))
    known = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    assert set(action[0]["with"]) <= set(known)
    offered = {hook["id"] for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert {hook["id"] for hook in hooks[0]["hooks"]} <= offered
