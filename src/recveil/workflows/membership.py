"""The flow of `recveil membership`: prepare, attack, build the result, write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.attacks.membership.rules import RULES
from recveil.audits.membership.audit import MembershipAudit, run_membership_attacks
from recveil.audits.membership.demonstrations import check_mistake, write_warning
from recveil.audits.membership.game import MembershipGame
from recveil.audits.membership.item_source import ItemSource
from recveil.audits.membership.observed_scenario import ObservedScenario
from recveil.audits.membership.platforms import ServingPolicy
from recveil.audits.membership.references import ReferenceModels
from recveil.audits.membership.scenarios import MethodConfig, PreparedScenario, TrainedScenario
from recveil.audits.membership.verdict import DEFAULT_MARGIN, judge_membership
from recveil.core.device import check_device
from recveil.core.errors import UsageError, unknown_name
from recveil.core.files import write_atomically
from recveil.core.membership_parts import MembershipFindings, MembershipProtocol
from recveil.core.option_types import Count, SeedNumber, Share, check_fields
from recveil.core.outputs import check_outputs, explain_report_failure, hold_outputs
from recveil.core.privacy_parts import EmpiricalEpsilon, PrivacyGuarantee
from recveil.core.protocols import MembershipAttack
from recveil.core.random import make_generator
from recveil.core.results import MembershipResult
from recveil.core.timing import Clock
from recveil.metrics.empirical_epsilon import estimate_epsilon
from recveil.workflows.membership_advice import advise_on_members
from recveil.workflows.membership_frontier import build_membership_frontier

__all__ = ["MembershipConfig", "MembershipOutputs", "MembershipRequest", "run_membership", "run_membership_on_data"]

TABLE_SUFFIXES = (".parquet", ".pq", ".csv")
RULES_NAME = "rules"
"""May stand among the names of attacks: the rules run in any case."""


@dataclass(frozen=True)
class MembershipConfig:
    """Attacks, and how they are run.

    Args:
        attacks: names of attacks; None for the default ones. The rules always run.
        attack_options: options by the name of the attack.
        inductive: attacks look at half of the target's users and score the other half.
        margin: an AUC closer than this to one half is called no leak.
        frontier: measure defenses and their prices on the audited data.
        demonstrate: a published mistake to commit on purpose, such as label-leak; empty for none.
        seed: seed of everything random.
        device: device to compute on; None chooses one.
    """

    attacks: Sequence[str] | None = None
    attack_options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    inductive: bool = False
    frontier: bool = False
    margin: Share = DEFAULT_MARGIN
    demonstrate: str = ""
    seed: SeedNumber = 0
    device: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, "")
        check_device(self.device)
        check_mistake(self.demonstrate)

    @property
    def attack_names(self) -> list[str]:
        """Attacks to run, without the rules."""
        if self.attacks is None:
            return [traits.name for traits in MEMBERSHIP_ATTACKS.all_traits() if traits.is_default]
        return [name for name in dict.fromkeys(self.attacks) if name != RULES_NAME]

    @property
    def scored_names(self) -> list[str]:
        """Attacks and rules that the result will hold."""
        return [*self.attack_names, *RULES]

    @property
    def needs_references(self) -> bool:
        """Whether any attack needs reference models."""
        return any(MEMBERSHIP_ATTACKS.traits(name).needs_references for name in self.attack_names)

    @property
    def needs_item_vectors(self) -> bool:
        """Whether any attack needs item vectors."""
        return any(MEMBERSHIP_ATTACKS.traits(name).needs_item_vectors for name in self.attack_names)

    def make_attacks(self) -> dict[str, MembershipAttack]:
        """Make the attacks; an unknown name is an error with the nearest match."""
        for name in self.attack_options:
            if name not in self.attack_names:
                raise unknown_name("attack to be run", name, self.attack_names)
        return {
            name: MEMBERSHIP_ATTACKS.make(name, **{"device": self.device, **self.attack_options.get(name, {})})
            for name in self.attack_names
        }

    def attack(self, game: MembershipGame) -> MembershipAudit:
        """Run the rules and the attacks on one game."""
        attacks, mistake = self.make_attacks(), self.demonstrate
        return run_membership_attacks(game, attacks, seed=self.seed, inductive=self.inductive, demonstrate=mistake)


@dataclass(frozen=True, kw_only=True)
class MembershipRequest(MembershipConfig):
    """A model to train and attack, in plain values.

    Args:
        data: name or path of the data set, or `demo`.
        model: model under attack.
        options: options of the model.
        shadow_model: model that the attacker trains; the target's model and options by default.
        shadow_options: options of the shadow model.
        shadow_data: data set of the shadow; the target's own by default.
        serving: lists of non-members: `"fold-in"`, `"popular"` or `"fold-in-all"` (members are folded in too).
        seen: seen items in lists: `"excluded"`, `"kept"` or `"paper"`.
        k: length of the lists.
        user_minimum: interactions that a user must have; 20, or 5 with a sequential model.
        defense: defense of the lists.
        defense_options: options of the defense.
        references: reference models; trained only where an attack needs them.
        signal: signal of the reference models.
        item_vectors: item vectors of the attacker.
        item_texts: item texts of the attacker.
    """

    data: str
    model: str = "als"
    options: Mapping[str, Any] = field(default_factory=dict)
    shadow_model: str | None = None
    shadow_options: Mapping[str, Any] = field(default_factory=dict)
    shadow_data: str | None = None
    serving: str = "fold-in"
    seen: str = "excluded"
    k: Count = 100
    user_minimum: Count | None = None
    defense: str | None = None
    defense_options: Mapping[str, Any] = field(default_factory=dict)
    references: Count = 16
    signal: str = "auto"
    item_vectors: Path | None = None
    item_texts: Path | None = None

    @property
    def scenario(self) -> TrainedScenario:
        """The scenario; a shadow without a name is the target's model with its options."""
        shadow_options = {**self.options, **self.shadow_options} if self.shadow_model is None else self.shadow_options
        return TrainedScenario(
            data=self.data,
            target=MethodConfig(self.model, self.options),
            shadow=MethodConfig(self.shadow_model or self.model, shadow_options),
            policy=ServingPolicy(self.serving, self.seen, self.k),
            user_minimum=self.user_minimum,
            shadow_data=self.shadow_data,
            defense=None if self.defense is None else MethodConfig(self.defense, self.defense_options),
            references=ReferenceModels(self.references, self.signal, self.device) if self.needs_references else None,
        )


