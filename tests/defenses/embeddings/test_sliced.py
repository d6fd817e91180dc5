"""Sampled sliced transport: hides what moments do not say, and leaves nothing upside down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import UsageError
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.embeddings import sliced
from recveil.defenses.embeddings.cells import plan_cells
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.testing.worlds import make_no_leak, make_planted_leak

ROUNDS_ONLY = {"coordinates": "columns", "trade": False}
"""Options for tests of the rounds by themselves: in the columns as they are, and nobody trades."""


def cloak(x: np.ndarray, codes: np.ndarray, seed: int = 0, **options: Any) -> np.ndarray:
    return Sliced(device="cpu", **options)(x, codes, rng=np.random.default_rng(seed))


def attacked(x: np.ndarray, secret: Attribute, *names: str, seed: int = 0) -> dict[str, float]:
    panel: dict[str, Attack] = {name: make_attack(name, "cpu") for name in names}
    found = audit_attribute(x, secret, panel, rules=CrossValidation(repeats=1), seed=seed)
    return {name: result.balanced_accuracy.value for name, result in found.attacks.items()}


@pytest.mark.thorough
def test_a_world_without_a_leak_is_not_turned_upside_down() -> None:
    """Gaussian transport pushes cross-validated attackers below chance here; sampling does not."""
    worlds, names = 8, ("logistic", "qda")
    reached = {"gaussian": [], "sliced": []}
    for seed in range(worlds):
        x, secret = make_no_leak(300, 8, 2, rng=np.random.default_rng(seed))
        for name, method in (("gaussian", Gaussian(device="cpu")), ("sliced", Sliced(device="cpu"))):
            out = method(x, secret.codes, rng=np.random.default_rng(seed))
            reached[name].append(list(attacked(out, secret, *names, seed=seed).values()))
    mean = {name: np.mean(values, axis=0) for name, values in reached.items()}
    error = 0.04 / worlds**0.5  # of one world about 0.04, measured without a defense
    assert (mean["gaussian"] < 0.5 - 6 * error).all(), mean
    assert (np.abs(mean["sliced"] - 0.5) < 4 * error).all(), mean


@pytest.mark.thorough
@pytest.mark.parametrize(("K", "names"), [(2, ("logistic", "qda", "knn", "trees")), (4, ("logistic", "qda", "knn"))])
def test_a_leak_in_means_shapes_and_tails_is_hidden_from_all_kinds_of_attackers(K: int, names: tuple[str, ...]) -> None:
    x, secret = make_planted_leak(1000, 6, K, 2.0, rng=np.random.default_rng(0))
    x[secret.codes == 0] = np.sign(x[secret.codes == 0]) * np.abs(x[secret.codes == 0]) ** 1.7
    before, after = (attacked(t, secret, *names) for t in (x, cloak(x, secret.codes)))
    for name in names:
        # Lines and quadrics see nothing; trees, who look along the original axes, a remnant.
        allowed = 0.07 if name in ("logistic", "qda") else (before[name] - 1 / K) / 3
        assert before[name] > 1 / K + 0.2, name
        assert abs(after[name] - 1 / K) < allowed, name


@pytest.mark.thorough
def test_it_hides_most_of_what_equal_moments_still_say() -> None:
    """Mean 0 and variance 1 in both classes, but one has two lumps: trees read that after Gaussian transport."""
    rng = np.random.default_rng(1)
    codes = np.arange(1000) % 2
    x = rng.standard_normal((1000, 3)).astype(np.float32)
    x[codes == 1, 0] = np.sign(x[codes == 1, 0]) + 0.1 * x[codes == 1, 0]
    secret = Attribute("lumps", codes, ("one", "two"))
    moments_only = attacked(Gaussian(device="cpu")(x, codes, rng=rng), secret, "trees")["trees"]
    assert moments_only > 0.75
    assert abs(attacked(cloak(x, codes), secret, "trees")["trees"] - 0.5) < (moments_only - 0.5) / 2.5


def test_another_seed_is_another_draw_and_about_as_far() -> None:
    x, secret = make_planted_leak(300, 5, 2, 2.0, rng=np.random.default_rng(0))
    one, two = (cloak(x, secret.codes, seed=s) for s in (0, 1))
    assert not np.array_equal(one, two)
    far = [np.linalg.norm(t - x) for t in (one, two)]
    assert 0.85 < far[0] / far[1] < 1 / 0.85
    assert max(far) < np.linalg.norm(x - x.mean(0))


def test_the_spread_of_the_users_is_kept() -> None:
    x, secret = make_no_leak(1000, 5, 2, rng=np.random.default_rng(2))
    np.testing.assert_allclose(cloak(x, secret.codes).std(0), x.std(0), rtol=0.08)


def test_strength_walks_straight() -> None:
    x, secret = make_planted_leak(200, 4, 2, 2.0, rng=np.random.default_rng(3))
    half = cloak(x, secret.codes, strength=0.5)
    np.testing.assert_allclose(half, (x + cloak(x, secret.codes)) / 2, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"norm": "one"}, "'keep' or 'unit'"), ({"rounds": -1}, "not be negative")],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    x, secret = make_planted_leak(20, 2, 2, 1.0, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match=message):
        cloak(x, secret.codes, **options)


def test_unit_norm_keeps_every_ranking_when_there_is_nothing_to_hide() -> None:
    x, secret = make_no_leak(300, 5, 2, rng=np.random.default_rng(8))
    np.testing.assert_allclose(cloak(x, np.zeros(300, dtype=np.int64), norm="unit"), x, atol=1e-5)
    bare = Sliced(rounds=0, norm="unit", device="cpu").compute_release(x, secret.codes, np.random.default_rng(0))[1]
    assert bare.norm == pytest.approx(np.linalg.norm(x, axis=1).mean(), rel=1e-5)


@pytest.mark.thorough
def test_a_class_too_large_to_sort_is_carried_by_what_some_of_it_taught(monkeypatch: pytest.MonkeyPatch) -> None:
    x, secret = make_planted_leak(4000, 4, 2, 2.0, rng=np.random.default_rng(9))
    x[secret.codes == 0] = np.sign(x[secret.codes == 0]) * np.abs(x[secret.codes == 0]) ** 1.7
    monkeypatch.setattr(sliced, "MAX_CLASS_USERS", 1000)
    out = cloak(x, secret.codes, **ROUNDS_ONLY)
    before, after = (attacked(t, secret, "logistic", "qda", "trees") for t in (x, out))
    for name, reached in after.items():  # half of each class taught, so that its noise is seen by all
        assert abs(reached - 0.5) < min(0.07, (before[name] - 0.5) / 3), name


def test_unknown_users_go_through_the_pooled_gaussian_map_only() -> None:
    x, secret = make_planted_leak(400, 4, 2, 3.0, rng=np.random.default_rng(4))
    codes = secret.codes.copy()
    codes[::4] = UNDISCLOSED
    unknown = codes == UNDISCLOSED
    bare, full = (cloak(x, codes, rounds=rounds, drawn=drawn) for rounds, drawn in ((0, False), (40, True)))
    np.testing.assert_allclose(full[unknown], bare[unknown], atol=1e-5)
    # One affine map for all of them, near that of all users: moments of the bulk are not quite those of everybody.
    wanted = Gaussian(device="cpu")(x, codes, rng=np.random.default_rng(0))
    np.testing.assert_allclose(full[unknown], wanted[unknown], atol=0.3 * x.std())


@pytest.mark.parametrize("few", [1, 2, 6])
def test_a_class_of_few_users_is_moved_among_the_others(few: int) -> None:
    x, secret = make_planted_leak(300, 6, 3, 6.0, rng=np.random.default_rng(5))
    keep = np.sort(np.concatenate([np.flatnonzero(secret.codes != 2), np.flatnonzero(secret.codes == 2)[:few]]))
    x, codes = x[keep], secret.codes[keep]
    out = cloak(x, codes)
    assert np.isfinite(out).all()

    def away(t: np.ndarray) -> float:
        """How far the few lie from the others, in standard deviations of these."""
        others = t[codes != 2]
        return float(np.abs((t[codes == 2].mean(0) - others.mean(0)) / others.std(0)).max())

    assert away(out) < max(3.0, away(x))
    assert np.linalg.norm(out - x) < 3 * np.linalg.norm(x - x.mean(0))


def test_odd_tables_stay_finite() -> None:
    rng = np.random.default_rng(6)
    x = rng.standard_normal((200, 5)).astype(np.float32)
    x[:, 1], x[:, 2] = 3.0, x[:, 0]
    codes = np.arange(200) % 2
    out = cloak(x, codes)
    np.testing.assert_allclose(out[:, 1], 3.0, atol=1e-4)
    np.testing.assert_allclose(out[:, 2], out[:, 0], atol=1e-4)
    flat = np.full((10, 3), 2.0, dtype=np.float32)
    np.testing.assert_allclose(cloak(flat, np.arange(10) % 2), flat)
    narrow = rng.standard_normal((30, 1)).astype(np.float32)
    assert np.isfinite(cloak(narrow, np.arange(30) % 3)).all()


@pytest.mark.thorough
def test_attributes_in_turn_are_both_hidden() -> None:
    rng = np.random.default_rng(7)
    codes = np.stack([rng.integers(2, size=800), rng.integers(5, size=800)], axis=1)
    x = rng.standard_normal((800, 45)).astype(np.float32)  # joint cells of 80 users are too small for 45 dimensions
    x[:, 0] += 2 * codes[:, 0]
    x[:, 1] += 2 * codes[:, 1]
    out = cloak(x, codes)
    for column, K in zip(codes.T, (2, 5), strict=True):
        secret = Attribute("one of two", column, tuple("abcde"[:K]))
        before, after = (attacked(t, secret, "logistic")["logistic"] for t in (x, out))
        assert before > 1 / K + 0.2
        assert abs(after - 1 / K) < 0.08


def test_after_joint_cells_each_attribute_has_rounds_of_its_own() -> None:
    both = np.stack([np.arange(600) % 2, np.arange(600) // 2 % 3], axis=1)
    one = both * [1, 0]  # the second does not vary
    for codes, minimum, expected in (
        (both, 0, [(6, 81), (2, 21), (3, 21)]),
        (both, 10**6, [(2, 14), (3, 14)] * 3),  # joint cells are too small: the attributes in turn, as before
        (both[:, 0], 0, [(2, 81)]),
        (one, 0, [(2, 81)]),
    ):
        turns = sliced._plan_turns(codes, plan_cells(codes, minimum), 81)
        assert [(cells.n_classes, rounds) for cells, rounds in turns] == expected


@pytest.mark.thorough
def test_what_small_cells_keep_does_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.random(6000) < 0.3, rng.integers(3, size=6000)], axis=1).astype(np.int64)
    x = rng.exponential(size=(6000, 4)) - 1
    x[codes[:, 0] == 1, :2] *= -1  # the same moments, another shape
    x = (x @ np.linalg.qr(rng.standard_normal((4, 4)))[0]).astype(np.float32)
    axes = rng.standard_normal((4, 200))

    def gap(table: np.ndarray) -> float:
        """How far apart the quantiles of the first attribute's classes are, in the mean over axes."""
        z, levels = (table - table.mean(0)) / table.std(0) @ axes, np.linspace(0.01, 0.99, 99)
        first, second = (np.quantile(z[codes[:, 0] == k], levels, axis=0) for k in (0, 1))
        return float(np.mean((first - second) ** 2))

    each = gap(cloak(x, codes, drawn=False, **ROUNDS_ONLY))
    monkeypatch.setattr(sliced, "split_attributes", lambda _: [])
    joint = gap(cloak(x, codes, drawn=False, **ROUNDS_ONLY))
    assert each < 0.75 * joint < 0.2 * gap(x)


