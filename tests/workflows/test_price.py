"""The price of a defense: its share of NDCG@10, and what the least displacement costs where that is too much."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.core.result_parts import InputSummary
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.defenses import DEFENSES
from recveil.models.puresvd import PureSVD
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, cloak_table
from recveil.workflows.comparison import compare_recommendations
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.price import find_least_displacement, measure_price
from recveil.workflows.utility import Recommendations

LEAST = find_least_displacement()


@pytest.fixture(scope="module")
def table() -> ClearTable:
    """Users served by the vectors of a factorization, in which the class leaks."""
    rng = np.random.default_rng(4)
    world = make_world(n_users=300, n_items=60, n_interactions=6_000, leaks={"gender": 3.0}, rng=rng)
    split = leave_one_out(world.dataset)
    model = PureSVD(embedding_size=8).fit(split, rng=rng)
    served = Recommendations(split, model.score, model.item_vectors_, np.arange(300))
    summary = InputSummary(name="world", n_users=300, d=8)
    return ClearTable(summary, model.user_vectors_, [world.dataset.attributes["gender"]], served)


def test_the_price_is_a_share_of_what_the_recommendations_were_worth(table: ClearTable, quick: AuditProtocol) -> None:
    served = table.recommendations
    noise = np.random.default_rng(0).standard_normal(table.x.shape).astype(np.float32)
    utility = compare_recommendations(served, table.x, noise, table.targets)
    price = measure_price(served, utility, table.x, table.targets, quick, "noise")
    before, after = utility.before["ndcg@10"].value, utility.after["ndcg@10"].value
    assert price.share.value == pytest.approx(1 - after / before)
    assert price.share.low < price.share.value < price.share.high
    assert not price.is_acceptable
    assert price.least.value < price.share.value
    cheap = measure_price(served, utility, table.x, table.targets, replace(quick, max_cost=1.0), "noise")
    assert cheap.is_acceptable
    assert cheap.least is None
    own = measure_price(served, utility, table.x, table.targets, quick, LEAST)
    assert own.least is None  # it would be compared with itself


def test_exactly_one_defense_displaces_least() -> None:
    assert [traits.name for traits in DEFENSES.all_traits() if traits.displaces_least] == [LEAST]


@pytest.mark.thorough
def test_a_price_above_the_limit_is_shown_with_its_frontier(
    table: ClearTable, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("recveil.workflows.self_check.CHECK_PANELS", ("two-releases",))
    protocol = replace(quick, panel="logistic", repeats=1, max_repeats=0)
    defense = ChosenDefense("noise", {"strength": 1.0})
    _, dear = cloak_table(table, defense, replace(protocol, max_cost=0.0), check=True)
    assert dear.self_check.is_too_expensive
    assert {point.method for point in dear.frontier.points} == {"none", "noise", LEAST}
    _, cheap = cloak_table(table, defense, replace(protocol, max_cost=1.0), audit=False, check=True)
    assert cheap.self_check.price.is_acceptable
    assert cheap.frontier is None
    _, unpriced = cloak_table(replace(table, recommendations=None), defense, protocol, audit=False, check=True)
    assert unpriced.self_check.price is None
