"""The eight ways in which published numbers of this field went wrong, each with the guard that stops it.

Each test would fail if its guard were taken out.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.attribute.panels import ATTACKS
from recveil.attacks.attribute.tasks import Attack
from recveil.attacks.membership.biased import Biased
from recveil.audits.attribute.audit import audit
from recveil.audits.attribute.folds import Folds
from recveil.audits.membership.audit import MembershipAudit, attack, game_of
from recveil.audits.membership.platforms import Policy, factor_items, serve
from recveil.audits.verdicts import METRICS, AttackResult
from recveil.core.errors import UsageError
from recveil.core.random import generator
from recveil.core.types import Attribute, Estimate
from recveil.data.member_split import three_way
from recveil.data.synthetic import make_world
from recveil.metrics.leakage import auc, balanced_accuracy, confusion
from recveil.metrics.ranking import hit_rate, precision, rank, seen_items
from recveil.models.als import ALS
from recveil.models.lightgcn import LightGCN
from recveil.models.ncf import NCF
from recveil.testing.worlds import checkerboard, injected_label, inverted_leak, planted_leak

ONE_DEAL = Folds(5, 1)


def attackers(*names: str) -> dict[str, Attack]:
    return {name: ATTACKS[name]("cpu") for name in names}


def test_1_attackers_that_collapsed_are_named_and_never_count_as_privacy() -> None:
    """RAID's MLP on vectors of size 0.01: one guess for everybody. Ours standardizes, and finds what is there."""
    x, secret = planted_leak(800, 6, 2, 2.5, rng=np.random.default_rng(0))
    kept = np.flatnonzero((secret.codes == 0) | (np.arange(800) % 18 < 7))  # as unequal as the genders of MovieLens
    small, secret = (0.01 * x[kept]).astype(np.float32), secret.take(kept)
    # A margin wide enough for so few users: no leak would be said of them, had these attackers looked.
    theirs = audit(small, secret, attackers("raid-mlp"), rules=ONE_DEAL, margin=0.3)
    assert theirs.headline.degenerate
    assert theirs.verdict == "inconclusive"
    assert audit(small, secret, attackers("mlp"), rules=ONE_DEAL).verdict == "leak"
    assert "micro_f1" not in METRICS  # it is the accuracy, and is called so


def test_2_a_score_below_chance_is_a_leak() -> None:
    x, secret = inverted_leak(400, 16, 2, rng=np.random.default_rng(1))
    found = audit(x, secret, attackers("logistic", "qda"), rules=ONE_DEAL)
    assert found.attacks["qda"].balanced_accuracy.high < 0.5
    assert found.attacks["qda"].inverted
    assert found.attacks["qda"].advantage.low > 0
    assert found.verdict == "leak"


@pytest.mark.parametrize("kind", ["scale", "parity", "low-bits"])
def test_3_a_label_put_into_the_vectors_is_found_though_a_line_sees_nothing(kind: str) -> None:
    x, secret = injected_label(kind, n=1000, d=8, rng=np.random.default_rng(2))
    found = audit(x, secret, rules=ONE_DEAL)
    assert found.attacks["logistic"].advantage.low == 0
    assert found.verdict == "leak"


def test_4_auc_is_that_of_the_scores_and_labels_under_attack_are_only_for_scoring() -> None:
    """Balanced accuracy of hard guesses is not an AUC, and is not called one."""
    rng = np.random.default_rng(3)
    truth = rng.integers(2, size=500)
    score = np.clip(0.3 * truth + rng.random(500), 0, 1.3) / 1.3
    beliefs = np.stack([1 - score, score], axis=1)
    assert auc(truth, beliefs)[1] == pytest.approx(roc_auc_score(truth, score))
    assert abs(auc(truth, beliefs)[1] - balanced_accuracy(confusion(truth, beliefs.argmax(1), 2))) > 0.02
    # That no attacker learns from the users it attacks is a promise of the contract (testing.contracts.check_attack).
    x, secret = planted_leak(200, 4, 2, 3.0, rng=rng)
    shuffled = Attribute(secret.name, rng.permutation(secret.codes), secret.labels)
    assert audit(x, shuffled, rules=ONE_DEAL).headline.auc.value < 0.65


