"""A cell that attacks attributes: train or look up, defend, rank the test items, let the panel guess."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from recveil.attacks.attribute.surfaces import look, two_releases
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.audit import audit_attribute, list_records
from recveil.audits.attribute.folds import CrossValidation
from recveil.audits.attribute.numeric import NumericAudit, audit_numeric_attribute
from recveil.audits.catalog import ATTACKS, DEFENSES, PANELS, lookup, make, model_for, panel, place_of
from recveil.audits.verdicts import TargetAudit
from recveil.core.errors import UsageError
from recveil.core.random import generator
from recveil.core.timing import Clock
from recveil.core.types import Attribute, Estimate, FloatArray, IntArray, Record, Release, Split
from recveil.data.io.attributes import joint
from recveil.data.sources.catalog import load_data
from recveil.data.splits import leave_one_out
from recveil.metrics import ranking
from recveil.studies.model_cache import CachedModel, hash_targets
from recveil.studies.plans import Cell
from recveil.studies.rank_codec import pack_ranks
from recveil.workflows.defended_release import (
    fitted,
    loss_of,
    measure_displacement,
    protect,
    rank_served_items,
    select_targets,
)
from recveil.workflows.notes import small_classes_as_one

__all__ = [
    "Exposed",
    "attackers",
    "estimate_change",
    "expose",
    "make_folds",
    "measure_attribute_cell",
    "select_spared_users",
    "load_split",
    "select_cell_targets",
]

LIST_LENGTH = 100
"""Of the lists that a platform shows."""

MAX_CLASSES_FOR_TREES = 3
"""Classes up to which boosted trees are quick enough to look at two tables at once."""

NUMERIC_METRICS = ("advantage", "r2", "correlation")


@dataclass(frozen=True, eq=False)
class Exposed:
    """What is released, by whom (`platform` is what it knows), and the same model without the defense."""

    release: Release
    platform: Split
    plain: CachedModel
    place: str

    @property
    def vectors(self) -> FloatArray:
        """The user vectors that are released."""
        assert self.release.user_vectors is not None
        return self.release.user_vectors


def measure_attribute_cell(cell: Cell, cache: Path) -> tuple[list[Record], dict[str, Any], dict[str, float]]:
    """Records, what is needed to pool seeds, and seconds."""
    clock, split = Clock(), load_split(cell.at["data"])
    targets = select_cell_targets(split.train.attributes, cell)
    exposed = expose(cell, cache, split, targets, clock)
    with clock.step("rank"):
        after = rank_served_items(exposed.release.score, split, exposed.platform)  # type: ignore[arg-type]
        before = rank_served_items(exposed.plain.score, split, split)
    rows = _record_utility(cell, before, after, targets)
    details: dict[str, Any] = {"ranks": pack_ranks(after), "base": pack_ranks(before)}
    if exposed.place and exposed.plain.user_vectors_.shape == exposed.vectors.shape:
        moved = measure_displacement(exposed.plain.user_vectors_, exposed.vectors)
        rows.append(
            _make_record(cell, "", cell.at["target"], "displacement", Estimate(moved, *2 * (np.nan,), len(after.users)))
        )
    with clock.step("audit"):
        audited, found = _audit_targets(cell, exposed, split, targets)
    stopped = getattr(getattr(exposed.plain, "history_", None), "stopped", None)
    details |= found | ({"stopped": stopped} if stopped else {})
    return [*rows, *audited], details, clock.seconds


@lru_cache(maxsize=2)
def load_split(data: str) -> Split:
    """The data set, its newest items held back; `demo` is one world, whatever the seed of a cell."""
    return leave_one_out(load_data(data, seed=0))


def select_cell_targets(attributes: Any, cell: Cell) -> list[Attribute]:
    """What is protected together; classes of one user are made one class, as `recveil cloak` does."""
    numbers = cell.at["defense"]["name"] == "none" or place_of(cell.at["defense"]["name"]) == "training"
    targets = select_targets(dict(attributes), cell.at["target"].split("+"), cell.at["data"], numbers=numbers)
    return [t if t.continuous else small_classes_as_one([t])[0][0] for t in targets]


def attackers(named: str, device: str | None) -> dict[str, Attack]:
    """The attackers of a panel, or those named between commas."""
    if named in PANELS:
        return panel(named, device)
    names = [name.strip() for name in named.split(",")]
    if len(names) == 1:
        lookup("panel or attacker", names[0], {**PANELS, **ATTACKS})
    return {name: lookup("attacker", name, ATTACKS)(device) for name in names}


def make_folds(cell: Cell) -> CrossValidation:
    """How the users are dealt; the largest possible share of known users needs no sampling."""
    folds, ratio = cell.settings["folds"], cell.at["leak_ratio"]
    most = 1 - 1 / folds
    return CrossValidation(folds, cell.settings["repeats"], leak_ratio=None if abs(ratio - most) < 1e-9 else ratio)


def select_spared_users(n: int, share: float) -> IntArray:
    """Users whom settings are chosen by and nobody attacks: the same for every method and seed."""
    return np.random.default_rng(2026).permutation(n)[: int(share * n)]


def estimate_change(before: FloatArray, after: FloatArray) -> Estimate:
    """The paired change of a ranking measure, in per cent of what it was."""
    found, scale = ranking.difference(after, before), 100 / max(float(before.mean()), 1e-12)
    return Estimate(found.value * scale, found.low * scale, found.high * scale, found.n)


def expose(cell: Cell, cache: Path, split: Split, targets: list[Attribute], clock: Clock) -> Exposed:
    """The defended release and the model without the defense, each trained now or long ago."""
    named, chosen, seed = cell.at["model"], cell.at["defense"], cell.seed
    place = "" if chosen["name"] == "none" else place_of(chosen["name"])
    defense: Any = None
    if place:
        defense = make("defense", chosen["name"], DEFENSES[place], device=cell.device, **chosen["options"])

    def model(**beside: Any) -> CachedModel:
        made = model_for(cell.at["data"], named["name"], named["options"], cell.device)
        return CachedModel(made, named["name"], cache, beside)

    with clock.step("train undefended"):
        plain = model()
        fitted(plain, split, targets, seed=seed)
    acting, platform = plain, split
    if place in ("data", "training"):
        with clock.step("train"):
            acting = model(defense=chosen, targets=hash_targets(targets))
            platform = fitted(acting, split, targets, **{place: defense}, seed=seed)
    with clock.step("defend"):
        cloak = defense if place == "embeddings" else None
        loss = loss_of(named["name"], plain, split, seed=seed, device=cell.device) if cloak is not None else None
        rng = generator(seed, "cloak")
        exposed = protect(acting, platform, cloak, targets, k=LIST_LENGTH, rng=rng, utility=loss)
    return Exposed(exposed, platform, plain, place)


def _make_record(cell: Cell, attack: str, target: str, metric: str, estimate: Estimate) -> Record:
    names = (cell.at["data"], cell.label("model"), cell.label("defense"))
    return Record(*names, attack, target, cell.seed, metric, estimate)


def _record_utility(
    cell: Cell, before: ranking.Ranks, after: ranking.Ranks, targets: Sequence[Attribute]
) -> list[Record]:
    """Hit rate and NDCG at each k, the change against the undefended model, and NDCG of each class."""
    rows, ks, target = [], cell.settings["k"], cell.at["target"]
    for k in ks:
        hit, now, was = ranking.hit_rate(after, k), ranking.ndcg(after, k), ranking.ndcg(before, k)
        rows.append(_make_record(cell, "", target, f"hit_rate@{k}", ranking.mean(hit)))
        rows.append(_make_record(cell, "", target, f"ndcg@{k}", ranking.mean(now)))
        if cell.at["defense"]["name"] != "none":
            rows.append(_make_record(cell, "", target, f"ndcg_change@{k}", estimate_change(was, now)))
    k = 10 if 10 in ks else ks[-1]
    gain = ranking.ndcg(after, k)
    for one in targets:
        if not one.continuous:
            for label, estimate in ranking.by_class(gain, after.users, one).items():
                rows.append(_make_record(cell, "", one.name, f"ndcg@{k} of {label}", estimate))
    return rows


def _audit_targets(
    cell: Cell, exposed: Exposed, split: Split, targets: list[Attribute]
) -> tuple[list[Record], dict[str, Any]]:
    """What the panel makes of the surface, and two attackers of both tables where the defense came after training."""
    surface = "user_vectors" if cell.at["surface"] == "vectors" else cell.at["surface"]
    x = look(exposed.release, surface, history=exposed.platform.train, rng=generator(cell.seed, "view"))
    if not x.shape[1]:
        raise UsageError(f'{cell.label("model")} has no user vectors. Attack its lists: surface = ["lists"].')
    users = np.setdiff1d(np.arange(len(x)), select_spared_users(len(x), cell.settings["unattacked"]))
    classes = [t for t in targets if not t.continuous]
    asked = [*targets, *([joint(classes)] if len(classes) > 1 else [])]
    rows: list[Record] = []
    details: dict[str, Any] = {"test_share": make_folds(cell).test_share, "targets": {}, "two_releases": {}}
    for target in asked:
        found = _attack_target(cell, x[users], target.take(users), cell.at["panel"])
        rows += _record_audit(cell, found)
        details["targets"][target.name] = _summarize_audit(found)
        if exposed.place == "embeddings" and surface == "user_vectors" and not target.continuous:
            both = two_releases(exposed.plain.user_vectors_, exposed.vectors)[users]
            pair = f"logistic,{'trees' if len(target.labels) <= MAX_CLASSES_FOR_TREES else 'forest'}"
            seen = _attack_target(cell, both, target.take(users), pair)
            metrics = ("balanced_accuracy", "advantage")
            rows += [_make_record(cell, "two-releases", target.name, m, getattr(seen.headline, m)) for m in metrics]
            details["two_releases"][target.name] = _summarize_audit(seen)
    return rows, details


def _attack_target(cell: Cell, x: FloatArray, target: Attribute, named: str) -> TargetAudit | NumericAudit:
    x = np.ascontiguousarray(x)
    if target.continuous:
        return audit_numeric_attribute(x, target, rules=make_folds(cell), seed=cell.seed)
    return audit_attribute(x, target, attackers(named, cell.device), rules=make_folds(cell), seed=cell.seed)


def _record_audit(cell: Cell, found: TargetAudit | NumericAudit) -> list[Record]:
    if isinstance(found, TargetAudit):
        names = {"model": cell.label("model"), "defense": cell.label("defense")}
        return list_records([found], dataset=cell.at["data"], **names, seed=cell.seed)
    results = {**found.attacks, "headline": found.headline}
    return [_make_record(cell, a, found.target, m, getattr(r, m)) for a, r in results.items() for m in NUMERIC_METRICS]


def _summarize_audit(found: TargetAudit | NumericAudit) -> dict[str, Any]:
    """For whoever pools seeds, and for the words of a report."""
    keys = ("verdict", "sentence", "chance", "n", "counts", "resolution", "detectable", "notes")
    told = found.to_dict()
    kept = {key: told[key] for key in keys if key in told}
    return {"folds": [float(v) for v in found.folds], "chosen": found.chosen, "p_value": found.p_value, **kept}
