"""AttrCloak: what the paper's two forms promise, and the constrained one beside Gaussian transport."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.attrcloak import AttrCloak, AttrCloakDD, AttrCloakDF, merge_lonely_classes
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.min_norm import compute_task_weight
from recveil.testing.contracts import check_embedding_defense
from recveil.testing.worlds import make_planted_leak
from recveil.transport.divergence import ClassRows, choose_ridge, compute_divergence, compute_gradient
from recveil.workflows.defended_release import measure_displacement

Constrained = partial(AttrCloak, device="cpu")
DataFree = partial(AttrCloakDF, device="cpu", rate=5e-3)
METHODS = [Constrained, DataFree, partial(AttrCloakDD, device="cpu", rate=5e-3)]


def still(x: torch.Tensor) -> torch.Tensor:
    """A utility that wants the users to stay near the origin: convex, and of a gradient everywhere."""
    return x.square().mean()


def run(method: Any, x: np.ndarray, codes: np.ndarray, utility: Any = still) -> np.ndarray:
    return method(x, codes, rng=np.random.default_rng(0), utility=utility)


def leaky(seed: int = 0, n: int = 400, d: int = 5, K: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """Classes with means, scales and directions of their own."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(K, size=n)
    x = rng.standard_normal((n, d)) * np.logspace(0, -0.5, d) + rng.standard_normal((K, d))[codes]
    x[:, 0] *= 1 + codes / 2
    x[:, 1] += 0.5 * codes * x[:, 0]
    return x.astype(np.float32), codes


def apart(x: np.ndarray, codes: np.ndarray, like: np.ndarray | None = None) -> float:
    """The class divergence of one attribute, with the eps of the table `like`."""
    known, table = codes != UNDISCLOSED, torch.as_tensor(x).double()
    eps = choose_ridge(torch.as_tensor(x if like is None else like).double()[known], 1e-3)
    return float(compute_divergence(ClassRows.from_codes(torch.as_tensor(codes)).compute_moments(table), eps).value)


# The constrained form.


@pytest.mark.thorough
def test_the_constrained_form_keeps_the_contract() -> None:
    check_embedding_defense(Constrained)


@pytest.mark.parametrize("t", [0.25, 0.5, 0.75])
def test_it_moves_the_users_less_than_gaussian_transport_does_for_the_same_divergence(t: float) -> None:
    x, codes = leaky()
    other = run(Gaussian(strength=t, device="cpu"), x, codes)
    out = run(Constrained(target_kl=apart(other, codes, x)), x, codes)
    assert apart(out, codes, x) <= apart(other, codes, x) * 1.0001
    assert measure_displacement(x, out) < 0.97 * measure_displacement(x, other)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_all_of_it_is_gaussian_transport(seed: int) -> None:
    """At divergence 0 the optimum is known; a millionth of the divergence is left, and that saves under one percent."""
    x, codes = leaky(seed)
    out, known = run(Constrained(), x, codes), run(Gaussian(device="cpu"), x, codes)
    assert apart(out, codes, x) < 2e-6 * apart(x, codes)
    assert 0.99 < measure_displacement(x, out) / measure_displacement(x, known) <= 1.0001
    assert measure_displacement(known, out) < 0.02


@pytest.mark.parametrize("share", [0.8, 0.3, 0.02])
def test_the_target_is_met(share: float) -> None:
    x, codes = leaky(1)
    aim = share * apart(x, codes)
    assert 0.99 * aim < apart(run(Constrained(target_kl=aim), x, codes), codes, x) <= 1.0001 * aim


@pytest.mark.parametrize("budget", [0.02, 0.1, 0.3])
def test_the_budget_is_kept_and_buys_privacy(budget: float) -> None:
    x, codes = leaky(1)
    codes[::4] = UNDISCLOSED
    out = run(Constrained(budget=budget), x, codes)
    assert 0.98 * budget < measure_displacement(x, out) <= 1.0001 * budget
    assert apart(out, codes, x) < apart(x, codes)


def test_strength_is_a_share_of_the_way_in_divergence_and_of_the_budget() -> None:
    x, codes = leaky(2)
    now = apart(x, codes)
    assert apart(run(Constrained(strength=0.4), x, codes), codes, x) == pytest.approx(0.6 * now, rel=0.01)
    half_way = run(Constrained(strength=0.5, target_kl=0.2 * now), x, codes)
    assert apart(half_way, codes, x) == pytest.approx(0.6 * now, rel=0.01)
    assert measure_displacement(x, run(Constrained(strength=0.5, budget=0.2), x, codes)) == pytest.approx(0.1, rel=0.02)


