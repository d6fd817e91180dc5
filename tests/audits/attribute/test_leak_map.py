"""Leak maps: drawn for users who were not fitted, and never for fewer than ten of them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recveil.audits.attribute.leak_map import (
    MAX_CLASSES,
    MAX_USERS,
    MIN_USERS_PER_NUMBER,
    _join_thin_bins,
    _project_users,
    _reduce_columns,
    map_leaks,
)
from recveil.core.result_parts import LeakMap
from recveil.testing.worlds import make_no_leak, make_planted_leak


def rng(seed=0):
    return np.random.default_rng(seed)


def middle(picture):
    """The mean of a class as its histogram shows it."""
    edges, density = (np.array(values) for values in (picture.histogram.edges, picture.histogram.density))
    return float(np.sum(density * np.diff(edges) * (edges[1:] + edges[:-1]) / 2))


def gap(leaks):
    return middle(leaks.classes[-1]) - middle(leaks.classes[0])


@pytest.mark.parametrize("d", [8, 120])
def test_a_table_without_a_leak_shows_none_although_the_fitted_half_would(d):
    x, secret = make_no_leak(1000, d, 2, rng=rng(1))
    [leaks] = map_leaks([x], secret.codes, secret.labels, rng=rng())
    assert abs(gap(leaks)) < 4 * np.sqrt(2 / 250)
    first, second = (np.array(picture.map.mean) for picture in leaks.classes)
    assert np.abs(first - second).max() < 4 * np.sqrt(2 / 250)
    assert [pair for pair in leaks.distances if pair.value > pair.chance] == []
    if d == 120:  # the guard taken out: directions drawn for the users they were fitted to
        z = _reduce_columns(x, rng())
        own = _project_users(np.vstack([z, z]), np.tile(secret.codes, 2), np.arange(2000) >= 1000)
        assert abs(own[secret.codes == 1, 0].mean() - own[secret.codes == 0, 0].mean()) > 0.5


@pytest.mark.parametrize("K", [2, 3, 5])
def test_a_planted_leak_shows_in_all_three_measures(K):
    x, secret = make_planted_leak(3000, 16, K, 2.0, rng=rng(2))
    [leaks] = map_leaks([x], secret.codes, secret.labels, rng=rng())
    means = np.array([picture.map.mean for picture in leaks.classes])
    assert np.ptp(means[:, 0]) > 1.0
    assert len(leaks.distances) == K * (K - 1) // 2
    values = [pair.value for pair in leaks.distances]
    assert np.mean(values) == pytest.approx(4.0, abs=0.5)
    assert min(values) > max(pair.chance for pair in leaks.distances)
    # Of more than two classes no direction is the first: which one is taken is chance, and its tails are cut off.
    assert middle(leaks.classes[0]) == pytest.approx(means[0, 0], abs=0.1 if K == 2 else 0.2)


def test_two_classes_part_along_the_first_direction_and_differ_otherwise_along_the_second():
    x, secret = make_planted_leak(4000, 6, 2, 3.0, rng=rng(3))
    x[:, 2] += 2 * x[:, 3]
    [leaks] = map_leaks([x], secret.codes, secret.labels, rng=rng())
    first, second = (picture.map.mean for picture in leaks.classes)
    assert second[0] - first[0] == pytest.approx(3.0, abs=0.2)
    assert abs(second[1] - first[1]) < 0.3


def test_distances_are_zero_on_average_without_a_leak_and_rarely_above_chance():
    values, alarms = [], 0
    for seed in range(60):
        x, secret = make_no_leak(300, 20, 3, rng=rng(seed))
        [leaks] = map_leaks([x], secret.codes, secret.labels, rng=rng(seed))
        values += [pair.value for pair in leaks.distances]
        alarms += any(pair.value > pair.chance for pair in leaks.distances)
    assert abs(np.mean(values)) < 4 * np.std(values) / np.sqrt(60)
    assert alarms <= 9  # 5 % of 60 are 3; more than 9 happen once in a thousand times


def test_no_number_stands_for_fewer_than_ten_users():
    generator = rng(4)
    codes = np.repeat([0, 1, 2, 3], [400, 120, 19, 6])
    x = generator.standard_normal((len(codes), 5)) + codes[:, None]
    [leaks] = map_leaks([x], codes, ["a", "b", "few", "nobody"], rng=rng())
    assert [picture.label for picture in leaks.classes] == ["a", "b"]  # 9 of 19 were drawn
    for picture in leaks.classes:
        users = picture.users
        counts = users * np.array(picture.histogram.density) * np.diff(picture.histogram.edges)
        assert counts.sum() == pytest.approx(users, rel=1e-2)
        assert counts.min() > MIN_USERS_PER_NUMBER - 0.5
        shown = [share * users for share in picture.map.shares if share is not None]
        assert shown
        assert min(shown) > MIN_USERS_PER_NUMBER - 0.5
    assert {label for pair in leaks.distances for label in pair.classes} == {"a", "b", "few"}


@pytest.mark.parametrize(
    ("counts", "starts"),
    [([10, 10], [0, 1]), ([0, 3, 7, 0, 12], [0, 3]), ([12, 0, 0, 9], [0]), ([5, 5, 5, 5, 1], [0, 2]), ([10], [0])],
)
def test_thin_bins_are_joined_and_a_remainder_joins_the_last(counts, starts):
    found = _join_thin_bins(np.array(counts))
    assert found == starts
    assert np.add.reduceat(counts, found).min() >= MIN_USERS_PER_NUMBER


def test_releases_share_their_axes_and_the_first_class_lies_left():
    before, secret = make_planted_leak(1200, 6, 2, 4.0, rng=rng(5))
    after = rng(6).standard_normal(before.shape)
    for first, second in (map_leaks([before, after], secret.codes, secret.labels, rng=rng(s)) for s in range(3)):
        assert first.ranges == second.ranges
        assert gap(first) > 3
        assert abs(gap(second)) < 0.5


def test_many_classes_are_bounded_and_the_map_survives_json():
    x, secret = make_no_leak(2100, 8, 21, rng=rng(7))
    [leaks] = map_leaks([x], secret.codes, secret.labels, rng=rng())
    assert len(leaks.classes) == MAX_CLASSES
    assert len(leaks.distances) == 210
    assert LeakMap.model_validate_json(leaks.model_dump_json()) == leaks


@pytest.mark.parametrize(
    "make",
    [
        lambda code: np.ones((len(code), 4)),
        lambda code: code[:, None].astype(float),
        lambda code: np.repeat(rng().standard_normal((len(code), 2)), 3, axis=1),
        lambda code: np.hstack([1e-9 * code[:, None], 1e9 * rng().standard_normal((len(code), 2))]),
        lambda code: rng().standard_normal((len(code), 300)),
    ],
    ids=["constant", "the label itself", "columns twice", "scales apart", "more columns than users"],
)
def test_odd_tables_have_a_map(make):
    code = np.arange(200) % 2
    [leaks] = map_leaks([make(code)], code, ["a", "b"], rng=rng())
    json.dumps(leaks.model_dump(mode="json"), allow_nan=False)
    assert len(leaks.classes) == 2


def test_work_is_bounded_and_rare_classes_are_kept():
    code = (np.arange(3 * MAX_USERS) % 5000 == 0).astype(np.int64)
    [leaks] = map_leaks([rng().standard_normal((len(code), 2))], code, ["a", "rare"], rng=rng())
    assert leaks.n_fitted + leaks.n_drawn == MAX_USERS // 2 + 30
    assert [picture.label for picture in leaks.classes] == ["a", "rare"]


def test_the_same_seed_gives_the_same_map():
    x, secret = make_no_leak(300, 4, 2, rng=rng(8))
    first, second = (map_leaks([x], secret.codes, secret.labels, rng=rng(1)) for _ in range(2))
    assert first == second
