"""From a data set to a folder: the body of `recveil train`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.numeric import audit_numeric_attribute
from recveil.audits.catalog import DEFENSES, make, model_for, panel, place_of
from recveil.core.errors import UsageError
from recveil.core.files import check_folder, make_folder
from recveil.core.protocols import Recommender
from recveil.core.random import generator
from recveil.core.timing import Clock
from recveil.core.types import Attribute, Dataset, FloatArray, Release, Split
from recveil.data.io.release_files import write_attributes, write_lists, write_vectors
from recveil.data.sources.catalog import load_data
from recveil.data.splits import leave_one_out
from recveil.metrics import ranking
from recveil.models.persistence import save_model
from recveil.workflows.defended_release import (
    fitted,
    loss_of,
    measure_displacement,
    protect,
    rank_served_items,
    select_targets,
)
from recveil.workflows.documents import header, utility, write_json
from recveil.workflows.notes import WENT_ON, notes_on

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
    """Which defense, how much of it, for which attributes; `options` are its hyper-parameters."""

    method: str
    strength: float
    targets: list[str]
    options: Mapping[str, Any] = field(default_factory=dict)


def train_run(plan: Plan, out: Path, defense: Defense | None = None) -> dict[str, Any]:
    """Train, defend where asked to, attack, measure on the test item, and write everything into the folder.

    A defense of the data or in training changes the model itself, so the same model is trained without it as well, to
    compare with: that is as long again.
    """
    place, method = _made(defense, plan.device)
    model = _model(plan)
    check_folder(out)
    data = load_data(plan.data, seed=plan.seed)
    numbers = place == "training"
    targets = select_targets(dict(data.attributes), defense.targets, plan.data, numbers=numbers) if defense else []
    split, clock = leave_one_out(data), Clock()
    with clock.step("train"):
        acting = {place: method} if place in ("data", "training") else {}
        platform = fitted(model, split, targets, **acting, seed=plan.seed)
    with clock.step("publish"):
        cloak = method if place == "embeddings" else None
        loss = None
        if cloak is not None:
            loss = loss_of(plan.model, model, split, seed=plan.seed, device=plan.device)
        exposed = protect(model, platform, cloak, targets, k=plan.k, rng=generator(plan.seed, "cloak"), utility=loss)
    plain = model if place in ("", "embeddings") else _undefended(plan, split, clock)
    before = plain.user_vectors_ if place else None  # kept: the model soon has the defended ones only
    with clock.step("measure"):
        measured = _measured(plain, exposed, split, platform, targets)
    history = getattr(model, "history_", None)
    if defense and exposed.user_vectors is not None:
        went_on = getattr(history, "went_on", None)
        measured["notes"] = notes_on(exposed.user_vectors, targets, defense.method)
        measured["notes"] += [] if went_on is None else [WENT_ON[went_on]]
    if stopped := getattr(history, "stopped", None):
        measured["stopped"] = stopped
    if before is not None and before.shape[1]:
        with clock.step("audit"):
            measured["audit"] = _audited(before, exposed, targets, plan)
    assert exposed.user_vectors is not None
    config = _config(plan, model, defense)
    folder = make_folder(out)
    # The saved model must not give away what the released vectors hide.
    model.user_vectors_ = exposed.user_vectors
    save_model(model, folder / "model", name=plan.model)
    _write(folder, data, exposed)
    write_json(folder / "config.json", config)
    write_json(folder / "metrics.json", measured)
    return {**header("train", sys.argv), "config": config, "utility": measured, "timings": clock.seconds}


def _model(plan: Plan) -> Recommender:
    return model_for(plan.data, plan.model, plan.options, plan.device)


def _made(defense: Defense | None, device: str | None) -> tuple[str, Any]:
    """Where the defense acts ('' for none), and the defense."""
    if defense is None:
        return "", None
    if not defense.targets:
        raise UsageError("A defense needs to know what to protect. Add --target, as in --target gender.")
    place = place_of(defense.method)
    if place == "lists":
        raise UsageError(
            f"'{defense.method}' changes the lists of users who are not in the training data, and here all are. "
            f"Use it in `recveil membership --defense {defense.method}`."
        )
    options = {"strength": defense.strength, "device": device, **defense.options}
    return place, make("defense", defense.method, DEFENSES[place], **options)


def _undefended(plan: Plan, split: Split, clock: Clock) -> Recommender:
    model = _model(plan)
    with clock.step("train undefended"):
        fitted(model, split, [], seed=plan.seed)
    return model


def _measured(
    plain: Recommender, exposed: Release, split: Split, platform: Split, targets: list[Attribute]
) -> dict[str, Any]:
    """Ranking quality of what is released; beside a defense, of the model without it and the paired difference."""
    assert exposed.score is not None
    assert exposed.user_vectors is not None
    after = rank_served_items(exposed.score, split, platform)
    found: dict[str, Any] = {name: e.to_dict() for name, e in ranking.measured(after).items()}
    if targets:
        before = rank_served_items(plain.score, split, split)
        compared = utility(before, after, [t for t in targets if not t.continuous])
        found |= {"undefended": compared["before"], "difference": compared["difference"]}
        found |= {"per_class": compared["per_class"]}
        if plain.user_vectors_.shape == exposed.user_vectors.shape:
            found["displacement"] = measure_displacement(plain.user_vectors_, exposed.user_vectors)
    return found


def _audited(before: FloatArray, exposed: Release, targets: list[Attribute], plan: Plan) -> dict[str, Any]:
    """What attackers see in the vectors, without the defense and with it."""
    attackers = panel("fast", plan.device)

    def attacked(x: FloatArray, target: Attribute) -> dict[str, Any]:
        if target.continuous:
            return audit_numeric_attribute(x, target, seed=plan.seed).to_dict()
        return audit_attribute(x, target, attackers, seed=plan.seed).to_dict()

    assert exposed.user_vectors is not None
    tables = {"before": before, "after": exposed.user_vectors}
    return {name: {t.name: attacked(x, t) for t in targets} for name, x in tables.items()}


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
