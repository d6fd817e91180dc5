"""The flow of `recveil cloak`: read, defend, audit before and after, build the result, write."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from recveil.core.errors import DataError, RecveilError, UsageError
from recveil.core.outputs import check_outputs, explain_report_failure, hold_outputs
from recveil.core.results import CloakResult
from recveil.core.types import Attribute, FloatArray
from recveil.data.io.user_tables import Vectors, check_vector_output, write_embeddings
from recveil.report.charts import check_chart_packages
from recveil.streaming.target_columns import list_target_columns
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.cloak_large import cloak_large
from recveil.workflows.cloak_table import ClearTable, CloakRequest, cloak_table
from recveil.workflows.defended_lists import ListRequest, describe_lists, release_lists
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles, count_activity, summarize_input
from recveil.workflows.large_inputs import is_large_table
from recveil.workflows.map_saving import check_map_request, save_fitted_map
from recveil.workflows.notes import describe_target_columns
from recveil.workflows.self_check import list_candidates
from recveil.workflows.utility import Recommendations, recommendations_from_files, recommendations_from_run

__all__ = ["cloak_files", "drop_targets"]


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
    lists_out = None if request.lists is None else request.lists.out
    outputs = {"out": request.out, "report": request.report, "save_map": request.save_map, "lists_out": lists_out}
    check_outputs(outputs, files.list_paths(), folder="out" if is_large else "")
    if request.report is not None:
        check_chart_packages()
    _ = protocol.attack_names  # an unknown panel is refused before the work
    if request.save_map is not None:
        check_map_request(defense, is_large=is_large)
        defense = replace(defense, needs_map=True)
    _check_rankings(files, request, is_large=is_large)
    table = None if is_large else request.out  # a large table holds its own
    with hold_outputs(request.report, request.save_map, lists_out, table):
        cloak_input = cloak_large if is_large else _cloak_in_memory
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
    if request.checks_heads and table.recommendations is None:
        raise DataError(f"It is not known which items score high. {' '.join(warnings)}")
    vectors, target_columns = drop_targets(vectors, [target.name for target in targets], keep=request.keep_target)
    notes = [*notes, *describe_target_columns(target_columns, request.out.name, kept=request.keep_target)]
    table = replace(table, notes=notes, ids=vectors.ids, shows_heads=request.checks_heads)
    cloaked, result = cloak_table(
        table,
        defense,
        protocol,
        audit=request.needs_audit,
        frontier=request.frontier,
        check=request.check,
        warnings=warnings,
    )
    if request.save_map is not None:
        save_fitted_map(request.save_map, table, result, protocol)
    if request.lists is not None:
        result = _add_lists(result, request.lists, table, cloaked, protocol, audit=request.needs_audit)
    write_embeddings(request.out, vectors, cloaked)
    return result


def _check_rankings(files: InputFiles, request: CloakRequest, *, is_large: bool) -> None:
    """Refuse rankings that could not be made, before the work."""
    if not request.checks_heads:
        return
    option = "release_items" if request.lists is None else "lists_out"
    if is_large:
        raise UsageError(f"`{option}` cannot be used with a large table. Take a part of it that fits into memory.")
    if files.run is None and (files.item_embeddings is None or files.interactions is None):
        raise UsageError(f"`{option}` needs `run`, or `item_embeddings` and `interactions`, to know what ranks first.")


def _add_lists(
    result: CloakResult,
    request: ListRequest,
    table: ClearTable,
    cloaked: FloatArray,
    protocol: AuditProtocol,
    *,
    audit: bool,
) -> CloakResult:
    """Write the lists; return the result with what attackers find in them."""
    assert table.recommendations is not None
    lists = release_lists(
        table.recommendations,
        cloaked,
        table.targets,
        protocol,
        request,
        audit=audit,
        undefended=table.x,
        ids=table.ids,
    )
    if lists is None:
        return result
    return result.model_copy(update={"defended_lists": lists, "warnings": [*result.warnings, *describe_lists(lists)]})


def drop_targets(vectors: Vectors, names: Sequence[str], *, keep: bool) -> tuple[Vectors, tuple[str, ...]]:
    """Return the table without the columns that hold a target, unless they are to be kept, and their names."""
    found = list_target_columns(vectors.other_names, names)
    return vectors if keep or not found else vectors.drop_names(found), found


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
