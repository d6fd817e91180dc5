import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.metrics.pareto import find_knee, find_pareto_front, hypervolume

points = st.lists(st.tuples(st.floats(0, 1), st.floats(0, 100)), max_size=12)


def test_the_knee_is_farthest_below_the_line_between_the_ends() -> None:
    straight = [(1.0, 0.0), (0.5, 0.5), (0.0, 1.0)]
    assert find_knee([*straight, (0.1, 0.1)]) == 3  # nearly all of the privacy for nearly nothing
    assert find_knee([(1.0, 0.0), (0.2, 0.1), (0.0, 1.0), (0.9, 0.9)]) == 1  # the last is worse in both
    assert find_knee([(0.5, 0.0), (0.0, 0.0), (0.2, 0.3)]) == 1  # privacy for nothing
    assert find_knee([(0.3, 0.3)]) == 0


def test_one_point_is_worth_its_rectangle() -> None:
    assert hypervolume([(0.0, 0.0)]) == 1.0
    assert hypervolume([(0.5, 20.0)]) == pytest.approx(0.5 * 0.8)
    assert hypervolume([(1.0, 0.0)]) == 0.0
    assert hypervolume([]) == 0.0


def test_two_points_are_worth_their_union() -> None:
    # (0.2, 50) and (0.6, 10): 0.8 x 50 + 0.4 x 90 less the part counted twice, 0.4 x 50.
    assert hypervolume([(0.6, 10.0), (0.2, 50.0)]) == pytest.approx((40 + 36 - 20) / 100)


def test_a_gain_in_ranking_counts_as_no_cost() -> None:
    assert hypervolume([(0.5, -3.0)]) == hypervolume([(0.5, 0.0)])


@settings(deadline=None, max_examples=50)
@given(points)
def test_more_points_are_never_worth_less_and_beaten_ones_nothing(given_points: list[tuple[float, float]]) -> None:
    whole = hypervolume(given_points)
    assert 0 <= whole <= 1
    assert whole >= hypervolume(given_points[1:]) - 1e-12
    front = [given_points[i] for i in find_pareto_front(given_points)]
    assert hypervolume(front) == pytest.approx(whole)


@settings(deadline=None, max_examples=50)
@given(points)
def test_it_is_the_share_of_random_places_that_some_point_beats(given_points: list[tuple[float, float]]) -> None:
    places = np.random.default_rng(0).random((2000, 2)) * (1.0, 100.0)
    beaten = np.zeros(len(places), dtype=bool)
    for point in given_points:
        beaten |= (np.array(point) <= places).all(1)
    assert hypervolume(given_points) == pytest.approx(beaten.mean(), abs=0.06)


@settings(deadline=None, max_examples=50)
@given(points)
def test_points_of_the_front_are_undominated_and_all_others_dominated(given_points: list[tuple[float, float]]) -> None:
    kept = set(find_pareto_front(given_points).tolist())
    for i, (a, c) in enumerate(given_points):
        better = [j for j, (b, d) in enumerate(given_points) if b <= a and d <= c and ((b, d) != (a, c) or j < i)]
        assert (i in kept) == (not better)
