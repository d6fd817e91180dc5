"""Penalties declare every member of the protocol, and one with nothing to do changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.types import Attribute
from recveil.defenses import DEFENSES
from recveil.defenses.training.penalties import NoPenalty

MEMBERS = {"finish", "measure_shortfall", "needs_items", "start_epoch"}
GENDER = Attribute("gender", np.array([0, 1, 0, 1, -1]), ("f", "m"))
TRAINING = pytest.mark.parametrize("name", [t.name for t in DEFENSES.all_traits() if t.place == "training"])


def make_penalty(name: str, *targets: Attribute, **options: object):
    small = {"atoms": 2} if name.startswith("raid") else {}
    return DEFENSES.make(name, **small, **options)(targets, epochs=3, rng=np.random.default_rng(0))


@TRAINING
def test_every_penalty_declares_all_members(name: str) -> None:
    penalty = make_penalty(name, GENDER)
    assert set(dir(penalty)) >= MEMBERS
    assert penalty.needs_items == (name == "rap")
    assert penalty.measure_shortfall(torch.zeros(5, 2)) == np.inf


@TRAINING
def test_nothing_to_hide_means_no_loss_and_no_change(name: str) -> None:
    alone, unknown = (Attribute("gender", np.full(5, code), ("f", "m")) for code in (1, -1))
    if not name.startswith("raid"):  # which counts the epochs all the same
        assert not isinstance(make_penalty(name, GENDER), NoPenalty)
        assert not isinstance(make_penalty(name, alone, GENDER), NoPenalty)
        assert isinstance(make_penalty(name, GENDER, strength=0.0), NoPenalty)
        assert isinstance(make_penalty(name, unknown, alone), NoPenalty)
    for penalty in (make_penalty(name, GENDER, strength=0.0), make_penalty(name, alone)):
        table = torch.randn(5, 2, requires_grad=True)
        for _ in range(3):
            penalty.start_epoch(table)
            assert float(penalty(torch.arange(5), table)) == 0.0
        assert penalty.finish(table) is table
