from pathlib import Path

import pytest

from recveil.core.random import make_generator
from recveil.core.results import CloakResult
from recveil.data.synthetic import World, make_world
from recveil.workflows import demo
from recveil.workflows.audit_protocol import AuditProtocol

FILES = {"report.html", "result.json", "users.parquet", "cloaked.parquet", "attributes.parquet"}


def make_small_world(seed: int, *, n_users: int) -> World:
    assert n_users >= 6_000  # enough for the verdict `none` of the real demo
    leaks = {"gender": 2.5, "age": 2.5, "handedness": 0.0}
    return make_world(n_users=600, n_items=100, n_interactions=15_000, leaks=leaks, rng=make_generator(seed, "world"))


@pytest.fixture
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole flow on fewer users."""
    monkeypatch.setattr(demo, "make_demo_world", make_small_world)
    monkeypatch.setattr(demo, "MODEL_OPTIONS", {"embedding_size": 16, "epochs": 15})


@pytest.mark.thorough
@pytest.mark.usefixtures("small_world")
def test_the_demo_finds_the_leak_and_ends_it(tmp_path: Path, quick: AuditProtocol) -> None:
    first = demo.run_demo(tmp_path / "new" / "a", device="cpu", protocol=quick)
    assert "gender" in (tmp_path / "new" / "a" / "report.html").read_text()
    assert {p.name for p in (tmp_path / "new" / "a").iterdir()} == FILES
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
        for target in targets.values():  # no attack beats the best possible by more than chance, of twelve intervals
            assert all(attack.balanced_accuracy.low < target.best_possible + 0.03 for attack in target.attacks.values())


@pytest.mark.slow
def test_the_real_demo_ends_the_leak(tmp_path: Path) -> None:
    result = demo.run_demo(tmp_path, device="cpu")
    assert (result.before["gender"].verdict, result.targets["gender"].verdict) == ("leak", "none")
