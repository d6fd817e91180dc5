"""`sliced` on tables of many shapes: moves in the columns would inject the class there, and `sliced` does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import UsageError
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.embeddings import sliced
from recveil.defenses.embeddings.sliced import Sliced
from recveil.testing.worlds import make_planted_leak
from recveil.transport.class_evidence import ClassEvidence
from recveil.transport.coordinates import COORDINATES

Table = tuple[np.ndarray, np.ndarray]


def cloak(table: Table, seed: int = 0, **options: Any) -> np.ndarray:
    return Sliced(device="cpu", **options)(*table, rng=np.random.default_rng(seed))


def attack(x: np.ndarray, codes: np.ndarray, *names: str) -> dict[str, float]:
    """Balanced accuracy of each attack on two classes."""
    panel: dict[str, Attack] = {name: make_attack(name, "cpu") for name in names}
    secret = Attribute("class", codes, ("a", "b"))
    found = audit_attribute(x, secret, panel, rules=CrossValidation(repeats=1), seed=0)
    return {name: result.balanced_accuracy.value for name, result in found.attacks.items()}


def make_activations(n: int = 1200, d: int = 6) -> Table:
    """Make what a last layer gets: two columns tell the class a little."""
    rng = np.random.default_rng(0)
    codes = rng.permutation(np.arange(n) % 2)
    x = rng.standard_normal((n, d))
    x[:, 0] += 0.8 * codes
    x[:, 1] -= 0.8 * codes
    return x, codes


def make_rectified(n: int = 1200) -> Table:
    x, codes = make_activations(n)
    return np.maximum(x - 0.5, 0).astype(np.float32), codes


def make_saturated(n: int = 1200) -> Table:
    x, codes = make_activations(n)
    return np.tanh(6 * x).astype(np.float32), codes


def make_clusters(n: int = 1500) -> Table:
    """Make users in twelve tight clusters that hold the classes in different shares."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 12, n)
    codes = (rng.random(n) < np.linspace(0.2, 0.8, 12)[cluster]).astype(int)
    x = 3 * rng.standard_normal((12, 5))[cluster] + 0.05 * rng.standard_normal((n, 5))
    return x.astype(np.float32), codes


def make_uneven(n: int = 1200) -> Table:
    """Make users of very uneven activity in a small unit, and a constant column."""
    rng = np.random.default_rng(0)
    codes = np.arange(n) % 2
    direction = rng.standard_normal((n, 6))
    direction[:, 0] += 1.5 * codes
    x = direction * np.exp(1.2 * rng.standard_normal((n, 1))) * 1e-6
    return np.hstack([x, np.full((n, 1), 3.0)]).astype(np.float32), codes


@pytest.mark.thorough
@pytest.mark.parametrize("make_table", [make_rectified, make_saturated])
def test_atoms_are_not_split_by_class(make_table: Any) -> None:
    """Moves in the columns take the users of one class off the value that many share, and trees see it."""
    table = make_table()
    before = attack(*table, "trees")["trees"]
    moved = attack(cloak(table, coordinates="columns", trade=False), table[1], "trees")["trees"]
    assert 0.6 < before < 0.75
    assert moved > before + 0.15
    names = ("trees", "knn", "logistic")
    reached = [list(attack(cloak(table, seed), table[1], *names).values()) for seed in (0, 1)]
    assert (np.abs(np.mean(reached, axis=0) - 0.5) < 0.06).all(), reached


@pytest.mark.thorough
def test_classes_in_tight_clusters_are_hidden() -> None:
    table = make_clusters()
    before = attack(*table, "trees", "knn")
    moved = attack(cloak(table, coordinates="columns", trade=False), table[1], "trees", "knn")
    after = attack(cloak(table), table[1], "trees", "knn", "logistic")
    assert all(0.6 < before[name] < moved[name] - 0.2 for name in before)
    assert max(after.values()) < 0.56, after


@pytest.mark.thorough
def test_an_uneven_table_is_hidden_and_a_constant_column_and_the_scale_stay() -> None:
    table = make_uneven()
    x, codes = table
    out = cloak(table)
    np.testing.assert_allclose(out[:, -1], 3.0, rtol=1e-5)
    np.testing.assert_allclose(np.abs(out[:, :-1]).mean(), np.abs(x[:, :-1]).mean(), rtol=0.2)
    moved = cloak(table, coordinates="columns", trade=False)
    names = ("trees", "knn", "logistic")
    before, without, after = (attack(t[:, :-1] * 1e6, codes, *names) for t in (x, moved, out))
    assert all(before[name] > 0.65 for name in names), before
    assert max(without.values()) > 0.58, without
    assert max(after.values()) < 0.56, after


