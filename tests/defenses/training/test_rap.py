"""RAP: it reads lists, it hides from its own kind, and it writes the label where others read it."""

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
from recveil.defenses.training.discriminators import Standardizer
from recveil.defenses.training.rap import RAP
from recveil.models.bprmf import BPRMF
from recveil.testing.contracts_training import check_training_defense
from recveil.testing.worlds import make_planted_leak


def begun(x: np.ndarray, targets: list[Attribute], **options):
    penalty = RAP(device="cpu", **options)(targets, epochs=3, rng=np.random.default_rng(0))
    penalty.start_epoch(torch.tensor(x))
    return penalty


@pytest.mark.slow
def test_it_keeps_the_contract_as_one_that_injects() -> None:
    assert RAP.injects
    check_training_defense(partial(RAP, device="cpu"), injects=True)


def test_it_needs_items_and_says_so() -> None:
    x, secret = make_planted_leak(20, 4, 2, 1.0, rng=np.random.default_rng(0))
    penalty, users = begun(x, [secret]), torch.arange(20)
    assert penalty.needs_items
    with pytest.raises(UsageError, match="no item vectors"):
        penalty(users, torch.tensor(x))
    with pytest.raises(UsageError, match="4 dimensions and item vectors 3"):
        penalty(users, torch.tensor(x), torch.zeros(5, 3))
    for wrong in ("k", "hidden", "steps"):
        with pytest.raises(UsageError, match=f"'{wrong}' of RAP is 0"):
            RAP(**{wrong: 0})


def test_the_attacker_reads_the_mean_of_the_best_items_and_the_lists_are_new_in_each_pass() -> None:
    rng = np.random.default_rng(1)
    x, secret = make_planted_leak(30, 4, 2, 1.0, rng=rng)
    penalty = begun(x, [secret], k=3)
    items = torch.tensor(rng.standard_normal((12, 4)), dtype=torch.float32)
    some = torch.tensor([7, 3, 20])
    table = torch.tensor(x)
    penalty(some, table[some], items)
    best = np.argsort(-(x @ items.numpy().T), axis=1)[:, :3]
    np.testing.assert_array_equal(np.sort(penalty.lists[some]), np.sort(best[some]))
    penalty(torch.arange(30), -table, items)  # the three have their lists already, the others turned round
    np.testing.assert_array_equal(np.sort(penalty.lists[some]), np.sort(best[some]))
    worst = np.argsort(x @ items.numpy().T, axis=1)[:, :3]
    np.testing.assert_array_equal(np.sort(penalty.lists[0]), np.sort(worst[0]))
    penalty.start_epoch(-table)
    penalty(some, -table[some], items)
    np.testing.assert_array_equal(np.sort(penalty.lists[some]), np.sort(worst[some]))
    means = items[torch.as_tensor(best[some].copy())].mean(1)
    fresh = begun(x, [secret], k=3)
    torch.testing.assert_close(fresh._describe_lists(some, table[some], items), Standardizer(means)(means))


def test_lists_are_no_longer_than_there_are_items() -> None:
    x, secret = make_planted_leak(20, 4, 2, 1.0, rng=np.random.default_rng(2))
    assert torch.isfinite(begun(x, [secret], k=10)(torch.arange(20), torch.tensor(x), torch.randn(3, 4)))


def test_what_only_the_lists_tell_is_found_and_users_alone_are_pulled() -> None:
    rng = np.random.default_rng(3)
    x, secret = make_planted_leak(400, 6, 2, 2.5, rng=rng)
    secret = Attribute("secret", np.where(np.arange(400) % 5 == 0, UNDISCLOSED, secret.codes), secret.labels)
    items = torch.tensor(rng.standard_normal((80, 6)), dtype=torch.float32, requires_grad=True)
    penalty, users = begun(x, [secret], steps=100, weight=1.0), torch.arange(400)
    penalty.standard.scale.zero_()  # the attacker is blind to the vectors, and sees the lists
    assert -float(penalty(users, torch.tensor(x), items).detach()) < 0.6 * np.log(2)
    table = torch.tensor(x, requires_grad=True)
    penalty.start_epoch(torch.tensor(x))
    penalty(users, table, items).backward()
    assert items.grad is None
    assert bool(table.grad[secret.known].any())
    assert not table.grad[~secret.known].any()


def test_a_model_on_the_demo_world_learns_with_it() -> None:
    data = make_demo_world(0).dataset
    penalty = RAP(device="cpu")([data.attributes["gender"]], epochs=2, rng=make_generator(0, "defense"))
    model = BPRMF(embedding_size=16, epochs=2, device="cpu")
    model.fit(leave_one_out(data), penalty=penalty, rng=make_generator(0, "t"))
    assert np.isfinite(model.user_vectors_).all()
    assert not penalty.stale.any()
