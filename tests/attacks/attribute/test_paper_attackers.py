"""The papers' attackers as they were run, and what went wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Task
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.testing.worlds import make_planted_leak


def reached(name: str, x: np.ndarray, y: np.ndarray) -> tuple[float, int]:
    """Balanced accuracy, and how many classes are guessed at all."""
    task = Task(np.arange(len(x) // 2), np.arange(len(x) // 2, len(x)))
    guess = make_attack(name, "cpu").guess(x, y, 2, [task], rng=np.random.default_rng(0))[0].argmax(1)
    return balanced_accuracy(compute_confusion(y[task.test], guess, 2)), len(np.unique(guess))


def small_vectors(size: float) -> tuple[np.ndarray, np.ndarray]:
    """A plain leak in vectors of this size, 28 % of one class as in MovieLens."""
    x, secret = make_planted_leak(2000, 8, 2, 2.5, rng=np.random.default_rng(0))
    keep = (secret.codes == 0) | (np.arange(2000) % 18 < 7)
    return (size * x[keep]).astype(np.float32), secret.codes[keep]


def test_the_first_way_of_going_wrong_raid_s_mlp_collapses_on_small_vectors() -> None:
    """And with it the proof that this is an artifact: ours read the same table without trouble."""
    x, y = small_vectors(0.01)
    assert reached("raid-mlp", x, y) == (0.5, 1)
    for name in ("mlp", "mlp-1", "mlp-2", "mlp-3", "mlp-4", "logistic", "svm-rbf"):
        assert reached(name, x, y)[0] > 0.85, name


def test_on_vectors_of_size_one_raid_s_mlp_works() -> None:
    assert reached("raid-mlp", *small_vectors(1.0))[0] > 0.8


@pytest.mark.parametrize("pair", [("attrcloak-naive-bayes", "naive-bayes"), ("attrcloak-svm", "svm-rbf")])
def test_unweighted_attackers_neglect_the_small_class(pair: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    y = (rng.random(1600) < 0.1).astype(np.int64)
    x = (rng.standard_normal((1600, 3)) + y[:, None]).astype(np.float32)
    theirs, ours = (reached(name, x, y)[0] for name in pair)
    assert ours > theirs + 0.08


def test_raw_attackers_see_only_the_widest_column() -> None:
    x, secret = make_planted_leak(800, 1, 2, 3.0, rng=np.random.default_rng(0))
    wide = np.hstack([x, 1000 * np.random.default_rng(1).standard_normal((800, 1))]).astype(np.float32)
    assert reached("attrcloak-knn", wide, secret.codes)[0] < 0.6
    assert reached("knn", wide, secret.codes)[0] > 0.85


def built(name: str) -> Any:
    attack = make_attack(name)
    return attack.builder(seed=1, **attack.options)


def test_settings_are_those_that_the_paper_states() -> None:
    forest, gbdt, ada = built("raid-forest"), built("raid-gbdt"), built("raid-adaboost")
    assert (forest.n_estimators, forest.max_depth, forest.class_weight) == (100, 20, None)
    assert (gbdt.n_estimators, ada.n_estimators) == (100, 50)
    mlp = built("raid-mlp")
    assert (mlp.hidden_layer_sizes, mlp.alpha, mlp.learning_rate_init, mlp.max_iter) == ((100,), 1.0, 1e-3, 500)
    layers = [built(f"attrcloak-mlp-{n}").hidden_layer_sizes for n in (1, 2, 3, 4)]
    assert layers == [(), (100,), (100, 64), (100, 64, 32)]
    assert not built("raid-xgboost").balanced
