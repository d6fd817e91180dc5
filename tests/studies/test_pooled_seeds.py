import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.core.types import Estimate
from recveil.metrics.intervals import corrected_t
from recveil.metrics.ranking import Ranks, hit_rate, ndcg
from recveil.studies.plans import Plan
from recveil.studies.pooled_seeds import average_over_seeds, pool_advantage, pool_intervals, pool_plan, pool_seeds
from recveil.studies.rank_codec import pack_ranks

LEAKS = {"none": (0.6, 0.5), "good": (0.02, 0.45), "bad": (0.5, 0.1)}


def plan(**more):
    grid = {"data": ["demo"], "model": ["bprmf"], "target": ["gender"], "seed": [0, 1, 2]}
    grid["defense"] = ["none", {"name": "sliced", "label": "good"}, {"name": "noise", "label": "bad"}]
    return Plan.parse({"title": "t", "kind": "attribute", "grid": {**grid, **more}}, name="p")


@given(st.lists(st.lists(st.floats(0, 1), min_size=5, max_size=5), min_size=1, max_size=4), st.floats(0.1, 0.5))
def test_intervals_of_seeds_come_to_the_interval_of_all_their_folds(folds: list[list[float]], share: float) -> None:
    each = [corrected_t(np.array(seed), share, 100) for seed in folds]
    whole = corrected_t(np.concatenate(folds), share, 100)
    found = pool_intervals(each, 5, share)
    assert (found.value, found.low, found.high) == pytest.approx((whole.value, whole.low, whole.high), abs=1e-9)


def test_an_advantage_is_never_below_zero_nor_above_one_and_keeps_both_sides() -> None:
    below = pool_advantage([-0.3, -0.31, -0.29, -0.3], 0.25, 100)
    assert below.value == 0
    assert below.high > 0.29  # folds far below chance speak of a leak that was not turned round
    assert pool_advantage([0.9, 1.0, 1.0, 0.8], 0.25, 100).high == 1.0


def test_ranking_is_pooled_user_by_user_before_anything_else() -> None:
    users = np.arange(3)
    first, second = (Ranks(users, users, np.array(b), np.zeros(3, dtype=int)) for b in ([0, 20, 0], [0, 0, 20]))
    found = average_over_seeds([pack_ranks(first), pack_ranks(second)], hit_rate, 10)
    assert found.tolist() == [1.0, 0.5, 0.5]
    assert average_over_seeds([pack_ranks(first)], ndcg, 10).tolist() == ndcg(first, 10).tolist()


def test_seeds_that_deal_users_anew_have_the_wider_of_two_intervals() -> None:
    near = [Estimate(v, v - 0.05, v + 0.05, 10) for v in (0.60, 0.61, 0.62)]
    assert pool_seeds(near).high - pool_seeds(near).value == pytest.approx(0.05)
    far = [Estimate(v, v - 0.01, v + 0.01, 10) for v in (0.5, 0.7, 0.9)]
    assert pool_seeds(far).high - pool_seeds(far).value > 0.2
    assert pool_seeds(far[:1]) is far[0]


def test_lines_hold_the_seeds_of_one_combination_and_count_the_holes(made_up) -> None:
    store = made_up(plan(), LEAKS, fail=[("good", 1)], skip=[("bad", 0), ("bad", 1), ("bad", 2)])
    found = {line.at["defense"]: line for line in pool_plan(plan(), [store])}
    assert [len(found[name].results) for name in LEAKS] == [3, 2, 0]
    assert [found[name].wanted for name in LEAKS] == [3, 3, 3]
    assert found["good"].errors == ["DataError: <b>broken</b>"]
    assert found["bad"].targets == []
    folds = [v for r in found["none"].results for v in r["details"]["targets"]["gender"]["folds"]]
    assert found["none"].headline("gender") == pool_advantage(folds, 0.25, 320)
    assert found["none"].attackers("gender") == ["logistic", "knn"]
    assert found["good"].cost().value == pytest.approx(-10, abs=4)
    assert found["none"].cost().value == 0
    assert found["good"].time("defend") == 0.5
    assert found["good"].time("nothing") is None
    assert found["good"].plain("displacement") == pytest.approx(0.2)


def test_a_cell_is_found_in_whichever_folder_it_was_run(made_up) -> None:
    first = made_up(plan(seed=[0]), LEAKS, name="first")
    second = made_up(plan(seed=[1, 2]), LEAKS, name="second")
    assert [len(line.results) for line in pool_plan(plan(), [first, second])] == [3, 3, 3]
