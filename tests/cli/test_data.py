"""`recveil data`: the data sets there are, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from recveil.data.sources.catalog import SOURCES


def test_data_sets_are_listed_fetched_and_described(
    tmp_path: Path, recveil: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("RECVEIL_DATA", raising=False)
    monkeypatch.setenv("RECVEIL_CACHE", str(tmp_path / "cache"))
    rows = json.loads(recveil("data", "list", "--json", cwd=tmp_path).stdout)
    assert {row["name"] for row in rows} == set(SOURCES)
    assert "ml-1m" in recveil("data", "list", cwd=tmp_path).stdout
    (tmp_path / "log.csv").write_text("user_id,item_id\n1,1\n1,2\n2,1\n")
    facts = json.loads(recveil("data", "describe", "log.csv", "--json", cwd=tmp_path).stdout)
    assert facts
    described = recveil("data", "describe", "log.csv", cwd=tmp_path)
    assert all(key in described.stdout for key in facts)
    fetched: list[object] = []

    def fetch(name: str, *, source: Path | None) -> Path:
        fetched.append((name, source))
        return tmp_path / "cache" / name

    monkeypatch.setattr("recveil.data.sources.download.fetch_dataset", fetch)
    done = recveil("data", "get", "ml-1m", "--from", "ml.zip", cwd=tmp_path)
    assert fetched == [("ml-1m", Path("ml.zip"))]
    assert str(tmp_path / "cache" / "ml-1m") in done.stdout
