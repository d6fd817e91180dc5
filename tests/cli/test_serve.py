"""The command serve: what it refuses at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def test_a_missing_map_and_a_host_without_a_token_are_refused(
    recveil: Callable[..., object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECVEIL_TOKEN", raising=False)
    missing = recveil("serve", "--map", "nothing.map", cwd=tmp_path)
    assert (missing.returncode, "no file nothing.map" in missing.stderr) == (3, True)
    reachable = recveil("serve", "--host", "0.0.0.0", "--port", 0, cwd=tmp_path)
    assert reachable.returncode == 2
    assert "--token-file" in reachable.stderr
    assert "--host is 0.0.0.0" in reachable.stderr
