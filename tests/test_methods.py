"""Every registered defense and attribute attack keeps the contract of its kind; a new one is found here by itself.

Models go through theirs in their own tests, with options that make them quick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from recveil.attacks.attribute import ATTRIBUTE_ATTACKS
from recveil.attacks.attribute.panels import make_attack, panel_members
from recveil.core.protocols import EmbeddingDefense
from recveil.core.types import FloatArray, IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.raid import Raid
from recveil.testing.contracts import check_attack, check_embedding_defense
from recveil.testing.contracts_data import check_data_defense
from recveil.testing.contracts_training import check_training_defense

MARKS = ("injects", "moves_anyway", "halts")
QUICK_OPTIONS: dict[str, dict[str, Any]] = {
    "adversarial": {"discriminators": 3, "steps": 10},
    "adversarial-pot": {"epochs": 6, "steps": 8, "defense": Adversarial(discriminators=3, steps=15)},
    "raid": {"atoms": 100},
    "raid-pot": {"epochs": 8, "steps": 10, "defense": Raid(atoms=48)},
    "d2d": {"learning_rate": 0.02, "steps": 150},
    "u2u": {"learning_rate": 0.02, "steps": 150},
    "attrcloak-dd": {"rate": 0.01, "weight": 0.9, "steps": 60},
    "attrcloak-df": {"rate": 0.01},
}


def list_defenses(place: str) -> list[str]:
    return [traits.name for traits in DEFENSES.all_traits() if traits.place == place]


@dataclass(frozen=True)
class WithLoss:
    """A defense that needs a loss of the recommendations, given one that wants the vectors where they are."""

    defense: EmbeddingDefense

    def __call__(self, x: FloatArray, codes: IntArray, **options: Any) -> FloatArray:
        start = torch.tensor(x)
        return self.defense(x, codes, **options, utility=lambda users: (users - start).square().mean())


@pytest.mark.thorough
@pytest.mark.usefixtures("no_trees")
@pytest.mark.parametrize("name", list_defenses("embeddings"))
def test_an_embedding_defense_keeps_its_contract(name: str) -> None:
    marks = {mark: getattr(DEFENSES.load(name), mark, False) for mark in MARKS}

    def build(**options: Any) -> EmbeddingDefense:
        defense = DEFENSES.make(name, device="cpu", **QUICK_OPTIONS.get(name, {}), **options)
        return WithLoss(defense) if DEFENSES.traits(name).needs_loss else defense

    check_embedding_defense(build, **marks)


@pytest.mark.thorough
@pytest.mark.parametrize("name", list_defenses("training"))
def test_a_training_defense_keeps_its_contract(name: str) -> None:
    check_training_defense(
        lambda **options: DEFENSES.make(name, device="cpu", **QUICK_OPTIONS.get(name, {}), **options),
        injects=getattr(DEFENSES.load(name), "injects", False),
    )


@pytest.mark.parametrize("name", list_defenses("data"))
def test_a_data_defense_keeps_its_contract(name: str) -> None:
    check_data_defense(DEFENSES.load(name))


LOOKING = [traits.name for traits in ATTRIBUTE_ATTACKS.all_traits() if not traits.is_blind]  # the others find nothing
SLOW = {*panel_members("paper-raid"), *panel_members("paper-attrcloak")}


@pytest.mark.thorough
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in LOOKING])
def test_an_attack_keeps_its_contract(name: str) -> None:
    check_attack(lambda: make_attack(name, "cpu"))