def test_a_target_that_is_met_already_changes_nothing() -> None:
    x, codes = leaky(3)
    np.testing.assert_allclose(run(Constrained(target_kl=100.0), x, codes), x, atol=1e-6)
    np.testing.assert_allclose(run(Constrained(budget=0.0), x, codes), x, atol=1e-6)


@pytest.mark.thorough
def test_several_attributes_come_down_together_each_over_its_own_users() -> None:
    x, first = leaky(4, n=600)
    second = np.random.default_rng(0).integers(2, size=600)
    x[:, 2] += 2 * second
    second[::3] = UNDISCLOSED
    both = np.stack([first, second], axis=1)
    out = run(Constrained(), x, both)
    for column in both.T:
        assert apart(out, column, x) < 1e-4 * apart(x, column)
    carried = run(Gaussian(device="cpu"), x, both)
    assert measure_displacement(x, out) < measure_displacement(
        x, carried
    )  # joint cells ask for more than each attribute alone


@pytest.mark.thorough
def test_many_small_classes_do_not_collapse_the_table() -> None:
    """21 classes, some of seven users in 16 dimensions: no divergence at all would mean seven users' few directions."""
    rng = np.random.default_rng(5)
    codes = np.concatenate([np.repeat(np.arange(5), 7), rng.integers(5, 21, size=700)])
    x = rng.standard_normal((len(codes), 16)).astype(np.float32)
    x[:, 0] += codes / 5
    out = run(Constrained(), x, codes)
    assert np.isfinite(out).all()
    assert apart(out, codes, x) < 0.5 * apart(x, codes)
    assert apart(out, codes, x) <= 1.01 * apart(run(Gaussian(device="cpu"), x, codes), codes, x)
    assert np.linalg.svd(np.cov(out.T))[1].min() > 0.1
    assert measure_displacement(x, out) <= measure_displacement(x, run(Gaussian(device="cpu"), x, codes))


# The paper's forms. They stop where the losses pull against each other, with the attack hardly weaker, so the part of
# the contract that asks for protection is not theirs; what they promise is tested instead.


@pytest.mark.thorough
def test_the_data_free_form_lowers_the_divergence_and_ends_where_the_losses_pull_against_each_other() -> None:
    x, codes = leaky(6)
    out = run(DataFree(rate=1e-3, steps=5000), x, codes)
    assert apart(out, codes, x) < 0.7 * apart(x, codes)
    table, classes = torch.as_tensor(out).double(), ClassRows.from_codes(torch.as_tensor(codes))
    g_u = compute_gradient(
        table,
        classes,
        compute_divergence(classes.compute_moments(table), choose_ridge(torch.as_tensor(x).double(), 1e-3)),
    )
    g_r = 2 * (table - torch.as_tensor(x)) / float(np.square(x - x.mean(0)).sum())
    a = compute_task_weight(g_u, g_r, floor=0.1)
    assert float((a * g_u + (1 - a) * g_r).norm()) < 0.1 * min(float(g_u.norm()), float(g_r.norm()))
    # There remains more than the constrained form leaves for the same displacement, or as much: it is the optimum.
    best = run(Constrained(budget=measure_displacement(x, out)), x, codes)
    assert apart(best, codes, x) <= 1.001 * apart(out, codes, x)


@pytest.mark.thorough
def test_a_greater_fixed_weight_is_more_privacy_and_more_displacement() -> None:
    x, codes = leaky(7)
    found = [run(DataFree(weight=a, steps=500), x, codes) for a in (0.0, 0.1, 0.5, 0.9)]
    np.testing.assert_array_equal(found[0], x)
    assert np.all(np.diff([apart(t, codes, x) for t in found]) < 0)
    assert np.all(np.diff([measure_displacement(x, t) for t in found]) > 0)


@pytest.mark.thorough
def test_the_undivided_sum_of_the_paper_all_but_forbids_to_move() -> None:
    x, codes = leaky(8)
    moved, held = (measure_displacement(x, run(DataFree(weight=0.5, raw_sum=raw), x, codes)) for raw in (False, True))
    assert held < 0.1 * moved


def test_the_data_dependent_form_lowers_both_losses() -> None:
    x, codes = leaky(9)
    rng = np.random.default_rng(0)
    wanted = torch.as_tensor(x + 0.3 * rng.standard_normal(x.shape).astype(np.float32))

    def utility(users: torch.Tensor) -> torch.Tensor:
        assert users.dtype == torch.float32
        return (users - wanted).square().sum(1).mean()

    out = run(AttrCloakDD(device="cpu", rate=5e-3, steps=300), x, codes, utility)
    assert apart(out, codes, x) < 0.9 * apart(x, codes)
    assert float(utility(torch.as_tensor(out))) < 0.9 * float(utility(torch.as_tensor(x)))


def test_the_data_dependent_form_says_what_it_needs() -> None:
    x, codes = leaky()
    with pytest.raises(UsageError, match="Give utility"):
        run(AttrCloakDD(device="cpu"), x, codes, utility=None)


