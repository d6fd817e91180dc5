"""The command `recveil cloak`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recveil.cli.audit import make_input_files
from recveil.cli.options import (
    AuditRuleOptions,
    CommonOptions,
    FailIf,
    Report,
    Strength,
    TableOptions,
    parse_names,
    parse_options,
    takes,
)
from recveil.cli.output import (
    check_inputs_exist,
    emit_json,
    print_gates,
    print_knee,
    print_line,
    print_next_step,
    print_self_check,
    print_summary,
    read_command_line,
    show_progress,
)
from recveil.core.errors import UsageError

if TYPE_CHECKING:
    from recveil.audits.gates import Gate
    from recveil.core.results import CloakResult
    from recveil.workflows.audit_protocol import AuditProtocol
    from recveil.workflows.defended_lists import ListRequest

__all__ = ["CloakOptions", "cloak"]


@dataclass(frozen=True, kw_only=True)
class CloakOptions(TableOptions, AuditRuleOptions, CommonOptions):
    """Options of `recveil cloak`."""

    out: Annotated[Path, typer.Option(help="File or folder for the defended table, in the form of the input.")]
    method: Annotated[
        str, typer.Option(help="Defense: see `recveil list defenses`; auto takes the cheapest that passes its check.")
    ] = "auto"
    strength: Strength = 1.0
    option: Annotated[list[str] | None, typer.Option(help="Option of the defense, such as rounds=40. Repeatable.")] = (
        None
    )
    frontier: Annotated[
        bool, typer.Option("--frontier", help="All methods at several strengths; the report marks the best bargain.")
    ] = False
    engine: Annotated[str, typer.Option(help="Engine for large tables: local or ray.")] = "local"
    address: Annotated[str | None, typer.Option(help="Ray cluster to join, such as ray://host:10001.")] = None
    keep_target: Annotated[
        bool,
        typer.Option(
            "--keep-target", help="Keep columns of the table that hold a target; by default they are left out."
        ),
    ] = False
    allow_leak: Annotated[
        bool, typer.Option("--allow-leak", help="Exit 0 even if the self-check finds more than the margin.")
    ] = False
    protect: Annotated[
        str | None,
        typer.Option(help="For auto: disclosed, or everybody, the default where somebody did not disclose."),
    ] = None
    save_map: Annotated[
        Path | None, typer.Option(help="File for the map that `recveil apply` carries later users by. Keep it safe.")
    ] = None
    lists_out: Annotated[
        Path | None,
        typer.Option(help="Parquet file for lists that hide what they omit; needs --run, or items and interactions."),
    ] = None
    list_length: Annotated[int, typer.Option(help="Places of these lists.", min=1)] = 10
    list_strength: Annotated[float, typer.Option(help="Strength of the list defense, from 0 to 1.")] = 1.0
    release_items: Annotated[
        bool,
        typer.Option(
            "--release-items", help="Item vectors are released too: the check also attacks which items score high."
        ),
    ] = False
    max_cost: Annotated[
        float,
        typer.Option(help="Share of NDCG@10 that the defense may cost, where that is known; above it exit 1."),
    ] = 0.1
    key_file: Annotated[
        Path | None,
        typer.Option(help="File of at least 16 secret bytes; draws follow from it in place of the seed. Keep it safe."),
    ] = None
    report: Report = None
    fail_if: FailIf = None


@takes(CloakOptions)
def cloak(options: CloakOptions) -> None:
    """Defend a table of user vectors.

    With --report, --json or --fail-if it is also audited before and after. Rows, ids and other columns stay as they
    were; only the vectors move, and columns that hold a target are left out. With --run, or with --item-embeddings and
    --interactions, the result also says what the recommendations are worth before and after. A folder of Parquet files
    is read and written part by part; after an interruption the same command continues.

    Strong attackers check the table (of a large one a sample) before it is handed over. If they find more than the
    margin, or more than before, the first sentence says so and the command exits 1 unless --allow-leak is given. It
    also exits 1 where the defense costs more of NDCG@10 than --max-cost, and says how much of that hiding costs anyway.

    Example: recveil cloak users.parquet --attributes attributes.parquet --target gender --out safe.parquet
    """
    _check_paths(options)
    from recveil.audits.gates import check_gate_names, parse_gate
    from recveil.workflows.cloak import cloak_files
    from recveil.workflows.cloak_table import CloakRequest
    from recveil.workflows.defended_release import ChosenDefense
    from recveil.workflows.large_inputs import make_engine

    targets = parse_names(options.target)
    gates = [parse_gate(text) for text in options.fail_if or []]
    check_gate_names(gates, targets)
    request = CloakRequest(
        options.out,
        options.report,
        audit=options.as_json or bool(gates),
        frontier=options.frontier,
        engine=make_engine(options.engine, options.address),
        keep_target=options.keep_target,
        check=True,
        command_line=read_command_line(),
        save_map=options.save_map,
        lists=_make_list_request(options),
        release_items=options.release_items,
    )
    settings = {"strength": options.strength, **parse_options(options.option)}
    defense = ChosenDefense(options.method, settings, protects_everybody=_parse_protection(options))
    with show_progress(quiet=options.quiet):
        result = cloak_files(make_input_files(options), targets, defense, _make_protocol(options), request)
    _print_result(result, options)
    _judge(result, gates, options)


def _judge(result: CloakResult, gates: list[Gate], options: CloakOptions) -> None:
    """Exit 1 where the self-check, the price or a gate failed, 4 where a gate cannot be decided."""
    from recveil.audits.gates import evaluate_gates

    gate_report = evaluate_gates(gates, result)
    print_gates(gate_report)
    check = result.self_check
    failed = check is not None and ((not check.passed and not options.allow_leak) or check.is_too_expensive)
    if failed or gate_report.exit_code:
        raise typer.Exit(1 if failed else gate_report.exit_code)


def _print_result(result: CloakResult, options: CloakOptions) -> None:
    """Print the document, or in words what is left, what it cost, what to do next and what was written."""
    emit_json(result, as_json=options.as_json)
    for sentence in [] if result.self_check is None else result.self_check.opening_sentences:
        print_line(sentence, silent=options.is_silent)
    print_summary(result, silent=options.is_silent)
    print_self_check(result, silent=options.is_silent)
    print_knee(result, silent=options.is_silent)
    print_next_step(result, silent=options.is_silent)
    for path in filter(None, (options.out, options.lists_out)):
        print_line(f"Wrote {path}.", silent=options.is_silent)
    if options.save_map is not None:
        print_line(f"Wrote {options.save_map}. It names classes: keep it safe.", silent=options.is_silent)


def _check_paths(options: CloakOptions) -> None:
    check_inputs_exist(options.table_path, options.attributes, options.run, options.ids_path)
    check_inputs_exist(options.item_embeddings, options.interactions, options.key_file)


def _parse_protection(options: CloakOptions) -> bool | None:
    """Return whether everybody must be protected; None if that follows from the table."""
    choices = {None: None, "disclosed": False, "everybody": True}
    if options.protect not in choices:
        raise UsageError(f"`protect` is '{options.protect}'. It should be disclosed or everybody.")
    if options.protect is not None and options.method != "auto":
        raise UsageError(f"`protect` is for `method` auto, and `method` is {options.method}. Leave one of them out.")
    return choices[options.protect]


def _make_list_request(options: CloakOptions) -> ListRequest | None:
    from recveil.workflows.defended_lists import ListRequest

    if options.lists_out is None:
        return None
    return ListRequest(options.lists_out, options.list_length, options.list_strength)


def _make_protocol(options: CloakOptions) -> AuditProtocol:
    from recveil.core.random import read_key
    from recveil.workflows.audit_protocol import AuditProtocol

    return AuditProtocol(
        panel=options.panel,
        folds=options.folds,
        repeats=options.repeats,
        max_repeats=options.max_repeats,
        margin=options.margin,
        seed=options.seed,
        device=options.device,
        max_cost=options.max_cost,
        key=None if options.key_file is None else read_key(options.key_file),
    )
