"""The flow of `recveil cloak` for a table that is never in memory: defend it, then check and audit a sample."""

from __future__ import annotations

from dataclasses import replace

from recveil.audits.attribute.audit import select_users
from recveil.core.errors import UsageError
from recveil.core.result_parts import DefenseSummary, InputSummary, PartCounts
from recveil.core.results import CloakResult
from recveil.core.timing import Clock
from recveil.streaming.audit_sample import SampleDesign, UserSample
from recveil.streaming.block_table import open_table
from recveil.streaming.cloaked_table import cloak_table as cloak_large_table
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_table import ClearTable, CloakRequest, add_audits
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles
from recveil.workflows.large_inputs import LargeTable, open_large_table
from recveil.workflows.notes import describe_target_columns, describe_undisclosed
from recveil.workflows.self_check import check_release, list_candidates

__all__ = ["cloak_large"]


def cloak_large(
    files: InputFiles, names: list[str], defense: ChosenDefense, protocol: AuditProtocol, request: CloakRequest
) -> CloakResult:
    """Defend a table that is never in memory; a sample is audited, the same users before and after."""
    if request.frontier:
        raise UsageError("`frontier` cannot be used with a large table. Take a part of it that fits into memory.")
    large, clock = open_large_table(files, names), Clock()
    defense = list_candidates(defense, streams=True)[0]
    method = defense.make(protocol.device)
    defense.check_size(0, large.table.d)  # no method for large tables compares all users with all
    sample = _draw_sample(large, protocol, request, clock)
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
    if sample is None:
        return result
    try:
        return _examine_sample(result, large, sample, protocol, request, clock)
    except Exception as error:
        error.add_note(f"{request.out.name} was written before, and is not checked: do not release it.")
        raise


def _draw_sample(
    large: LargeTable, protocol: AuditProtocol, request: CloakRequest, clock: Clock
) -> tuple[SampleDesign, UserSample] | None:
    """Draw the users of the self-check and the audits, where they were asked for.

    It comes before the defended table is written, so that a table that cannot be checked is refused with nothing
    written.
    """
    if not request.check and not request.needs_audit:
        return None
    with clock.measure_step("draw a sample"):
        plan = large.plan_sample(protocol.rules, protocol.margin, protocol.seed, request.engine)
        users = plan.draw_users(large.table, request.engine)
    for target in users.targets:
        select_users(target, protocol.folds)
    return plan, users


def _examine_sample(
    result: CloakResult,
    large: LargeTable,
    sample: tuple[SampleDesign, UserSample],
    protocol: AuditProtocol,
    request: CloakRequest,
    clock: Clock,
) -> CloakResult:
    """Return the result with the self-check and the audits of a sample."""
    plan, users = sample
    protocol = replace(protocol, memory={})  # what was before is attacked once, for the check and the audit
    cloaked = users.read_vectors(open_table(request.out, large.table.ids, large.table.layout), request.engine)
    if request.check:
        with clock.measure_step("check"):
            check = check_release(users.x, cloaked, users.targets, protocol, result.defense.name, ids=users.ids)
        result = result.model_copy(update={"self_check": check})
    if request.needs_audit:
        clear = ClearTable(result.input, users.x, users.targets, ids=users.ids)
        result = add_audits(result, clear, cloaked, users.targets, protocol, clock)
    warnings = [plan.describe_sample(result.input.n_users), *result.warnings]
    return result.model_copy(update={"warnings": warnings, "timings": {**result.timings, **clock.seconds}})