@pytest.mark.parametrize(
    ("n", "d", "rounds"),
    [(6040, 32, 80), (6040, 128, 80), (15000, 32, 80), (943, 32, 12), (6040, 8, 40), (50, 50, 1), (10**6, 64, 60)],
)
def test_rounds_follow_the_users_whatever_the_dimensions(n: int, d: int, rounds: int) -> None:
    assert Sliced()._choose_rounds(n, d) == rounds
    assert Sliced(rounds=7)._choose_rounds(n, d) == 7


def test_the_table_is_the_same_whether_the_map_is_kept_or_not() -> None:
    x, secret = make_planted_leak(300, 5, 2, 2.0, rng=np.random.default_rng(0))
    called = Sliced(device="cpu")(x, secret.codes, rng=np.random.default_rng(1))
    released = Sliced(device="cpu").compute_release(x, secret.codes, np.random.default_rng(1))[0]
    assert np.array_equal(called, released)


def heavy_tails(n: int, d: int, *, rng: np.random.Generator) -> np.ndarray:
    """Users on rays, some far out: a t with five degrees of freedom."""
    return (rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(5, n) / 5)[:, None]).astype(np.float32)


@pytest.mark.thorough
def test_where_nothing_is_to_hide_nobody_sees_what_was_drawn() -> None:
    """Plain moments, drawn anew, stretch everybody by the chance of those far out, and QDA sees the stretch."""
    rng = np.random.default_rng(8)
    reached = []
    for seed in range(6):
        x, codes = heavy_tails(1500, 24, rng=rng), rng.integers(3, size=1500)
        out = cloak(x, codes, seed=seed, rounds=0)
        reached.append(attacked(out, Attribute("none", codes, ("a", "b", "c")), "qda", seed=seed)["qda"])
    assert abs(np.mean(reached) - 1 / 3) < 4 * 0.012 / 6**0.5  # the error of one world is about 0.012


