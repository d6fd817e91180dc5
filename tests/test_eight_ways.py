"""The eight ways in which published numbers of this field went wrong, each with the guard that stops it.

Each test fails if its guard is removed; the last test shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Attack
from recveil.attacks.membership.biased import Biased
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.audits.membership.audit import MembershipAudit, run_membership_attacks
from recveil.audits.membership.game import build_game
from recveil.audits.membership.platforms import ServingPolicy, factor_items, train_and_serve
from recveil.audits.membership.verdict import decide_verdict
from recveil.audits.verdicts import METRICS, judge_advantage
from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import Attribute, Estimate, Split
from recveil.data.member_split import split_three_ways
from recveil.data.synthetic import make_world
from recveil.metrics import leakage, ranking
from recveil.models.als import ALS
from recveil.models.lightgcn import LightGCN
from recveil.models.ncf import NCF
from recveil.testing.worlds import make_checkerboard, make_injected_label, make_inverted_leak, make_planted_leak

ONE_REPEAT = CrossValidation(5, 1)


def attackers(*names: str) -> dict[str, Attack]:
    return {name: make_attack(name, "cpu") for name in names}


@pytest.mark.thorough
def test_1_attackers_that_collapsed_are_named_and_never_count_as_privacy() -> None:
    """RAID's MLP on vectors of size 0.01: one guess for everybody. Ours standardizes, and finds what is there."""
    x, secret = make_planted_leak(800, 6, 2, 2.5, rng=np.random.default_rng(0))
    kept = np.flatnonzero((secret.codes == 0) | (np.arange(800) % 18 < 7))  # as unequal as the genders of MovieLens
    small, secret = (0.01 * x[kept]).astype(np.float32), secret.take(kept)
    # A margin wide enough for so few users: no leak would be said of them, had these attackers looked.
    theirs = audit_attribute(small, secret, attackers("raid-mlp"), rules=ONE_REPEAT, margin=0.3)
    assert theirs.headline.degenerate
    assert theirs.verdict == "inconclusive"
    assert audit_attribute(small, secret, attackers("mlp"), rules=ONE_REPEAT).verdict == "leak"
    assert "micro_f1" not in METRICS  # it is the accuracy, and is called so


def test_2_a_score_below_chance_is_a_leak() -> None:
    x, secret = make_inverted_leak(400, 16, 2, rng=np.random.default_rng(1))
    found = audit_attribute(x, secret, attackers("logistic", "qda"), rules=ONE_REPEAT)
    assert found.attacks["qda"].balanced_accuracy.high < 0.5
    assert found.attacks["qda"].inverted
    assert found.attacks["qda"].advantage.low > 0
    assert found.verdict == "leak"


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["scale"])  # for the other kinds see audits/attribute/test_audit.py
def test_3_a_label_put_into_the_vectors_is_found_although_linear_attacks_miss_it(kind: str) -> None:
    x, secret = make_injected_label(kind, n=1000, d=8, rng=np.random.default_rng(2))
    found = audit_attribute(x, secret, rules=ONE_REPEAT)
    assert found.attacks["logistic"].advantage.low == 0
    assert found.verdict == "leak"


