"""The tests of the eight ways are tested: each guard is taken out of a copy of the code, and its test must fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

WITHOUT = {
    "1, collapsed attackers are not named": (
        "audit.py",
        "degenerate=bool(np.mean([_constant(c) for c in folds]) > 0.5)",
        "degenerate=False",
    ),
    "1, collapsed attackers count as privacy": ("verdict.py", "a.high < margin and not degenerate", "a.high < margin"),
    "2, no prediction is turned round": (
        "metrics/leakage.py",
        "return np.asarray(np.argmax(M, axis=0), dtype=np.int64)",
        "return np.arange(len(M))",
    ),
    "3, nobody looks beyond a line": (
        "attacks/attribute/panels.py",
        "if panel in traits.panels)",
        'if panel in traits.panels and traits.name == "logistic")',
    ),
    "4, the AUC is that of hard guesses": (
        "metrics/leakage.py",
        "ranks = stats.rankdata(score, axis=0)",
        "ranks = stats.rankdata(score == score.max(1, keepdims=True), axis=0)",
    ),
    "5, rules do not stand beside attacks": (
        "membership.py",
        "return seen and not any(f.ahead is not None and f.ahead.low > 0 for f in self.attacks.values())",
        "return False",
    ),
    "6, precision is called hit rate": (
        "metrics/ranking.py",
        "return np.asarray(-np.expm1(none))",
        "return np.asarray(-np.expm1(none)) / k",
    ),
    "7, one of two tables serves behind the release": (
        "models/ncf.py",
        "        device = resolve(self.device)\n        head = self._head(torch.Generator(device=device))",
        "        own, d = self.user_vectors_[users], self.embedding_size\n"
        "        rows = np.hstack([rows[:, :d], own[:, d:]])\n"
        "        device = resolve(self.device)\n        head = self._head(torch.Generator(device=device))",
    ),
    "8, passes are chosen by the test item": (
        "models/loop.py",
        "self.held: Dataset = split.valid",
        "self.held: Dataset = split.test",
    ),
}


def outcome(source: Path, way: str) -> subprocess.CompletedProcess[str]:
    """The tests of this way, with the package as it is there."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/test_eight_ways.py", "-k", way],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize("guard", WITHOUT)
def test_without_its_guard_a_way_of_going_wrong_is_open(guard: str, tmp_path: Path) -> None:
    name, code, instead = WITHOUT[guard]
    way = f"test_{guard[0]}_"
    copy = tmp_path / "src"
    shutil.copytree(ROOT / "src", copy)
    assert outcome(copy, way).returncode == 0  # whole, the copy passes
    path = copy / "recveil" / name
    text = path.read_text(encoding="utf-8")
    assert text.count(code) == 1
    path.write_text(text.replace(code, instead), encoding="utf-8")
    found = outcome(copy, way)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "1 failed" in found.stdout