@pytest.mark.thorough
def test_classes_of_few_users_for_each_dimension_are_not_marked_by_the_draw() -> None:
    """By moments of permuted labels the neighbors of a user are of the other class: 0.30 to 0.36 on these tables."""
    rng, names, reached = np.random.default_rng(9), ("logistic", "qda", "knn"), []
    for seed in range(6):
        x, codes = heavy_tails(400, 80, rng=rng), rng.permutation(np.arange(400) % 2)
        out = cloak(x, codes, seed=seed)
        reached.append(list(attacked(out, Attribute("none", codes, ("a", "b")), *names, seed=seed).values()))
    assert (np.abs(np.mean(reached, axis=0) - 0.5) < 0.05).all(), reached


@pytest.mark.thorough
def test_where_nothing_is_to_hide_rounds_move_little() -> None:
    x, secret = make_no_leak(2000, 16, 2, rng=np.random.default_rng(0))
    far = [np.linalg.norm(cloak(x, secret.codes, rounds=rounds) - x) / np.linalg.norm(x) for rounds in (0, 100)]
    assert far[1] < 2.5 * far[0] < 0.25


def test_tails_of_their_own_are_hidden(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    codes = (np.arange(1500) % 3 == 0).astype(np.int64)
    x = (rng.standard_normal((1500, 8)) * rng.lognormal(0.6 * codes, 0.9)[:, None]).astype(np.float32)
    lengths = [[np.median(np.linalg.norm(t[codes == k], axis=1)) for k in (0, 1)] for t in (x, cloak(x, codes))]
    was, gap = (abs(np.log(a / b)) for a, b in lengths)
    assert gap < 0.15 < 0.4 < was


@pytest.mark.thorough
def test_classes_with_fewer_users_than_dimensions_are_not_made_their_own_opposites() -> None:
    """By their own covariances all users would end far from the others of their class, and QDA would read 0.01."""
    names, reached = ("logistic", "knn"), []
    for seed in range(6):
        x, secret = make_planted_leak(100, 64, 2, 3.0, rng=np.random.default_rng(seed))
        reached.append(list(attacked(cloak(x, secret.codes, seed=seed), secret, *names, seed=seed).values()))
    assert (np.abs(np.mean(reached, axis=0) - 0.5) < 0.08).all(), reached