@pytest.mark.parametrize("options", [{}, *({"coordinates": kind} for kind in COORDINATES)])
@pytest.mark.thorough
def test_the_order_of_the_users_does_not_matter_and_the_same_seed_gives_the_same_bytes(options: dict[str, Any]) -> None:
    x, codes = make_rectified(300)
    x[:, 5] = np.random.default_rng(2).standard_normal(300)  # so that no two users are equal
    codes[::10] = UNDISCLOSED
    out = cloak((x, codes), **options)
    assert out.tobytes() == cloak((x, codes), **options).tobytes()
    moved = np.random.default_rng(1).permutation(300)
    np.testing.assert_array_equal(cloak((x[moved], codes[moved]), **options), out[moved])
    assert out.tobytes() != cloak((x, codes), seed=1, **options).tobytes()


@pytest.mark.thorough
@pytest.mark.usefixtures("no_trees")
@pytest.mark.parametrize("kind", COORDINATES)
def test_strength_is_a_straight_line_in_every_coordinates(kind: str) -> None:
    table = make_clusters(300)
    x = table[0]
    whole, half, none = (cloak(table, coordinates=kind, strength=strength) for strength in (1.0, 0.5, 0.0))
    np.testing.assert_allclose(half, (x + whole) / 2, atol=1e-5)
    np.testing.assert_array_equal(none, x)


def test_trades_keep_the_rows_of_the_table_that_was_moved() -> None:
    table = make_clusters(300)
    moved, traded = (cloak(table, coordinates="columns", trade=trade) for trade in (False, True))
    np.testing.assert_array_equal(np.unique(traded, axis=0), np.unique(moved, axis=0))
    assert (traded != moved).any(axis=1).mean() > 0.1


def test_above_the_limit_nobody_trades(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_clusters(300)
    monkeypatch.setattr(sliced, "MAX_TRADERS", 299)
    whole, without = (cloak(table, coordinates="columns", trade=trade) for trade in (True, False))
    np.testing.assert_array_equal(whole, without)


@pytest.mark.thorough
def test_coordinates_of_a_large_table_are_chosen_on_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_saturated(1000)
    monkeypatch.setattr(sliced, "MAX_USERS_TO_CHOOSE", 900)
    monkeypatch.setattr(sliced, "USERS_TO_CHOOSE", 600)
    out, fitted = Sliced(device="cpu").compute_release(*table, np.random.default_rng(0))
    assert fitted.coordinates.kind == "scores"
    assert attack(out, table[1], "trees")["trees"] < 0.56


@pytest.mark.parametrize(
    ("kind", "make_table"), [("columns", None), ("scores", make_saturated), ("polar", make_uneven)]
)
@pytest.mark.thorough
def test_auto_takes_the_first_coordinates_in_which_nothing_is_left(kind: str, make_table: Any) -> None:
    if make_table is None:
        x, secret = make_planted_leak(1000, 6, 2, 2.0, rng=np.random.default_rng(0))
        table = x, secret.codes
    else:
        table = make_table(1000)
    kinds = [Sliced(device="cpu").compute_release(*table, np.random.default_rng(s))[1].coordinates.kind for s in (0, 1)]
    assert kind in kinds


@pytest.mark.parametrize(
    ("statistics", "expected"),
    [
        ([9, 8, 7, 2, 5, 6], ("scores", "columns")),  # a second turn leaves less than half of the best
        ([9, 6, 7, 4, 5, 6], ("polar",)),  # it leaves more than half, so it is not worth its moves
        ([9, 0.5], ("polar",)),  # nothing is left: no second turn
        ([9, 6, 7, 8, 0.5], ("polar", "polar")),
    ],
)
def test_a_second_turn_is_kept_only_where_it_removes_most_of_what_is_left(
    statistics: list[float], expected: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = iter(statistics)
    monkeypatch.setattr(sliced, "weigh_evidence", lambda x, *_, enough: ClassEvidence(x, next(left), limit=1.0))
    x, codes = make_activations(60)
    defense = Sliced(device="cpu")
    start = torch.from_numpy(x).double()
    out, fitted, kinds, evidence = defense._choose_coordinates(start, codes, np.random.default_rng(0), keep_map=True)
    assert kinds == expected
    assert next(left, None) is None
    assert fitted.coordinates.kind == expected[0]  # later users are carried by the first turn alone
    assert evidence.statistic in statistics
    assert out.shape == x.shape


def test_without_classes_or_with_equal_rows_nothing_changes() -> None:
    x = np.random.default_rng(0).standard_normal((30, 3)).astype(np.float32)
    same = np.full((30, 3), 2.0, dtype=np.float32)
    for table in ((x, np.zeros(30, int)), (x, np.full(30, UNDISCLOSED)), (same, np.arange(30) % 2)):
        np.testing.assert_array_equal(cloak(table), table[0])


@pytest.mark.parametrize("few", [1, 2])
def test_one_or_two_users_against_all_others_are_no_error(few: int) -> None:
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    for seed in range(3):
        assert np.isfinite(cloak((x, (np.arange(40) < few).astype(int)), seed=seed)).all()


@pytest.mark.parametrize("given", ["ranks", "", "Auto"])
def test_unknown_coordinates_are_refused_with_those_that_exist(given: str) -> None:
    with pytest.raises(UsageError, match=f"one of auto, columns, polar, scores; got '{given}'"):
        cloak(make_clusters(30), coordinates=given)
