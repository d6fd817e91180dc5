import json
from pathlib import Path

import pytest

from recveil.audits.attribute.folds import Folds
from recveil.audits.catalog import ATTACKS
from recveil.workflows import demo

FILES = {"report.html", "records.jsonl", "document.json", "users.parquet", "cloaked.parquet", "attributes.parquet"}


@pytest.fixture(autouse=True)
def two_quick_attackers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole path with a smaller panel: `make demo` runs the real one."""
    monkeypatch.setattr(demo, "RULES", Folds(folds=3, seeds=1))
    monkeypatch.setattr(demo, "panel", lambda name, device: {n: ATTACKS[n](device) for n in ("logistic", "qda")})


def test_the_demo_finds_the_leak_ends_it_and_repeats_itself(tmp_path: Path) -> None:
    first = demo.run_demo(tmp_path / "a", seed=0)
    demo.run_demo(tmp_path / "b", seed=0)
    assert {p.name for p in (tmp_path / "a").iterdir()} == FILES
    for name in ("records.jsonl", "users.parquet", "cloaked.parquet", "attributes.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert first["before"]["gender"]["verdict"] == "leak"
    assert first["targets"]["gender"]["verdict"] != "leak"
    assert first["targets"]["age"]["verdict"] == "leak"  # not protected, and the report says so
    assert first["targets"]["handedness"]["verdict"] != "leak"
    assert "Where gender leaks" in (tmp_path / "a" / "report.html").read_text()
    for part in ("before", "targets"):
        assert sum(group["n"] for group in first[part]["gender"]["activity"]) == first[part]["gender"]["n"]
    rows = [json.loads(line) for line in (tmp_path / "a" / "records.jsonl").read_text().splitlines()]
    assert {row["defense"] for row in rows} == {"none", "sliced"}
    assert all(set(row["estimate"]) == {"value", "low", "high", "n"} for row in rows)


def test_no_attack_beats_the_best_possible_by_more_than_chance(tmp_path: Path) -> None:
    document = demo.run_demo(tmp_path / "a", seed=1)
    for target in document["before"].values():
        for attack in target["attacks"].values():
            assert attack["balanced_accuracy"]["low"] < target["bayes"]
