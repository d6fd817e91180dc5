import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.core.errors import DataError
from recveil.core.types import Estimate
from recveil.metrics.intervals import estimate_corrected_mean
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
    each = [estimate_corrected_mean(np.array(seed), share, 100) for seed in folds]
    whole = estimate_corrected_mean(np.concatenate(folds), share, 100)
    found = pool_intervals(each, 5, share)
    assert (found.value, found.low, found.high) == pytest.approx((whole.value, whole.low, whole.high), abs=1e-9)


def test_an_advantage_is_never_below_zero_nor_above_one_and_keeps_both_sides() -> None:
    below = pool_advantage([-0.3, -0.31, -0.29, -0.3], 0.25, 100)
    assert below.value == 0
    assert below.high > 0.29  # folds far below chance are a leak that was not inverted
    assert pool_advantage([0.9, 1.0, 1.0, 0.8], 0.25, 100).high == 1.0


def test_ranking_is_pooled_user_by_user_before_anything_else() -> None:
    users = np.arange(3)
    first, second = (Ranks(users, users, np.array(b), np.zeros(3, dtype=int)) for b in ([0, 20, 0], [0, 0, 20]))
    found = average_over_seeds([pack_ranks(first), pack_ranks(second)], hit_rate, 10)
    assert found.tolist() == [1.0, 0.5, 0.5]
    assert average_over_seeds([pack_ranks(first)], ndcg, 10).tolist() == ndcg(first, 10).tolist()


def test_seeds_that_split_users_differently_have_the_wider_of_two_intervals() -> None:
    near = [Estimate(v, v - 0.05, v + 0.05, 10) for v in (0.60, 0.61, 0.62)]
    assert pool_seeds(near).high - pool_seeds(near).value == pytest.approx(0.05)
    far = [Estimate(v, v - 0.01, v + 0.01, 10) for v in (0.5, 0.7, 0.9)]
    assert pool_seeds(far).high - pool_seeds(far).value > 0.2
    assert pool_seeds(far[:1]) is far[0]


def test_pooled_cells_hold_the_seeds_of_one_combination_and_count_the_holes(fill_store) -> None:
    store = fill_store(plan(), LEAKS, fail=[("good", 1)], skip=[("bad", 0), ("bad", 1), ("bad", 2)])
    pooled = {cells.at["defense"]: cells for cells in pool_plan(plan(), [store])}
    none, good, bad = (pooled[name] for name in LEAKS)
    assert [(len(cells.results), cells.wanted, cells.n_missing) for cells in (none, good, bad)] == [
        (3, 3, 0), (2, 3, 1), (0, 3, 3)
    ]  # fmt: skip
    assert good.errors == ["DataError: <b>broken</b>"]
    assert (bad.targets, bad.estimate_headline("gender")) == ([], None)
    folds = [fold for details in none.details for fold in details.targets["gender"].folds]
    assert none.estimate_headline("gender") == pool_advantage(folds, 0.25, 320)
    assert none.estimate_headline("gender", both_tables=True) is None
    assert none.list_attackers("gender") == ["logistic", "knn"]
    assert good.estimate_cost().value == pytest.approx(-10, abs=4)
    assert none.estimate_cost().value == 0
    assert (good.average_seconds("defend"), good.average_seconds("nothing")) == (0.5, None)
    assert good.average_metric("displacement") == pytest.approx(0.2)
    assert good.keep_seeds([2]).seeds == [2]


def test_a_cell_is_found_in_whichever_folder_it_was_run(fill_store) -> None:
    first = fill_store(plan(seed=[0]), LEAKS, name="first")
    second = fill_store(plan(seed=[1, 2]), LEAKS, name="second")
    assert [len(cells.results) for cells in pool_plan(plan(), [first, second])] == [3, 3, 3]


def test_files_that_do_not_belong_together_are_one_error(fill_store) -> None:
    store, cell = fill_store(plan(), LEAKS), plan().cells()[0]
    path = store.folder / "cells" / f"{cell.id}.json"
    content = json.loads(path.read_text())
    for cell_part, details in (
        ({**content["cell"], "kind": "trial"}, {"folds": {}, "users": 1}),
        (content["cell"], {**content["details"], "ranks": "00"}),
    ):
        path.write_text(json.dumps({**content, "cell": cell_part, "details": details}))
        with pytest.raises(DataError, match="Delete"):
            pool_plan(plan(), [store])[0].estimate_ranking("ndcg", 10)