@dataclass(frozen=True)
class MembershipOutputs:
    """Files to write; None for those that nobody asked for.

    `scores` holds the scores of single users (.parquet or .csv).
    """

    report: Path | None = None
    out: Path | None = None
    scores: Path | None = None

    def check(self, inputs: Iterable[tuple[str, Path | None]] = ()) -> None:
        """Refuse files that cannot be written or would overwrite an input, before the work."""
        check_outputs({"report": self.report, "out": self.out, "scores_out": self.scores}, inputs)
        if self.scores is not None and self.scores.suffix.lower() not in TABLE_SUFFIXES:
            raise UsageError(f"Cannot tell how to write {self.scores}. Use .parquet or .csv.")


def run_membership(
    scenario: TrainedScenario | ObservedScenario,
    *,
    items: ItemSource | None = None,
    config: MembershipConfig | None = None,
    outputs: MembershipOutputs | None = None,
    command_line: Sequence[str] = (),
) -> MembershipResult:
    """Attack the target of a scenario, and write what was asked for.

    A defended target is also attacked undefended (`before`), and by an attacker who does not know of the defense
    (`static`).

    Args:
        scenario: a model to train, or files of a platform seen from outside.
        items: files of what the attacker knows of the items.
        config: attacks, and how they are run.
        outputs: files to write.
        command_line: what made this result, kept in it.

    Raises:
        UsageError: an attack needs reference models and the scenario has none, or a file cannot be written.
    """
    items, config, outputs = items or ItemSource(), config or MembershipConfig(), outputs or MembershipOutputs()
    item_files = [("item_vectors", items.vectors), ("item_texts", items.texts)]
    outputs.check([*scenario.list_paths(), *item_files])
    _check_attacks(config, scenario)
    with hold_outputs(outputs.report, outputs.out, outputs.scores):
        result, prepared, audit = _attack_scenario(scenario, items, config)
        result = result.model_copy(update={"command_line": list(command_line)})
        _write_outputs(result, outputs, prepared.game.target_users, audit)
    return result


def _attack_scenario(
    scenario: TrainedScenario | ObservedScenario, items: ItemSource, config: MembershipConfig
) -> tuple[MembershipResult, PreparedScenario, MembershipAudit]:
    """Prepare and attack; return the result, and what its scores of users come from."""
    clock = Clock()
    with clock.measure_step("prepare the scenario"):
        with_vectors = config.needs_item_vectors
        prepared = scenario.build(items, with_item_vectors=with_vectors, seed=config.seed, device=config.device)
    with clock.measure_step("attack"):
        audit = config.attack(prepared.game)
    findings = judge_membership(audit, margin=config.margin)
    with clock.measure_step("attack the compared games"):
        before, static = (_judge_compared_game(game, config) for game in (prepared.before, prepared.static))
    with clock.measure_step("measure the frontier"):
        frontier = None
        if config.frontier and isinstance(scenario, TrainedScenario):
            frontier = build_membership_frontier(scenario, config.margin, config.seed, config.device)
    result = MembershipResult(
        **dict(findings),
        before=before,
        static=static,
        input=prepared.input,
        protocol=_describe_protocol(config, prepared),
        filtered=prepared.filtered,
        utility=prepared.utility,
        defense=prepared.defense,
        privacy=prepared.privacy,
        empirical_epsilon=_estimate_epsilon(audit, prepared.privacy, config.seed),
        frontier=frontier,
        timings=clock.seconds,
        warnings=_list_warnings(config, [*prepared.notes, *findings.notes]),
        demonstration=config.demonstrate,
    )
    return result.model_copy(update={"advice": advise_on_members(result)}), prepared, audit


