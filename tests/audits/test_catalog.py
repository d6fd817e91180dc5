"""Every entry of the catalog keeps the contract of its kind; a new one is found here by itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from recveil.attacks.attribute.panels import NEVER_HEADLINE
from recveil.audits.catalog import (
    ATTACKS,
    DATA_DEFENSES,
    DEFENSES,
    EMBEDDING_DEFENSES,
    MODELS,
    PANELS,
    TRAINING_DEFENSES,
    described,
    lookup,
    make,
    panel,
    place_of,
)
from recveil.core.errors import UsageError
from recveil.core.protocols import EmbeddingDefense
from recveil.core.types import FloatArray, IntArray
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.raid import RaidPaper
from recveil.testing.contracts import check_attack, check_embedding_defense
from recveil.testing.contracts_data import check_data_defense
from recveil.testing.contracts_training import check_training_defense

MARKS = ("injects", "moves_anyway", "halts")
SPARING: dict[str, dict[str, Any]] = {  # of time
    "adversarial": {"discriminators": 5, "steps": 20},
    "adversarial-pot": {"epochs": 8, "steps": 10, "defense": Adversarial(discriminators=4)},
    "raid-paper": {"atoms": 100},
    "raid-pot": {"epochs": 8, "steps": 10, "defense": RaidPaper(atoms=64)},
    "d2d": {"learning_rate": 0.01},
    "attrcloak-dd": {"rate": 0.01, "weight": 0.9, "steps": 60},
    "attrcloak-df": {"rate": 0.01},
}


@dataclass(frozen=True)
class WithLoss:
    """A defense that needs to know what the vectors are worth, given a loss that wants them where they are.

    From there min-norm weighting does not move at all, so the weights are fixed.
    """

    defense: EmbeddingDefense

    def __call__(self, x: FloatArray, codes: IntArray, **options: Any) -> FloatArray:
        start = torch.tensor(x)
        return self.defense(x, codes, **options, utility=lambda users: (users - start).square().mean())


@pytest.mark.parametrize("name", EMBEDDING_DEFENSES)
def test_an_embedding_defense_keeps_its_promises(name: str) -> None:
    marks = {mark: getattr(EMBEDDING_DEFENSES[name], mark, False) for mark in MARKS}

    def make(**options: Any) -> EmbeddingDefense:
        defense = EMBEDDING_DEFENSES[name](device="cpu", **SPARING.get(name, {}), **options)
        return WithLoss(defense) if name == "attrcloak-dd" else defense

    check_embedding_defense(make, **marks)


@pytest.mark.parametrize("name", TRAINING_DEFENSES)
def test_a_training_defense_keeps_its_promises(name: str) -> None:
    made = TRAINING_DEFENSES[name]
    check_training_defense(
        lambda **options: made(device="cpu", **SPARING.get(name, {}), **options),
        injects=getattr(made, "injects", False),
    )


@pytest.mark.parametrize("name", DATA_DEFENSES)
def test_a_data_defense_keeps_its_promises(name: str) -> None:
    check_data_defense(DATA_DEFENSES[name])


def test_every_defense_acts_at_one_place() -> None:
    names = [name for table in DEFENSES.values() for name in table]
    assert len(names) == len(set(names))
    assert [place_of(n) for n in ("blurme", "raid", "sliced", "popularity")] == list(DEFENSES)
    with pytest.raises(UsageError, match="Did you mean 'sliced'"):
        place_of("slced")


LOOKING = [name for name in ATTACKS if name not in NEVER_HEADLINE]  # the others are made to find nothing
SLOW = {*PANELS["paper-raid"], *PANELS["paper-attrcloak"]}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in LOOKING])
def test_an_attack_keeps_its_promises(name: str) -> None:
    check_attack(lambda: ATTACKS[name]("cpu"))


def test_panels_are_made_of_attacks_there_are() -> None:
    for name, members in PANELS.items():
        assert len(members) == len(set(members)) > 0
        assert list(panel(name, "cpu")) == list(members)
    with pytest.raises(UsageError, match="No panel is called 'fsat'. Did you mean 'fast'"):
        panel("fsat")


def test_a_wrong_name_is_met_with_the_nearest() -> None:
    assert lookup("defense", "gaussian", EMBEDDING_DEFENSES) is EMBEDDING_DEFENSES["gaussian"]
    with pytest.raises(UsageError, match=r"No defense is called 'gausian'\. Did you mean 'gaussian'\? Known: "):
        lookup("defense", "gausian", EMBEDDING_DEFENSES)


def test_a_wrong_option_is_met_with_the_nearest() -> None:
    assert make("defense", "sliced", EMBEDDING_DEFENSES, rounds=3).rounds == 3
    with pytest.raises(UsageError, match="'stength'. Did you mean 'strength'"):
        make("defense", "sliced", EMBEDDING_DEFENSES, stength=1)


def test_every_entry_says_what_it_is() -> None:
    told = described()
    assert set(told["models"]) == set(MODELS)
    assert set(told["defenses"]) >= set(EMBEDDING_DEFENSES)
    assert set(told["attacks"]) >= set(ATTACKS)
    for kind, entries in told.items():
        assert described(kind) == {kind: entries}
        for name, line in entries.items():
            assert len(line) > 10, f"{kind} '{name}' has no description"
    with pytest.raises(UsageError, match="Did you mean 'attacks'"):
        described("atacks")
