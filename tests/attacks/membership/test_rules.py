"""Each rule against its definition by hand, and directions learned on shadow users alone."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.membership.rules import RULES, learn_rule_directions, score_rules
from recveil.core.errors import UsageError
from recveil.core.types import Shadow, Watched

# Item 0 is in four histories, 1 in three, 2 in two, 3 and 4 in one.
HISTORIES = [np.array(h) for h in ([0, 1, 2], [0, 1], [0, 1, 2, 3], [0, 4])]
LISTS = np.array([[3, 4], [2, 3], [4, -1], [0, 1]])
WATCHED = Watched(HISTORIES, LISTS)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("any-overlap", [0, 0, 0, 1]),
        ("overlap", [0, 0, 0, 1]),
        # Without their own items, users 0 to 2 get exactly the popular list; user 3 has 0 and is shown it.
        ("popular-list", [1, 1, 1, 1]),
        ("list-popularity", [0.25, 0.375, 0.25, 0.875]),
        ("history-length", [3, 2, 4, 2]),
    ],
)
def test_rules_follow_their_definition(rule: str, expected: list[float]) -> None:
    np.testing.assert_allclose(RULES[rule](WATCHED), expected)


def test_lists_that_are_partly_popular_get_a_share() -> None:
    lists = np.array([[4, 3], [4, 3], [4, -1], [1, 4]])
    np.testing.assert_allclose(RULES["popular-list"](Watched(HISTORIES, lists)), [1, 0.5, 1, 0.5])


def shadow_of(member: np.ndarray, *, longer: bool, rng: np.random.Generator) -> Shadow:
    """Histories of members are longer, or shorter, by two; lists are drawn alike."""
    sizes = 5 + 2 * (member == longer)
    histories = [rng.choice(40, size, replace=False) for size in sizes]
    lists = np.array([rng.choice(40, 8, replace=False) for _ in sizes])
    return Shadow(Watched(histories, lists), member)


@pytest.mark.parametrize("longer", [True, False])
def test_directions_are_learned_on_the_shadow(longer: bool) -> None:
    shadow = shadow_of(np.arange(60) % 2 == 0, longer=longer, rng=np.random.default_rng(0))
    directions = learn_rule_directions([shadow])
    assert directions["history-length"] == (1.0 if longer else -1.0)
    scores = score_rules(shadow.watched, directions)
    assert set(scores) == set(RULES)
    lengths = scores["history-length"]
    assert lengths[shadow.member].min() > lengths[~shadow.member].max()


def test_directions_need_shadow_users() -> None:
    with pytest.raises(UsageError, match="none were given"):
        learn_rule_directions([])
