"""Attack accuracy by activity: groups cover all users, and score as all their predictions together."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.panels import make_attack
from recveil.audits.attribute.activity import audit_by_activity
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.testing.worlds import make_planted_leak

RULES = CrossValidation(folds=5, repeats=2)


def audited(x, secret):
    return audit_attribute(x, secret, {"logistic": make_attack("logistic", "cpu")}, rules=RULES)


@pytest.fixture(scope="module")
def world():
    """Only the more active half of the users reveals the class; a few users are unknown."""
    rng = np.random.default_rng(0)
    x, secret = make_planted_leak(1500, 4, 2, 2.5, rng=rng)
    activity = rng.integers(5, 500, size=1500)
    x[activity < 250] = rng.standard_normal((int((activity < 250).sum()), 4))
    codes = secret.codes.copy()
    codes[:7] = UNDISCLOSED
    return audited(x, Attribute("secret", codes, secret.labels)), activity


def groups(world):
    return audit_by_activity(world[0], world[1], test_share=RULES.test_share)


def test_deciles_hold_all_users_and_name_their_bounds(world):
    found = groups(world)
    assert len(found) == 10
    assert sum(part.n for part in found) == world[0].n == 1493
    assert (found[0].over, found[-1].up_to) == (None, None)
    assert [part.up_to for part in found[:-1]] == [part.over for part in found[1:]]
    assert max(part.n for part in found) < 1.2 * min(part.n for part in found)


def test_the_groups_that_leak_are_found_and_the_others_are_not(world):
    found = groups(world)
    assert all(part.balanced_accuracy.low > 0.6 for part in found[6:])
    assert all(part.balanced_accuracy.low < 0.5 < part.balanced_accuracy.high + 0.05 for part in found[:4])
    for part in found:
        accuracy, advantage = part.balanced_accuracy, part.advantage
        assert advantage.value == pytest.approx(max(0.0, 2 * accuracy.value - 1))
        assert advantage.low <= advantage.value <= advantage.high


def test_the_score_of_a_group_is_that_of_all_its_guesses_together(world):
    result, activity = world
    last = groups(world)[-1]
    right = {0: [], 1: []}
    for trial in result.trials[result.headline_attack]:
        inside = activity[result.users[trial.test.users]] > last.over
        guess = trial.test.score.argmax(1)
        for k in right:
            right[k] += list((guess == k)[inside & (trial.test.truth == k)])
    assert last.balanced_accuracy.value == pytest.approx((np.mean(right[0]) + np.mean(right[1])) / 2)


def test_small_classes_get_fewer_groups_and_tiny_ones_none():
    x, secret = make_planted_leak(400, 3, 2, 1.0, rng=np.random.default_rng(1))
    activity = np.random.default_rng(2).permutation(400)
    for rare, most in ((60, 5), (26, 2), (12, 0)):
        kept = np.concatenate([np.flatnonzero(secret.codes == 0), np.flatnonzero(secret.codes == 1)[:rare]])
        result = audited(x[kept], secret.take(kept))
        found = audit_by_activity(result, activity[kept], test_share=RULES.test_share)
        assert len(found) <= most
        assert not found or sum(part.n for part in found) == len(kept)


def test_equally_active_users_are_never_separated():
    x, secret = make_planted_leak(600, 3, 2, 1.0, rng=np.random.default_rng(3))
    result = audited(x, secret)
    assert audit_by_activity(result, np.full(600, 20), test_share=RULES.test_share) == []
    activity = np.where(np.arange(600) < 400, 5, np.arange(600))
    found = audit_by_activity(result, activity, test_share=RULES.test_share)
    assert (found[0].up_to, found[0].n) == (5, 400)
    assert sum(part.n for part in found) == 600
