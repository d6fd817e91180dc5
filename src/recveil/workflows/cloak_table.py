"""A table in memory: defend it, check it, audit it before and after, and build the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from recveil.core.errors import DataError
from recveil.core.protocols import TableView, UtilityLoss
from recveil.core.result_parts import DefenseSummary, Frontier, InputSummary
from recveil.core.results import CloakResult
from recveil.core.self_check_parts import SelfCheck
from recveil.core.timing import Clock
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.io.ids import Ids
from recveil.defenses import DEFENSES
from recveil.streaming.engines import TaskEngine
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.comparison import (
    audit_lists,
    compare_audits,
    compare_recommendations,
    describe_heads,
    describe_omissions,
    view_with_heads,
)
from recveil.workflows.defended_lists import ListRequest
from recveil.workflows.defended_release import (
    ChosenDefense,
    defend_vectors,
    describe_size_limit,
    measure_displacement,
)
from recveil.workflows.frontier import build_frontier
from recveil.workflows.notes import (
    describe_cheaper_protection,
    describe_unchecked_classes,
    describe_undisclosed,
    list_notes,
    merge_small_classes,
    refuse_rows_of_ids,
)
from recveil.workflows.price import find_least_displacement, measure_price
from recveil.workflows.rehearsal import rehearse_defense
from recveil.workflows.self_check import AUTO, VECTORS_ALONE, choose_defense, list_candidates
from recveil.workflows.utility import Recommendations

__all__ = ["ClearTable", "CloakRequest", "add_audits", "cloak_table"]


@dataclass(frozen=True)
class CloakRequest:
    """What a cloak does beside defending the table.

    Attributes:
        out: where the defended table goes.
        report: where the page goes, if anywhere.
        audit: audit the table before and after even without a page.
        frontier: measure all methods at several strengths.
        engine: engine for large tables; naming one makes any table a large one.
        keep_target: keep columns of the table that hold a protected attribute; anybody can read the classes there.
        check: run the self-check of the defense.
        command_line: what made this result, kept in it.
        save_map: where the map for later users goes, if anywhere.
        lists: lists to write beside the table, if any.
        release_items: item vectors are released too, so the self-check also attacks which items score high.
    """

    out: Path
    report: Path | None = None
    audit: bool = False
    frontier: bool = False
    engine: TaskEngine | None = None
    keep_target: bool = False
    check: bool = False
    command_line: Sequence[str] = ()
    save_map: Path | None = None
    lists: ListRequest | None = None
    release_items: bool = False

    @property
    def checks_heads(self) -> bool:
        """Whether attackers can tell which items score high: who sees lists knows a part of it."""
        return self.release_items or self.lists is not None

    @property
    def needs_audit(self) -> bool:
        """Whether the audits before and after are wanted."""
        return self.audit or self.report is not None


@dataclass(frozen=True, eq=False)
class ClearTable:
    """An undefended table in memory.

    Attributes:
        summary: what was handed in.
        x: the user vectors.
        targets: attributes to protect, with classes.
        recommendations: how users are served, where known.
        activity: interactions of each user, where known.
        notes: what to know of the attributes.
        ids: ids of the users, from which the folds of the audits are derived.
        shows_heads: attackers can tell which items score high, so the self-check attacks that as well.
    """

    summary: InputSummary
    x: FloatArray
    targets: Sequence[Attribute]
    recommendations: Recommendations | None = None
    activity: IntArray | None = None
    notes: Sequence[str] = ()
    ids: Ids | None = None
    shows_heads: bool = False


def cloak_table(
    table: ClearTable,
    defense: ChosenDefense,
    protocol: AuditProtocol,
    *,
    audit: bool = True,
    frontier: bool = False,
    check: bool = False,
    warnings: Sequence[str] = (),
) -> tuple[FloatArray, CloakResult]:
    """Defend a table in memory; return the defended vectors and the result.

    Args:
        table: the undefended table.
        defense: the defense; `auto` takes the cheapest that passes the self-check.
        protocol: the rules of the audits.
        audit: audit the table before and after.
        frontier: measure all methods at several strengths.
        check: run the self-check; `auto` always does.
        warnings: sentences to keep in the result.
    """
    clock, served = Clock(), table.recommendations
    protocol = replace(protocol, memory={})  # what was before is attacked once, for the check and the audit
    targets, merged = merge_small_classes(table.targets)
    has_undisclosed = any(not target.known.all() for target in targets)
    with clock.measure_step("cloak"):
        defense, cloaked, self_check = _defend_table(table, targets, defense, protocol, check=check)
    notes = [*merged, *table.notes, *list_notes(table.x, targets, defense.name)]
    notes += _describe_check(self_check, defense.name, targets, protocol.folds)
    summary = _summarize_defense(defense, table.x, cloaked, targets, notes)
    result = CloakResult(input=table.summary, self_check=self_check, defense=summary)
    if served is not None and (audit or self_check is not None):
        with clock.measure_step("measure the recommendations"):
            result = _add_utility(result, table, cloaked, targets, protocol)
    if audit:
        result = add_audits(result, table, cloaked, targets, protocol, clock, heads_checked=table.shows_heads)
    if audit and has_undisclosed:
        result = _add_rehearsal(result, table, targets, defense, protocol, clock)
    if frontier or (audit and result.self_check is not None and result.self_check.is_too_expensive):
        # Without --frontier two methods are enough to show why it costs so much.
        names = () if frontier else (defense.name, find_least_displacement())
        with clock.measure_step("measure the frontier"):
            result = result.model_copy(update={"frontier": _measure_frontier(table, targets, protocol, names)})
    final = {"timings": clock.seconds, "warnings": [*result.warnings, *(warnings if audit else ())]}
    return cloaked, result.model_copy(update=final)


def _defend_table(
    table: ClearTable,
    targets: Sequence[Attribute],
    defense: ChosenDefense,
    protocol: AuditProtocol,
    *,
    check: bool,
) -> tuple[ChosenDefense, FloatArray, SelfCheck | None]:
    """Return the defense that was used, the vectors it made, and its self-check where one was run."""
    refuse_rows_of_ids(table.x)
    has_undisclosed = any(not target.known.all() for target in targets)
    candidates = list_candidates(defense, undisclosed=has_undisclosed)
    if defense.name == AUTO:  # the cheap ones that can defend this table
        able = [c for c in candidates if not describe_size_limit(DEFENSES.traits(c.name), *table.x.shape)]
        candidates = able or candidates
    candidates[0].check_size(*table.x.shape)

    heads = _make_heads(table, protocol)

    def apply_defense(candidate: ChosenDefense) -> FloatArray:
        method, loss = candidate.make(protocol.device), _make_loss(table.recommendations, protocol)
        return defend_vectors(method, table.x, targets, seed=protocol.draw_seed, utility=loss, view=heads)

    if not check and defense.name != AUTO:
        return defense, apply_defense(defense), None
    views = VECTORS_ALONE if heads is None else {**VECTORS_ALONE, "vectors_and_heads": heads}
    chosen = choose_defense(table.x, targets, candidates, apply_defense, protocol, ids=table.ids, views=views)
    return chosen.defense, chosen.x, chosen.check


def _summarize_defense(
    defense: ChosenDefense, x: FloatArray, cloaked: FloatArray, targets: Sequence[Attribute], notes: Sequence[str]
) -> DefenseSummary:
    return DefenseSummary(
        name=defense.name,
        strength=float(defense.options.get("strength", 1.0)),
        targets=[target.name for target in targets],
        displacement=measure_displacement(x, cloaked),
        options={name: value for name, value in defense.options.items() if name != "strength"},
        notes=list(notes),
    )


def _make_heads(table: ClearTable, protocol: AuditProtocol) -> TableView | None:
    """Return what attackers with item vectors see of a table, if any: the vectors, and which items score high."""
    served = table.recommendations
    if not table.shows_heads:
        return None
    if served is None:
        raise DataError("Which items score high is not known. Give `run`, or `item_embeddings` and `interactions`.")
    return lambda x: view_with_heads(served, x, protocol.seed)


def _measure_frontier(
    table: ClearTable, targets: Sequence[Attribute], protocol: AuditProtocol, names: Sequence[str]
) -> Frontier:
    """Measure these methods, or all, at several strengths with few attackers."""
    quick = replace(protocol, panel="fast", repeats=1, max_repeats=1, attacks=None)
    heads = _make_heads(table, protocol)
    return build_frontier(table.x, targets, quick, table.recommendations, names=names, view=heads)


def _describe_check(check: SelfCheck | None, taken: str, targets: Sequence[Attribute], folds: int) -> list[str]:
    """Say which classes were not checked, and where a defense that protects everybody was tried in vain."""
    if check is None:
        return []
    notes = describe_unchecked_classes(targets, folds)
    refused = [name for name in check.tried if DEFENSES.traits(name).protects_undisclosed]
    if refused and taken not in refused:
        notes.append(
            f"WARNING: {refused[0]}, which protects everybody, did not pass: undisclosed users are not protected."
        )
    return notes


def add_audits(
    result: CloakResult,
    table: ClearTable,
    cloaked: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    clock: Clock,
    *,
    heads_checked: bool = False,
) -> CloakResult:
    """Return the result with audits before and after, of the vectors and, where it is known, of the lists."""
    compared = compare_audits(table.x, cloaked, targets, protocol, clock=clock, activity=table.activity, ids=table.ids)
    update: dict[str, object] = {
        "protocol": protocol.to_result(),
        "before": compared.before,
        "targets": compared.after,
        **compared.past,
        "warnings": compared.notes,
    }
    if table.recommendations is not None:
        with clock.measure_step("audit the lists"):
            lists = audit_lists(table.recommendations, table.x, cloaked, targets, protocol)
        update["lists"] = lists
        heads = describe_heads(lists, compared.after, checked=heads_checked)
        update["warnings"] = [*heads, *compared.notes, *describe_omissions(lists)]
    return result.model_copy(update=update)


def _add_utility(
    result: CloakResult,
    table: ClearTable,
    cloaked: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
) -> CloakResult:
    """Return the result with what the recommendations are worth, and with the price in its self-check."""
    assert table.recommendations is not None
    utility, check = compare_recommendations(table.recommendations, table.x, cloaked, targets), result.self_check
    if check is not None:
        name = result.defense.name
        price = measure_price(table.recommendations, utility, table.x, targets, protocol, name)
        check = check.model_copy(update={"price": price})
        if check.is_too_expensive and DEFENSES.traits(name).protects_undisclosed:
            result = _add_notes(result, describe_cheaper_protection(targets))
    return result.model_copy(update={"utility": utility, "self_check": check})


def _add_notes(result: CloakResult, notes: Sequence[str]) -> CloakResult:
    defense = result.defense.model_copy(update={"notes": [*result.defense.notes, *notes]})
    return result.model_copy(update={"defense": defense})


def _add_rehearsal(
    result: CloakResult,
    table: ClearTable,
    targets: Sequence[Attribute],
    defense: ChosenDefense,
    protocol: AuditProtocol,
    clock: Clock,
) -> CloakResult:
    """Return the result with what attackers find out about users who do not disclose, measured on users who do."""
    try:
        loss, heads = _make_loss(table.recommendations, protocol), _make_heads(table, protocol)
        with clock.measure_step("rehearse"):
            rehearsal = rehearse_defense(table.x, targets, defense, protocol, utility=loss, view=heads)
    except DataError as error:  # the table is defended all the same
        return result.model_copy(update={"warnings": [*result.warnings, f"Nothing was rehearsed. {error}"]})
    said = [describe_undisclosed(int((~t.known).sum()), t.name, defense.name) for t in targets]
    notes = [note for note in result.defense.notes if note not in said]
    for target in targets:
        if not target.known.all():
            count = int((~target.known).sum())
            notes.append(f"{count:,} users did not disclose {target.name}. {rehearsal.describe_target(target.name)}")
    summary = result.defense.model_copy(update={"notes": notes})
    return result.model_copy(update={"rehearsal": rehearsal, "defense": summary})


def _make_loss(recommendations: Recommendations | None, protocol: AuditProtocol) -> UtilityLoss | None:
    """Return the loss of the recommendations, prepared when a defense first asks for it: most never do."""
    if recommendations is None or recommendations.items is None:
        return None
    prepare = cache(lambda: recommendations.make_loss(device=protocol.device, seed=protocol.seed))
    return lambda users: prepare()(users)
