"""Discriminators: one tensor program equals networks one by one, chance is chance, and what is there is learned."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from recveil.core.random import make_torch_generator
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.training.discriminators import Discriminators, Groups, Standardizer, encode_secrets
from recveil.testing.worlds import make_no_leak, make_planted_leak


def made(secret, d: int, rates=(0.3, 0.5, 0.7), **options) -> Discriminators:
    options = {"hidden": 16, "rate": 0.01, "generator": make_torch_generator(np.random.default_rng(0)), **options}
    return Discriminators(secret, d, rates=rates, **options)


def number(values: np.ndarray) -> Attribute:
    return Attribute("number", np.full(len(values), UNDISCLOSED), (), values)


def test_every_class_counts_the_same_and_the_unknown_not_at_all() -> None:
    codes = np.array([0, 0, 0, 2, UNDISCLOSED, 0])  # class 1 has nobody
    (secret,) = encode_secrets([Attribute("a", codes, ("x", "y", "z"))])
    assert secret.width == 2
    assert secret.truth.tolist() == [0, 0, 0, 1, 0, 0]
    np.testing.assert_allclose(secret.weight, np.array([1, 1, 1, 4, 0, 1]) * 5 / 8)
    each = torch.tensor([[1.0, 1.0, 1.0, 3.0, 100.0, 1.0]])
    assert float(secret.average_losses(each, torch.arange(6))) == pytest.approx(2.0)
    assert float(secret.average_losses(each[:, 4:5], torch.tensor([4]))) == 0.0


def test_numbers_are_standardized_and_guessed_by_regression() -> None:
    (secret,) = encode_secrets([number(np.array([10.0, 30.0, np.nan, 20.0]))])
    assert secret.width == 1
    assert secret.weight.tolist() == [1, 1, 0, 1]
    known = secret.truth[secret.weight > 0]
    assert float(known.mean()) == pytest.approx(0, abs=1e-6)
    zero = torch.zeros(2, 4, 1)  # who knows nothing says the mean, and loses the variance
    np.testing.assert_allclose(
        secret.average_losses(secret.compute_losses(zero, torch.arange(4)), torch.arange(4)), 1.0, rtol=1e-5
    )


def test_what_does_not_vary_is_no_secret() -> None:
    one_class = Attribute("a", np.array([1, 1, UNDISCLOSED]), ("x", "y"))
    nobody = Attribute("b", np.full(3, UNDISCLOSED), ("x", "y"))
    assert encode_secrets([one_class, nobody, number(np.full(3, 2.0)), number(np.full(3, np.nan))]) == []


def test_side_by_side_is_the_same_as_one_by_one() -> None:
    x, secret = make_planted_leak(50, 4, 3, 2.0, rng=np.random.default_rng(0))
    table, users = torch.tensor(x), torch.arange(50)
    (target,) = encode_secrets([secret])
    group = made(target, 4, rates=(0.0, 0.0))
    guess = group.guess_secret(table, frozen=True)
    for k, (W, b, V, c) in enumerate(zip(*group.layers, strict=True)):
        alone = torch.relu(table @ W + b) @ V + c
        torch.testing.assert_close(guess[k], alone)
        one = functional.cross_entropy(alone, torch.tensor(secret.codes), weight=_balance(secret))
        torch.testing.assert_close(target.average_losses(target.compute_losses(guess, users), users)[k], one)


def _balance(secret: Attribute) -> torch.Tensor:
    return torch.tensor(1 / secret.counts, dtype=torch.float32)


def test_each_network_has_its_own_dropout() -> None:
    (secret,) = encode_secrets([make_planted_leak(10, 4, 2, 1.0, rng=np.random.default_rng(0))[1]])
    group = made(secret, 1000, rates=(0.0, 0.4, 0.8), hidden=1)
    W, _, V, _ = group.layers
    W.data.fill_(1.0)
    V.data.fill_(1.0)
    seen = group.guess_secret(torch.ones(200, 1000), frozen=True)[..., 0]
    np.testing.assert_allclose(seen.detach().mean(1), 1000, rtol=0.03)  # what is left is made up for
    share = seen.std(1) / 1000
    np.testing.assert_allclose(share.detach(), [0, (0.4 / 0.6 / 1000) ** 0.5, (0.8 / 0.2 / 1000) ** 0.5], rtol=0.2)


def test_frozen_networks_take_no_gradient_and_learning_gives_none_to_the_users() -> None:
    x, secret = make_planted_leak(60, 3, 2, 2.0, rng=np.random.default_rng(1))
    group = made(encode_secrets([secret])[0], 3)
    table, users = torch.tensor(x, requires_grad=True), torch.arange(60)
    group.compute_loss(users, table).backward()
    assert all(p.grad is None for p in group.layers)
    assert bool(table.grad.any())
    table.grad = None
    group.learn_step(users, table)
    assert table.grad is None


@pytest.mark.thorough
@pytest.mark.parametrize("K", [2, 3])
def test_they_learn_what_is_there_and_nothing_where_nothing_is(K: int) -> None:
    worlds = (make_planted_leak, {"size": 3.0}), (make_no_leak, {})
    ends = []
    for world, options in worlds:
        x, secret = world(2000, 5, K, **options, rng=np.random.default_rng(2))
        (target,) = encode_secrets([secret])
        group, table = made(target, 5), torch.tensor(x)
        for step in range(150):
            group.learn_step(torch.arange(step % 2, 1000, 2), table[step % 2 : 1000 : 2])
        ends.append(float(group.compute_loss(torch.arange(1000, 2000), table[1000:]).detach()))
    assert ends[0] < 0.75 * math.log(K)
    assert ends[1] == pytest.approx(math.log(K), rel=0.1)


def test_the_unit_of_the_table_does_not_matter_and_idle_columns_are_left_out() -> None:
    x = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    x[:, 2] = 7.0
    one, two = Standardizer(x)(x), Standardizer(1000 * x + 5)(1000 * x + 5)
    torch.testing.assert_close(one, two, atol=1e-3, rtol=1e-3)
    np.testing.assert_allclose(one[:, :2].std(0, correction=0), 1, rtol=1e-5)
    assert not one[:, 2].any()
    assert not Standardizer(torch.ones(4, 2))(torch.ones(4, 2)).any()


def test_groups_add_up() -> None:
    x, secret = make_planted_leak(80, 4, 2, 2.0, rng=np.random.default_rng(4))
    other = number(x[:, 0].astype(np.float64))
    groups = Groups([secret, other], None, np.random.default_rng(0))
    table, users = torch.tensor(x), torch.arange(80)
    assert groups.build_networks(table, 4, 8, [0.0], 0.01) == torch.device("cpu")
    assert [g.secret.width for g in groups.groups] == [2, 1]
    each = [float(g.compute_loss(users, table).detach()) for g in groups.groups]
    assert float(groups.compute_loss(users, table).detach()) == pytest.approx(sum(each))
    before = list(groups.groups)
    groups.build_networks(table, 4, 8, [0.0], 0.01)
    assert groups.groups == before
