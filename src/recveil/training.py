"""From a data set to a folder: the body of `recveil train`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from recveil.atomic import check_folder, make_folder
from recveil.catalog import EMBEDDING_DEFENSES, MODELS, NETWORKS, make
from recveil.clock import Clock
from recveil.core import Dataset, EmbeddingDefense, Recommender, Release, Split
from recveil.data.released import write_attributes, write_lists, write_vectors
from recveil.data.sources import load
from recveil.data.split import leave_one_out
from recveil.data.synthetic import demo_world
from recveil.errors import UsageError
from recveil.metrics import ranking
from recveil.models.objective import bpr_of_users
from recveil.models.saving import save
from recveil.models.settings import SETTINGS
from recveil.protect import displacement, protect, targets_of
from recveil.random import generator
from recveil.report.document import header, utility, write_json

__all__ = ["Defense", "Plan", "load_data", "train_run"]


@dataclass(frozen=True)
class Plan:
    """What to train on what."""

    data: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    k: int = 100
    seed: int = 0
    device: str | None = None


@dataclass(frozen=True)
class Defense:
    """Which defense, how much of it, for which attributes."""

    method: str
    strength: float
    targets: list[str]


def load_data(name: str, *, seed: int) -> Dataset:
    """The data set of this name or path; `demo` is the embedded world."""
    return demo_world(seed).dataset if name == "demo" else load(name)


def train_run(plan: Plan, out: Path, defense: Defense | None = None) -> dict[str, Any]:
    """Train, defend where asked to, measure on the test item, and write everything into the folder."""
    tuned = SETTINGS.get(plan.data, {}).get(plan.model, {})
    model = make("model", plan.model, MODELS, **{"device": plan.device, **tuned, **plan.options})
    method = _method(defense, plan.device)
    check_folder(out)
    data = load_data(plan.data, seed=plan.seed)
    targets = targets_of(dict(data.attributes), defense.targets, plan.data) if defense else []
    split, clock = leave_one_out(data), Clock()
    with clock.step("train"):
        model.fit(split, rng=generator(plan.seed, "train"))
    with clock.step("publish"):
        loss = _loss(model, split, plan) if method is not None else None
        exposed = protect(model, split, method, targets, k=plan.k, rng=generator(plan.seed, "cloak"), utility=loss)
    with clock.step("measure"):
        measured = _measured(model, exposed, split, defended=method is not None)
    assert exposed.user_vectors is not None
    config = _config(plan, model, defense)
    folder = make_folder(out)
    # The saved model must not give away what the released vectors hide.
    model.user_vectors_ = exposed.user_vectors
    save(model, folder / "model", name=plan.model)
    _write(folder, data, exposed)
    write_json(folder / "config.json", config)
    write_json(folder / "metrics.json", measured)
    return {**header("train", sys.argv), "config": config, "utility": measured, "timings": clock.seconds}


def _method(defense: Defense | None, device: str | None) -> EmbeddingDefense | None:
    if defense is None:
        return None
    if not defense.targets:
        raise UsageError("A defense needs to know what to protect. Add --target, as in --target gender.")
    return make("defense", defense.method, EMBEDDING_DEFENSES, strength=defense.strength, device=device)


def _loss(model: Recommender, split: Split, plan: Plan) -> Callable[[torch.Tensor], torch.Tensor] | None:
    if plan.model in NETWORKS:
        return None
    return bpr_of_users(split.train, model.item_vectors_, device=plan.device, rng=generator(plan.seed, "loss"))


def _measured(model: Recommender, exposed: Release, split: Split, *, defended: bool) -> dict[str, Any]:
    """Ranking quality of what is released; beside a defense, of the model without it and the paired difference."""
    assert exposed.score is not None
    assert exposed.user_vectors is not None
    found: dict[str, Any] = {name: e.to_dict() for name, e in ranking.evaluate(exposed.score, split).items()}
    if defended:
        seen = ranking.seen_items(split.train, split.valid)
        before, after = (ranking.rank(score, split.test, seen) for score in (model.score, exposed.score))
        compared = utility(before, after, [])
        moved = displacement(model.user_vectors_, exposed.user_vectors)
        found |= {"undefended": compared["before"], "difference": compared["difference"], "displacement": moved}
    return found


def _config(plan: Plan, model: Recommender, defense: Defense | None) -> dict[str, Any]:
    options = {f.name: getattr(model, f.name) for f in fields(model) if f.init}  # type: ignore[arg-type]
    return {
        "data": plan.data,
        "model": plan.model,
        "options": options,
        "defense": None if defense is None else asdict(defense),
        "split": "leave-one-out: last item for the test, the one before it for validation",
        "k": plan.k,
        "seed": plan.seed,
    }


def _write(folder: Path, data: Dataset, exposed: Release) -> None:
    assert exposed.user_vectors is not None
    assert exposed.item_vectors is not None
    assert exposed.lists is not None
    if exposed.user_vectors.shape[1]:  # a model like itemknn has none, and exposes lists alone
        write_vectors(folder / "users.parquet", "user_id", data.user_ids, exposed.user_vectors)
        write_vectors(folder / "items.parquet", "item_id", data.item_ids, exposed.item_vectors)
    write_lists(folder / "recommendations.parquet", exposed.lists, data.user_ids, data.item_ids)
    write_attributes(folder / "attributes.parquet", data.user_ids, data.attributes.values())
