"""The price of a defense: what it says above its limit, and that it says nothing within it."""

from __future__ import annotations

import pytest

from recveil.core.self_check_parts import Price, SelfCheck
from recveil.core.types import Estimate


def make_price(cost: float, least: float | None = None) -> Price:
    estimates = [None if value is None else Estimate(value, value - 0.02, value + 0.02, 480) for value in (cost, least)]
    return Price(limit=0.1, share=estimates[0], least=estimates[1], method="sliced")


@pytest.mark.parametrize(
    ("price", "facts"),
    [
        (make_price(0.1), []),
        (make_price(-0.3), []),
        (make_price(0.16), ["sliced costs 16% [14%, 18%]", "more than 10%"]),
        (make_price(0.16, 0.12), ["cost 12% [10%, 14%]", "expect no cheap defense"]),
        (make_price(0.16, 0.04), ["cost 4% [2%, 6%]", "the rest"]),
    ],
)
def test_only_a_price_above_its_limit_is_told_and_explained(price: Price, facts: list[str]) -> None:
    assert price.is_acceptable == (not facts)
    assert bool(price.sentence) == bool(facts)
    assert all(fact in price.sentence for fact in facts)


def test_an_unknown_price_is_never_too_high() -> None:
    assert not SelfCheck(margin=0.05, targets={}, tried={}).is_too_expensive
    check = SelfCheck(margin=0.05, targets={}, tried={}, price=make_price(0.2))
    assert check.is_too_expensive
    assert check.opening_sentences == [check.price.sentence]
