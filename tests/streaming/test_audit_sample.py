"""The sample of an audit: as many users as its power statement asks for, the same rows before and after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.types import Attribute
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.streaming.audit_sample import count_needed_users, design_sample
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table
from recveil.streaming.engines import ThreadEngine
from recveil.streaming.labels import AttributeSource

GENDER = AttributeSource(None, ("gender",))


@pytest.mark.thorough
@pytest.mark.parametrize(("K", "margin"), [(2, 0.05), (3, 0.05), (2, 0.1)])
def test_the_audit_of_the_needed_users_has_the_stated_power(K: int, margin: float) -> None:
    d, rules = 8, CrossValidation(5, 1)
    n = count_needed_users(K, d, rules, margin)
    rng = np.random.default_rng(0)
    found, fewer = (_judged(size, K, d, rules, margin, rng) for size in (n, n // 2))
    assert found.resolution < 2 * margin
    assert found.detectable <= 2 * margin + 1e-3
    assert fewer.resolution > found.resolution
    assert count_needed_users(K, d, rules, margin / 2) > 2 * n  # finer margins need more


def _judged(n: int, K: int, d: int, rules: CrossValidation, margin: float, rng: np.random.Generator) -> Any:
    x = rng.standard_normal((n * K, d)).astype(np.float32)
    secret = Attribute("secret", np.repeat(np.arange(K), n), tuple(map(str, range(K))))
    return audit_attribute(x, secret, parse_attackers("logistic", "cpu"), rules=rules, margin=margin)


def test_users_are_drawn_by_class_with_their_own_vectors_and_classes(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.streaming.audit_sample.count_needed_users", lambda *given: 150)
    world = make(n=4000)
    table = open_table(world.path)
    which = design_sample(table, GENDER, CrossValidation(), 0.05, seed=3, engine=None)
    drawn = which.draw_users(table)
    rows = np.asarray(drawn.ids) // 7
    np.testing.assert_array_equal(drawn.x, world.x[rows])
    [gender] = drawn.targets
    assert [gender.labels[c] for c in gender.codes] == world.gender[rows].tolist()
    assert gender.counts.tolist() == [150, 150]
    assert len(set(rows.tolist())) == 300
    assert "The table has 4,000 users; the audit drew 300" in which.describe_sample(4000)
    other = design_sample(table, GENDER, CrossValidation(), 0.05, seed=4, engine=None).draw_users(table)
    assert set(np.asarray(other.ids)) != set(np.asarray(drawn.ids))


def test_the_same_users_are_read_from_the_cloaked_table(make: Callable[..., Any], tmp_path: Path) -> None:
    world = make()
    table = open_table(world.path)
    cloak_table(table, GENDER, Gaussian(), tmp_path / "out")
    which = design_sample(table, GENDER, CrossValidation(), 0.05, seed=0, engine=None)
    before = which.draw_users(table)
    after = before.read_vectors(open_table(tmp_path / "out"), ThreadEngine(3))
    moved = np.stack(pq.read_table(tmp_path / "out").column("embedding").to_pylist())
    np.testing.assert_array_equal(after, moved[np.asarray(before.ids) // 7].astype(np.float32))


def test_a_class_with_too_few_users_is_taken_whole_and_several_targets_all_have_enough(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.streaming.audit_sample.count_needed_users", lambda *given: 400)
    world = make()
    facts = AttributeSource(None, ("gender", "age"), (), {"age": [22]})
    drawn = design_sample(open_table(world.path), facts, CrossValidation(), 0.05, seed=0, engine=None).draw_users(
        open_table(world.path)
    )
    gender, age = drawn.targets
    young = int((world.age < 22).sum())
    assert 50 < young < 400
    assert age.counts[0] == young
    assert (gender.counts >= 400).all()
    assert age.counts[1] >= 400
