"""Split + model + defense -> Release: the one place where a defense meets a recommender."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch

from recveil.audits.catalog import NETWORKS
from recveil.core.device import repeatable
from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.protocols import DataDefense, EmbeddingDefense, Recommender, TrainingDefense
from recveil.core.random import generator
from recveil.core.types import Attribute, FloatArray, IntArray, Release, Split
from recveil.metrics.ranking import Ranks, known_as_misses, rank, seen_items
from recveil.models.losses import bpr_of_users
from recveil.models.scoring import release, top_k

__all__ = ["codes_of", "displacement", "fitted", "loss_of", "protect", "ranks_served", "targets_of"]


def targets_of(
    attributes: dict[str, Attribute], names: list[str], where: str, *, numbers: bool = False
) -> list[Attribute]:
    """The attributes of these names; an unknown one, or a number where none can be used, is an error that helps."""
    if not names:
        raise UsageError(f"No target was named. Attributes in {where}: {', '.join(attributes) or 'none'}.")
    for name in names:
        if name not in attributes:
            raise unknown_name(f"attribute in {where}", name, attributes)
        if attributes[name].continuous and not numbers:
            raise DataError(
                f"Attribute '{name}' is a number, not a class. Cut it into classes, as in --bins {name}=35,45."
            )
    return [attributes[name] for name in names]


def codes_of(targets: list[Attribute]) -> IntArray:
    """(n, n_attributes) codes, -1 = unknown, as the defenses take them."""
    return np.stack([t.codes for t in targets], axis=1)


def fitted(
    model: Recommender,
    split: Split,
    targets: list[Attribute],
    *,
    data: DataDefense | None = None,
    training: TrainingDefense | None = None,
    seed: int,
) -> Split:
    """Train the model in place, with a defense of the data or in training; what comes back is what the platform knows.

    That is the split with the training part as the defense left it.
    """
    penalty = None
    if data is not None:
        split = replace(split, train=data(split.train, [t.name for t in targets], rng=generator(seed, "defense")))
    if training is not None:
        # The draws that a map after training would have: a map at the end of training is then the very same.
        penalty = training(targets, epochs=getattr(model, "epochs", 1), rng=generator(seed, "cloak"))
    with repeatable():
        model.fit(split, penalty=penalty, rng=generator(seed, "train"))
    return split


def protect(
    model: Recommender,
    split: Split,
    defense: EmbeddingDefense | None,
    targets: list[Attribute],
    *,
    k: int,
    rng: np.random.Generator,
    utility: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> Release:
    """What the platform exposes of a trained model, with the defense in place: vectors, lists and scores agree.

    `utility` is a differentiable loss of the user vectors, for the defenses that weigh it.
    """
    if defense is None:
        return release(model, split, k)
    if not model.user_vectors_.shape[1]:
        raise UsageError("This model has no user vectors, so an embedding defense has nothing to act on.")
    with repeatable():
        x = defense(model.user_vectors_, codes_of(targets), rng=rng, utility=utility)

    def score(users: IntArray, user_vectors: FloatArray | None = None) -> FloatArray:
        return model.score(users, x[users] if user_vectors is None else user_vectors)

    users = np.arange(split.train.n_users)
    lists = top_k(score, users, k, seen_items(split.train, split.valid))
    return Release(x, model.item_vectors_, lists, score)


def loss_of(
    name: str, model: Recommender, split: Split, *, seed: int, device: str | None
) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """What a table of user vectors is worth to the model of this name; None where its scores are not products."""
    if name in NETWORKS:
        return None
    return bpr_of_users(split.train, model.item_vectors_, device=device, rng=generator(seed, "loss"))


def ranks_served(score: Callable[..., FloatArray], split: Split, platform: Split) -> Ranks:
    """Where each test item stands, when the platform knows what `platform` holds.

    What a platform takes for seen it does not recommend: a test item that a defense wrote into the profile is a miss.
    """
    told = seen_items(platform.train, platform.valid)
    return known_as_misses(rank(score, split.test, told), split.test, told)


def displacement(before: FloatArray, after: FloatArray) -> float:
    """How far the users were moved, as a share of how far they lie from their mean (root mean squares)."""
    spread = float(np.linalg.norm(before - before.mean(0)))
    return float(np.linalg.norm(after - before)) / spread if spread > 0 else 0.0
