"""The contracts notice each promise that is broken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from recveil.attacks.attribute.classic import Quadratic
from recveil.attacks.attribute.classifiers import ClassifierAttack
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.noise import Noise
from recveil.testing.contracts import check_attack, check_embedding_defense

Wrap = Callable[..., Any]


@dataclass(frozen=True)
class Broken:
    """A sound defense with something done to it."""

    wrap: Wrap
    strength: float = 1.0

    def __call__(self, x: Any, codes: Any, *, rng: Any, utility: Any = None) -> Any:
        sound = partial(Gaussian(self.strength, device="cpu"), rng=rng)
        return self.wrap(sound, x, codes, rng)


def wide(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    return sound(x, codes).astype(np.float64)


def short(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    return sound(x, codes)[:-1]


def none_at_all(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    return x.copy()


def sorted_rows(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    out = sound(x, codes)
    return out if np.array_equal(out, x) or np.unique(codes).size < 2 else out[np.argsort(out[:, 0])]


def shuffled_rows(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    out = sound(x, codes)
    return out if np.array_equal(out, x) or np.unique(codes).size < 2 else rng.permutation(out)


def in_place(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    x[:] = sound(x, codes)
    return x


def always_on(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    return (sound(x, codes) * 0.9).astype(np.float32)


def not_a_number(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    return np.where(np.arange(len(x))[:, None] == 3, np.float32("nan"), sound(x, codes))


def global_draws(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    out = sound(x, codes)
    noise = np.random.default_rng().standard_normal(x.shape).astype(np.float32)
    return out if np.array_equal(out, x) else out + 0.01 * noise


def fails_on_undisclosed_users(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    known = codes.reshape(len(x), -1)[:, 0] != UNDISCLOSED
    return np.where(known[:, None] | ~known.any(), sound(x, codes), np.float32("inf"))


def separates_undisclosed_twins(sound: Wrap, x: Any, codes: Any, rng: Any) -> Any:
    unknown = codes.reshape(len(x), -1)[:, 0] == UNDISCLOSED
    tag = (np.arange(len(x)) * unknown * ~unknown.all())[:, None] * 1e-3
    return (sound(x, codes) + tag).astype(np.float32)


def test_a_sound_defense_passes() -> None:
    check_embedding_defense(lambda **options: Broken(lambda sound, x, codes, rng: sound(x, codes), **options))


@pytest.mark.parametrize(
    ("wrap", "complaint"),
    [
        (wide, "must be float32"),
        (short, "must have the shape"),
        (not_a_number, "not numbers"),
        (none_at_all, "advantage was"),
        (sorted_rows, "depends on the order"),
        (shuffled_rows, "not the rows of the input"),
        (always_on, "Strength 0"),
        (global_draws, "same seed"),
        (fails_on_undisclosed_users, "not numbers"),
        (separates_undisclosed_twins, "became different"),
    ],
)
def test_a_broken_defense_is_noticed(wrap: Wrap, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_embedding_defense(lambda **options: Broken(wrap, **options))


def test_a_defense_that_writes_into_its_input_is_noticed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        check_embedding_defense(lambda **options: Broken(in_place, **options))


@pytest.mark.thorough
def test_a_method_marked_as_injecting_must_inject() -> None:
    """The mark lowers what is asked of lines; a method that does well without it may not carry it."""
    with pytest.raises(AssertionError, match="Marked as injecting, but the advantage of trees was"):
        check_embedding_defense(partial(Gaussian, device="cpu"), injects=True)


@pytest.mark.parametrize("mark", ["injects", "moves_anyway"])
def test_marked_or_not_a_method_must_lessen_the_leak(mark: str) -> None:
    with pytest.raises(AssertionError, match="advantage was"):
        check_embedding_defense(lambda **options: Broken(none_at_all, **options), **{mark: True})


def test_noise_passes_only_as_a_method_that_moves_anyway() -> None:
    loud = partial(Noise, scale=2.5, device="cpu")  # hides enough, but does so also where there is nothing to hide
    check_embedding_defense(loud, moves_anyway=True)
    with pytest.raises(AssertionError, match="of one class"):
        check_embedding_defense(loud)
    with pytest.raises(AssertionError, match="is still"):
        check_embedding_defense(partial(Noise, scale=0.1, device="cpu"), moves_anyway=True)


@dataclass(frozen=True)
class BrokenAttack:
    """A sound attack with something done to its guesses."""

    wrap: Wrap

    def guess(self, x: Any, y: Any, n_classes: int, tasks: Any, *, rng: Any) -> Any:
        sound = ClassifierAttack(Quadratic).guess(x, y, n_classes, tasks, rng=rng)
        return self.wrap(sound, y, tasks, rng)


def peeks(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [
        np.where(np.arange(g.shape[1]) == y[t.test, None], g + 1e-3, g) / (1 + 1e-3)
        for g, t in zip(sound, tasks, strict=True)
    ]


def knows_all(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [np.eye(g.shape[1])[y[t.test]] for g, t in zip(sound, tasks, strict=True)]


def knows_nothing(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [np.full_like(g, 1 / g.shape[1]) for g in sound]


def for_all_users(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [g if len(g) >= 300 else np.vstack([g, g]) for g in sound]


def unnormalized(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [2 * g for g in sound]


def negative(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [1.5 * g - 0.5 / g.shape[1] for g in sound]


def other_order(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return sound if len(sound) == 1 else sound[::-1]


def sorted_guesses(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return [g if len(g) >= 300 else g[np.argsort(g[:, 0])] for g in sound]


def drops_a_task(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    return sound if len(sound) == 1 else sound[:-1]


def own_generator(sound: Any, y: Any, tasks: Any, rng: Any) -> Any:
    shaken = [g + 1e-3 * np.random.default_rng().random(g.shape) for g in sound]
    return [g / g.sum(1, keepdims=True) for g in shaken]


def test_a_sound_attack_passes() -> None:
    check_attack(lambda: BrokenAttack(lambda sound, *_: sound))


@pytest.mark.parametrize(
    ("wrap", "complaint"),
    [
        (peeks, "labels of the users under attack"),
        (knows_all, "nothing to find"),
        (knows_nothing, "missed"),
        (for_all_users, "got guesses"),
        (unnormalized, "sum to one"),
        (negative, "negative"),
        (other_order, "got guesses"),
        (sorted_guesses, "order of the test users"),
        (drops_a_task, "tasks were set"),
        (own_generator, "same seed"),
    ],
)
def test_a_broken_attack_is_noticed(wrap: Wrap, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_attack(lambda: BrokenAttack(wrap))
