"""Each rule against what it says, by hand, and directions learned on shadow users alone."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.membership.rules import RULES, Rules
from recveil.core.errors import UsageError
from recveil.core.types import Shadow, Watched

# Item 0 is touched by four, 1 by three, 2 by two, 3 and 4 by one.
HISTORIES = [np.array(h) for h in ([0, 1, 2], [0, 1], [0, 1, 2, 3], [0, 4])]
LISTS = np.array([[3, 4], [2, 3], [4, -1], [0, 1]])
WATCHED = Watched(HISTORIES, LISTS)


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("any-overlap", [0, 0, 0, 1]),
        ("overlap", [0, 0, 0, 1]),
        # Own items out, users 0 to 2 are listed the charts exactly; user 3 has 0 and is shown it.
        ("popular-list", [1, 1, 1, 1]),
        ("list-popularity", [0.25, 0.375, 0.25, 0.875]),
        ("history-length", [3, 2, 4, 2]),
    ],
)
def test_each_rule_looks_at_what_it_says(rule: str, expected: list[float]) -> None:
    np.testing.assert_allclose(RULES[rule](WATCHED), expected)


def test_the_popular_list_is_told_from_another() -> None:
    lists = np.array([[4, 3], [4, 3], [4, -1], [1, 4]])
    np.testing.assert_allclose(RULES["popular-list"](Watched(HISTORIES, lists)), [1, 0.5, 1, 0.5])


def shadow_of(member: np.ndarray, *, longer: bool, rng: np.random.Generator) -> Shadow:
    """Histories of members are longer, or shorter, by two; lists are drawn alike."""
    sizes = 5 + 2 * (member == longer)
    histories = [rng.choice(40, size, replace=False) for size in sizes]
    lists = np.array([rng.choice(40, 8, replace=False) for _ in sizes])
    return Shadow(Watched(histories, lists), member)


@pytest.mark.parametrize("longer", [True, False])
def test_direction_is_learned_and_the_best_rule_speaks(longer: bool) -> None:
    rng = np.random.default_rng(0)
    shadow = shadow_of(np.arange(60) % 2 == 0, longer=longer, rng=rng)
    rules = Rules().fit([shadow], rng=rng)
    assert rules.best_ == "history-length"
    score = rules.score(shadow.watched)
    assert score[shadow.member].min() > score[~shadow.member].max()
    np.testing.assert_array_equal(rules.each(shadow.watched)["history-length"], score)
    assert set(rules.each(shadow.watched)) == set(RULES)


def test_without_shadow_users_there_is_no_direction() -> None:
    with pytest.raises(UsageError, match="none were given"):
        Rules().fit([], rng=np.random.default_rng(0))
