"""The command `recveil audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recveil.cli.options import (
    AuditRuleOptions,
    CommonOptions,
    FailIf,
    JsonOut,
    Report,
    TableOptions,
    parse_bins,
    parse_layout,
    parse_names,
    takes,
)
from recveil.cli.output import (
    check_inputs_exist,
    emit_json,
    print_gates,
    print_next_step,
    print_notes,
    print_summary,
    read_command_line,
    show_progress,
)

if TYPE_CHECKING:
    from recveil.audits.gates import Gate
    from recveil.core.results import AuditResult
    from recveil.workflows.inputs import InputFiles

__all__ = ["AuditOptions", "audit", "make_input_files"]


@dataclass(frozen=True, kw_only=True)
class AuditOptions(TableOptions, AuditRuleOptions, CommonOptions):
    """Options of `recveil audit`."""

    permutations: Annotated[
        int, typer.Option(help="Permutations of the labels for an exact p-value; 0 for the corrected t.", min=0)
    ] = 0
    leak_ratio: Annotated[
        float | None, typer.Option(help="Share of users whose attribute the attacker knows, such as 0.2.")
    ] = None
    curve: Annotated[
        bool, typer.Option("--curve", help="Audits with 20, 40, 60 and 80 % of the users known as well (slower).")
    ] = False
    surface: Annotated[
        str,
        typer.Option(
            help="What the attacker sees: user_vectors (the default), scores, lists (the default without vectors), "
            "list_means, omissions (what lists lack), vectors_and_heads (and the items that score high), "
            "vectors_and_lists, interactions."
        ),
    ] = ""
    recommendations: Annotated[
        Path | None, typer.Option(help="Lists: user_id, item_id, rank[, score]. They can be audited alone.")
    ] = None
    before: Annotated[
        list[Path] | None,
        typer.Option(help="Earlier table of the same users: adds attackers who hold all. Repeatable, oldest first."),
    ] = None
    joint: Annotated[bool, typer.Option("--joint", help="Audit of all targets together, as joint classes.")] = False
    rehearse: Annotated[
        float | None,
        typer.Option(help="Share of known users to hide from the defense --method and attack, such as 0.3."),
    ] = None
    method: Annotated[str, typer.Option(help="Defense to rehearse: see `recveil list defenses`.")] = ""
    report: Report = None
    out: JsonOut = None
    risk_out: Annotated[
        Path | None, typer.Option(help="Exposure of each user (.parquet). It names users: keep it safe.")
    ] = None
    junit: Annotated[Path | None, typer.Option(help="Verdicts as JUnit XML, for CI.")] = None
    sarif: Annotated[Path | None, typer.Option(help="Leaks as SARIF, for code hosts.")] = None
    baseline: Annotated[
        Path | None, typer.Option(help="JSON of the last release's audit: exit 1 if this one is worse.")
    ] = None
    fail_if: FailIf = None


@takes(AuditOptions)
def audit(options: AuditOptions) -> None:
    """Audit a table: can an attacker infer these attributes?

    Attackers learn from most users and predict the others, several times over. The verdict is `leak`, `none` or
    `inconclusive`; without --fail-if or --baseline the command exits 0 whatever the verdict. Count on 10 s of CPU time,
    and with the panel `fast` on 1 s more for each 1,000 users and target.

    Example: recveil audit users.parquet --attributes attributes.parquet --target gender --report out.html
    """
    check_inputs_exist(options.table_path, options.attributes, options.run, options.ids_path, options.item_embeddings)
    check_inputs_exist(options.interactions, options.recommendations, *(options.before or []))
    from recveil.audits.baseline import read_baseline
    from recveil.audits.gates import parse_gate
    from recveil.workflows.audit import AuditOutputs, audit_files
    from recveil.workflows.audit_protocol import AuditProtocol

    gates = [parse_gate(text) for text in options.fail_if or []]
    outputs = AuditOutputs(options.report, options.out, options.risk_out, options.junit, options.sarif, options.as_json)
    outputs.check([("baseline", options.baseline)])
    baseline = None if options.baseline is None else read_baseline(options.baseline)
    protocol = AuditProtocol(
        panel=options.panel,
        folds=options.folds,
        repeats=options.repeats,
        max_repeats=options.max_repeats,
        margin=options.margin,
        permutations=options.permutations,
        leak_ratio=options.leak_ratio,
        surface=options.surface,
        seed=options.seed,
        device=options.device,
        curve=options.curve,
        rehearse=options.rehearse,
        rehearsed_method=options.method,
    )
    with show_progress(quiet=options.quiet):
        result = audit_files(
            make_input_files(options, options.recommendations),
            parse_names(options.target),
            protocol,
            outputs=outputs,
            before=options.before or [],
            joint=options.joint,
            gates=gates,
            command_line=read_command_line(),
        )
    emit_json(result, as_json=options.as_json)
    print_summary(result, silent=options.is_silent)
    print_next_step(result, silent=options.is_silent)
    _judge(result, gates, baseline, options)


def make_input_files(options: TableOptions, recommendations: Path | None = None) -> InputFiles:
    """Make the inputs of a workflow from the options of a command."""
    from recveil.workflows.inputs import InputFiles

    return InputFiles(
        embeddings=options.table_path,
        attributes=options.attributes,
        ids=options.ids_path if options.ids_path is not None or options.ids is None else "row-number",
        run=options.run,
        item_embeddings=options.item_embeddings,
        recommendations=recommendations,
        interactions=options.interactions,
        numeric=parse_names(options.numeric),
        bins=parse_bins(options.bins),
        keep_label=options.keep_label or [],
        stream=options.stream,
        layout=parse_layout(options.vectors, options.id),
        undisclosed=options.undisclosed or [],
    )


def _judge(result: AuditResult, gates: list[Gate], baseline: AuditResult | None, options: AuditOptions) -> None:
    """Write what CI reads, then exit 1 where something failed, 4 where it cannot be decided."""
    from recveil.audits.baseline import compare_with_baseline, exit_code_of
    from recveil.audits.gates import evaluate_gates

    gate_report = evaluate_gates(gates, result)
    findings = [] if baseline is None else compare_with_baseline(result, baseline)
    worse = [finding.sentence for finding in findings if finding.kind == "worse"]
    if options.junit is not None:
        from recveil.report.junit import write_junit

        write_junit(result, options.junit, [*gate_report.failed, *worse])
    if options.sarif is not None:
        from recveil.report.sarif import write_sarif

        write_sarif(result, options.sarif)
    print_gates(gate_report)
    print_notes([f"baseline, {finding.kind}: {finding.sentence}" for finding in findings], silent=False)
    codes = {gate_report.exit_code, exit_code_of(findings)}
    if codes != {0}:
        raise typer.Exit(1 if 1 in codes else 4)