@pytest.mark.parametrize("method", [DataFree, METHODS[2]])
def test_the_papers_forms_keep_the_contract_but_for_protection(method: Any) -> None:
    x, secret = make_planted_leak(300, 4, 3, 3.0, rng=np.random.default_rng(0))
    codes = secret.codes.copy()
    codes[::5] = UNDISCLOSED
    x.flags.writeable = codes.flags.writeable = False
    short = partial(method, steps=60)
    out = run(short(), x, codes)
    assert out.dtype == np.float32
    assert measure_displacement(x, out) > 0.01
    np.testing.assert_array_equal(out[::5], x[::5])
    np.testing.assert_array_equal(run(short(), x, codes[:, None]), out)
    np.testing.assert_array_equal(run(short(strength=0.0), x, codes), x)
    np.testing.assert_allclose(run(short(strength=0.5), x, codes), (x + out) / 2, atol=1e-5)
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_allclose(run(short(), x[order], codes[order]), out[order], atol=1e-4)


# All three.


@pytest.mark.parametrize("method", METHODS)
def test_where_there_is_nothing_to_hide_nothing_changes(method: Any) -> None:
    x, codes = leaky(10)
    for nothing in (np.zeros_like(codes), np.full_like(codes, UNDISCLOSED)):
        np.testing.assert_array_equal(run(method(), x, nothing), x)


@pytest.mark.thorough
@pytest.mark.parametrize("method", METHODS)
def test_odd_tables_stay_finite(method: Any) -> None:
    x, codes = leaky(11, n=60, d=6)
    x[:, 3] = 7  # nobody differs
    x[:, 4] = codes  # the label itself
    out = run(method(steps=50) if method is not Constrained else method(), x, codes)
    assert np.isfinite(out).all()
    few = run(method(steps=50) if method is not Constrained else method(), x[:5], np.array([0, 1, 0, 1, 2]))
    assert np.isfinite(few).all()
    same = np.full((10, 3), 5, dtype=np.float32)
    assert np.isfinite(run(method(), same, np.arange(10) % 2)).all()


@pytest.mark.thorough
@pytest.mark.parametrize("method", [Constrained, DataFree])
def test_a_constant_column_stays_constant(method: Any) -> None:
    x, codes = leaky(12)
    x[:, 3] = 7
    np.testing.assert_allclose(run(method(), x, codes)[:, 3], 7, atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_what_no_defense_can_work_on_is_refused(method: Any) -> None:
    x, codes = leaky(13)
    with pytest.raises(UsageError, match="strength"):
        run(method(strength=1.5), x, codes)
    with pytest.raises(DataError, match="one row each"):
        run(method(), x, codes[:-1])
    x[0, 0] = np.nan
    with pytest.raises(DataError, match="NaN"):
        run(method(), x, codes)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_kl": 0.1, "budget": 0.1}, "not both"),
        ({"target_kl": -1.0}, "target_kl must be 0 or more"),
        ({"budget": float("nan")}, "budget must be 0 or more"),
    ],
)
def test_limits_that_make_no_sense_are_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(Constrained(**options), *leaky())


def test_a_weight_outside_is_refused() -> None:
    with pytest.raises(UsageError, match="between 0 and 1"):
        run(DataFree(weight=1.2), *leaky())


# Classes of one.


@pytest.mark.parametrize(
    ("codes", "merged", "rest"),
    [
        ([0, 0, 1, 1, -1], [0, 0, 1, 1, -1], []),
        ([0, 0, 3, 2, 1, -1], [0, 0, 1, 1, 1, -1], [1, 2, 3]),
        ([0, 0, 0, 2, 2, 1], [0, 0, 0, 1, 1, 1], [1, 2]),  # one alone: with the smallest other
        ([5, 4], [4, 4], [4, 5]),
        ([5, -1], [5, -1], [5]),
        ([-1, -1], [-1, -1], []),
    ],
)
def test_classes_of_one_user_form_the_rest(codes: list[int], merged: list[int], rest: list[int]) -> None:
    got, held = merge_lonely_classes(np.array(codes))
    assert got.tolist() == merged
    assert held == rest


@pytest.mark.thorough
@pytest.mark.parametrize("method", [Constrained, partial(DataFree, steps=100)])
def test_a_user_alone_in_a_class_is_moved_with_the_rest(method: Any) -> None:
    x, codes = leaky(14)
    codes[0], codes[1] = 7, 8
    out = run(method(), x, codes)
    merged = np.where(codes == 8, 7, codes)
    np.testing.assert_allclose(run(method(), x, merged), out, atol=1e-5)
    assert np.abs(out[:2] - x[:2]).max() > 0.01
