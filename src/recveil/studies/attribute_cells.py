"""A cell that attacks attributes: train or look up, defend, rank the test items, run the attackers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.panels import parse_attackers
from recveil.attacks.attribute.surfaces import build_view, join_releases
from recveil.audits.attribute.audit import audit_attribute, list_records
from recveil.audits.attribute.equal_classes import draw_equal_classes
from recveil.audits.attribute.folds import CrossValidation
from recveil.audits.attribute.numeric import NumericAudit, audit_numeric_attribute
from recveil.audits.verdicts import TargetAudit
from recveil.core.errors import UsageError
from recveil.core.protocols import Recommender
from recveil.core.random import make_generator
from recveil.core.timing import Clock
from recveil.core.types import Attribute, Estimate, FloatArray, IntArray, Record, Split
from recveil.data.io.attributes import join_attributes
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.defenses import DEFENSES
from recveil.metrics import ranking
from recveil.models.construction import make_model
from recveil.studies.cell_results import AttributeDetails, Measurement, StoredTarget
from recveil.studies.cells import Cell
from recveil.studies.model_cache import cache_model, hash_targets
from recveil.studies.rank_codec import pack_held_out, pack_ranks
from recveil.workflows.defended_release import (
    ChosenDefense,
    DefendedRelease,
    ReleaseRecipe,
    measure_displacement,
    select_targets,
    train_and_defend,
)
from recveil.workflows.notes import merge_small_classes
from recveil.workflows.ranking_protocol import DEFAULT_PROTOCOL, find_protocol

__all__ = [
    "audit_target",
    "estimate_change",
    "load_split",
    "make_folds",
    "measure_attribute_cell",
    "release_cell",
    "select_cell_targets",
    "select_spared_users",
]

LIST_LENGTH = 100
"""Length of the lists that a platform shows."""

PAIR_PANEL, MANY_CLASSES_PAIR_PANEL = "two-releases", "two-releases-many"
MAX_CLASSES_OF_PAIR_PANEL = 3
"""Classes up to which the slower attackers of two tables are affordable."""

NUMERIC_METRICS = ("advantage", "r2", "correlation")
PAIR_METRICS = ("balanced_accuracy", "advantage")


@dataclass(frozen=True, eq=False)
class _Audits:
    """The audit of one target, and that by attackers who hold the undefended table as well."""

    audit: TargetAudit | NumericAudit
    pair: TargetAudit | None = None

    def list_records(self, cell: Cell) -> list[Record]:
        """List the records of both."""
        records = _record_audit(cell, self.audit)
        if self.pair is None:
            return records
        numbers = dict(self.pair.headline)
        return records + [_make_record(cell, "two-releases", self.pair.target, m, numbers[m]) for m in PAIR_METRICS]


def measure_attribute_cell(cell: Cell, cache: Path) -> Measurement:
    """Measure what attackers reach and what the ranking is worth.

    Args:
        cell: the cell.
        cache: folder of trained models.
    """
    clock, split = Clock(), load_split(cell.data, cell.rules.protocol)
    targets = select_cell_targets(split.train.attributes, cell)
    defended = release_cell(cell, cache, split, targets, clock)
    protocol = find_protocol(cell.rules.protocol)
    assert defended.release.score is not None
    with clock.measure_step("rank"):
        after = protocol.rank_test_items(defended.release.score, split, defended.platform)
        before = protocol.rank_test_items(defended.undefended.score, split, split)
    records = _record_utility(cell, before, after, targets)
    vectors = defended.undefended.user_vectors_
    if defended.place and vectors.shape == defended.user_vectors.shape:
        moved = measure_displacement(vectors, defended.user_vectors)
        estimate = Estimate(moved, np.nan, np.nan, len(after.users))
        records.append(_make_record(cell, "", cell.target, "displacement", estimate))
    with clock.measure_step("audit"):
        audits = _audit_targets(cell, defended, targets)
    records += [record for each in audits for record in each.list_records(cell)]
    details = AttributeDetails(
        ranks=pack_ranks(after),
        base=pack_ranks(before),
        held_out=pack_held_out(after),
        test_share=make_folds(cell).test_share,
        targets={each.audit.target: _summarize_audit(each.audit) for each in audits},
        two_releases={each.audit.target: _summarize_audit(each.pair) for each in audits if each.pair is not None},
    )
    return Measurement(records, details, clock.seconds)


@lru_cache(maxsize=2)
def load_split(data: str, protocol: str = DEFAULT_PROTOCOL) -> Split:
    """Load a data set, split as the protocol says; `demo` is one world, whatever the seed of a cell."""
    return find_protocol(protocol).split_interactions(load_dataset_or_demo(data, seed=0))


def select_cell_targets(attributes: Mapping[str, Attribute], cell: Cell) -> list[Attribute]:
    """Select the attributes that the cell protects together; classes of one user are merged, as in `cloak`."""
    defense = cell.choice("defense")
    numbers = defense.is_undefended or DEFENSES.traits(defense.name).numeric_targets
    targets = select_targets(dict(attributes), cell.target.split("+"), cell.data, numbers=numbers)
    return [target if target.is_numeric else merge_small_classes([target])[0][0] for target in targets]


def make_folds(cell: Cell) -> CrossValidation:
    """Make the cross-validation of a cell; the largest possible share of known users needs no sampling."""
    folds, ratio = cell.rules.folds, float(cell.at["leak_ratio"])
    is_largest = abs(ratio - (1 - 1 / folds)) < 1e-9
    return CrossValidation(folds, cell.rules.repeats, leak_ratio=None if is_largest else ratio)


def select_spared_users(n: int, share: float) -> IntArray:
    """Select the users that settings are chosen on, who are not attacked: the same for every method and seed."""
    return np.random.default_rng(2026).permutation(n)[: int(share * n)]


def estimate_change(before: FloatArray, after: FloatArray) -> Estimate:
    """Estimate the paired change of a ranking measure, in per cent of its mean before."""
    gap, scale = ranking.estimate_difference(after, before), 100 / max(float(before.mean()), 1e-12)
    return Estimate(gap.value * scale, gap.low * scale, gap.high * scale, gap.n)


def release_cell(cell: Cell, cache: Path, split: Split, targets: Sequence[Attribute], clock: Clock) -> DefendedRelease:
    """Train, defend and release the model of a cell; trained models are looked up in the cache first.

    Args:
        cell: the cell.
        cache: folder of trained models.
        split: the data.
        targets: attributes to protect.
        clock: takes the seconds of each step.
    """
    model, defense = cell.choice("model"), cell.choice("defense")

    def make_cached(chosen: ChosenDefense | None) -> Recommender:
        fresh = make_model(model.name, cell.data, model.options, cell.device, profile=cell.rules.profile)
        training = {} if chosen is None else {"defense": cell.at["defense"], "targets": hash_targets(targets)}
        return cache_model(fresh, model.name, cache, training)

    chosen = None if defense.is_undefended else ChosenDefense(defense.name, defense.options)
    recipe = ReleaseRecipe(model.name, make_cached, LIST_LENGTH, cell.seed, cell.device)
    return train_and_defend(recipe, split, targets, chosen, clock=clock)


def _make_record(cell: Cell, attack: str, target: str, metric: str, estimate: Estimate) -> Record:
    names = (cell.data, cell.label("model"), cell.label("defense"))
    return Record(*names, attack, target, cell.seed, metric, estimate)


def _record_utility(
    cell: Cell, before: ranking.Ranks, after: ranking.Ranks, targets: Sequence[Attribute]
) -> list[Record]:
    """Record hit rate and NDCG at each k, the change against the undefended model, and NDCG of each class."""
    records = []
    more = find_protocol(cell.rules.protocol).measures
    for k in cell.rules.k:
        hits, gain, base = ranking.hit_rate(after, k), ranking.ndcg(after, k), ranking.ndcg(before, k)
        for name, measure in more.items():
            records.append(_make_record(cell, "", cell.target, f"{name}@{k}", ranking.estimate_mean(measure(after, k))))
        records.append(_make_record(cell, "", cell.target, f"hit_rate@{k}", ranking.estimate_mean(hits)))
        records.append(_make_record(cell, "", cell.target, f"ndcg@{k}", ranking.estimate_mean(gain)))
        if not cell.choice("defense").is_undefended:
            records.append(_make_record(cell, "", cell.target, f"ndcg_change@{k}", estimate_change(base, gain)))
    gain = ranking.ndcg(after, cell.rules.main_k)
    for target in targets:
        if not target.is_numeric:
            for label, estimate in ranking.estimate_by_class(gain, after.users, target).items():
                records.append(_make_record(cell, "", target.name, f"ndcg@{cell.rules.main_k} of {label}", estimate))
    return records


def _audit_targets(cell: Cell, defended: DefendedRelease, targets: Sequence[Attribute]) -> list[_Audits]:
    """Audit the surface, and where the defense came after training, both tables together."""
    surface = "user_vectors" if cell.at["surface"] == "vectors" else cell.at["surface"]
    rng = make_generator(cell.seed, "view")
    x = build_view(defended.release, surface, history=defended.platform.train, rng=rng)
    if not x.shape[1]:
        raise UsageError(f'{cell.label("model")} has no user vectors. Attack its lists: surface = ["lists"].')
    users = np.setdiff1d(np.arange(len(x)), select_spared_users(len(x), cell.rules.unattacked))
    both = None
    if defended.place == "embeddings" and surface == "user_vectors":
        both = join_releases(defended.undefended.user_vectors_, defended.user_vectors)[users]
    classes = [target for target in targets if not target.is_numeric]
    joint = [join_attributes(classes)] if len(classes) > 1 and cell.rules.joint else []
    audits = []
    for target in [*targets, *joint]:
        audit = audit_target(cell, x[users], target.take(users))
        pair = None if both is None or target.is_numeric else _audit_pair(cell, both, target.take(users))
        audits.append(_Audits(audit, pair))
    return audits


def audit_target(cell: Cell, x: FloatArray, target: Attribute) -> TargetAudit | NumericAudit:
    """Audit the vectors of these users by the panel and the folds of the cell, on classes as the cell has them."""
    if cell.rules.classes == "equal" and not target.is_numeric:
        rows = draw_equal_classes(target, rng=make_generator(cell.seed, "equal classes"))
        x, target = x[rows], target.take(rows)
    x = np.ascontiguousarray(x)
    if target.is_numeric:
        return audit_numeric_attribute(x, target, rules=make_folds(cell), seed=cell.seed)
    attackers = parse_attackers(cell.at["panel"], cell.device)
    return audit_attribute(x, target, attackers, rules=make_folds(cell), seed=cell.seed)


def _audit_pair(cell: Cell, x: FloatArray, target: Attribute) -> TargetAudit:
    panel = PAIR_PANEL if len(target.labels) <= MAX_CLASSES_OF_PAIR_PANEL else MANY_CLASSES_PAIR_PANEL
    attackers = parse_attackers(panel, cell.device)
    return audit_attribute(np.ascontiguousarray(x), target, attackers, rules=make_folds(cell), seed=cell.seed)


def _record_audit(cell: Cell, audit: TargetAudit | NumericAudit) -> list[Record]:
    if isinstance(audit, TargetAudit):
        names = {"model": cell.label("model"), "defense": cell.label("defense")}
        return list_records([audit], dataset=cell.data, **names, seed=cell.seed)
    results = {**audit.attacks, "headline": audit.headline}
    return [
        _make_record(cell, attack, audit.target, metric, dict(result)[metric])
        for attack, result in results.items()
        for metric in NUMERIC_METRICS
    ]


def _summarize_audit(audit: TargetAudit | NumericAudit) -> StoredTarget:
    """Keep what pooling of seeds and the words of a report need."""
    result, classes = audit.to_result(), {}
    if isinstance(audit, TargetAudit):  # a number has no classes to count
        classes = {"counts": dict(zip(audit.labels, audit.counts, strict=True))}
    return StoredTarget(
        folds=[float(advantage) for advantage in audit.fold_advantages],
        chosen=audit.fold_shares,
        p_value=audit.p_value,
        verdict=result.verdict.value,
        sentence=result.sentence,
        chance=result.chance,
        n=result.n,
        **classes,
        resolution=result.resolution,
        detectable=result.detectable,
        notes=result.notes,
    )
