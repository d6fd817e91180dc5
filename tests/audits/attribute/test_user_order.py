"""The order of rows decides nothing, and users who occur twice are no leak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation, draw_folds
from recveil.audits.attribute.numeric import audit_numeric_attribute
from recveil.audits.attribute.user_order import find_copies, order_users
from recveil.audits.verdicts import TargetAudit
from recveil.core.types import Attribute
from recveil.testing.worlds import make_no_leak, make_planted_leak
from recveil.workflows.audit_protocol import attach_details

RULES = CrossValidation(5, 1)


def make_world(seed: int, n: int = 300) -> tuple[np.ndarray, Attribute]:
    rng = np.random.default_rng(seed)
    return make_planted_leak(n, 6, 2, 0.3, rng=rng) if seed % 2 else make_no_leak(n, 6, 3, rng=rng)


def audit(x: np.ndarray, secret: Attribute, ids: np.ndarray | None = None, panel: str = "quick") -> TargetAudit:
    attacks = make_panel("fast", "cpu")
    attacks = {name: attacks[name] for name in attacks if panel == "fast" or name in ("logistic", "qda", "knn")}
    return audit_attribute(x, secret, attacks, rules=RULES, ids=ids)


@pytest.mark.thorough
@pytest.mark.parametrize("with_ids", [False, True])
def test_the_order_of_rows_decides_nothing(with_ids: bool) -> None:
    for seed, panel in enumerate(("quick" if with_ids else "fast", "quick", "quick")):
        x, secret = make_world(seed)
        x[:6] = x[6:12]  # equal rows, some of them of different classes
        ids = np.array([f"user {i}" for i in range(len(x))]) if with_ids else None
        shuffled = np.random.default_rng(100 + seed).permutation(len(x))
        first = audit(x, secret, ids, panel)
        again = audit(x[shuffled], secret.take(shuffled), None if ids is None else ids[shuffled], panel)
        assert first.to_result() == again.to_result()
        np.testing.assert_array_equal(x[first.users], x[shuffled][again.users])
        if ids is not None:
            np.testing.assert_array_equal(first.users, shuffled[again.users])
        [one], [two] = (
            attach_details([table], [target], [[found]], RULES, seed=0)
            for table, target, found in ((x, secret, first), (x[shuffled], secret.take(shuffled), again))
        )
        assert one[secret.name] == two[secret.name]


@pytest.mark.thorough
@pytest.mark.parametrize("with_ids", [False, True])
def test_the_order_of_rows_decides_nothing_for_numbers(with_ids: bool) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 4))
    age = Attribute(
        "age", np.zeros(100, np.int64), (), values=np.round(30 + 5 * x[:, 0] + 9 * rng.standard_normal(100))
    )
    ids, shuffled = np.arange(100) * 7, rng.permutation(100)
    first = audit_numeric_attribute(x, age, rules=RULES, ids=ids if with_ids else None)
    again = audit_numeric_attribute(
        x[shuffled], age.take(shuffled), rules=RULES, ids=ids[shuffled] if with_ids else None
    )
    assert first.to_result() == again.to_result()


def test_users_keep_their_place_by_id_when_their_vectors_change_and_another_seed_gives_another_order() -> None:
    x, secret = make_world(0)
    ids = np.arange(len(x))
    np.testing.assert_array_equal(order_users(x, secret.codes, 0, ids), order_users(2 * x, secret.codes, 0, ids))
    assert (order_users(x, secret.codes, 0, ids) != order_users(x, secret.codes, 1, ids)).any()


@pytest.mark.parametrize("noise", [0.0, 1e-4])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_copies_of_users_are_no_leak(share: float, noise: float) -> None:
    leaks = 0
    for seed in range(2):
        rng = np.random.default_rng(seed)
        x, secret = make_no_leak(400, 8, 2, rng=rng)
        copied = rng.permutation(400)[: int(400 * share)]
        x = np.concatenate([x, x[copied] + noise * rng.standard_normal((len(copied), 8))])
        found = audit(x, replace(secret, codes=np.concatenate([secret.codes, secret.codes[copied]])))
        assert f"{2 * len(copied):,} of {len(x):,} users are copies" in " ".join(found.notes)
        leaks += found.verdict == "leak"
        if share == 1.0:
            assert found.headline.advantage.value < 0.2  # three standard deviations of chance with 400 users
    assert leaks == 0


def test_a_real_leak_is_found_among_copies() -> None:
    x, secret = make_planted_leak(300, 6, 2, 2.0, rng=np.random.default_rng(0))
    found = audit(np.concatenate([x, x]), replace(secret, codes=np.tile(secret.codes, 2)))
    assert found.verdict == "leak"


def test_copies_stay_in_one_fold_and_inner_fold() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=200)
    groups = np.concatenate([np.arange(120), np.arange(80)])
    for rules in (RULES, CrossValidation(5, 1, leak_ratio=0.4)):
        for outer, inners in draw_folds(codes, rules, rng, groups):
            for task in (outer, *inners):
                assert not set(groups[task.train]) & set(groups[task.test])
                assert set(codes[task.train]) == set(codes[task.test]) == {0, 1, 2}


@pytest.mark.parametrize("d", [1, 2, 3, 8, 40])
def test_a_smooth_table_has_no_copies(d: int) -> None:
    x = np.random.default_rng(d).standard_normal((3000, d))
    groups, notes = find_copies(x, 5)
    assert len(np.unique(groups)) >= 2990
    assert not notes


def test_a_point_that_many_users_share_is_not_kept_in_one_fold() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 4))
    x[:90] = 0.0  # users without interactions
    x[90:94] = 1.0
    groups, notes = find_copies(x, 5)
    assert len(np.unique(groups)) == 297
    assert len(set(groups[90:94])) == 1
    assert "90 of 300 users share their row" in " ".join(notes)
    assert len(np.unique(find_copies(np.zeros((50, 2)), 5)[0])) == 50
    few_values = rng.integers(40, size=(300, 1)).astype(float)  # the value itself may be the leak
    assert len(np.unique(find_copies(few_values, 5)[0])) == 300


@pytest.mark.thorough
def test_a_leak_through_shared_points_is_found() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=400)
    points = rng.standard_normal((60, 3))
    x = points[2 * rng.integers(30, size=400) + codes]  # every point belongs to one class
    found = audit_attribute(x, Attribute("group", codes, ("a", "b")), make_panel("fast", "cpu"), rules=RULES)
    assert found.verdict == "leak"


def test_a_class_of_copies_is_left_out() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((106, 3))
    x[100:] = x[100]
    found = audit(x, Attribute("group", np.concatenate([np.arange(100) % 2, [2] * 6]), ("a", "b", "c")))
    assert found.labels == ("a", "b")
    assert "its 6 users are copies of 1" in found.notes[0]


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.1])
def test_near_copies_are_found_in_many_dimensions(noise: float) -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((800, 16))
    groups, notes = find_copies(np.r_[x, x[:400] + noise * rng.standard_normal((400, 16))], folds=5)
    assert np.mean(groups[:400] == groups[800:]) > 0.95
    assert "copies" in notes[0]


@pytest.mark.parametrize("dimensions", [1, 2, 8, 32])
def test_no_copies_are_found_where_there_are_none(dimensions: int) -> None:
    rng = np.random.default_rng(6)
    smooth = rng.standard_normal((1000, dimensions)) @ rng.standard_normal((dimensions, 32))
    line = rng.uniform(size=(500, 1)) * rng.standard_normal((1, 32))
    groups, notes = find_copies(np.r_[smooth, line], folds=5)
    assert np.mean(np.bincount(groups)[groups] > 1) < 0.005
    assert not notes
