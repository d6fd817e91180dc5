from pathlib import Path

import pytest

from recveil.core.random import make_generator
from recveil.core.results import CloakResult
from recveil.data.synthetic import World, make_world
from recveil.workflows import demo
from recveil.workflows.audit_protocol import AuditProtocol

FILES = {"report.html", "result.json", "users.parquet", "cloaked.parquet", "attributes.parquet"}


def make_small_world(seed: int, *, n_users: int) -> World:
    assert n_users >= 6_000  # enough for the verdict `none` of the real demo; the golden documents hold it
    leaks = {"gender": 2.5, "age": 2.5, "handedness": 0.0}
    return make_world(n_users=600, n_items=100, n_interactions=15_000, leaks=leaks, rng=make_generator(seed, "world"))


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole flow on fewer users; the golden documents hold the real demo."""
    monkeypatch.setattr(demo, "make_demo_world", make_small_world)
    monkeypatch.setattr(demo, "MODEL_OPTIONS", {"embedding_size": 16, "epochs": 15})


@pytest.mark.thorough
def test_the_demo_finds_the_leak_ends_it_and_repeats_itself(
    tmp_path: Path, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = demo.run_demo(tmp_path / "new" / "a", device="cpu", protocol=quick)
    assert "gender" in (tmp_path / "new" / "a" / "report.html").read_text()
    monkeypatch.setattr("recveil.report.html.render", lambda result: "one page is enough")
    demo.run_demo(tmp_path / "b", device="cpu", protocol=quick)
    assert {p.name for p in (tmp_path / "b").iterdir()} == FILES
    for name in ("users.parquet", "cloaked.parquet", "attributes.parquet"):
        assert (tmp_path / "new" / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    assert first.command == "demo"
    assert CloakResult.read_json(tmp_path / "new" / "a" / "result.json") == first
    assert first.before["gender"].verdict == "leak"
    assert first.targets["gender"].verdict != "leak"
    assert first.targets["age"].verdict == "leak"  # not protected, and the notes say so
    assert first.targets["handedness"].verdict != "leak"
    assert any(note.startswith("age was not protected") for note in first.defense.notes)
    assert first.utility.difference["ndcg@10"].n == 600
    for targets in (first.before, first.targets):
        assert sum(group.n for group in targets["gender"].activity) == targets["gender"].n
        for target in targets.values():  # no attack beats the best possible by more than chance
            assert all(attack.balanced_accuracy.low < target.best_possible for attack in target.attacks.values())
