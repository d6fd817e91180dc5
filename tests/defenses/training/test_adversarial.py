"""Adversarial training: lines and others find little, only those who disclosed are pulled, numbers are hidden too."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from recveil.attacks.attribute.panels import make_attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_demo_world
from recveil.defenses.training.adversarial import Adversarial
from recveil.models.bprmf import BPRMF
from recveil.testing.contracts_training import check_training_defense
from recveil.testing.worlds import make_no_leak, make_planted_leak

QUICK = partial(Adversarial, discriminators=5, steps=20, device="cpu")


def held_back(x: np.ndarray, targets: list[Attribute], defense: Adversarial, passes: int = 12) -> np.ndarray:
    """A torch loop by hand: stay near the start, but be not guessed."""
    penalty = defense(targets, epochs=passes, rng=np.random.default_rng(0))
    start = torch.tensor(x)
    table = start.clone().requires_grad_()
    adam = torch.optim.Adam([table], lr=0.05)
    users = torch.arange(len(x))
    for _ in range(passes):
        penalty.start_epoch(table.detach())
        for _ in range(10):
            loss = 0.003 * (table - start).square().sum(1).mean() + penalty(users, table)
            adam.zero_grad()
            loss.backward()
            adam.step()
    return penalty.finish(table.detach()).numpy()


def reached(x: np.ndarray, secret: Attribute, *names: str) -> dict[str, float]:
    found = audit_attribute(
        x, secret, {name: make_attack(name, "cpu") for name in names}, rules=CrossValidation(repeats=1), seed=0
    )
    return {name: result.balanced_accuracy.value for name, result in found.attacks.items()}


@pytest.mark.slow
def test_it_keeps_the_contract() -> None:
    check_training_defense(QUICK)


@pytest.mark.thorough
@pytest.mark.parametrize("K", [2, 3])
def test_a_planted_leak_is_hidden_from_those_it_was_not_trained_against_too(K: int) -> None:
    x, secret = make_planted_leak(400, 6, K, 2.0, rng=np.random.default_rng(0))
    names = ("logistic", "qda", "mlp")
    before, after = (reached(t, secret, *names) for t in (x, held_back(x, [secret], QUICK())))
    for name in names:
        assert before[name] > 1 / K + 0.2
        assert abs(after[name] - 1 / K) < 0.45 * (before[name] - 1 / K), name


@pytest.mark.thorough
def test_the_more_strength_the_less_is_left() -> None:
    x, secret = make_planted_leak(400, 4, 2, 2.0, rng=np.random.default_rng(1))
    tables = [held_back(x, [secret], QUICK(strength=s)) for s in (0.0, 0.05, 1.0)]
    np.testing.assert_array_equal(tables[0], x)
    left = [reached(t, secret, "logistic")["logistic"] for t in tables]
    assert left[0] > left[1] + 0.02 > left[2] + 0.1


def test_a_number_is_hidden_by_regression() -> None:
    x, _ = make_no_leak(500, 4, 2, rng=np.random.default_rng(2))
    values = 100 + 50 * (x[:, 0] + 0.5 * np.random.default_rng(3).standard_normal(500))
    values[::7] = np.nan
    age = Attribute("age", np.full(500, UNDISCLOSED), (), values)
    out = held_back(x, [age], QUICK())

    def explained(table: np.ndarray) -> float:
        y = values[age.known] - values[age.known].mean()
        z = table[age.known] - table[age.known].mean(0)
        return 1 - np.square(y - z @ np.linalg.lstsq(z, y, rcond=None)[0]).sum() / np.square(y).sum()

    assert explained(x) > 0.7
    assert explained(out) < 0.3
    np.testing.assert_array_equal(out[~age.known], x[~age.known])


@pytest.mark.thorough
def test_several_attributes_and_each_only_for_those_who_disclosed_it() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(2, size=(500, 2))
    x = rng.standard_normal((500, 4)).astype(np.float32)
    x[:, :2] += 2.5 * codes
    codes[:50, 1] = UNDISCLOSED
    codes[450:] = UNDISCLOSED
    secrets = [Attribute(name, column.copy(), ("no", "yes")) for name, column in zip("ab", codes.T, strict=True)]
    out = held_back(x, secrets, QUICK())
    np.testing.assert_array_equal(out[450:], x[450:])
    assert (np.abs(out[:50] - x[:50]).max(1) > 0).all()
    for secret in secrets:
        before, after = (reached(t, secret, "logistic")["logistic"] for t in (x, out))
        assert before > 0.8
        assert abs(after - 0.5) < 0.5 * (before - 0.5)


def test_the_unit_of_the_table_does_not_change_the_loss() -> None:
    x, secret = make_planted_leak(100, 4, 2, 2.0, rng=np.random.default_rng(5))

    def losses(scale: float) -> list[float]:
        penalty = QUICK()([secret], epochs=2, rng=np.random.default_rng(0))
        table = torch.tensor(scale * x, requires_grad=True)
        penalty.start_epoch(table)
        return [float(penalty(torch.arange(100), table).detach()) for _ in range(5)]

    np.testing.assert_allclose(losses(1000.0), losses(1.0), rtol=1e-3)


def test_the_order_of_the_users_in_a_batch_is_theirs() -> None:
    """The loss of a user is that of the user's own class, wherever the user stands in the batch."""
    x, secret = make_planted_leak(200, 4, 2, 3.0, rng=np.random.default_rng(6))
    order = np.random.default_rng(0).permutation(200)

    def gap(users: np.ndarray) -> float:
        penalty = Adversarial(device="cpu", steps=100)([secret], epochs=2, rng=np.random.default_rng(0))
        table = torch.tensor(x, requires_grad=True)
        penalty.start_epoch(table)
        return float(penalty(torch.as_tensor(users), table[torch.as_tensor(users)]).detach())

    assert gap(order) == pytest.approx(gap(np.arange(200)), rel=0.1)
    assert gap(order) > 0.9 * -0.05 * np.log(2)  # guessed well: missed by less than chance