def _list_warnings(config: MembershipConfig, notes: list[str]) -> list[str]:
    """List the notes; the warning of a demonstration stands first and once."""
    warnings = [write_warning(config.demonstrate)] if config.demonstrate else []
    return [*warnings, *(note for note in notes if note not in warnings)]


def run_membership_on_data(
    request: MembershipRequest, *, outputs: MembershipOutputs | None = None, command_line: Sequence[str] = ()
) -> MembershipResult:
    """Train a model on half of the users of a data set and attack it.

    Args:
        request: the model, the attacks, and how they are run.
        outputs: files to write.
        command_line: what made this result, kept in it.
    """
    items = ItemSource(request.item_vectors, request.item_texts)
    return run_membership(request.scenario, items=items, config=request, outputs=outputs, command_line=command_line)


def _check_attacks(config: MembershipConfig, scenario: TrainedScenario | ObservedScenario) -> None:
    """Refuse, before the work, attacks that cannot be made or served."""
    config.make_attacks()
    if config.needs_references and not scenario.has_references:
        raise UsageError(
            "Attacks with reference models need a target that is trained here. Give `data`, or leave them out."
        )
    if config.frontier and not isinstance(scenario, TrainedScenario):
        raise UsageError("A frontier needs a target that is trained here. Give `data`, or leave out `frontier`.")


def _judge_compared_game(game: MembershipGame | None, config: MembershipConfig) -> MembershipFindings | None:
    return None if game is None else judge_membership(config.attack(game), margin=config.margin)


def _estimate_epsilon(audit: MembershipAudit, guarantee: PrivacyGuarantee | None, seed: int) -> EmpiricalEpsilon | None:
    """Estimate what the best attack or rule proves beside a guarantee."""
    if guarantee is None or audit.truth is None:
        return None
    rng = make_generator(seed, "membership", "empirical epsilon")
    bound = estimate_epsilon(audit.truth, audit.scores, delta=guarantee.delta, rng=rng)
    return EmpiricalEpsilon(
        lower_bound=bound.epsilon,
        guarantee=guarantee.epsilon,
        delta=guarantee.delta,
        attack=bound.attack,
        n_guesses=bound.n_guesses,
        n_right=bound.n_right,
        n_users=bound.n_users,
    )


def _describe_protocol(config: MembershipConfig, prepared: PreparedScenario) -> MembershipProtocol:
    return MembershipProtocol(
        attacks=config.attack_names,
        rules=list(RULES),
        kind="inductive" if config.inductive else "transductive",
        margin=config.margin,
        seed=config.seed,
        attack_options={name: dict(options) for name, options in config.attack_options.items()},
        references=prepared.references,
    )


def _write_outputs(
    result: MembershipResult, outputs: MembershipOutputs, users: NDArray[Any] | None, audit: MembershipAudit
) -> None:
    if outputs.scores is not None and users is not None:
        _write_scores(outputs.scores, users, audit)
    if outputs.out is not None:
        result.write_json(outputs.out)
    if outputs.report is not None:
        with explain_report_failure(outputs.report, outputs.out, outputs.scores):
            result.write_html(outputs.report)


def _write_scores(path: Path, users: NDArray[Any], audit: MembershipAudit) -> None:
    """Write one row for each scored user: id, all scores, and the truth if known.

    In a CSV file, ids that a spreadsheet would take for a formula begin with an apostrophe.
    """
    columns = {"user_id": pa.array(users[audit.users]), **audit.scores}
    if audit.truth is not None:
        columns["member"] = audit.truth
    is_text = path.suffix.lower() == ".csv"
    if is_text and pa.types.is_string(columns["user_id"].type):
        columns["user_id"] = pc.replace_substring_regex(columns["user_id"], r"^([=+\-@\t\r])", r"'\1")
    write_table = pyarrow.csv.write_csv if is_text else pyarrow.parquet.write_table
    with write_atomically(path, private=True) as temporary:
        write_table(pa.table(columns), temporary)
