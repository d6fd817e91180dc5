"""Train, defend, release: the step that `train`, `demo` and studies share.

A defense acts at one of four places. Where it acts on the data or in training, the same model is trained without it
as well, to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from recveil.core.device import deterministic_algorithms, use_one_thread
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.protocols import (
    EmbeddingDefense,
    OwnLossRecommender,
    Recommender,
    TableView,
    UtilityLoss,
    ViewDefense,
)
from recveil.core.random import make_generator
from recveil.core.timing import Clock
from recveil.core.traits import DefenseTraits
from recveil.core.types import Attribute, FloatArray, IntArray, Release, Split
from recveil.defenses import DEFENSES
from recveil.metrics.ranking import collect_seen_items
from recveil.models import MODELS
from recveil.models.losses import make_bpr_loss
from recveil.models.scoring import make_release, top_k

__all__ = [
    "ChosenDefense",
    "DefendedRelease",
    "MakeModel",
    "ReleaseRecipe",
    "defend_vectors",
    "describe_size_limit",
    "measure_displacement",
    "select_targets",
    "stack_codes",
    "train_and_defend",
]

MAX_USERS_FOR_QUADRATIC = 20_000
"""Users up to which a method is run whose cost grows with their square."""


@dataclass(frozen=True)
class ChosenDefense:
    """A defense by name, with its options (`strength` among them).

    Attributes:
        name: name of the defense, or `auto`.
        options: its options.
        needs_map: `auto` tries only defenses that keep a map for later users.
        protects_everybody: `auto` tries defenses that protect undisclosed users, else those that need the class; None
            chooses the former where somebody is undisclosed.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    needs_map: bool = False
    protects_everybody: bool | None = None

    @property
    def place(self) -> str:
        """Where it acts: data, training, embeddings or lists."""
        return DEFENSES.traits(self.name).place

    def make(self, device: str | None, *, user_tables: int = 1) -> Any:
        """Make the defense; unknown names and options are errors with the nearest match.

        Args:
            device: torch device.
            user_tables: tables that the model puts side by side in a user vector.
        """
        tables = {"tables": user_tables} if DEFENSES.traits(self.name).takes_tables else {}
        return DEFENSES.make(self.name, **{"device": device, **tables, **self.options})

    def check_size(self, n_users: int, d: int) -> None:
        """Refuse a table that is too large for the method, before time or memory is spent on it.

        Args:
            n_users: number of users.
            d: dimensions of their vectors.

        Raises:
            UsageError: the table is too large; the methods that can defend it are named.
        """
        reason = describe_size_limit(DEFENSES.traits(self.name), n_users, d)
        if not reason:
            return
        able = [t.name for t in DEFENSES.all_traits() if t.place == "embeddings" and not t.for_comparison]
        able = [name for name in able if not describe_size_limit(DEFENSES.traits(name), n_users, d)]
        raise UsageError(
            f"{self.name} cannot defend this table: {reason}. Use {' or '.join(able)}, or reduce the table first."
        )


def describe_size_limit(traits: DefenseTraits, n_users: int, d: int) -> str:
    """Return why a table is too large for a method; empty if it is not.

    Args:
        traits: facts about the method.
        n_users: number of users.
        d: dimensions of their vectors.
    """
    if traits.quadratic and n_users > MAX_USERS_FOR_QUADRATIC:
        return f"its cost grows with the square of the users, and there are more than {MAX_USERS_FOR_QUADRATIC:,}"
    if d > traits.max_dimensions:
        return f"its cost grows with the cube of the dimensions, and there are more than {traits.max_dimensions:,}"
    return ""


MakeModel = Callable[[ChosenDefense | None], Recommender]
"""Makes a fresh model, to be trained with this defense at work (None: undefended)."""


@dataclass(frozen=True)
class ReleaseRecipe:
    """How a release is made: the model by name and how to make it, list length, seed, device."""

    model_name: str
    make_model: MakeModel
    k: int
    seed: int
    device: str | None = None


@dataclass(frozen=True, eq=False)
class DefendedRelease:
    """What is released, and the same model without the defense.

    Attributes:
        release: vectors, lists and scores that agree with each other.
        platform: the split as the platform knows it, with the training part as a data defense left it.
        model: the model that serves.
        undefended: the model trained without the defense; the serving model itself where none acted in training.
        place: where the defense acts; empty for none.
    """

    release: Release
    platform: Split
    model: Recommender
    undefended: Recommender
    place: str

    @property
    def user_vectors(self) -> FloatArray:
        """The released user vectors."""
        assert self.release.user_vectors is not None
        return self.release.user_vectors


