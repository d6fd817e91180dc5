from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.defenses.training.alignment import SEEDINGS, Atoms, draw_far_apart, draw_stratified
from recveil.testing.worlds import make_planted_leak
from recveil.transport.distances import compute_typical_distance


def world(n: int = 400, d: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    x, secret = make_planted_leak(n, d, 2, 3.0, rng=np.random.default_rng(0))
    return torch.as_tensor(x), torch.as_tensor(secret.codes)


def atoms(codes: torch.Tensor, count: int = 40, **options: object) -> Atoms:
    chosen = {"tau": 0.1, "epsilon": 0.05, "free_support": False, **options}
    return Atoms(codes, np.random.default_rng(0), count, **chosen)  # type: ignore[arg-type]


def apart(x: torch.Tensor, codes: torch.Tensor) -> float:
    return float((x[codes == 0].mean(0) - x[codes == 1].mean(0)).norm())


@pytest.mark.parametrize("free_support", [False, True])
def test_the_places_of_all_classes_have_one_mean_and_the_users_do_not(free_support: bool) -> None:
    x, codes = world()
    places = atoms(codes, free_support=free_support)(x, renew=True)
    assert apart(x, codes) > 2.5
    assert apart(places.toward, codes) < 0.1
    assert places.spread.shape == (400,)


def test_places_and_spread_are_the_same_in_every_unit() -> None:
    x, codes = world()
    one, hundredth = (atoms(codes)(unit * x, renew=True) for unit in (1.0, 0.01))
    torch.testing.assert_close(hundredth.toward, 0.01 * one.toward, atol=1e-4, rtol=1e-2)
    torch.testing.assert_close(hundredth.spread, 1e-4 * one.spread, atol=1e-6, rtol=0.05)


def test_the_barycenter_stays_until_it_is_renewed_and_couplings_follow_the_users() -> None:
    x, codes = world()
    alignment = atoms(codes)
    first = alignment(x, renew=True)
    center = alignment.center
    moved = alignment(x + 0.1 * x.flip(0), renew=False)
    assert alignment.center is center
    assert not torch.equal(moved.toward, first.toward)
    alignment(x, renew=True)
    assert alignment.center is not center


def test_places_lie_among_the_atoms() -> None:
    x, codes = world()
    alignment = atoms(codes)
    places = alignment(x, renew=True)
    assert alignment.center is not None
    chosen = alignment.center.atoms
    assert all(bool((row == x).all(1).any()) for row in chosen)
    assert (places.toward.amax(0) <= chosen.amax(0) + 1e-5).all()
    assert float(places.spread.mean()) < compute_typical_distance(x) / 2


def test_a_stratified_sample_has_every_class_by_its_share_and_nobody_twice() -> None:
    codes = np.repeat([2, 0, 1], [700, 200, 100])
    x = np.zeros((1000, 1))
    chosen = draw_stratified(x, codes, 50, np.random.default_rng(0))
    assert np.bincount(codes[chosen]).tolist() == [10, 5, 35]
    assert len(set(chosen.tolist())) == 50
    assert set(draw_stratified(x, codes, 1000, np.random.default_rng(0)).tolist()) == set(range(1000))
    assert not np.array_equal(chosen, draw_stratified(x, codes, 50, np.random.default_rng(1)))


def test_users_far_apart_reach_small_groups_that_a_sample_misses() -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 2)).astype(np.float32)
    x[:5] += 100 * np.arange(1, 6)[:, None]  # five users, each alone
    codes = np.arange(1000) % 2
    reached = {name: set(draw(x, codes, 20, np.random.default_rng(1)).tolist()) for name, draw in SEEDINGS.items()}
    assert reached["k-means++"] >= set(range(5))
    assert not reached["stratified"] >= set(range(5))
    assert [len(found) for found in reached.values()] == [20, 20]
    again = draw_far_apart(x, codes, 20, np.random.default_rng(1))
    assert set(again.tolist()) == reached["k-means++"]


def test_atoms_far_apart_align_the_classes_too() -> None:
    x, codes = world()
    places = atoms(codes, seeding="k-means++")(x, renew=True)
    assert apart(places.toward, codes) < 0.1
