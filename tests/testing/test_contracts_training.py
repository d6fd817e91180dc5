"""A contract is worth what it catches: each broken defense here must fail with the sentence that names its fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.core.types import Attribute
from recveil.defenses.training.au_int import D2DInT
from recveil.defenses.training.penalties import PlainPenalty
from recveil.testing.contracts_training import check_training_defense


@dataclass
class Broken:
    """A sound defense with something done to its penalty."""

    wrap: Callable[..., Any]
    strength: float = 1.0

    def __call__(self, targets: list[Attribute], *, epochs: int, rng: np.random.Generator) -> Any:
        sound = D2DInT(strength=self.strength, device="cpu")(targets, epochs=epochs, rng=rng)
        return self.wrap(sound, targets, self.strength)


class Sound(PlainPenalty):
    def __init__(self, sound: Any, targets: list[Attribute], strength: float) -> None:
        self.sound, self.targets, self.strength = sound, targets, strength

    def start_epoch(self, table: torch.Tensor) -> None:
        self.sound.start_epoch(table)

    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return self.sound(users, vectors, items)

    def finish(self, table: torch.Tensor) -> torch.Tensor:
        return self.sound.finish(table)


class AlwaysOn(Sound):
    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return super().__call__(users, vectors, items) + 1e-3 * vectors.square().mean()


class OnAtTheEnd(Sound):
    def finish(self, table: torch.Tensor) -> torch.Tensor:
        return 0.9 * table


class PullsAll(Sound):
    """Everybody, if anybody."""

    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        loss = super().__call__(users, vectors, items)
        return loss + 0.1 * vectors.square().mean() if loss.requires_grad else loss


class PullsForNothing(Sound):
    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        alone = self.strength > 0 and len(np.unique(self.targets[0].codes)) == 1
        return vectors.square().mean() if alone else super().__call__(users, vectors, items)


class MovesForNothing(Sound):
    def finish(self, table: torch.Tensor) -> torch.Tensor:
        return table + 1 if self.strength > 0 and len(np.unique(self.targets[0].codes)) == 1 else table


class Lazy(Sound):
    """Says something, but not loud enough."""

    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return 1e-3 * super().__call__(users, vectors, items)


class OwnDice(Sound):
    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return super().__call__(users, vectors, items) * float(np.random.default_rng().random() + 0.5)


class WritesCodes(Sound):
    def start_epoch(self, table: torch.Tensor) -> None:
        super().start_epoch(table)
        if len(table) == 400 and self.strength > 0 and not (self.targets[0].codes < 0).any():
            self.targets[0].codes[0] = 1
            self.targets[0].codes[1] = 0
            self.targets[0].codes[2] = 1


class Short(Sound):
    def finish(self, table: torch.Tensor) -> torch.Tensor:
        return table[:-1] if self.strength > 0 and table.shape[1] == 16 else table


class Vector(Sound):
    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return super().__call__(users, vectors, items).expand(2) if self.strength > 0 else vectors.new_zeros(())


class NoNumber(Sound):
    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return super().__call__(users, vectors, items) * (float("nan") if self.strength > 0 else 0)


class OnlyTheFirst(Sound):
    """Forgets all attributes but one."""

    def __init__(self, sound: Any, targets: list[Attribute], strength: float) -> None:
        only = D2DInT(strength=strength, device="cpu")(targets[:1], epochs=1, rng=np.random.default_rng(0))
        super().__init__(only, targets, strength)


class Still(Sound):
    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, items: Any = None) -> torch.Tensor:
        return vectors.new_zeros(())


@pytest.mark.thorough
def test_a_sound_defense_passes_and_may_refuse_what_is_nothing_to_hide() -> None:
    def refusing(sound: Any, targets: list[Attribute], strength: float) -> Any:
        if len(np.unique(targets[0].codes)) == 1:
            raise UsageError("There is nothing to hide.")
        return Sound(sound, targets, strength)

    check_training_defense(lambda **options: Broken(refusing, **options))


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrap", "complaint"),
    [
        (AlwaysOn, "Strength 0"),
        (OnAtTheEnd, "Strength 0"),
        (PullsAll, "Undisclosed users get a gradient"),
        (PullsForNothing, "must have no gradient"),
        (MovesForNothing, "must not change"),
        (Still, "No user gets a gradient"),
        (Lazy, "for gender was"),
        (OnlyTheFirst, "for age was"),
        (OwnDice, "same seed"),
        (WritesCodes, "codes of the input"),
        (Short, "the finished table has"),
        (Vector, "must be one number"),
        (NoNumber, "is not a number"),
    ],
)
def test_a_broken_defense_is_noticed(wrap: Callable[..., Any], complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_training_defense(lambda **options: Broken(wrap, **options))


@pytest.mark.slow
def test_a_method_marked_as_injecting_must_inject() -> None:
    with pytest.raises(AssertionError, match="Marked as injecting, but the advantage of trees was"):
        check_training_defense(lambda **options: Broken(Sound, **options), injects=True)
