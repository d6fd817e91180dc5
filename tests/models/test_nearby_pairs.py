from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import optimize

from recveil.core.errors import UsageError
from recveil.core.types import Dataset, FloatArray
from recveil.models.dp_cov import PrivateCovariance, scale_pairs
from recveil.models.nearby_pairs import NearbyPairs, project_out
from recveil.testing.worlds import make_checkerboard


def make_histories(histories: list[list[int]], n_items: int) -> Dataset:
    """Make a data set whose rows are shuffled; times are places in the history."""
    user = np.repeat(np.arange(len(histories)), [len(history) for history in histories])
    item = np.array([item for history in histories for item in history])
    time = np.array([place for history in histories for place in range(len(history))])
    rows = np.random.default_rng(0).permutation(len(user))
    return Dataset("histories", user[rows], item[rows], time[rows], np.arange(len(histories)), np.arange(n_items))


def build_dense(history: list[int], n_items: int, span: float) -> FloatArray:
    """Build the matrix of one user, pair by pair."""
    matrix = np.zeros((n_items, n_items))
    for first, item in enumerate(history):
        for second, other in enumerate(history):
            if 0 < abs(first - second) <= np.ceil(4 * span):
                matrix[item, other] = np.exp(-abs(first - second) / span)
    return matrix


def draw_histories(n_users: int, n_items: int, rng: np.random.Generator) -> list[list[int]]:
    return [rng.permutation(n_items)[: rng.integers(2, n_items)].tolist() for _ in range(n_users)]


def draw_direction(n_items: int, rng: np.random.Generator) -> FloatArray:
    direction = rng.random(n_items)
    return np.asarray(direction / np.linalg.norm(direction))


@pytest.mark.parametrize("span", [0.7, 3.0, 100.0])
def test_norms_sums_and_products_are_those_of_the_dense_matrices(span: float) -> None:
    rng = np.random.default_rng(0)
    histories, direction, other = draw_histories(9, 14, rng), draw_direction(14, rng), rng.standard_normal((14, 14))
    pairs, scale = NearbyPairs.find(make_histories(histories, 14), span), rng.random(9)
    dense = [build_dense(history, 14, span) for history in histories]
    left = [project_out(matrix, direction) for matrix in dense]
    assert pairs.compute_norms(direction) == pytest.approx([np.linalg.norm(matrix) for matrix in left])
    assert np.allclose(pairs.sum_matrices(scale, direction), np.tensordot(scale, left, 1))
    symmetric = other + other.T
    assert pairs.multiply(symmetric) == pytest.approx([(matrix * symmetric).sum() for matrix in dense])
    assert pairs.lengths.tolist() == [len(history) for history in histories]


def test_one_user_changes_the_matrix_by_one_at_most() -> None:
    rng, worst = np.random.default_rng(0), 0.0
    for _ in range(200):
        histories, direction = draw_histories(5, 12, rng), draw_direction(12, rng)
        with_user = NearbyPairs.find(make_histories(histories, 12), 2.0)
        without = NearbyPairs.find(make_histories(histories[:4], 12), 2.0)
        sums = [p.sum_matrices(scale_pairs(p, direction, 6), direction) for p in (with_user, without)]
        worst = max(worst, float(np.linalg.norm(sums[0] - sums[1])))
    assert 0.99 < worst <= 1 + 1e-9


def test_the_worst_user_by_search_changes_the_matrix_by_no_more_than_claimed() -> None:
    def measure_change(values: FloatArray) -> float:
        """Read an order of the items, their number, a direction and a span out of numbers."""
        length = int(np.clip(2 + abs(values[0]) * 8, 2, 10))
        history = np.argsort(values[2:12], kind="stable")[:length].tolist()
        direction = np.abs(values[12:22]) + 1e-12
        direction /= np.linalg.norm(direction)
        pairs = NearbyPairs.find(make_histories([history], 10), 0.1 + abs(values[1]) * 5)
        return float(np.linalg.norm(pairs.sum_matrices(scale_pairs(pairs, direction, 5), direction)))

    starts = np.random.default_rng(0).random((5, 22))
    found = [
        optimize.minimize(lambda x: -measure_change(x), start, method="Nelder-Mead", options={"maxiter": 300})
        for start in starts
    ]
    assert max(-result.fun for result in found) == pytest.approx(1.0, abs=1e-6)


