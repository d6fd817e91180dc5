"""What every defense in training promises, as one call: `check_training_defense(MyDefense)`.

Each check raises `AssertionError` with a sentence that says which promise was broken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Protocol

import numpy as np
import torch

from recveil.attacks.attribute.classic import Boosted
from recveil.attacks.attribute.classifiers import ClassifierAttack
from recveil.attacks.attribute.neural import Logistic
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import RecveilError
from recveil.core.protocols import Penalty, TrainingDefense
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.models.bprmf import BPRMF

__all__ = ["check_training_defense"]

EPOCHS = 8


class MakeDefense(Protocol):
    """A constructor; it takes at least `strength`."""

    def __call__(self, **options: Any) -> TrainingDefense:
        """A defense with these options."""


def check_training_defense(make: MakeDefense, *, injects: bool = False) -> None:
    """Check all promises of a defense in training; `make(strength=0.0)` must give one that does nothing.

    A small matrix factorization learns a world that leaks, once without a defense and a few times with it.

    Args:
        make: a constructor of the defense.
        injects: the method is known to leave or write the label where lines do not look. Then logistic regression must
            find less than before, if not half as much, and trees at least four fifths of what they did: whoever hides
            it from them needs no such mark.
    """
    gender, age = (replace(secret, codes=secret.codes.copy()) for secret in _world()[1])
    plain = _plain()
    _does_nothing_at_zero(make, gender, plain)
    _leaves_the_unknown(make, gender)
    _nothing_to_hide(make, gender)
    left = 0.9 if injects else 0.5
    before = gender.codes.copy()
    out = _trained(_penalty(make(), [gender]))
    assert np.array_equal(gender.codes, before), "The codes that were handed in have been changed."
    assert out.shape == plain.shape, f"The table has shape {plain.shape}, and what was finished has {out.shape}."
    assert np.isfinite(out).all(), "The vectors hold values that are not numbers."
    assert np.array_equal(out, _trained(_penalty(make(), [gender]))), "The same seed gave two different tables."
    _falls(plain, out, gender, left)
    both = _trained(_penalty(make(), [gender, age]))
    for secret in (gender, age):
        _falls(plain, both, secret, (1 + 3 * left) / 4)  # both at once, each a little less
    if injects:
        trees = ClassifierAttack(Boosted)
        seen, now = _leak(plain, gender, trees), _leak(out, gender, trees)
        assert now > 0.8 * seen, f"Marked as injecting, but the advantage of trees was {seen:.2f} and is {now:.2f}."


@cache
def _world() -> tuple[Split, tuple[Attribute, Attribute]]:
    """Four hundred users who leak their gender and, less so, their age; nothing to validate, so that all passes run."""
    leaks = {"gender": 2.5, "age": 2.0}
    world = make_world(
        n_users=400, n_items=150, n_interactions=14_000, leaks=leaks, strength=2.4, rng=make_generator(0, "contract")
    )
    split = leave_one_out(world.dataset)
    attributes = world.dataset.attributes
    return replace(split, valid=split.valid.take(np.zeros(len(split.valid), bool))), (
        attributes["gender"],
        attributes["age"],
    )


@cache
def _plain() -> FloatArray:
    return _trained(None)


def _penalty(defense: TrainingDefense, targets: Sequence[Attribute]) -> Penalty:
    return defense(targets, epochs=EPOCHS, rng=make_generator(0, "contract", "defense"))


def _trained(penalty: Penalty | None) -> FloatArray:
    model = BPRMF(embedding_size=16, epochs=EPOCHS, learning_rate=0.02, device="cpu")
    return model.fit(_world()[0], penalty=penalty, rng=make_generator(0, "contract", "model")).user_vectors_


def _leak(x: FloatArray, secret: Attribute, attack: Attack | None = None) -> float:
    attacks = {"one": attack or Logistic(device="cpu")}
    return audit_attribute(x, secret, attacks, rules=CrossValidation(repeats=1), seed=0).headline.advantage.value


def _falls(plain: FloatArray, out: FloatArray, secret: Attribute, left: float) -> None:
    before, after = _leak(plain, secret), _leak(out, secret)
    assert before > 0.3, f"The world should leak {secret.name}, and the advantage is {before:.2f}."
    assert after < left * before, (
        f"Logistic regression's advantage for {secret.name} was {before:.2f} and is still {after:.2f}."
    )


def _does_nothing_at_zero(make: MakeDefense, secret: Attribute, plain: FloatArray) -> None:
    out = _trained(_penalty(make(strength=0.0), [secret]))
    assert np.array_equal(out, plain), "Strength 0 must change nothing, and the model learned something else."


def _leaves_the_unknown(make: MakeDefense, secret: Attribute) -> None:
    hidden = replace(secret, codes=np.where(np.arange(len(secret.codes)) % 4 == 0, UNDISCLOSED, secret.codes))
    pull, _ = _played(_penalty(make(), [hidden]), secret)
    assert not pull[~hidden.known].any(), "Users whose attribute is unknown take a penalty."
    assert pull[hidden.known].any(), "Nobody takes a penalty in any pass."


def _nothing_to_hide(make: MakeDefense, secret: Attribute) -> None:
    for code, told in ((UNDISCLOSED, "Where nobody's class is known"), (0, "Where all users are of one class")):
        try:
            penalty = _penalty(make(), [replace(secret, codes=np.full_like(secret.codes, code))])
        except RecveilError:
            continue  # to say so is as good as to do nothing
        pull, moved = _played(penalty, secret)
        assert not pull.any(), f"{told} there is nothing to pull for."
        assert moved < 1e-4, f"{told} there is nothing to change at the end."


def _played(penalty: Penalty, secret: Attribute) -> tuple[FloatArray, float]:
    """All passes on a table that leaks and stands still: the gradient in sum of sizes, and how far the end moves it."""
    rng = make_generator(1, "contract")
    n, d = len(secret.codes), 8
    start = torch.tensor(rng.standard_normal((n, d)) + secret.codes[:, None], dtype=torch.float32)
    items = torch.tensor(rng.standard_normal((50, d)), dtype=torch.float32)
    pull = torch.zeros(n, d)
    for _ in range(EPOCHS):
        penalty.start_epoch(start.clone())
        users = torch.as_tensor(rng.permutation(n))
        table = start.clone().requires_grad_()
        loss = penalty(users, table[users], items.clone().requires_grad_())
        assert loss.ndim == 0, f"A penalty must be one number, and has shape {tuple(loss.shape)}."
        assert bool(torch.isfinite(loss)), "The penalty is not a number."
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]
            pull += 0 if table.grad is None else table.grad.abs()
    with torch.no_grad():
        moved = (penalty.finish(start.clone()) - start).abs().max()
    return pull.numpy(), float(moved)
