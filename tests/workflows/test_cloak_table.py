"""Tables in memory: poor ones are defended with notes, and impossible strengths are refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.result_parts import InputSummary
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.defenses import DEFENSES
from recveil.testing.worlds import make_planted_leak
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.comparison import view_with_heads
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.frontier import build_frontier
from recveil.workflows.rehearsal import rehearse_defense
from recveil.workflows.self_check import choose_defense
from recveil.workflows.utility import Recommendations


def test_poor_tables_are_cloaked_with_notes(quick: AuditProtocol) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((90, 3)) + np.arange(90)[:, None] % 3).astype(np.float32)
    x[:, 1] = 7
    codes = np.where(np.arange(90) < 5, -1, np.arange(90) % 3)
    codes[88:] = [3, 4]  # two classes of one user each
    job = Attribute("job", codes, ("cook", "nurse", "baker", "pilot", "spy"))
    table = ClearTable(InputSummary(name="table", n_users=90, d=3), x, [job])
    for method in ("gaussian", "leace", "sliced", "u2u"):
        cloaked, result = cloak_table(table, ChosenDefense(method), quick, audit=False)
        np.testing.assert_allclose(cloaked[:, 1], 7, atol=1e-5)  # a constant column stays
        assert np.array_equal(cloaked[:5], x[:5]) == (method == "u2u")  # undisclosed users, by the method's traits
        notes = " ".join(result.defense.notes)
        assert all(fact in notes for fact in ("'rest'", "1 of 3 columns", "5 users")), notes


@pytest.mark.parametrize(
    "method", [t.name for t in DEFENSES.all_traits() if t.place == "embeddings" and not t.needs_loss]
)
def test_a_strength_outside_zero_and_one_is_refused(method: str, quick: AuditProtocol) -> None:
    job = Attribute("job", np.arange(30) % 2, ("cook", "nurse"))
    x = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    table = ClearTable(InputSummary(name="table", n_users=30, d=3), x, [job])
    for strength in (1.5, -0.1, float("nan")):
        with pytest.raises(UsageError, match="strength"):
            cloak_table(table, ChosenDefense(method, {"strength": strength}), quick, audit=False)


def make_parity_world() -> ClearTable:
    """Users whose class is a product of many columns: only the items that score high, by a network, tell it."""
    rng = np.random.default_rng(0)
    x, n_items = rng.standard_normal((600, 10)).astype(np.float32), 40
    direction = np.repeat([1.0, -1.0, 0.0], (10, 10, 20))  # a quarter of the items scores above the others

    def score(users: IntArray, vectors: FloatArray) -> FloatArray:
        return np.sign(vectors[:, :8].prod(1))[:, None] * direction + 1e-3 * np.sin(np.arange(n_items))

    parity = x[:, :8].prod(1) > 0
    codes = np.where(rng.random(600) < 0.15, ~parity, parity).astype(np.int64)
    world = make_world(n_users=600, n_items=n_items, n_interactions=6_000, leaks={}, rng=rng)
    served = Recommendations(leave_one_out(world.dataset), score, None, np.arange(600))
    summary = InputSummary(name="x", n_users=600, d=10)
    return ClearTable(summary, x, [Attribute("job", codes, ("cook", "nurse"))], served, shows_heads=True)


def test_exchange_hides_which_items_score_high_where_item_vectors_are_released(quick: AuditProtocol) -> None:
    table = make_parity_world()
    checks = []
    for shows_heads in (False, True):
        cloaked, _ = cloak_table(
            replace(table, shows_heads=shows_heads), ChosenDefense("exchange"), quick, audit=False, check=True
        )
        views = {"vectors_and_heads": lambda x: view_with_heads(table.recommendations, x, 0)}
        candidates = [ChosenDefense("exchange")]
        checked = choose_defense(table.x, table.targets, candidates, lambda _, x=cloaked: x, quick, views=views)
        checks.append(checked.check.passed)
        np.testing.assert_array_equal(np.sort(cloaked, axis=0), np.sort(table.x, axis=0))
        assert np.array_equal(cloaked, table.x) == (not shows_heads)  # the vectors alone tell nothing
    assert checks == [False, True]


def test_rehearsal_and_frontier_defend_as_the_release_does(quick: AuditProtocol) -> None:
    table, calls = make_parity_world(), []

    def view(x: FloatArray) -> FloatArray:
        calls.append(len(x))
        return x

    rehearse_defense(table.x, table.targets, ChosenDefense("exchange"), quick, view=view)
    assert calls == [600]
    build_frontier(table.x, table.targets, quick, None, names=["exchange"], view=view)
    assert len(calls) == 5  # a table for each strength


def test_auto_tries_a_defense_for_everybody_first_and_says_where_another_was_taken(
    monkeypatch: pytest.MonkeyPatch, quick: AuditProtocol
) -> None:
    monkeypatch.setattr("recveil.workflows.self_check.CHECK_PANELS", ("strong",))
    x, secret = make_planted_leak(600, 4, 2, 2.0, rng=np.random.default_rng(0))
    hidden = replace(secret, codes=np.where(np.arange(600) % 4, secret.codes, -1))
    summary = InputSummary(name="x", n_users=600, d=4)
    monkeypatch.setattr("recveil.defenses.embeddings.labelfree.LabelFree.__call__", lambda self, x, *_, **__: x)
    _, result = cloak_table(ClearTable(summary, x, [hidden]), ChosenDefense("auto"), quick, audit=False)
    assert list(result.self_check.tried)[:2] == ["labelfree", "sliced"]
    assert any("undisclosed users are not protected" in note for note in result.defense.notes)
    everybody = ChosenDefense("auto", protects_everybody=True)
    _, result = cloak_table(ClearTable(summary, x, [hidden]), everybody, quick, audit=False)
    assert (result.defense.name, result.self_check.passed) == ("labelfree", False)