@use_one_thread()
def train_and_defend(
    recipe: ReleaseRecipe,
    split: Split,
    targets: Sequence[Attribute],
    defense: ChosenDefense | None,
    *,
    clock: Clock,
) -> DefendedRelease:
    """Train the model, defend it where asked to, and release it.

    Args:
        recipe: the model, its seed and the length of its lists.
        split: the data; the test part is not looked at.
        targets: attributes to protect.
        defense: the defense, or None.
        clock: takes the seconds of each step.

    Returns:
        The release with everything that it is compared with.
    """
    place = "" if defense is None else defense.place
    tables = MODELS.traits(recipe.model_name).user_tables
    method = None if defense is None else defense.make(recipe.device, user_tables=tables)
    if defense is not None and place == "embeddings":
        defense.check_size(split.train.n_users, 0)
    model, platform = None, split
    if place in ("data", "training"):
        with clock.measure_step("train"):
            model = recipe.make_model(defense)
            platform = _fit_defended(model, split, targets, method, place, seed=recipe.seed)
    # Comes second: where many processes share a cache, one of them trains this model for all meanwhile.
    with clock.measure_step("train undefended"):
        undefended = _fit_model(recipe.make_model(None), split, seed=recipe.seed)
    model = undefended if model is None else model
    with clock.measure_step("defend"):
        if place == "embeddings" and method is not None:
            loss = _utility_loss(recipe, model, split)
            vectors = defend_vectors(method, model.user_vectors_, targets, seed=recipe.seed, utility=loss)
            released = _release_vectors(model, vectors, platform, recipe.k)
        else:
            released = make_release(model, platform, recipe.k)
    return DefendedRelease(released, platform, model, undefended, place)


def select_targets(
    attributes: Mapping[str, Attribute], names: Sequence[str], source: str, *, numbers: bool = False
) -> list[Attribute]:
    """Return the attributes of these names.

    Args:
        attributes: all there are.
        names: the ones to select.
        source: where the attributes come from, for errors.
        numbers: whether numeric attributes may be selected.

    Raises:
        UsageError: no name was given, or one is unknown.
        DataError: a numeric attribute where only classes can be used.
    """
    if not names:
        raise UsageError(f"No target was named. Attributes in {source}: {', '.join(attributes) or 'none'}.")
    for name in names:
        if name not in attributes:
            raise unknown_name(f"attribute in {source}", name, attributes)
        if attributes[name].is_numeric and not numbers:
            raise DataError(f"Attribute '{name}' is a number, not a class. Cut it into classes with bins first.")
    return [attributes[name] for name in names]


def stack_codes(targets: Sequence[Attribute]) -> IntArray:
    """Return (n, n_attributes) codes, -1 = undisclosed, as the defenses take them."""
    return np.stack([target.codes for target in targets], axis=1)


def defend_vectors(
    defense: EmbeddingDefense,
    x: FloatArray,
    targets: Sequence[Attribute],
    *,
    seed: int,
    utility: UtilityLoss | None = None,
    view: TableView | None = None,
) -> FloatArray:
    """Return the user vectors as an embedding defense leaves them.

    Args:
        defense: the defense.
        x: the user vectors.
        targets: attributes to protect.
        seed: the same seed gives the same table.
        utility: loss of the recommendations, for defenses that weigh it.
        view: what attackers see beside the vectors, for defenses that can hide it.
    """
    if not x.shape[1]:
        raise UsageError("This model has no user vectors, so an embedding defense has nothing to act on.")
    codes, rng = stack_codes(targets), make_generator(seed, "cloak")
    with deterministic_algorithms():
        if view is not None and isinstance(defense, ViewDefense):
            return defense.defend_view(x, codes, view, rng=rng)
        return defense(x, codes, rng=rng, utility=utility)


def measure_displacement(before: FloatArray, after: FloatArray) -> float:
    """Return how far users were moved, as a share of their distance from the mean (root mean squares)."""
    spread = float(np.linalg.norm(before - before.mean(0)))
    return float(np.linalg.norm(after - before)) / spread if spread > 0 else 0.0


def _fit_model(model: Recommender, split: Split, *, seed: int) -> Recommender:
    with deterministic_algorithms():
        return model.fit(split, rng=make_generator(seed, "train"))


def _fit_defended(
    model: Recommender, split: Split, targets: Sequence[Attribute], method: Any, place: str, *, seed: int
) -> Split:
    """Train the model with a defense of the data or in training; return the split as the platform knows it."""
    penalty = None
    if place == "data":
        names = [target.name for target in targets]
        split = replace(split, train=method(split.train, names, rng=make_generator(seed, "defense")))
    else:
        penalty = method(targets, epochs=model.epochs, rng=make_generator(seed, "cloak"))
    with deterministic_algorithms():
        model.fit(split, penalty=penalty, rng=make_generator(seed, "train"))
    return split


def _release_vectors(model: Recommender, vectors: FloatArray, platform: Split, k: int) -> Release:
    """Release these vectors in place of the model's own: lists and scores follow from them."""

    def score(users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        return model.score(users, vectors[users] if user_vectors is None else user_vectors)

    seen = collect_seen_items(platform.train, platform.valid)
    lists = top_k(score, np.arange(platform.train.n_users), k, seen)
    return Release(vectors, model.item_vectors_, lists, score)


def _utility_loss(recipe: ReleaseRecipe, model: Recommender, split: Split) -> UtilityLoss | None:
    """Return the loss of a table of user vectors: BPR for products of vectors, else the model's own, if it has one."""
    rng = make_generator(recipe.seed, "loss")
    if isinstance(model, OwnLossRecommender):
        return model.make_user_loss(split.train, rng=rng)
    if not MODELS.traits(recipe.model_name).dot_product:
        return None
    return make_bpr_loss(split.train, model.item_vectors_, device=recipe.device, rng=rng)