def test_a_history_that_lies_almost_in_the_popular_direction_never_adds_more_than_claimed() -> None:
    rng = np.random.default_rng(0)
    single, long = (NearbyPairs.find(make_histories([list(range(n))], 400), 2.0) for n in (2, 10))
    for share in np.logspace(-8, 0, 60):
        # All weight but a small share lies on one item, so that rounding is most of what is left of its pairs.
        direction = share * rng.random(400)
        direction[0] = 1.0
        direction /= np.linalg.norm(direction)
        for pairs in (single, long):
            added = pairs.sum_matrices(scale_pairs(pairs, direction, 1), direction)
            assert np.linalg.norm(added) <= 1 + 1e-9


def test_users_add_the_same_whoever_else_is_there_and_in_any_order_of_rows() -> None:
    rng = np.random.default_rng(0)
    histories, direction = draw_histories(8, 20, rng), draw_direction(20, rng)

    def add_up(data: Dataset) -> FloatArray:
        pairs = NearbyPairs.find(data, 3.0)
        return pairs.sum_matrices(scale_pairs(pairs, direction, 12), direction)

    data = make_histories(histories, 20)
    alone = [add_up(data.take(data.user == user)) for user in range(8)]
    assert np.allclose(add_up(data), np.sum(alone, axis=0), atol=1e-12)


def test_a_user_counts_less_with_few_items_and_nothing_where_only_popularity_is_left() -> None:
    direction = np.eye(30)[29]
    pairs = NearbyPairs.find(make_histories([[0], [0, 1], list(range(10)), list(range(20))], 30), 3.0)
    norms = pairs.compute_norms(direction) * scale_pairs(pairs, direction, 20)
    assert norms == pytest.approx([0.0, 0.1, 0.5, 1.0])
    only_popular = NearbyPairs.find(make_histories([[0, 1]], 2), 3.0)
    popular = np.full(2, 1 / np.sqrt(2))
    left = only_popular.sum_matrices(scale_pairs(only_popular, popular, 1), popular)
    assert np.linalg.norm(left) == pytest.approx(1.0)  # the difference of the two items is left


def test_an_item_that_a_user_has_twice_counts_once_where_it_was_last() -> None:
    twice = NearbyPairs.find(make_histories([[0, 1, 2, 3, 0]], 4), 1.0)
    once = NearbyPairs.find(make_histories([[1, 2, 3, 0]], 4), 1.0)
    assert twice.item.tolist() == once.item.tolist() == [1, 2, 3, 0]


def test_items_near_each_other_in_time_are_recommended_together() -> None:
    rng = np.random.default_rng(0)
    # Every user has all of 12 items, four at a time: only the order tells which go together.
    blocks = np.arange(12).reshape(3, 4)
    histories = [np.concatenate([rng.permutation(b) for b in rng.permutation(blocks)]).tolist() for _ in range(3_000)]
    train = make_histories(histories, 12)
    empty = train.take(np.empty(0, dtype=np.int64))
    split = replace(make_checkerboard(), train=train, valid=empty, test=empty)
    model = PrivateCovariance(epsilon=5.0, noise_seed=0, span=2.0, full_weight_items=4).fit(split, rng=rng)
    scores = model.score(np.zeros(12, dtype=np.int64), model.fold_in([np.array([item]) for item in range(12)]))
    same = (np.arange(12) // 4)[:, None] == (np.arange(12) // 4)[None, :]
    off_diagonal = ~np.eye(12, dtype=np.bool_)
    assert scores[same & off_diagonal].min() > scores[~same].max()


def test_data_without_times_are_refused() -> None:
    data = replace(make_histories([[0, 1]], 2), time=None)
    with pytest.raises(UsageError, match="no times"):
        NearbyPairs.find(data, 2.0)