@pytest.mark.thorough
def test_4_auc_is_that_of_the_scores_and_labels_under_attack_are_only_for_scoring() -> None:
    """Balanced accuracy of hard guesses is not an AUC, and is not called one."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=500)
    score = np.clip(0.3 * truth + rng.random(500), 0, 1.3) / 1.3
    beliefs = np.stack([1 - score, score], axis=1)
    assert leakage.compute_class_aucs(truth, beliefs)[1] == pytest.approx(roc_auc_score(truth, score))
    assert (
        abs(
            leakage.compute_class_aucs(truth, beliefs)[1]
            - leakage.balanced_accuracy(leakage.compute_confusion(truth, beliefs.argmax(1), 2))
        )
        > 0.02
    )
    # That no attacker learns from the users it attacks is a promise of the contract (testing.contracts.check_attack).
    x, secret = make_planted_leak(200, 4, 2, 3.0, rng=rng)
    shuffled = Attribute(secret.name, rng.permutation(secret.codes), secret.labels)
    assert audit_attribute(x, shuffled, rules=ONE_REPEAT).headline.auc.value < 0.65


def test_5_a_membership_benchmark_that_one_rule_separates_is_called_that() -> None:
    """In DL-MIA's files only non-members' lists omit seen items, so one overlap tells. Rules run beside attacks."""
    rng = np.random.default_rng(0)
    world = make_world(n_users=900, n_items=200, n_interactions=27_000, leaks={}, rng=rng)
    parts = split_three_ways(world.dataset, user_minimum=10, rng=rng)
    vectors = factor_items(parts.item_part, ALS(embedding_size=16, device="cpu"), rng=rng)

    def attack(seen: str) -> MembershipAudit:
        policy, platform = ServingPolicy("popular", seen=seen, k=20), ALS(embedding_size=16, epochs=4, device="cpu")
        sides = [train_and_serve(side, platform, policy, vectors, rng=rng) for side in (parts.shadow, parts.target)]
        return run_membership_attacks(build_game(*sides), {"biased": Biased(epochs=15, device="cpu")}, seed=0)

    flawed, fair = attack("paper"), attack("excluded")
    assert flawed.attacks["any-overlap"].auc.value > 0.95
    assert flawed.attacks["biased"].explained_by_rule
    assert decide_verdict(flawed.attacks.values()) == "explained"
    assert fair.attacks["any-overlap"].auc.value == 0.5


def test_6_hit_rate_rises_with_k_and_precision_has_its_own_name() -> None:
    rng = np.random.default_rng(4)
    split = make_checkerboard()
    table = rng.random((split.train.n_users, split.train.n_items))
    ranks = ranking.rank(lambda users: table[users], split.test, ranking.collect_seen_items(split.train, split.valid))
    hits = [ranking.hit_rate(ranks, k).mean() for k in (1, 2, 5, 10, 20)]
    assert hits == sorted(hits)
    assert hits[-1] > hits[0]
    falling = [ranking.precision(ranks, k).mean() for k in (10, 20, 40)]
    assert falling == sorted(falling, reverse=True)
    assert ranking.hit_rate(ranks, 10).mean() == pytest.approx(
        10 * ranking.precision(ranks, 10).mean()
    )  # one held-out item each


@pytest.mark.parametrize("make", [lambda: NCF(epochs=2, device="cpu"), lambda: LightGCN(epochs=2, device="cpu")])
def test_7_what_is_attacked_and_protected_is_all_that_serving_needs(make: object) -> None:
    """Both tables of NCF, the propagated vectors of LightGCN: with another user's vectors a user gets their scores."""
    split = make_checkerboard()
    model = make().fit(split, rng=make_generator(0, "ways"))  # type: ignore[operator]
    users = np.arange(split.train.n_users)
    swapped = model.score(users, model.user_vectors_[::-1])
    assert np.allclose(swapped, model.score(users)[::-1], rtol=1e-4, atol=1e-5)
    blank = model.score(users, np.zeros_like(model.user_vectors_))
    assert np.allclose(blank, blank[0], atol=1e-6)  # nothing of a user is left


def test_8_training_never_sees_the_test_item_and_no_number_comes_without_an_interval() -> None:
    """For every model the first half is a promise of the contract (testing.contracts_models.check_recommender)."""
    split = make_checkerboard()
    without = replace(split, test=None)  # type: ignore[arg-type]
    one, two = (NCF(epochs=3, device="cpu").fit(s, rng=make_generator(0, "ways")) for s in (split, without))
    assert np.array_equal(one.user_vectors_, two.user_vectors_)
    x, secret = make_planted_leak(60, 3, 2, 1.0, rng=np.random.default_rng(5))
    with pytest.raises(UsageError, match="folds.*equal to 2"):
        audit_attribute(x, secret, rules=CrossValidation(1, 1))
    found = audit_attribute(x, secret, attackers("logistic"), rules=ONE_REPEAT).headline
    numbers = [value for _, value in found if isinstance(value, Estimate)]
    assert len(numbers) == len(METRICS)
    assert all(e.low < e.high and e.n == 60 for e in numbers)


