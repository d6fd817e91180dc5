"""The command `recveil membership`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recveil.cli.options import CommonOptions, FailIf, JsonOut, Report, parse_names, parse_options, takes
from recveil.cli.output import (
    check_inputs_exist,
    emit_json,
    print_gates,
    print_line,
    print_notes,
    read_command_line,
    show_progress,
)
from recveil.core.errors import UsageError

if TYPE_CHECKING:
    from recveil.audits.membership.observed_scenario import ObservedScenario
    from recveil.audits.membership.scenarios import TrainedScenario
    from recveil.core.membership_parts import MembershipFrontierPoint, OperatingPoint
    from recveil.core.results import MembershipResult
    from recveil.core.types import Estimate
    from recveil.workflows.membership import MembershipConfig

__all__ = ["EXAMPLES", "MembershipOptions", "membership"]

EXAMPLES = """On a model trained here: recveil membership --data ml-1m --model ncf --shadow-model lfm --report out.html

On files: recveil membership --target-histories TH.csv --target-lists TL.csv --target-members TM.csv
--shadow-histories SH.csv --shadow-lists SL.csv --shadow-members SM.csv --item-texts items.csv

With a defense: recveil membership --data demo --serving popular --defense popularity --pool 400

With reference models: recveil membership --data demo --attacks lira,rmia --references 16

What to do, and its price: recveil membership --data demo --attacks lira --frontier

