"""U2U and D2D in training: the gradient is that of the loss, whatever the unit, and U2U injects what D2D hides."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_demo_world
from recveil.defenses.embeddings.au_pot import compute_pair_distance, mmd
from recveil.defenses.training.au_int import D2DInT, U2UInT
from recveil.models.bprmf import BPRMF
from recveil.testing.contracts_training import check_training_defense
from recveil.testing.worlds import make_planted_leak

METHODS = pytest.mark.parametrize("method", [U2UInT, D2DInT])


def loss_of(method, x, targets, users=None, **options) -> tuple[float, np.ndarray]:
    table = torch.tensor(x, dtype=torch.float32, requires_grad=True)
    penalty = method(weight=1.0, device="cpu", **options)(targets, epochs=3, rng=np.random.default_rng(0))
    penalty.start_epoch(table.detach())
    users = torch.arange(len(x)) if users is None else users
    value = penalty(users, table[users])
    slope = torch.autograd.grad(value, table)[0] if value.requires_grad else torch.zeros_like(table)
    assert penalty.finish(table) is table
    return float(value.detach()), slope.numpy()


def world(seed: int, K: int = 3, n: int = 90) -> tuple[np.ndarray, Attribute, list[torch.Tensor]]:
    x, secret = make_planted_leak(n, 4, K, 2.0, rng=np.random.default_rng(seed))
    return x, secret, [torch.as_tensor(np.flatnonzero(secret.codes == k)) for k in range(K)]


@METHODS
@pytest.mark.slow
def test_it_keeps_the_contract(method) -> None:
    check_training_defense(partial(method, device="cpu"), injects=method is U2UInT)
    assert getattr(method, "injects", False) == (method is U2UInT)


@pytest.mark.parametrize(("method", "objective"), [(U2UInT, compute_pair_distance), (D2DInT, mmd)])
def test_the_loss_is_that_of_the_scaled_users(method, objective) -> None:
    x, secret, members = world(0)
    scaled = torch.tensor(x / np.sqrt(x.var(0).sum()))
    assert loss_of(method, x, [secret])[0] == pytest.approx(objective(scaled, members)[0], rel=1e-4)
    half, _ = loss_of(method, x, [secret], strength=0.5)
    assert half == pytest.approx(objective(scaled, members)[0] / 2, rel=1e-4)


@METHODS
def test_the_gradient_is_the_slope_of_the_loss(method) -> None:
    x, secret, _ = world(1)
    direction = np.random.default_rng(0).standard_normal(x.shape)
    _, slope = loss_of(method, x, [secret])
    ahead, behind = (loss_of(method, x + h * direction, [secret])[0] for h in (0.01, -0.01))
    # The widths of the kernels follow the users only as far as the spread, which scaling fixes.
    assert float((slope * direction).sum()) == pytest.approx((ahead - behind) / 0.02, rel=0.02)


@METHODS
def test_the_unit_and_the_origin_do_not_matter_and_shrinking_gains_nothing(method) -> None:
    x, secret, _ = world(2)
    value, slope = loss_of(method, x, [secret])
    far, flatter = loss_of(method, 100 * x + 30, [secret])
    assert far == pytest.approx(value, rel=1e-3)
    np.testing.assert_allclose(100 * flatter, slope, atol=1e-3 * np.abs(slope).max())
    radial = (slope * (x - x.mean(0))).sum()
    assert abs(radial) < 1e-4 * np.abs(slope * (x - x.mean(0))).sum()
    assert np.abs(slope).max() > 1e-4


@METHODS
def test_the_unknown_take_no_penalty_and_have_no_say(method) -> None:
    x, secret, _ = world(3)
    more = np.vstack([x, 50 + x[:20]])
    hidden = Attribute("secret", np.concatenate([secret.codes, np.full(20, UNDISCLOSED)]), secret.labels)
    (one, slope), (two, longer) = loss_of(method, x, [secret]), loss_of(method, more, [hidden])
    assert two == pytest.approx(one, rel=1e-3)
    assert not longer[90:].any()
    np.testing.assert_allclose(longer[:90], slope, atol=1e-3 * np.abs(slope).max())


@METHODS
def test_several_attributes_add_up(method) -> None:
    x, secret, _ = world(4)
    other = Attribute("other", (x[:, 0] > 0).astype(np.int64), ("low", "high"))
    alone = [loss_of(method, x, [t]) for t in (secret, other)]
    value, slope = loss_of(method, x, [secret, other])
    assert value == pytest.approx(sum(v for v, _ in alone), rel=1e-3)
    np.testing.assert_allclose(slope, sum(g for _, g in alone), atol=1e-5)


@METHODS
def test_of_a_large_batch_some_are_looked_at_and_not_the_same_ones_each_time(method) -> None:
    x, secret, _ = world(5, n=300)
    penalty = method(users=50, device="cpu")([secret], epochs=3, rng=np.random.default_rng(0))
    penalty.start_epoch(torch.tensor(x))
    looked = []
    for _ in range(2):
        table = torch.tensor(x, requires_grad=True)
        penalty(torch.arange(300), table).backward()
        looked.append(set(table.grad.any(1).nonzero()[:, 0].tolist()))
    assert [len(users) for users in looked] == [50, 50]
    assert looked[0] != looked[1]
    with pytest.raises(UsageError, match="'users' of .* is 1. It should be greater than or equal to 2"):
        method(users=1)


def test_d2d_pulls_no_more_where_the_classes_are_more_alike_than_samples() -> None:
    rng = np.random.default_rng(6)
    half = rng.standard_normal((40, 3))
    secret = Attribute("secret", np.arange(80) // 40, ("a", "b"))
    assert loss_of(D2DInT, np.vstack([half, half]), [secret]) == (0.0, pytest.approx(np.zeros((80, 3))))
    assert loss_of(D2DInT, np.vstack([half, half + 1]), [secret])[0] > 0


@METHODS
def test_odd_batches_give_nothing_and_no_nan(method) -> None:
    x, secret, members = world(7)
    for users in (members[0], members[1][:1], torch.arange(0)):
        value, slope = loss_of(method, x, [secret], users=users)
        assert value == 0
        assert not slope.any()
    assert loss_of(method, np.full((90, 4), 3.0), [secret])[0] == 0
    pair = torch.stack([members[0][0], members[1][0]])
    assert np.isfinite(loss_of(method, x, [secret], users=pair)[1]).all()


@pytest.mark.thorough
@METHODS
def test_a_model_on_the_demo_world_learns_with_it(method) -> None:
    data = make_demo_world(0).dataset
    penalty = method(device="cpu")([data.attributes["age"]], epochs=2, rng=make_generator(0, "defense"))
    model = BPRMF(embedding_size=16, epochs=2, device="cpu")
    model.fit(leave_one_out(data), penalty=penalty, rng=make_generator(0, "t"))
    assert np.isfinite(model.user_vectors_).all()
    assert model.user_vectors_.std() > 0.01