@pytest.mark.thorough
def test_weak_discriminators_are_led_and_the_leak_grows() -> None:
    x, secret = make_planted_leak(300, 6, 2, 1.0, rng=np.random.default_rng(7))
    slow, quick = (
        held_back(x, [secret], QUICK(weight=1.0, learning_rate=r, steps=s)) for r, s in ((1e-4, 0), (0.01, 20))
    )
    before, led, kept = (reached(t, secret, "qda")["qda"] for t in (x, slow, quick))
    assert led > before + 0.1
    assert kept < before


@pytest.mark.slow
def test_what_it_adds_to_a_model_on_the_demo_world() -> None:
    data = make_demo_world(0).dataset
    split = leave_one_out(data)
    gender, handedness = data.attributes["gender"], data.attributes["handedness"]
    model = partial(BPRMF, embedding_size=16, epochs=3, device="cpu")
    penalty = QUICK()([gender, handedness], epochs=3, rng=make_generator(0, "defense"))
    plain = model().fit(split, rng=make_generator(0, "t")).user_vectors_
    out = model().fit(split, penalty=penalty, rng=make_generator(0, "t")).user_vectors_
    before, after = (reached(t, gender, "logistic")["logistic"] for t in (plain, out))
    assert before > 0.68
    assert abs(after - 0.5) < 0.5 * (before - 0.5)


@pytest.mark.parametrize("dropout", [(0.7, 0.3), (-0.1, 0.5), (0.3, 1.0)])
def test_bad_dropout_is_refused(dropout: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="dropout"):
        Adversarial(dropout=dropout)


def test_bad_networks_are_refused() -> None:
    with pytest.raises(UsageError, match="'discriminators' of Adversarial is 0"):
        Adversarial(discriminators=0)
    with pytest.raises(UsageError, match="'steps' of Adversarial is -1"):
        Adversarial(steps=-1)
