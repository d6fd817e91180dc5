"""Attackers of a number find a line or a curve that is there, and do not look at the users under attack."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.regressors import REGRESSIONS, guess_numbers
from recveil.attacks.attribute.tasks import Task

LOOKING = [name for name in REGRESSIONS if name != "mean"]


def world(kind: str, n: int = 600) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 4))
    shape = {"line": x[:, 0], "bend": np.abs(x[:, 0])}[kind]
    return x, 40 + 10 * (shape + 0.2 * rng.normal(size=n))


def reached(name: str, x: np.ndarray, values: np.ndarray) -> float:
    task = Task(np.arange(400), np.arange(400, 600))
    (guess,) = guess_numbers(name, x, values, [task], rng=np.random.default_rng(0))
    return float(np.corrcoef(guess, values[400:])[0, 1])


@pytest.mark.parametrize("name", LOOKING)
def test_a_line_is_found_and_nothing_where_nothing_is(name: str) -> None:
    x, values = world("line")
    assert reached(name, x, values) > 0.7
    assert abs(reached(name, x, np.random.default_rng(1).permutation(values))) < 0.28  # four standard errors


@pytest.mark.parametrize("name", ["knn", "trees", "mlp"])
def test_a_bend_is_found_by_those_who_can_bend(name: str) -> None:
    assert reached(name, *world("bend")) > 0.5
    assert abs(reached("ridge", *world("bend"))) < 0.28


@pytest.mark.parametrize("name", list(REGRESSIONS))
def test_the_numbers_of_the_users_under_attack_are_not_looked_at(name: str) -> None:
    x, values = world("line", 120)
    task = Task(np.arange(80), np.arange(80, 120))
    lied = values.copy()
    lied[80:] = -1
    one, two = (guess_numbers(name, x, v, [task], rng=np.random.default_rng(0))[0] for v in (values, lied))
    assert np.array_equal(one, two)
    assert one.shape == (40,)


def test_the_mean_looks_at_nothing() -> None:
    x, values = world("line", 120)
    (guess,) = guess_numbers("mean", x, values, [Task(np.arange(80), np.arange(80, 120))], rng=np.random.default_rng(0))
    assert guess == pytest.approx(np.full(40, values[:80].mean()))
