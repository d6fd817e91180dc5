"""The flow of `recveil audit`: read, attack, build the result, write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from recveil.attacks.attribute.panels import is_blind, missing_members, panel_names
from recveil.audits.attribute.risk import UserRisk, check_risk_path, measure_user_risk, write_user_risk
from recveil.audits.gates import Gate, check_gate_names
from recveil.audits.verdicts import TargetAudit
from recveil.core.errors import UsageError
from recveil.core.outputs import check_outputs, explain_report_failure, hold_outputs
from recveil.core.result_parts import InputSummary
from recveil.core.results import AuditResult
from recveil.core.timing import Clock
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.io.attributes import join_attributes
from recveil.data.io.ids import Ids, as_numpy
from recveil.data.io.user_tables import Vectors
from recveil.report.charts import check_chart_packages
from recveil.workflows.audit_protocol import AuditProtocol, Results, attach_details, collect_notes, collect_results
from recveil.workflows.defended_release import ChosenDefense
from recveil.workflows.inputs import InputFiles, count_activity, summarize_input
from recveil.workflows.large_inputs import is_large_table, open_large_table
from recveil.workflows.rehearsal import rehearse_defense

__all__ = ["AuditOutputs", "AuditedTable", "audit_files", "audit_table"]


@dataclass(frozen=True)
class AuditOutputs:
    """Files that an audit writes; None for those that nobody asked for.

    `printed` says that the whole result is printed, so that details are worth computing.
    """

    report: Path | None = None
    out: Path | None = None
    risk: Path | None = None
    junit: Path | None = None
    sarif: Path | None = None
    printed: bool = False

    @property
    def needs_details(self) -> bool:
        """Whether somebody will see more than the verdicts."""
        return self.printed or self.report is not None or self.out is not None

    @property
    def paths(self) -> dict[str, Path | None]:
        """Files by the name of their argument."""
        return {
            "report": self.report,
            "out": self.out,
            "risk_out": self.risk,
            "junit": self.junit,
            "sarif": self.sarif,
        }

    def check(self, inputs: Sequence[tuple[str, Path | None]] = ()) -> None:
        """Refuse files that cannot be written or would overwrite an input, before the work."""
        check_outputs(self.paths, inputs)
        if self.report is not None:
            check_chart_packages()
        if self.risk is not None:
            check_risk_path(self.risk)


@dataclass(frozen=True, eq=False)
class AuditedTable:
    """A table in memory, as the attacker sees it, with the attributes of its users.

    Attributes:
        summary: what was handed in.
        x: one row for each user.
        targets: attributes to attack.
        before: earlier releases of these users' vectors, oldest first, NaN for users who were not in them; they need
            `vectors`.
        vectors: the released vectors, where the attacker sees another surface.
        activity: interactions of each user, where known.
        ids: ids of the users, from which folds are derived; the rows of `x` serve where there are none.
    """

    summary: InputSummary
    x: FloatArray
    targets: Sequence[Attribute]
    before: Sequence[FloatArray] = ()
    vectors: FloatArray | None = None
    activity: IntArray | None = None
    ids: Ids | None = None


def audit_files(
    files: InputFiles,
    names: list[str],
    protocol: AuditProtocol,
    *,
    outputs: AuditOutputs | None = None,
    before: Sequence[Path] = (),
    joint: bool = False,
    gates: Sequence[Gate] = (),
    command_line: Sequence[str] = (),
) -> AuditResult:
    """Attack what is in the files, and write what was asked for.

    Args:
        files: the tables.
        names: attributes to attack; all of them if empty.
        protocol: the rules.
        outputs: files to write.
        before: earlier tables of the same users, oldest first, for attackers who hold all of them.
        joint: attack all classes together as well.
        gates: conditions that will be put to the result; one on another target is refused before the work.
        command_line: what made this result, kept in it.
    """
    outputs = outputs or AuditOutputs()
    outputs.check([*files.list_paths(), *(("before", path) for path in before)])
    protocol = replace(protocol, surface=protocol.surface or ("lists" if files.has_lists_alone else "user_vectors"))
    if files.has_lists_alone and before:
        raise UsageError("`before` is an earlier table of vectors, and there are lists alone. Give `embeddings` too.")
    with hold_outputs(*outputs.paths.values()):
        result, vectors, audits = _audit_files(files, names, protocol, outputs, before, joint=joint, gates=gates)
        result = result.model_copy(update={"command_line": list(command_line)})
        _write_outputs(result, outputs, vectors, audits)
    return result


def _audit_files(
    files: InputFiles,
    names: list[str],
    protocol: AuditProtocol,
    outputs: AuditOutputs,
    before: Sequence[Path],
    *,
    joint: bool,
    gates: Sequence[Gate],
) -> tuple[AuditResult, Vectors, list[TargetAudit]]:
    """Read and attack; return the result, the vectors and the audits behind it."""
    attack_names, clock = protocol.attack_names, Clock()
    if protocol.rehearse is not None:
        _check_rehearsal(files, protocol)
    vectors, targets, notes, sample = _read_table(files, names, protocol, before)
    classes = [target for target in targets if not target.is_numeric]
    if joint and len(classes) > 1:
        targets = [*targets, join_attributes(classes)]
    check_gate_names(gates, [target.name for target in targets])
    with clock.measure_step("look"):
        x = files.read_surface(vectors, protocol.surface, seed=protocol.seed)
    table = AuditedTable(
        summarize_input(files, vectors, sample=sample),
        x,
        targets,
        [files.read_earlier(path, vectors) for path in before],
        vectors.x,
        count_activity(files, vectors) if outputs.needs_details else None,
        vectors.ids,
    )
    result, audits = audit_table(table, protocol, details=outputs.needs_details, clock=clock)
    if protocol.rehearse is not None:
        defense = ChosenDefense(protocol.rehearsed_method)
        with clock.measure_step("rehearse"):
            rehearsal = rehearse_defense(vectors.x, classes, defense, protocol, share=protocol.rehearse)
        said = [rehearsal.describe_target(name) for name in rehearsal.targets]
        result = result.model_copy(
            update={"rehearsal": rehearsal, "warnings": [*said, *result.warnings], "timings": clock.seconds}
        )
    warnings = [*_list_missing_attacks(protocol, attack_names), *([sample] if sample else []), *notes, *result.warnings]
    return result.model_copy(update={"warnings": warnings}), vectors, audits


def audit_table(
    table: AuditedTable, protocol: AuditProtocol, *, details: bool = True, clock: Clock | None = None
) -> tuple[AuditResult, list[TargetAudit]]:
    """Attack a table in memory; return the result and the audits behind it.

    Args:
        table: the table.
        protocol: the rules.
        details: add leak maps and accuracy by activity.
        clock: takes the seconds of each step.
    """
    clock = clock or Clock()
    classes = [target for target in table.targets if not target.is_numeric]
    numbers = [target for target in table.targets if target.is_numeric]
    with clock.measure_step("audit"):
        audits = protocol.audit_classes(table.x, classes, ids=table.ids)
        numeric = protocol.audit_numbers(table.x, numbers, ids=table.ids)
    past: dict[str, Results] = {}
    absent: list[str] = []
    if table.before:
        with clock.measure_step("audit with the earlier table"):
            past, absent = _audit_past(table, protocol, classes)
    results = collect_results(audits)
    if details and audits:
        with clock.measure_step("map the leaks"):
            [results] = attach_details(
                [table.x], classes, [audits], protocol.rules, seed=protocol.seed, activity=table.activity
            )
    if protocol.curve:
        with clock.measure_step("audit with fewer known users"):
            curves = protocol.audit_curve(table.x, classes, audits, ids=table.ids)
        results = {name: r.model_copy(update={"curve": curves.get(name)}) for name, r in results.items()}
    results |= collect_results(numeric)
    result = AuditResult(
        input=table.summary,
        protocol=protocol.to_result(),
        targets={target.name: results[target.name] for target in table.targets},
        static=past.get("static", {}),
        two_releases=past.get("two_releases", {}),
        timings=clock.seconds,
        warnings=[*absent, *collect_notes([*audits, *numeric])],
    )
    return result, audits


def _audit_past(
    table: AuditedTable, protocol: AuditProtocol, classes: Sequence[Attribute]
) -> tuple[dict[str, Results], list[str]]:
    """Audit attackers who hold earlier tables, on the users who are in all of them; say how many are not."""
    after = table.x if table.vectors is None else table.vectors
    users = np.flatnonzero(np.logical_and.reduce([np.isfinite(x).all(1) for x in table.before]))
    ids = None if table.ids is None else as_numpy(table.ids)[users]
    before = [x[users] for x in table.before]
    past = protocol.audit_past(before, after[users], [target.take(users) for target in classes], ids=ids)
    if len(users) == len(after):
        return past, []
    return past, [f"Attackers with earlier tables were run on the {len(users):,} users who are in all tables."]


def _check_rehearsal(files: InputFiles, protocol: AuditProtocol) -> None:
    """Refuse a rehearsal that cannot be made, before the work."""
    if is_large_table(files) or protocol.surface != "user_vectors":
        raise UsageError("`rehearse` is for the user vectors of a table that fits into memory. Leave it out here.")
    defense = ChosenDefense(protocol.rehearsed_method)
    if defense.place != "embeddings":
        raise UsageError(f"{defense.name} does not act on a table of vectors. Name an embedding defense as `method`.")
    defense.make(protocol.device)


def _read_table(
    files: InputFiles, names: list[str], protocol: AuditProtocol, before: Sequence[Path]
) -> tuple[Vectors, list[Attribute], list[str], str | None]:
    """Read the vectors, attributes and notes; of a large table those of a sample, with the sentence that says so."""
    if not is_large_table(files):
        return *files.read(names, numbers=True), None
    if protocol.surface != "user_vectors" or before:
        what = "`before`" if before else f"`surface` {protocol.surface}"
        raise UsageError(f"{what} cannot be used with a large table. Take a part of it that fits into memory.")
    return open_large_table(files, names).draw_sample(protocol.rules, protocol.margin, protocol.seed)


def _list_missing_attacks(protocol: AuditProtocol, names: Sequence[str]) -> list[str]:
    """List attacks of the panel that cannot run on this machine."""
    if protocol.attacks or protocol.panel not in panel_names():
        return []
    missing = missing_members(protocol.panel)
    return [
        f"The attack {name} was left out: its package is not installed (see `recveil doctor`)."
        for name in names
        if name in missing
    ]


def _write_outputs(result: AuditResult, outputs: AuditOutputs, vectors: Vectors, audits: Sequence[TargetAudit]) -> None:
    if outputs.risk is not None:
        write_user_risk(outputs.risk, vectors.ids, {audit.target: _measure_risk(audit) for audit in audits})
    if outputs.out is not None:
        result.write_json(outputs.out)
    if outputs.report is not None:
        with explain_report_failure(outputs.report, outputs.out, outputs.risk):
            result.write_html(outputs.report)


def _measure_risk(audit: TargetAudit) -> UserRisk:
    informative = {name: trials for name, trials in audit.trials.items() if not is_blind(name)}
    return measure_user_risk(informative, len(audit.users), users=audit.users)
