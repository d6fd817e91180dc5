"""The self-check: it passes what hides the class, refuses what injects it, and `auto` goes on until one passes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute, FloatArray
from recveil.defenses import DEFENSES
from recveil.testing.worlds import make_no_leak, make_planted_leak
from recveil.workflows import self_check
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.self_check import CheckedTable, check_release, choose_defense, list_candidates

PROTOCOL = AuditProtocol(device="cpu", folds=3)


@pytest.fixture
def quick_self_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself, with all strong attackers and few others."""
    monkeypatch.setattr(self_check, "CHECK_PANELS", ("two-releases", "strong"))


def make_world(size: float = 1.5) -> tuple[FloatArray, Attribute]:
    return make_planted_leak(500, 6, 2, size, rng=np.random.default_rng(0))


@pytest.mark.thorough
def test_an_untouched_leak_fails_and_an_independent_table_passes() -> None:
    x, secret = make_world()
    failed = check_release(x, x, [secret], PROTOCOL, "none")
    assert not failed.passed
    assert secret.name in failed.sentence
    assert failed.tried == {"none": failed.largest_advantage}
    noise = make_no_leak(500, 6, 2, rng=np.random.default_rng(1))[0]
    passed = check_release(x, noise, [secret], PROTOCOL, "noise")
    assert passed.passed
    assert passed.sentence == ""


@pytest.mark.thorough
def test_a_label_that_the_defense_injects_fails_where_there_was_none() -> None:
    x, secret = make_no_leak(500, 6, 2, rng=np.random.default_rng(2))
    injected = x.copy()
    injected[secret.codes == 1] *= 1.5
    check = check_release(x, injected, [secret], PROTOCOL, "broken")
    assert not check.passed
    assert check.targets[secret.name].after.low > check.targets[secret.name].before.value


@pytest.mark.thorough
def test_auto_takes_the_first_that_passes_and_says_what_it_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "CHECK_PANELS", ("two-releases",))
    x, secret = make_world()
    hidden = make_no_leak(500, 6, 2, rng=np.random.default_rng(1))[0]
    tables = {"a": x, "b": hidden, "c": hidden}
    candidates = [ChosenDefense(name) for name in tables]
    chosen = choose_defense(x, [secret], candidates, lambda candidate: tables[candidate.name], PROTOCOL)
    assert chosen.defense.name == "b"
    assert list(chosen.check.tried) == ["a", "b"]
    worst = choose_defense(x, [secret], candidates[:1], lambda candidate: x, PROTOCOL)
    assert worst.defense.name == "a"
    assert not worst.check.passed


@pytest.mark.thorough
def test_a_defense_must_hide_the_class_on_every_surface_that_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_check, "CHECK_PANELS", ("two-releases",))
    x, secret = make_world()
    hidden = make_no_leak(500, 6, 2, rng=np.random.default_rng(1))[0]
    # Attackers of the vectors see the first half of the columns; those who can rank items see all of them.
    tables = {"a": np.hstack([hidden, x]), "b": np.hstack([hidden, hidden[:, :3]])}
    views = {"user_vectors": lambda table: table[:, :6], "vectors_and_heads": lambda table: table}
    candidates = [ChosenDefense(name) for name in tables]

    def choose(names: list[str]) -> CheckedTable:
        chosen = [candidate for candidate in candidates if candidate.name in names]
        return choose_defense(
            tables["a"], [secret], chosen, lambda candidate: tables[candidate.name], PROTOCOL, views=views
        )

    assert choose(["a", "b"]).defense.name == "b"
    failed = choose(["a"]).check
    assert not failed.passed
    assert failed.targets[secret.name].surface == "vectors_and_heads"
    assert "on vectors and heads" in failed.sentence
    vectors_alone = choose_defense(
        x, [secret], candidates[:1], lambda candidate: tables[candidate.name][:, :6], PROTOCOL
    )
    assert vectors_alone.check.passed


def test_the_first_defense_is_checked_on_the_folds_of_the_audit_and_later_ones_on_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(self_check, "CHECK_PANELS", ("two-releases-many",))
    x, secret = make_world()
    hidden = make_no_leak(500, 6, 2, rng=np.random.default_rng(1))[0]
    tables = {"a": x, "b": hidden}
    protocol = replace(PROTOCOL, panel="logistic", memory={}, repeats=2, max_repeats=0)
    ids = np.arange(len(x))

    def count_new_trials(names: str) -> int:
        protocol.memory.clear()
        candidates = [ChosenDefense(name) for name in names]
        chosen = choose_defense(x, [secret], candidates, lambda candidate: tables[candidate.name], protocol, ids=ids)
        assert chosen.defense.name == names[-1]
        before = len(protocol.memory)
        protocol.audit_classes(chosen.x, [secret], ids=ids)
        return len(protocol.memory) - before

    assert count_new_trials("b") == 0
    assert count_new_trials("ab") > 0


def test_auto_lists_candidates_by_rank_and_only_streaming_ones_for_large_tables() -> None:
    candidates = [candidate.name for candidate in list_candidates(ChosenDefense("auto"))]
    ranks = [DEFENSES.traits(name).auto_rank for name in candidates]
    assert ranks == sorted(ranks)
    assert len(candidates) >= 2
    streaming = list_candidates(ChosenDefense("auto"), streams=True)
    assert streaming
    assert all(DEFENSES.traits(candidate.name).streams for candidate in streaming)
    assert list_candidates(ChosenDefense("leace")) == [ChosenDefense("leace")]


@pytest.mark.thorough
def test_a_cloak_holds_its_self_check() -> None:
    x, secret = make_world()
    table = ClearTable(InputSummary(name="table", n_users=500, d=6), x, [secret])
    _, result = cloak_table(table, ChosenDefense("auto"), PROTOCOL, audit=False)
    assert result.self_check is not None
    assert result.self_check.passed
    assert result.defense.name in result.self_check.tried
    assert cloak_table(table, ChosenDefense("gaussian"), PROTOCOL, audit=False)[1].self_check is None
