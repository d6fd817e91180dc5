"""The flow of `recveil cloak`: read, defend, audit before and after, build the result, write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from recveil.core.errors import RecveilError, UsageError
from recveil.core.outputs import check_outputs, explain_report_failure, hold_outputs
from recveil.core.protocols import UtilityLoss
from recveil.core.result_parts import DefenseSummary, InputSummary, PartCounts
from recveil.core.results import CloakResult
from recveil.core.self_check_parts import SelfCheck
from recveil.core.timing import Clock
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.io.ids import Ids
from recveil.data.io.user_tables import Vectors, check_vector_output, write_embeddings
from recveil.defenses import DEFENSES
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table as cloak_large_table
from recveil.streaming.engines import TaskEngine
from recveil.streaming.target_columns import list_target_columns
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.comparison import audit_lists, compare_audits, compare_recommendations, describe_omissions
from recveil.workflows.defended_release import (
    ChosenDefense,
    defend_vectors,
    describe_size_limit,
    measure_displacement,
)
from recveil.workflows.frontier import build_frontier
from recveil.workflows.inputs import InputFiles, count_activity, summarize_input
from recveil.workflows.large_inputs import is_large_table, open_large_table
from recveil.workflows.notes import describe_target_columns, describe_undisclosed, list_notes, merge_small_classes
from recveil.workflows.self_check import AUTO, choose_defense, list_candidates
from recveil.workflows.utility import Recommendations, recommendations_from_files, recommendations_from_run

__all__ = ["CloakRequest", "ClearTable", "cloak_files", "cloak_table"]


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
    """

    out: Path
    report: Path | None = None
    audit: bool = False
    frontier: bool = False
    engine: TaskEngine | None = None
    keep_target: bool = False
    check: bool = False
    command_line: Sequence[str] = ()

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
    """

    summary: InputSummary
    x: FloatArray
    targets: Sequence[Attribute]
    recommendations: Recommendations | None = None
    activity: IntArray | None = None
    notes: Sequence[str] = ()
    ids: Ids | None = None


def cloak_files(
    files: InputFiles, names: list[str], defense: ChosenDefense, protocol: AuditProtocol, request: CloakRequest
) -> CloakResult:
    """Defend the table in the files and write it.

    Where it is known how the vectors are served (a run, or item vectors and interactions), the result also says what
    the recommendations are worth before and after, and what the lists made from them reveal.

    Args:
        files: the tables.
        names: attributes to protect; all with classes if empty.
        defense: the defense.
        protocol: the rules of the audits.
        request: outputs and what else is measured.
    """
    is_large = is_large_table(files) or request.engine is not None
    outputs = {"out": request.out, "report": request.report}
    check_outputs(outputs, files.list_paths(), folder="out" if is_large else "")
    _ = protocol.attack_names  # an unknown panel is refused before the work
    with hold_outputs(request.report, None if is_large else request.out):  # a large table holds its own
        cloak_input = _cloak_large if is_large else _cloak_in_memory
        result = cloak_input(files, names, defense, protocol, request)
        result = result.model_copy(update={"command_line": list(request.command_line)})
        if request.report is not None:
            with explain_report_failure(request.report, request.out):
                result.write_html(request.report)
    return result


def _cloak_in_memory(
    files: InputFiles, names: list[str], defense: ChosenDefense, protocol: AuditProtocol, request: CloakRequest
) -> CloakResult:
    """Defend a table that fits into memory, and write it."""
    for candidate in list_candidates(defense):
        candidate.make(protocol.device)
    vectors, targets, notes = files.read(names)
    check_vector_output(request.out, vectors)
    table, warnings = _read_clear_table(files, vectors, targets, protocol.seed)
    vectors, target_columns = _drop_targets(vectors, [target.name for target in targets], request)
    notes = [*notes, *describe_target_columns(target_columns, request.out.name, kept=request.keep_target)]
    cloaked, result = cloak_table(
        replace(table, notes=notes, ids=vectors.ids),
        defense,
        protocol,
        audit=request.needs_audit,
        frontier=request.frontier,
        check=request.check,
        warnings=warnings,
    )
    write_embeddings(request.out, vectors, cloaked)
    return result


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
    targets, merged = merge_small_classes(table.targets)
    with clock.measure_step("cloak"):
        defense, cloaked, self_check = _defend_table(table, targets, defense, protocol, check=check)
    result = CloakResult(
        input=table.summary,
        self_check=self_check,
        defense=DefenseSummary(
            name=defense.name,
            strength=float(defense.options.get("strength", 1.0)),
            targets=[target.name for target in targets],
            displacement=measure_displacement(table.x, cloaked),
            options={name: value for name, value in defense.options.items() if name != "strength"},
            notes=[*merged, *table.notes, *list_notes(table.x, targets, defense.name)],
        ),
    )
    if audit:
        result = _add_audits(result, table, cloaked, targets, protocol, clock)
    if frontier:
        with clock.measure_step("measure the frontier"):
            quick = replace(protocol, panel="fast", repeats=1, max_repeats=1, attacks=None)
            result = result.model_copy(update={"frontier": build_frontier(table.x, targets, quick, served)})
    final = {"timings": clock.seconds, "warnings": [*result.warnings, *(warnings if audit else ())]}
    return cloaked, result.model_copy(update=final)


def _defend_table(
    table: ClearTable, targets: Sequence[Attribute], defense: ChosenDefense, protocol: AuditProtocol, *, check: bool
) -> tuple[ChosenDefense, FloatArray, SelfCheck | None]:
    """Return the defense that was used, the vectors it made, and its self-check where one was run."""
    candidates = list_candidates(defense)
    if defense.name == AUTO:  # the cheap ones that can defend this table
        able = [c for c in candidates if not describe_size_limit(DEFENSES.traits(c.name), *table.x.shape)]
        candidates = able or candidates
    candidates[0].check_size(*table.x.shape)

    def apply_defense(candidate: ChosenDefense) -> FloatArray:
        method, loss = candidate.make(protocol.device), _make_loss(table.recommendations, protocol)
        return defend_vectors(method, table.x, targets, seed=protocol.seed, utility=loss)

    if not check and defense.name != AUTO:
        return defense, apply_defense(defense), None
    chosen = choose_defense(table.x, targets, candidates, apply_defense, protocol)
    return chosen.defense, chosen.x, chosen.check


def _add_audits(
    result: CloakResult,
    table: ClearTable,
    cloaked: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    clock: Clock,
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
        with clock.measure_step("measure the recommendations"):
            lists = audit_lists(table.recommendations, table.x, cloaked, targets, protocol)
            utility = compare_recommendations(table.recommendations, table.x, cloaked, targets)
        update |= {"lists": lists, "utility": utility}
        update["warnings"] = [*compared.notes, *describe_omissions(lists)]
    return result.model_copy(update=update)


def _cloak_large(
    files: InputFiles, names: list[str], defense: ChosenDefense, protocol: AuditProtocol, request: CloakRequest
) -> CloakResult:
    """Defend a table that is never in memory; a sample is audited, the same users before and after."""
    if request.frontier:
        raise UsageError("`frontier` cannot be used with a large table. Take a part of it that fits into memory.")
    large, clock = open_large_table(files, names), Clock()
    defense = list_candidates(defense, streams=True)[0]
    method = defense.make(protocol.device)
    defense.check_size(0, large.table.d)  # no method for large tables compares all users with all
    done = cloak_large_table(
        large.table,
        large.facts,
        method,
        request.out,
        seed=protocol.seed,
        engine=request.engine,
        keep_target=request.keep_target,
    )
    notes = [
        *describe_target_columns(done.target_columns, request.out.name, kept=request.keep_target),
        *done.notes,
    ]
    for name, classes in done.counts.items():
        if undisclosed := done.rows - sum(classes.values()):
            notes.append(describe_undisclosed(undisclosed, name, defense.name))
    result = CloakResult(
        input=InputSummary(name=large.table.path.name, n_users=done.rows, d=done.d),
        defense=DefenseSummary(
            name=defense.name,
            strength=float(defense.options.get("strength", 1.0)),
            targets=list(large.facts.names),
            displacement=done.displacement,
            notes=notes,
        ),
        counts=done.counts,
        parts=PartCounts(written=done.parts_written, found=done.parts_found),
        timings=done.seconds,
    )
    if not request.needs_audit:
        return result
    plan = large.plan_sample(protocol.rules, protocol.margin, protocol.seed, request.engine)
    users = plan.draw_users(large.table, request.engine)
    cloaked = users.read_vectors(open_table(request.out, large.table.ids), request.engine)
    sample = ClearTable(result.input, users.x, users.targets, ids=users.ids)
    result = _add_audits(result, sample, cloaked, users.targets, protocol, clock)
    warnings = [plan.describe_sample(done.rows), *result.warnings]
    return result.model_copy(update={"warnings": warnings, "timings": {**done.seconds, **clock.seconds}})


def _drop_targets(vectors: Vectors, names: Sequence[str], request: CloakRequest) -> tuple[Vectors, tuple[str, ...]]:
    """Return the table without the columns that hold a target, unless they are to be kept, and their names."""
    source = vectors.source
    columns = [] if source is None else source.column_names if isinstance(source, pa.Table) else list(source)
    other = [column for column in columns if column != vectors.key and column not in vectors.columns]
    found = list_target_columns(other, names)
    if request.keep_target or not found or source is None:
        return vectors, found
    if isinstance(source, pa.Table):
        return replace(vectors, source=source.drop_columns(list(found))), found
    return replace(vectors, source={name: tensor for name, tensor in source.items() if name not in found}), found


def _read_clear_table(
    files: InputFiles, vectors: Vectors, targets: Sequence[Attribute], seed: int
) -> tuple[ClearTable, list[str]]:
    """Return the table with how it is served, where that is known, and warnings where it is not."""
    served, warnings = _read_recommendations(files, vectors, seed)
    # What was read to serve the vectors is not read again.
    from_files = served is None or (files.run is not None and files.interactions is not None)
    activity = count_activity(files, vectors) if from_files else None
    if served is not None and not from_files:
        activity = served.count_interactions(len(vectors.x))
    return ClearTable(summarize_input(files, vectors), vectors.x, targets, served, activity), warnings


def _read_recommendations(files: InputFiles, vectors: Vectors, seed: int) -> tuple[Recommendations | None, list[str]]:
    """Read how the vectors are served; a run whose data are not on this machine can still be cloaked."""
    if files.run is not None:
        try:
            return recommendations_from_run(files.run, vectors), []
        except RecveilError as error:
            # Results are passed on, so the example of a user that an error may give is left out.
            reason = re.sub(r", for instance '.*?'(?=[ .,;])", "", str(error))
            return None, [f"The recommendations were not measured. {reason}"]
    if files.item_embeddings is not None and files.interactions is not None:
        return recommendations_from_files(vectors, files.item_embeddings, files.interactions, seed=seed), []
    if files.item_embeddings is not None or files.interactions is not None:
        raise UsageError("Utility needs both `item_embeddings` and `interactions`. Give both, or neither.")
    return None, []


def _make_loss(recommendations: Recommendations | None, protocol: AuditProtocol) -> UtilityLoss | None:
    if recommendations is None or recommendations.items is None:
        return None
    return recommendations.make_loss(device=protocol.device, seed=protocol.seed)
