"""`recveil demo`: its options reach the flow; the flow itself is tested in workflows/test_demo.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from recveil.core.results import CloakResult


def test_the_demo_prints_verdicts_cost_and_the_page(
    tmp_path: Path, recveil: Callable, cloak_result: CloakResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[Any] = []

    def run_demo(out: Path, **options: Any) -> CloakResult:
        calls.append((out, options))
        return cloak_result

    monkeypatch.setattr("recveil.workflows.demo.run_demo", run_demo)
    done = recveil("demo", "--out", "here", "--seed", 4, "--device", "cpu", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert calls == [(Path("here"), {"seed": 4, "device": "cpu"})]
    assert "here/report.html" in done.stdout
    assert "NDCG@10" in done.stdout
    assert recveil("demo", "--json", cwd=tmp_path).stdout == cloak_result.to_json()