def judge_without_degeneracy(advantage: Estimate, degenerate: bool, **rules: float) -> str:
    return judge_advantage(advantage, False, **rules)


def keep_labels(counts: np.ndarray) -> np.ndarray:
    return np.arange(len(counts))


def compute_hard_aucs(truth: np.ndarray, beliefs: np.ndarray) -> np.ndarray:
    return COMPUTE_CLASS_AUCS(truth, np.eye(beliefs.shape[1])[beliefs.argmax(1)])


def score_with_own_half(model: NCF, users: np.ndarray, user_vectors: np.ndarray | None = None) -> np.ndarray:
    own, d = model.user_vectors_[users], model.embedding_size
    return NCF_SCORE(model, users, own if user_vectors is None else np.hstack([user_vectors[:, :d], own[:, d:]]))


def fit_on_test_items(model: NCF, split: Split, **options: Any) -> NCF:
    return NCF_FIT(model, split if split.test is None else replace(split, valid=split.test), **options)


COMPUTE_CLASS_AUCS, NCF_SCORE, NCF_FIT = leakage.compute_class_aucs, NCF.score, NCF.fit
WITHOUT: dict[str, tuple[str, object, Callable[[], None]]] = {
    "1, collapsed attackers are not named": (
        "recveil.audits.attribute.audit._is_constant",
        lambda counts: False,
        test_1_attackers_that_collapsed_are_named_and_never_count_as_privacy,
    ),
    "1, collapsed attackers count as privacy": (
        "recveil.audits.verdicts.judge_advantage",
        judge_without_degeneracy,
        test_1_attackers_that_collapsed_are_named_and_never_count_as_privacy,
    ),
    "2, predictions are never relabelled": (
        "recveil.metrics.leakage.learn_relabeling",
        keep_labels,
        test_2_a_score_below_chance_is_a_leak,
    ),
    "3, all attackers are linear": (
        "recveil.audits.attribute.audit.make_panel",
        lambda name: attackers("logistic"),
        lambda: test_3_a_label_put_into_the_vectors_is_found_although_linear_attacks_miss_it("scale"),
    ),
    "4, the AUC is that of hard predictions": (
        "recveil.metrics.leakage.compute_class_aucs",
        compute_hard_aucs,
        test_4_auc_is_that_of_the_scores_and_labels_under_attack_are_only_for_scoring,
    ),
    "5, attacks need not be ahead of the rules": (
        "recveil.audits.membership.verdict._is_ahead",
        lambda result: True,
        test_5_a_membership_benchmark_that_one_rule_separates_is_called_that,
    ),
    "6, precision is called hit rate": (
        "recveil.metrics.ranking.hit_rate",
        ranking.precision,
        test_6_hit_rate_rises_with_k_and_precision_has_its_own_name,
    ),
    "7, one of two tables serves behind the release": (
        "recveil.models.ncf.NCF.score",
        score_with_own_half,
        lambda: test_7_what_is_attacked_and_protected_is_all_that_serving_needs(lambda: NCF(epochs=2, device="cpu")),
    ),
    "8, the epoch is chosen by the test item": (
        "recveil.models.ncf.NCF.fit",
        fit_on_test_items,
        test_8_training_never_sees_the_test_item_and_no_number_comes_without_an_interval,
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("guard", WITHOUT)
def test_without_its_guard_a_way_of_going_wrong_is_open(guard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, replacement, way = WITHOUT[guard]
    monkeypatch.setattr(name, replacement)
    with pytest.raises(AssertionError):
        way()
