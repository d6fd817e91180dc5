"""The whole path on an embedded world: train, attack, defend, attack again, report. No download, under a minute."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from recveil.audits.attribute.audit import audit, records
from recveil.audits.attribute.folds import Folds
from recveil.audits.catalog import panel
from recveil.audits.verdicts import TargetAudit
from recveil.core.files import check_folder, make_folder
from recveil.core.random import generator
from recveil.core.timing import Clock
from recveil.core.types import Attribute, Dataset, FloatArray, Record, Release, Split
from recveil.data.io.release_files import write_attributes, write_vectors
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import World, demo_world
from recveil.defenses.embeddings.sliced import Sliced
from recveil.metrics import ranking
from recveil.models.bprmf import BPRMF
from recveil.report.html import write_report
from recveil.workflows.defended_release import measure_displacement, protect
from recveil.workflows.documents import audits, details, header, merged, protocol, utility, write_json, write_records

__all__ = ["run_demo"]

PROTECTED = ("gender",)
RULES = Folds(folds=5, seeds=1)
NAME = "embedded world"


def run_demo(out: str | Path, *, seed: int = 0, device: str | None = None) -> dict[str, Any]:
    """Write `report.html`, `records.jsonl` and the tables into `out`; give back the document of the report."""
    clock = Clock()
    check_folder(out)
    with clock.step("make the world"):
        world = demo_world(seed)
        split = leave_one_out(world.dataset)
    with clock.step("train"):
        model = BPRMF(embedding_size=32, device=device).fit(split, rng=generator(seed, "train"))
    with clock.step("cloak"):
        exposed = protect(
            model, split, Sliced(device=device), _protected(world.dataset), k=20, rng=generator(seed, "cloak")
        )
    before, after = model.user_vectors_, exposed.user_vectors
    assert after is not None
    with clock.step("audit before"):
        first = _audit(before, world, seed=seed, device=device)
    with clock.step("audit after"):
        second = _audit(after, world, seed=seed, device=device)
    with clock.step("look where it leaks"):
        targets, activity = list(world.dataset.attributes.values()), np.bincount(world.dataset.user)
        told = details([before, after], targets, [first, second], RULES, seed=seed, activity=activity)
    document = {
        **header("demo", ["recveil", "demo", "--seed", str(seed), "--out", str(out)]),
        "input": _described(world.dataset, before),
        "protocol": protocol("fast", RULES, seed=seed),
        "targets": _with_bayes(merged(audits(second), told[1]), world),
        "before": _with_bayes(merged(audits(first), told[0]), world),
        "defense": {
            "name": "sliced",
            "strength": 1.0,
            "targets": list(PROTECTED),
            "displacement": {"relative": measure_displacement(before, after)},
            "notes": [
                "age was not protected, and still leaks: a defense covers what it is told to cover.",
                "handedness was not protected: this world is made so that nothing depends on it.",
            ],
        },
        "utility": _utility(model, exposed, split),
        "timings": clock.seconds,
        "warnings": sorted({note for result in (*first, *second) for note in result.notes}),
    }
    folder = make_folder(out)
    _write(folder, world.dataset, before, after)
    write_records(folder / "records.jsonl", [*_records(first, "none", seed), *_records(second, "sliced", seed)])
    write_json(folder / "document.json", document)
    write_report(document, folder / "report.html")
    return document


def _protected(data: Dataset) -> list[Attribute]:
    return [data.attributes[name] for name in PROTECTED]


def _audit(x: FloatArray, world: World, *, seed: int, device: str | None) -> list[TargetAudit]:
    attacks = panel("fast", device)
    return [audit(x, a, attacks, rules=RULES, seed=seed) for a in world.dataset.attributes.values()]


def _with_bayes(targets: dict[str, Any], world: World) -> dict[str, Any]:
    """In a world of our making the best possible attack is known: say it beside the attacks."""
    return {name: {**target, "bayes": world.bayes[name]} for name, target in targets.items()}


def _described(data: Dataset, x: FloatArray) -> Mapping[str, Any]:
    sizes = {"n_users": data.n_users, "n_items": data.n_items, "n_interactions": len(data), "d": x.shape[1]}
    return {"name": NAME, "model": "bprmf", **sizes}


def _utility(model: BPRMF, exposed: Release, split: Split) -> dict[str, Any]:
    assert exposed.score is not None
    seen = ranking.seen_items(split.train, split.valid)
    before, after = (ranking.rank(score, split.test, seen) for score in (model.score, exposed.score))
    return utility(before, after, _protected(split.train))


def _records(results: list[TargetAudit], defense: str, seed: int) -> list[Record]:
    return records(results, dataset=NAME, model="bprmf", defense=defense, seed=seed)


def _write(folder: Path, data: Dataset, before: FloatArray, after: FloatArray) -> None:
    write_vectors(folder / "users.parquet", "user_id", data.user_ids, before)
    write_vectors(folder / "cloaked.parquet", "user_id", data.user_ids, after)
    write_attributes(folder / "attributes.parquet", data.user_ids, data.attributes.values())
