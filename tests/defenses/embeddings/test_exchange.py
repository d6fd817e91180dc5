"""Exchange of places: chance for every attack, no new rows, in tables on which maps that move classes inject."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Task
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.embeddings.exchange import Exchange
from recveil.testing.worlds import make_no_leak, make_planted_leak

ATTACKS = ("logistic", "qda", "knn", "trees")


def measure_accuracies(x: FloatArray, y: IntArray) -> dict[str, float]:
    """Return each attack's balanced accuracy in three folds."""
    parts = np.array_split(np.random.default_rng(0).permutation(len(x)), 3)
    tasks = [Task(np.setdiff1d(np.arange(len(x)), part), part) for part in parts]
    truth, accuracies = y[np.concatenate(parts)], {}
    for name in ATTACKS:
        beliefs = make_attack(name, "cpu").guess(x, y, int(y.max()) + 1, tasks, rng=np.random.default_rng(0))
        guess = np.concatenate([belief.argmax(1) for belief in beliefs])
        accuracies[name] = float(np.mean([(guess[truth == k] == k).mean() for k in np.unique(y)]))
    return accuracies


def cloak_rows(x: FloatArray, y: IntArray, seed: int = 0) -> FloatArray:
    return Exchange()(x, y, rng=np.random.default_rng(seed))


def make_uneven(rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Log-normal activity: most users lie near the origin, and all directions lean by class."""
    y = (np.arange(1600) % 5 < 2).astype(np.int64)
    x = rng.standard_normal((1600, 8))
    x[:, 0] += 1.2 * y
    return x * np.exp(1.2 * rng.standard_normal((1600, 1))), y


def make_atoms(rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """One-hot rows: users of twelve equal vectors, whose shares differ by class."""
    y = (np.arange(1500) % 2).astype(np.int64)
    atoms = np.where(y, rng.integers(0, 12, 1500), (12 * rng.random(1500) ** 1.8).astype(int))
    return np.eye(12)[atoms], y


def make_discrete(rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Counts of a few values, not negative, with a constant and a repeated column."""
    y = (np.arange(1500) % 3 == 0).astype(np.int64)
    x = rng.poisson(1.0 + 0.7 * y[:, None], (1500, 6)).astype(float)
    return np.hstack([x, x[:, :1], np.full((1500, 1), 3.0)]), y


def make_clusters(rng: np.random.Generator) -> tuple[FloatArray, IntArray]:
    """Tight clusters with heavy tails whose mixture differs by class, at a tiny scale."""
    y = (np.arange(1500) % 2).astype(np.int64)
    cluster = np.where(y, rng.integers(0, 6, 1500), (6 * rng.random(1500) ** 1.7).astype(int))
    centers = 4 * rng.standard_normal((6, 5))
    return 1e-9 * (centers[cluster] + 0.3 * rng.standard_t(3, (1500, 5))), y


@pytest.mark.thorough
@pytest.mark.parametrize("make_table", [make_uneven, make_atoms, make_discrete, make_clusters])
def test_every_attack_is_at_chance_and_no_row_is_new(
    make_table: Callable[[np.random.Generator], tuple[FloatArray, IntArray]],
) -> None:
    x, y = make_table(np.random.default_rng(1))
    x = x.astype(np.float32)
    out = cloak_rows(x, y)
    assert sorted(map(tuple, out.tolist())) == sorted(map(tuple, x.tolist()))
    before, after = measure_accuracies(x, y), measure_accuracies(out, y)
    deviation = 4 * 0.5 / np.sqrt(len(x) * 0.8)
    assert max(before.values()) > 0.5 + deviation
    assert all(abs(value - 0.5) < deviation for value in after.values()), (before, after)


def test_where_there_is_nothing_to_hide_almost_nothing_moves() -> None:
    moved = []
    for seed in range(3):
        x, attribute = make_no_leak(300, 6, 2, rng=np.random.default_rng(seed))
        moved.append(float((cloak_rows(x, attribute.codes, seed) != x).any(1).mean()))
    assert np.median(moved) == 0


def test_the_order_of_the_rows_decides_nothing() -> None:
    x, attribute = make_planted_leak(200, 4, 2, 1.5, rng=np.random.default_rng(0))
    order = np.random.default_rng(1).permutation(200)
    np.testing.assert_array_equal(cloak_rows(x, attribute.codes)[order], cloak_rows(x[order], attribute.codes[order]))


def see_parity(x: FloatArray) -> FloatArray:
    """Show beside the vectors the sign of a product of many columns, which learners of the vectors cannot find."""
    return np.column_stack([x, np.sign(x[:, :8].prod(1))]).astype(np.float32)


def test_trades_hide_what_attackers_see_beside_the_vectors() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1200, 10)).astype(np.float32)
    parity = see_parity(x)[:, -1] > 0
    y = np.where(rng.random(1200) < 0.2, ~parity, parity).astype(np.int64)
    np.testing.assert_array_equal(cloak_rows(x, y), x)  # the vectors alone tell nothing
    out = Exchange().defend_view(x, y, see_parity, rng=np.random.default_rng(0))
    assert sorted(map(tuple, out.tolist())) == sorted(map(tuple, x.tolist()))
    before, after = (measure_accuracies(see_parity(table), y)["logistic"] for table in (x, out))
    assert before > 0.7
    assert abs(after - 0.5) < 4 * 0.5 / np.sqrt(len(x) * 0.8)


def test_a_view_that_tells_nothing_moves_almost_nobody() -> None:
    moved = []
    for seed in range(3):
        x, attribute = make_no_leak(300, 10, 2, rng=np.random.default_rng(seed))
        out = Exchange().defend_view(x, attribute.codes, see_parity, rng=np.random.default_rng(seed))
        moved.append(float((out != x).any(1).mean()))
    assert np.median(moved) == 0


@pytest.mark.thorough
def test_classes_of_ten_users_and_joint_cells_are_hidden() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((900, 6)).astype(np.float32)
    codes = np.stack([np.arange(900) % 2, np.where(np.arange(900) < 20, 2, np.arange(900) // 2 % 2)], axis=1)
    x[:, 0] += 1.5 * codes[:, 0]
    x[:, 1] += 1.5 * codes[:, 1]
    codes[::9] = -1
    out = cloak_rows(x, codes)
    np.testing.assert_array_equal(out[::9], x[::9])  # undisclosed users keep their rows
    known = codes[:, 0] >= 0
    for target in codes[known].T:
        assert abs(measure_accuracies(out[known], target)["logistic"] - 1 / len(np.unique(target))) < 0.1


@pytest.mark.thorough
def test_strength_is_the_share_of_the_trades() -> None:
    x, attribute = make_planted_leak(800, 4, 2, 2.0, rng=np.random.default_rng(0))
    moved = [
        (Exchange(strength=strength)(x, attribute.codes, rng=np.random.default_rng(0)) != x).any(1).mean()
        for strength in (0.0, 0.5, 1.0)
    ]
    assert moved[0] == 0 < moved[1] < moved[2]
