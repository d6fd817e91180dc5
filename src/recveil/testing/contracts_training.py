"""Contract of training defenses.

`check_training_defense(MyDefense)` checks every promise. A broken promise raises `AssertionError` with a sentence that
names it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import torch

from recveil.core.errors import RecveilError
from recveil.core.protocols import Penalty, TrainingDefense
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.models.bprmf import BPRMF
from recveil.testing.contracts import measure_leak, measure_tree_leak

__all__ = ["check_training_defense"]

EPOCHS = 8
"""Epochs of each training."""


DefenseBuilder = Callable[..., TrainingDefense]


def check_training_defense(builder: DefenseBuilder, *, injects: bool = False) -> None:
    """Check all promises of a training defense.

    A small matrix factorization is trained on a world that leaks, once undefended and a few times defended.

    Args:
        builder: makes the defense; `builder(strength=0.0)` must make one that changes nothing.
        injects: the method is known to leave or write the label where linear attacks do not find it. Logistic
            regression must then find less than before, but not half as much, and trees at least four fifths.
    """
    gender, age = (replace(secret, codes=secret.codes.copy()) for secret in _make_leaky_world()[1])
    undefended = _train_undefended()
    _check_zero_strength(builder, gender, undefended)
    _check_undisclosed_users(builder, gender)
    _check_nothing_to_hide(builder, gender)
    max_ratio = 0.9 if injects else 0.5
    codes = gender.codes.copy()
    out = _train_model(_make_penalty(builder(), [gender]))
    assert np.array_equal(gender.codes, codes), "The codes of the input were changed."
    shape = undefended.shape
    assert out.shape == shape, f"The table has shape {shape}, and the finished table has {out.shape}."
    assert np.isfinite(out).all(), "The vectors hold values that are not numbers."
    again = _train_model(_make_penalty(builder(), [gender]))
    assert np.array_equal(out, again), "The same seed gave two different tables."
    _check_leak_falls(undefended, out, gender, max_ratio)
    both = _train_model(_make_penalty(builder(), [gender, age]))
    for secret in (gender, age):
        _check_leak_falls(
            undefended, both, secret, (1 + 3 * max_ratio) / 4
        )  # two targets at once reduce each leak less
    if injects:
        _check_injection(undefended, out, gender)


def _check_injection(undefended: FloatArray, out: FloatArray, secret: Attribute) -> None:
    before, after = measure_tree_leak(undefended, secret), measure_tree_leak(out, secret)
    assert after > 0.8 * before, f"Marked as injecting, but the advantage of trees was {before:.2f} and is {after:.2f}."


@cache
def _make_leaky_world() -> tuple[Split, tuple[Attribute, Attribute]]:
    """Make 400 users who leak gender and, less, age.

    Without validation items all epochs run.
    """
    leaks = {"gender": 2.5, "age": 2.0}
    world = make_world(
        n_users=400, n_items=150, n_interactions=14_000, leaks=leaks, strength=2.4, rng=make_generator(0, "contract")
    )
    split = leave_one_out(world.dataset)
    attributes = world.dataset.attributes
    without_validation = replace(split, valid=split.valid.take(np.zeros(len(split.valid), bool)))
    return without_validation, (attributes["gender"], attributes["age"])


@cache
def _train_undefended() -> FloatArray:
    return _train_model(None)


def _make_penalty(defense: TrainingDefense, targets: Sequence[Attribute]) -> Penalty:
    return defense(targets, epochs=EPOCHS, rng=make_generator(0, "contract", "defense"))


def _train_model(penalty: Penalty | None) -> FloatArray:
    model = BPRMF(embedding_size=16, epochs=EPOCHS, learning_rate=0.02, device="cpu")
    return model.fit(_make_leaky_world()[0], penalty=penalty, rng=make_generator(0, "contract", "model")).user_vectors_


def _check_leak_falls(undefended: FloatArray, out: FloatArray, secret: Attribute, max_ratio: float) -> None:
    before, after = measure_leak(undefended, secret), measure_leak(out, secret)
    assert before > 0.3, f"The world should leak {secret.name}, and the advantage is {before:.2f}."
    assert after < max_ratio * before, (
        f"Logistic regression's advantage for {secret.name} was {before:.2f} and is still {after:.2f}."
    )


def _check_zero_strength(builder: DefenseBuilder, secret: Attribute, undefended: FloatArray) -> None:
    out = _train_model(_make_penalty(builder(strength=0.0), [secret]))
    assert np.array_equal(out, undefended), "Strength 0 must change nothing, and the model learned something else."


def _check_undisclosed_users(builder: DefenseBuilder, secret: Attribute) -> None:
    hidden = replace(secret, codes=np.where(np.arange(len(secret.codes)) % 4 == 0, UNDISCLOSED, secret.codes))
    gradient, _ = _run_epochs(_make_penalty(builder(), [hidden]), secret)
    assert not gradient[~hidden.known].any(), "Undisclosed users get a gradient from the penalty."
    assert gradient[hidden.known].any(), "No user gets a gradient from the penalty in any epoch."


def _check_nothing_to_hide(builder: DefenseBuilder, secret: Attribute) -> None:
    for code, condition in ((UNDISCLOSED, "If all users are undisclosed"), (0, "If all users are of one class")):
        try:
            penalty = _make_penalty(builder(), [replace(secret, codes=np.full_like(secret.codes, code))])
        except RecveilError:
            continue  # an error is as good as no change
        gradient, distance = _run_epochs(penalty, secret)
        assert not gradient.any(), f"{condition}, the penalty must have no gradient."
        assert distance < 1e-4, f"{condition}, the finished table must not change."


def _run_epochs(penalty: Penalty, secret: Attribute) -> tuple[FloatArray, float]:
    """Run all epochs on a fixed table that leaks.

    Returns summed absolute gradients, and how far `finish` moves the table.
    """
    rng = make_generator(1, "contract")
    n, d = len(secret.codes), 8
    start = torch.tensor(rng.standard_normal((n, d)) + secret.codes[:, None], dtype=torch.float32)
    items = torch.tensor(rng.standard_normal((50, d)), dtype=torch.float32)
    gradients = torch.zeros(n, d)
    for _ in range(EPOCHS):
        penalty.start_epoch(start.clone())
        users = torch.as_tensor(rng.permutation(n))
        table = start.clone().requires_grad_()
        loss = penalty(users, table[users], items.clone().requires_grad_())
        assert loss.ndim == 0, f"A penalty must be one number, and has shape {tuple(loss.shape)}."
        assert bool(torch.isfinite(loss)), "The penalty is not a number."
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
            gradients += 0 if table.grad is None else table.grad.abs()
    with torch.no_grad():
        distance = (penalty.finish(start.clone()) - start).abs().max()
    return gradients.numpy(), float(distance)