For CI: recveil membership --data demo --fail-if "dlmia.auc.low > 0.55"
"""

Histories = Annotated[Path | None, typer.Option(help="Histories: user_id, item_id[, timestamp].")]
Lists = Annotated[Path | None, typer.Option(help="Lists: user_id, item_id, rank.")]
Members = Annotated[Path | None, typer.Option(help="Members: user_id, member (0 or 1), or only the members' ids.")]

DEFAULT_LIST_LENGTH = 100
NEEDED_FILES = ("target_histories", "target_lists", "shadow_histories", "shadow_lists", "shadow_members")


@dataclass(frozen=True, kw_only=True)
class ScenarioOptions:
    """Options that say what is attacked: a model to be trained, or files."""

    data: Annotated[
        str | None, typer.Option(help="Data set to train on: a name, a file, a folder, or `demo`; or give files.")
    ] = None
    model: Annotated[str, typer.Option(help="Model under attack: see `recveil list models`.")] = "als"
    option: Annotated[list[str] | None, typer.Option(help="Option of the model, such as epochs=50. Repeatable.")] = None
    shadow_model: Annotated[
        str | None, typer.Option(help="Model that the attacker trains; the target's model and options by default.")
    ] = None
    shadow_option: Annotated[list[str] | None, typer.Option(help="Option of the shadow model. Repeatable.")] = None
    shadow_data: Annotated[
        str | None, typer.Option(help="Data set of the shadow; a third of the target's users by default.")
    ] = None
    serving: Annotated[
        str, typer.Option(help="Lists of non-members: fold-in (by the model), popular, or fold-in-all (members too).")
    ] = "fold-in"
    seen: Annotated[
        str, typer.Option(help="Seen items in lists: excluded, kept, or paper (the flawed rule of the papers).")
    ] = "excluded"
    k: Annotated[int | None, typer.Option("--k", help="Length of the lists; 100, or as in the files.", min=1)] = None
    user_minimum: Annotated[
        int | None, typer.Option(help="Interactions that a user must have; 20, or 5 with a sequential model.", min=1)
    ] = None
    defense: Annotated[str | None, typer.Option(help="Defense of the lists: see `recveil list defenses`.")] = None
    pool: Annotated[
        int | None, typer.Option(help="Popular items that a defense draws from; 1000 by default.", min=1)
    ] = None
    target_histories: Histories = None
    target_lists: Lists = None
    target_members: Members = None
    shadow_histories: Histories = None
    shadow_lists: Lists = None
    shadow_members: Members = None
    item_vectors: Annotated[Path | None, typer.Option(help="Item vectors of the attacker: item_id, embedding.")] = None
    item_texts: Annotated[Path | None, typer.Option(help="Item texts of the attacker: item_id, text.")] = None

    @property
    def files(self) -> dict[str, Path]:
        """Files of histories, lists and members that were given."""
        paths = {name: getattr(self, name) for name in (*NEEDED_FILES, "target_members")}
        return {name: path for name, path in paths.items() if path is not None}


@dataclass(frozen=True, kw_only=True)
class MembershipOptions(ScenarioOptions, CommonOptions):
    """Options of `recveil membership`."""

    attacks: Annotated[
        str | None,
        typer.Option(help="Attacks, separated by commas: see `recveil list membership`. Simple rules always run."),
    ] = None
    attack_option: Annotated[
        list[str] | None, typer.Option(help="Option of an attack, such as dlmia.encoder=beta-vae. Repeatable.")
    ] = None
    references: Annotated[
        int, typer.Option(help="Reference models, an even number, for attacks that need them.", min=4)
    ] = 16
    signal: Annotated[
        str, typer.Option(help="Signal of reference models: auto, rank-percentile, log-odds, bpr-margin or self-score.")
    ] = "auto"
    inductive: Annotated[
        bool, typer.Option("--inductive", help="Attacks look at half of the target's users and score the others.")
    ] = False
    margin: Annotated[
        float, typer.Option(help="Distance of an AUC from 0.5 under which a leak is not called one.", min=0.0, max=0.5)
    ] = 0.05
    frontier: Annotated[
        bool, typer.Option("--frontier", help="Measure defenses and their prices on the audited data.")
    ] = False
    demonstrate: Annotated[
        str, typer.Option(help="Published mistake to commit on purpose: label-leak or in-place-comparison.")
    ] = ""
    report: Report = None
    out: JsonOut = None
    scores_out: Annotated[
        Path | None, typer.Option(help="Scores of each user (.parquet, .csv). It names users: keep it safe.")
    ] = None
    fail_if: FailIf = None


@takes(MembershipOptions)
def membership(options: MembershipOptions) -> None:
    """Audit membership: can outsiders tell the training users?

    The outsider sees histories and lists. Simple rules run beside every attack: where no attack is ahead of them, the
    serving rule explains what is found.
    """
    from recveil.audits.gates import check_gate_names, evaluate_gates, parse_gate

    gates = [parse_gate(text) for text in options.fail_if or []]
    check_inputs_exist(*options.files.values(), options.item_vectors, options.item_texts)
    if gates and options.data is None and options.target_members is None:
        raise UsageError("`fail_if` needs numbers, and there are none without `target_members`. Give both or neither.")
    if gates and options.demonstrate:
        raise UsageError("A demonstration is no audit, so no gate can be read from it. Leave out `fail_if`.")
    from recveil.audits.membership.item_source import ItemSource
    from recveil.workflows.membership import MembershipConfig, MembershipOutputs, run_membership

    config = MembershipConfig(
        attacks=None if options.attacks is None else parse_names(options.attacks),
        attack_options=_group_attack_options(parse_options(options.attack_option)),
        inductive=options.inductive,
        margin=options.margin,
        frontier=options.frontier,
        demonstrate=options.demonstrate,
        seed=options.seed,
        device=options.device,
    )
    check_gate_names(gates, config.scored_names)
    scenario = _make_observed_scenario(options) if options.data is None else _make_trained_scenario(options, config)
    with show_progress(quiet=options.quiet):
        result = run_membership(
            scenario,
            items=ItemSource(options.item_vectors, options.item_texts),
            config=config,
            outputs=MembershipOutputs(options.report, options.out, options.scores_out),
            command_line=read_command_line(),
        )
    emit_json(result, as_json=options.as_json)
    _print_result(result, silent=options.is_silent)
    gate_report = evaluate_gates(gates, result)
    print_gates(gate_report)
    if gate_report.exit_code:
        raise typer.Exit(gate_report.exit_code)


def _group_attack_options(options: Mapping[str, object]) -> Mapping[str, Mapping[str, object]]:
    """Group options written attack.option by their attack."""
    grouped: dict[str, dict[str, object]] = {}
    for key, value in options.items():
        attack, dot, name = key.partition(".")
        if not dot:
            raise UsageError(f"Cannot read `attack_option` {key}. Write attack.option=value, as in dlmia.pretrain=50.")
        grouped.setdefault(attack, {})[name] = value
    return grouped


def _make_trained_scenario(options: MembershipOptions, config: MembershipConfig) -> TrainedScenario:
    from recveil.workflows.membership import MembershipRequest

    if options.files:
        raise UsageError("Give either `data` or files of histories and lists, not both.")
    return MembershipRequest(
        data=options.data or "",
        model=options.model,
        options=parse_options(options.option),
        shadow_model=options.shadow_model,
        shadow_options=parse_options(options.shadow_option),
        shadow_data=options.shadow_data,
        serving=options.serving,
        seen=options.seen,
        k=DEFAULT_LIST_LENGTH if options.k is None else options.k,
        user_minimum=options.user_minimum,
        defense=options.defense,
        defense_options={} if options.pool is None else {"pool": options.pool},
        references=options.references,
        signal=options.signal,
        attacks=config.attacks,
    ).scenario


def _make_observed_scenario(options: MembershipOptions) -> ObservedScenario:
    from recveil.audits.membership.observed_scenario import ObservedScenario

    if options.defense is not None:
        raise UsageError("`defense` needs a model that is trained here. Add `data`.")
    missing = [f"`{name}`" for name in NEEDED_FILES if name not in options.files]
    if missing:
        raise UsageError(f"Give `data`, or all files that an attack on files needs; missing: {', '.join(missing)}.")
    return ObservedScenario(**options.files, k=options.k)


def _print_result(result: MembershipResult, *, silent: bool) -> None:
    """Print a line for each attack, the verdict, the effect of a defense, and notes."""
    if result.attacks:
        print_line(f"{'':16} {'AUC':>5} {'95 % interval':16} {'TPR at 1 % FPR'}", silent=silent)
    for name, attack in result.attacks.items():
        point = attack.tpr_at_fpr["0.01"]
        rate = "too few non-members" if point is None else f"{point.value:.3f} {_format_interval(point)}"
        flags = "  (inverted)" if attack.inverted else ""
        flags += "  (rule)" if attack.is_rule else "  (explained by a rule)" if attack.explained_by_rule else ""
        print_line(f"{name:16} {attack.auc.value:.3f} {_format_interval(attack.auc):16} {rate}{flags}", silent=silent)
    for label, findings in (("before", result.before), ("static", result.static)):
        if findings is not None:
            print_line(f"{label:7} {findings.sentence}", silent=silent)
    print_line(f"{'after   ' if result.before else ''}{result.sentence}", silent=silent)
    change = None if result.utility is None else result.utility.non_member_change
    if change is not None:
        interval = f"[{change.low:+.3f}, {change.high:+.3f}]"
        print_line(f"cost    Hit rate of non-members {change.value:+.3f} {interval}", silent=silent)
    if result.privacy is not None:
        print_line(f"privacy {result.privacy.sentence}", silent=silent)
    proved = result.empirical_epsilon
    if proved is not None:
        guesses = f"'{proved.attack}', {proved.n_right} of {proved.n_guesses} guesses right"
        print_line(
            f"proved  The best attack ({guesses}) proves an epsilon of at least {proved.lower_bound:.2f}", silent=silent
        )
    for measured in [] if result.frontier is None else result.frontier.points:
        print_line(f"frontier {_format_point(measured)}", silent=silent)
    for line in result.advice:
        print_line(f"advice  {line}", silent=silent)
    print_notes(result.warnings, silent=silent)


def _format_point(point: MembershipFrontierPoint) -> str:
    """Format one line of the frontier."""
    if point.auc is None or point.hit_rate is None:
        return f"{point.label:32} {point.reason}"
    bound = "no guarantee" if point.max_auc is None else f"at most {point.max_auc:.3f}"
    price = "" if point.change is None else f" ({point.change:+.0%})"
    auc = f"AUC {point.auc.value:.3f} {_format_interval(point.auc)}"
    return f"{point.label:32} {auc} {bound:15} hit rate {point.hit_rate.value:.3f}{price}"


def _format_interval(estimate: Estimate | OperatingPoint) -> str:
    return f"[{estimate.low:.3f}, {estimate.high:.3f}]"
