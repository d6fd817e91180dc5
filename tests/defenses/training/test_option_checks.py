"""What every defense in training refuses, with words that help."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.au_int import D2DInT, U2UInT
from recveil.defenses.training.option_checks import check_rows, check_targets, check_training_options
from recveil.defenses.training.rap import RAP

EVERY = pytest.mark.parametrize("defense", [Adversarial, RAP, U2UInT, D2DInT])
GENDER = Attribute("gender", np.array([0, 1, 0, 1, -1]), ("f", "m"))
INCOME = Attribute("income", np.full(5, -1), (), np.array([1.0, 2.0, np.nan, 4.0, 5.0]))


@EVERY
def test_options_are_checked_when_the_defense_is_made(defense) -> None:
    for strength in (-0.1, 1.1, float("nan")):
        with pytest.raises(UsageError, match="'strength' of .* is"):
            defense(strength=strength)
    with pytest.raises(UsageError, match="'weight' of .* is -1.0. It should be greater than or equal to 0"):
        defense(weight=-1.0)
    with pytest.raises(UsageError, match="'weight' of .* is inf. It should be a finite number"):
        defense(weight=float("inf"))
    with pytest.raises(UsageError, match="No device is called 'gpu'"):
        defense(device="gpu")


@EVERY
def test_targets_and_tables_that_do_not_agree_are_refused(defense) -> None:
    rng = np.random.default_rng(0)
    with pytest.raises(UsageError, match="No attribute was given to protect"):
        defense()([], epochs=3, rng=rng)
    with pytest.raises(DataError, match=r"different numbers of users \(gender: 5, other: 3\)"):
        defense()([GENDER, Attribute("other", np.array([0, 1, 0]), ("a", "b"))], epochs=3, rng=rng)
    with pytest.raises(DataError, match=r"of 5 users, and the table has shape \(4, 2\)"):
        defense()([GENDER], epochs=3, rng=rng).start_epoch(torch.zeros(4, 2))
    with pytest.raises(UsageError, match="Call start_epoch"):
        defense()([GENDER], epochs=3, rng=rng)(torch.arange(5), torch.zeros(5, 2), torch.zeros(7, 2))


@EVERY
def test_a_defense_leaves_the_draws_of_the_generator_it_is_given(defense) -> None:
    """So the model that draws from the same one learns from the same draws."""
    rng, other = np.random.default_rng(3), np.random.default_rng(3)
    penalty = defense()([GENDER], epochs=3, rng=rng)
    penalty.start_epoch(torch.randn(5, 2))
    penalty(torch.arange(5), torch.randn(5, 2), torch.randn(7, 2))
    assert rng.integers(2**62) == other.integers(2**62)


def test_numbers_are_refused_by_those_who_know_classes_only() -> None:
    assert check_targets([INCOME, GENDER], numbers=True) == 5
    with pytest.raises(DataError, match="'income' is a number"):
        check_targets([GENDER, INCOME], numbers=False)
    with pytest.raises(DataError, match="'income' is a number"):
        U2UInT()([INCOME], epochs=3, rng=np.random.default_rng(0))


def test_what_is_allowed_passes() -> None:
    for strength, device in ((0, None), (0.5, "cpu"), (1.0, None)):
        check_training_options(RAP(strength=strength, device=device))
    check_rows(torch.zeros(3, 2), 3)
    with pytest.raises(DataError, match=r"shape \(3,\)"):
        check_rows(torch.zeros(3), 3)
