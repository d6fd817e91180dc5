"""The rehearsal: hidden users are attacked, disclosure is told where it shows, and a clean table is clean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.attacks.attribute.panels import parse_attackers
from recveil.audits.attribute.rehearsal import attack_hidden_users, hide_classes
from recveil.core.errors import DataError
from recveil.testing.worlds import make_no_leak, make_planted_leak


def test_the_same_share_of_every_class_is_hidden() -> None:
    secret = make_planted_leak(500, 2, 3, 2.0, rng=np.random.default_rng(0))[1]
    shown = hide_classes(secret, 0.3, seed=0)
    np.testing.assert_allclose(shown.counts / secret.counts, 0.7, atol=0.01)
    assert (shown.codes[shown.known] == secret.codes[shown.known]).all()


def test_a_leak_of_hidden_users_is_found_by_both_attackers_and_disclosure_is_not_told() -> None:
    x, secret = make_planted_leak(600, 4, 2, 3.0, rng=np.random.default_rng(0))
    found = attack_hidden_users(x, secret, hide_classes(secret, 0.4, seed=0), parse_attackers("logistic"), seed=0)
    assert found.n_hidden == pytest.approx(240, abs=1)
    assert min(found.from_disclosed.low, found.knows_some.low) > 0.5
    assert found.disclosure.low == 0


def test_a_table_that_tells_disclosure_is_found_and_one_without_a_leak_is_clean() -> None:
    x, secret = make_no_leak(800, 4, 2, rng=np.random.default_rng(1))
    shown = hide_classes(secret, 0.5, seed=0)
    marked = x + 2 * shown.known[:, None]
    found = attack_hidden_users(marked, secret, shown, parse_attackers("logistic"), seed=0)
    assert found.disclosure.low > 0.3
    assert found.knows_some.low < 0.05


def test_an_attacker_who_knows_some_hidden_users_is_not_misled_by_the_disclosed_ones() -> None:
    x, secret = make_planted_leak(600, 4, 2, 3.0, rng=np.random.default_rng(0))
    shown = hide_classes(secret, 0.4, seed=0)
    mirrored = np.where(shown.known[:, None], -x + 9, x)
    found = attack_hidden_users(mirrored, secret, shown, parse_attackers("logistic"), seed=0)
    assert found.knows_some.low > 0.5


def test_classes_that_are_too_small_are_refused() -> None:
    secret = make_planted_leak(60, 2, 2, 2.0, rng=np.random.default_rng(0))[1]
    few = replace(secret, codes=np.r_[np.zeros(54, np.int64), np.ones(6, np.int64)])
    with pytest.raises(DataError, match="too few to hide 30%"):
        hide_classes(few, 0.3, seed=0)