def test_5_a_membership_benchmark_that_one_rule_separates_is_called_that() -> None:
    """In DL-MIA's files only non-members' lists leave out seen items: one overlap tells. Rules stand beside attacks."""
    rng = np.random.default_rng(0)
    world = make_world(n_users=900, n_items=200, n_interactions=27_000, leaks={}, rng=rng)
    parts = three_way(world.dataset, user_minimum=10, rng=rng)
    vectors = factor_items(parts.item_part, ALS(embedding_size=16, device="cpu"), rng=rng)

    def played(seen: str) -> MembershipAudit:
        policy, platform = Policy("popular", seen=seen, k=20), ALS(embedding_size=16, epochs=4, device="cpu")
        sides = [serve(side, platform, policy, vectors, rng=rng) for side in (parts.shadow, parts.target)]
        return attack(game_of(*sides), {"biased": Biased(epochs=15, device="cpu")}, seed=0)

    flawed, fair = played("paper"), played("excluded")
    assert flawed.attacks["any-overlap"].auc.value > 0.95
    assert flawed.attacks["biased"].explained
    assert flawed.explained
    assert fair.attacks["any-overlap"].auc.value == 0.5


def test_6_hit_rate_rises_with_k_and_precision_has_its_own_name() -> None:
    rng = np.random.default_rng(4)
    split = checkerboard()
    table = rng.random((split.train.n_users, split.train.n_items))
    ranks = rank(lambda users: table[users], split.test, seen_items(split.train, split.valid))
    hits = [hit_rate(ranks, k).mean() for k in (1, 2, 5, 10, 20)]
    assert hits == sorted(hits)
    assert hits[-1] > hits[0]
    falling = [precision(ranks, k).mean() for k in (10, 20, 40)]
    assert falling == sorted(falling, reverse=True)
    assert hit_rate(ranks, 10).mean() == pytest.approx(10 * precision(ranks, 10).mean())  # one held-out item each


@pytest.mark.parametrize("make", [lambda: NCF(epochs=2, device="cpu"), lambda: LightGCN(epochs=2, device="cpu")])
def test_7_what_is_attacked_and_protected_is_all_that_serving_needs(make: object) -> None:
    """Both tables of NCF, the propagated vectors of LightGCN: with another user's vectors a user gets their scores."""
    split = checkerboard()
    model = make().fit(split, rng=generator(0, "ways"))  # type: ignore[operator]
    users = np.arange(split.train.n_users)
    swapped = model.score(users, model.user_vectors_[::-1])
    assert np.allclose(swapped, model.score(users)[::-1], rtol=1e-4, atol=1e-5)
    blank = model.score(users, np.zeros_like(model.user_vectors_))
    assert np.allclose(blank, blank[0], atol=1e-6)  # nothing of a user is left


def test_8_training_never_sees_the_test_item_and_no_number_comes_without_an_interval() -> None:
    """For every model the first half is a promise of the contract (testing.contracts_models.check_recommender)."""
    split = checkerboard()
    without = replace(split, test=None)  # type: ignore[arg-type]
    one, two = (NCF(epochs=3, device="cpu").fit(s, rng=generator(0, "ways")) for s in (split, without))
    assert np.array_equal(one.user_vectors_, two.user_vectors_)
    x, secret = planted_leak(60, 3, 2, 1.0, rng=np.random.default_rng(5))
    with pytest.raises(UsageError, match="at least 2 folds"):
        audit(x, secret, rules=Folds(1, 1))
    found = audit(x, secret, attackers("logistic"), rules=ONE_DEAL).headline
    numbers = [getattr(found, f.name) for f in fields(AttackResult) if f.type == "Estimate"]
    assert len(numbers) == len(METRICS)
    assert all(isinstance(e, Estimate) and e.low < e.high and e.n == 60 for e in numbers)
