"""Folds: every user is attacked once a repeat, by attackers that have not learned from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Task
from recveil.audits.attribute.folds import (
    AttackedUsers,
    CrossValidation,
    TrialMemory,
    draw_folds,
    run_attacks_on_folds,
    run_repeats,
)
from recveil.core.errors import UsageError
from recveil.testing.worlds import make_planted_leak


@dataclass
class Spy:
    """Guesses the row number of each test user, and remembers the tasks."""

    tasks: list[Task] = field(default_factory=list)
    draws: list[float] = field(default_factory=list)

    def guess(
        self, x: np.ndarray, y: np.ndarray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[np.ndarray]:
        self.tasks += tasks
        self.draws.append(rng.random())
        return [np.repeat(x[t.test, :1], n_classes, axis=1) for t in tasks]


def table(n: int = 103, K: int = 3) -> tuple[np.ndarray, np.ndarray]:
    codes = np.random.default_rng(0).permutation(np.arange(n) % K)
    return np.arange(n, dtype=np.float64)[:, None], codes


@pytest.mark.parametrize(
    "rules",
    [CrossValidation(), CrossValidation(folds=3, repeats=1, inner_folds=4), CrossValidation(folds=2, repeats=3)],
)
def test_every_user_is_attacked_once_a_repeat_by_attackers_that_do_not_know_them(rules: CrossValidation) -> None:
    x, codes = table()
    spy = Spy()
    trials = run_attacks_on_folds(x, codes, 3, {"spy": spy}, rules=rules, seed=0)["spy"]
    assert len(trials) == rules.folds * rules.repeats
    asked = np.concatenate([t.test.users for t in trials])
    np.testing.assert_array_equal(np.bincount(asked), rules.repeats)
    for task in spy.tasks:
        assert not set(task.train) & set(task.test)
    for number, trial in enumerate(trials):
        outer, *inners = spy.tasks[number * (rules.inner_folds + 1) : (number + 1) * (rules.inner_folds + 1)]
        np.testing.assert_array_equal(trial.test.users, outer.test)
        # The inner folds hold the training users, each of them once, and no others.
        np.testing.assert_array_equal(np.sort(trial.inner.users), np.sort(outer.train))
        for inner in inners:
            assert set(inner.train) | set(inner.test) == set(outer.train)


@pytest.mark.parametrize(("folds", "inner_folds"), [(3, 2), (5, 2), (7, 3)])
def test_inner_folds_are_made_of_whole_folds_that_are_not_attacked(folds: int, inner_folds: int) -> None:
    codes = np.random.default_rng(0).integers(0, 3, 211)
    rules = CrossValidation(folds, 1, inner_folds=inner_folds)
    splits = draw_folds(codes, rules, np.random.default_rng(1))
    tests = [set(outer.test) for outer, _ in splits]
    for k, (_, inners) in enumerate(splits):
        parts = [{j for j, users in enumerate(tests) if users & set(inner.test)} for inner in inners]
        assert [sum(len(tests[j]) for j in part) for part in parts] == [len(inner.test) for inner in inners]
        assert sorted(j for part in parts for j in part) == [j for j in range(folds) if j != k]


def test_one_fit_serves_the_inner_folds_of_two_folds() -> None:
    codes = np.random.default_rng(0).integers(0, 2, 100)

    def count_sets(rules: CrossValidation) -> int:
        splits = draw_folds(codes, rules, np.random.default_rng(1))
        return len({inner.train.tobytes() for _, inners in splits for inner in inners})

    assert count_sets(CrossValidation(5, 1)) == 5
    assert count_sets(CrossValidation(4, 1)) == 8  # three other folds make no two halves
    assert count_sets(CrossValidation(5, 1, leak_ratio=0.4)) == 10


def test_repeats_that_are_run_together_are_those_that_are_run_alone() -> None:
    x, secret = make_planted_leak(240, 4, 2, 2.0, rng=np.random.default_rng(0))
    attacks = {"kernel-ridge": make_attack("kernel-ridge", "cpu")}
    users, rules = AttackedUsers(x, secret.codes, 2), CrossValidation(3, 3)
    together = run_repeats(users, attacks, rules=rules, seed=0)["kernel-ridge"]
    alone = [
        trial
        for repeat in range(3)
        for trial in run_repeats(users, attacks, rules=replace(rules, repeats=repeat + 1), seed=0, first=repeat)[
            "kernel-ridge"
        ]
    ]
    for one, other in zip(together, alone, strict=True):
        np.testing.assert_array_equal(one.test.users, other.test.users)
        # Equal but for rounding, which may decide whether a solution takes one step more.
        np.testing.assert_allclose(one.test.score, other.test.score, atol=0.02)
        np.testing.assert_allclose(one.inner.score, other.inner.score, atol=0.02)


def test_scores_belong_to_their_users() -> None:
    x, codes = table()
    for trial in run_attacks_on_folds(x, codes, 3, {"spy": Spy()}, rules=CrossValidation(), seed=0)["spy"]:
        for scores in (trial.test, trial.inner):
            np.testing.assert_array_equal(scores.score[:, 0], scores.users)
            np.testing.assert_array_equal(scores.truth, codes[scores.users])


def test_folds_are_stratified() -> None:
    codes = np.repeat([0, 1], [90, 10])
    trials = run_attacks_on_folds(np.zeros((100, 1)), codes, 2, {"spy": Spy()}, rules=CrossValidation(), seed=0)["spy"]
    assert {int(t.test.truth.sum()) for t in trials} == {2}


def test_the_same_seed_gives_the_same_folds_and_another_does_not() -> None:
    x, codes = table()
    one, two, other = (
        run_attacks_on_folds(x, codes, 3, {"spy": Spy()}, rules=CrossValidation(), seed=seed)["spy"]
        for seed in (0, 0, 1)
    )
    first = [[t.test.users.tolist() for t in trials] for trials in (one, two, other)]
    assert first[0] == first[1] != first[2]
    # The repeats within one audit have folds of their own.
    assert first[0][:5] != first[0][5:]


def test_attackers_share_the_folds_and_not_their_random_draws() -> None:
    x, codes = table()
    a, b, alone = Spy(), Spy(), Spy()
    run_attacks_on_folds(x, codes, 3, {"a": a, "b": b}, rules=CrossValidation(), seed=0)
    run_attacks_on_folds(x, codes, 3, {"b": alone}, rules=CrossValidation(), seed=0)
    for one, two in zip(a.tasks, b.tasks, strict=True):
        np.testing.assert_array_equal(one.test, two.test)
    assert a.draws != b.draws == alone.draws  # what one attacker draws does not depend on the other attackers


def test_the_test_share_is_test_users_over_training_users() -> None:
    assert CrossValidation(folds=5).test_share == pytest.approx(20 / 80)
    assert CrossValidation(folds=2).test_share == pytest.approx(1)


def test_a_smaller_leak_ratio_trains_on_fewer_users_of_every_class() -> None:
    codes = np.repeat([0, 1], [150, 50])
    spy, rules = Spy(), CrossValidation(5, 1, leak_ratio=0.2)
    run_attacks_on_folds(np.zeros((200, 1)), codes, 2, {"spy": spy}, rules=rules, seed=0)
    outer = [t for t in spy.tasks if len(t.train) == 40]
    assert len(outer) == 5
    assert {tuple(np.bincount(codes[t.train])) for t in outer} == {(30, 10)}
    assert all(not set(t.train) & set(t.test) for t in spy.tasks)
    assert rules.test_share == 1.0
    with pytest.raises(UsageError, match="at or below 0.8"):
        CrossValidation(5, 1, leak_ratio=0.9)


def test_the_static_attacker_learns_from_one_table_and_meets_the_users_in_another() -> None:
    rng = np.random.default_rng(0)
    codes = rng.integers(2, size=300)
    before = rng.standard_normal((300, 2)) + 3 * codes[:, None]

    def right(attacked_in: np.ndarray) -> float:
        attacks = {"a": make_attack("logistic", "cpu")}
        played = run_attacks_on_folds(
            before, codes, 2, attacks, rules=CrossValidation(3, 1), seed=0, attacked_in=attacked_in
        )
        return float(np.mean([(t.test.score.argmax(1) == t.test.truth).mean() for t in played["a"]]))

    assert right(before) > 0.9
    assert right(3 - before) < 0.1  # turned round after it learned: it does not learn again
    assert right(rng.standard_normal((300, 2))) < 0.7


def test_what_is_in_the_memory_is_not_attacked_again_and_one_fit_serves_both_tables() -> None:
    x, secret = make_planted_leak(200, 4, 2, 2.0, rng=np.random.default_rng(0))
    released = x + np.random.default_rng(1).standard_normal(x.shape).astype(np.float32)
    attacks = {name: make_attack(name) for name in ("logistic", "mlp", "knn", "qda", "kernel-ridge")}
    memory: TrialMemory = {}
    users, rules = AttackedUsers(x, secret.codes, 2), CrossValidation(3, 1, memory=memory)
    alone = run_repeats(users, attacks, rules=CrossValidation(3, 1), seed=0)
    static = run_repeats(replace(users, attacked_in=released), attacks, rules=rules, seed=0)
    shared = run_repeats(users, attacks, rules=rules, seed=0)
    assert len(memory) == 2 * len(attacks)
    spy = Spy()
    memory |= {(*key[:2], repr(spy), key[3]): trials for key, trials in memory.items()}
    run_repeats(users, dict.fromkeys(attacks, spy), rules=rules, seed=0)
    assert not spy.tasks
    for name in attacks:
        for trial, other, met in zip(alone[name], shared[name], static[name], strict=True):
            np.testing.assert_allclose(trial.test.score, other.test.score, atol=1e-4)
            np.testing.assert_allclose(trial.inner.score, other.inner.score, atol=1e-4)
            assert np.abs(trial.test.score - met.test.score).max() > 0.01
