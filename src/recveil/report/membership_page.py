"""The page of a membership audit: can the users that a recommender was trained on be identified?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from recveil.core.membership_parts import (
    MembershipAttackResult,
    MembershipFindings,
    MembershipFrontierPoint,
    MembershipUtility,
)
from recveil.core.result_parts import Verdict
from recveil.core.results import MembershipResult
from recveil.core.types import Estimate
from recveil.report.figures import ReferenceLine, RocPlot, RocPoint
from recveil.report.formatting import (
    ShownEstimate,
    finite_or_none,
    format_class_size,
    format_command,
    format_count,
    format_estimate,
    format_number,
    format_text,
    hide_folders,
    redact_sentence,
)
from recveil.report.page_parts import BADGES, PageTop, Term, VerdictCard
from recveil.report.recommendation import recommend_for_members
from recveil.report.statements import describe_pair_success, summarize_pair_success

__all__ = ["MembershipPage", "build_membership_page"]

FALSE_POSITIVE_RATES = ("0.001", "0.01")
_SERVING = {
    "fold-in": "by the model, folded in",
    "popular": "with the most popular items",
    "fold-in-all": "by the model, folded in, and so are members",
}
_SEEN = {
    "excluded": "excluded for everybody",
    "kept": "kept for everybody",
    "paper": "excluded for non-members only (the flawed rule of published benchmarks)",
}


@dataclass(frozen=True)
class MemberAttackRow:
    """One attack or rule, ready to print; `rates` are true positive rates at the two false positive rates."""

    attack: str
    auc: ShownEstimate
    ahead_of_rules: ShownEstimate
    rates: list[ShownEstimate]
    realized_fpr: str
    balanced_accuracy: ShownEstimate
    flags: list[str]


@dataclass(frozen=True)
class ComparisonRow:
    """AUC of one attack undefended, defended against a static attacker, and defended against an adaptive one."""

    attack: str
    scores: list[ShownEstimate]


@dataclass(frozen=True)
class HitRow:
    """Hit rate of the held-out item in the lists of a group."""

    group: str
    hit_rate: ShownEstimate


@dataclass(frozen=True)
class DefenseRow:
    """One point of the frontier, ready to print; `note` says why it has no numbers."""

    label: str
    auc: ShownEstimate
    bound: str
    hit_rate: ShownEstimate
    cost: str
    note: str


@dataclass(frozen=True)
class MembershipPage:
    """Everything the page shows, formatted; an empty part has no section."""

    top: PageTop
    sentence: str
    threat: list[Term]
    rows: list[MemberAttackRow]
    plots: list[RocPlot]
    comparison: list[ComparisonRow]
    hits: list[HitRow]
    advice: list[str]
    frontier: list[DefenseRow]
    protocol: list[Term]


def build_membership_page(result: MembershipResult) -> MembershipPage:
    """Return the page of a membership audit."""
    return MembershipPage(
        top=_build_top(result),
        sentence=redact_sentence(result.sentence),
        threat=_list_threat_terms(result),
        rows=[_build_attack_row(name, attack) for name, attack in result.attacks.items()],
        plots=_describe_roc(result.roc, result.attacks),
        comparison=_compare_defense(result),
        hits=[] if result.utility is None else _list_hits(result.utility),
        advice=[format_text(line) for line in result.advice],
        frontier=[] if result.frontier is None else [_build_defense_row(point) for point in result.frontier.points],
        protocol=_list_protocol_terms(result),
    )


def _build_top(result: MembershipResult) -> PageTop:
    source = result.input
    model = f"{format_text(source.model)} on " if source.model else ""
    defense = "No defense." if result.defense is None else f"Defense: {format_text(result.defense.name)}."
    length = f" of {source.serving.k} items" if source.serving is not None else ""
    return PageTop(
        eyebrow="recveil membership report",
        title=f"Membership audit: {model}{format_text(hide_folders(source.name))}",
        released=f"Released: recommendation lists{length} for {format_class_size(result.n_users)} users. {defense}",
        cards=[_build_card(result)],
        recommendation=recommend_for_members(result),
        measured=_list_measured(result),
        not_covered=_list_gaps(result),
        warnings=[redact_sentence(warning) for warning in [*result.warnings, *result.notes]],
        version=format_text(result.recveil_version),
    )


def _build_card(result: MembershipResult) -> VerdictCard:
    return VerdictCard(
        title="Can members be identified?",
        badge=BADGES[result.verdict],
        statement=describe_pair_success(result) or redact_sentence(result.sentence),
        evidence=_describe_evidence(result),
        before=None if result.before is None else BADGES[result.before.verdict],
        before_statement="" if result.before is None else summarize_pair_success(result.before),
    )


def _describe_evidence(findings: MembershipFindings) -> str:
    """Return the numbers of the best attack in one line."""
    attack = findings.attacks.get(findings.best_attack or "")
    if attack is None:
        return ""
    name = f"{'rule' if attack.is_rule else 'attack'}: {format_text(findings.best_attack)}"
    parts = [f"AUC {format_estimate(attack.auc)}", name]
    rate = attack.tpr_at_fpr.get("0.01")
    if rate is not None:
        parts.append(f"finds {100 * rate.value:.0f} of 100 members while accusing 1 of 100 non-members")
    return " · ".join(parts)


def _list_measured(result: MembershipResult) -> list[str]:
    members = "" if result.n_members is None else f", {format_class_size(result.n_members)} of them members"
    attacks = [name for name, attack in result.attacks.items() if not attack.is_rule]
    rules = [name for name, attack in result.attacks.items() if attack.is_rule]
    lines = [f"{format_class_size(result.n_users)} users{members}."]
    lines += [f"Attacks: {', '.join(map(format_text, attacks)) or 'none'}; {len(rules)} rules."] * bool(result.attacks)
    if result.input.user_minimum is not None:
        lines.append(f"Users with at least {result.input.user_minimum} interactions.")
    return lines


def _list_gaps(result: MembershipResult) -> list[str]:
    gaps = ["Attacks other than these, and lists that are served by another rule."]
    if result.protocol.references is None:
        gaps.append("Attackers who see scores or the model itself.")
    if result.verdict == Verdict.UNKNOWN:
        gaps.append("Any verdict: the members are not known.")
    return gaps


def _list_threat_terms(result: MembershipResult) -> list[Term]:
    rules = result.protocol
    terms = [
        Term("Goal", "to know for each user whether the recommender was trained on their data."),
        Term("Sees", "the history and the list of each user under attack."),
        Term("Knows", "a shadow platform completely: its users, its lists, and which of them are members."),
        Term("Item vectors", format_text(result.input.item_vectors)),
    ]
    if rules.kind == "transductive":
        terms.append(Term("Looks at", "the users under attack before judging them, without their membership."))
    elif rules.kind == "inductive":
        terms.append(Term("Looks at", "one half of the target's users, and judges the other half."))
    if rules.references is not None:
        models = f"train {format_count(rules.references.n)} reference models on halves of the target's users"
        terms.append(Term("Stronger", f"some attacks see the scores of all items as well, and {models}."))
    unseen = "the model and its vectors" if rules.references is not None else "the model, its vectors or its scores"
    return [*terms, Term("Does not see", f"{unseen}, and which users of the target are members.")]


def _build_attack_row(name: str, attack: MembershipAttackResult) -> MemberAttackRow:
    points = [attack.tpr_at_fpr.get(fpr) for fpr in FALSE_POSITIVE_RATES]
    rates = [None if point is None else Estimate(point.value, point.low, point.high, point.n) for point in points]
    realized = None if points[-1] is None else points[-1].realized_fpr.value
    flags = {"inverted": attack.inverted, "rule": attack.is_rule, "explained by a rule": attack.explained_by_rule}
    return MemberAttackRow(
        attack=format_text(name),
        auc=format_estimate(attack.auc),
        ahead_of_rules=format_estimate(attack.ahead_of_rules, signed=True),
        rates=[format_estimate(rate) for rate in rates],
        realized_fpr=format_number(realized, 4),
        balanced_accuracy=format_estimate(attack.balanced_accuracy),
        flags=[flag for flag, holds in flags.items() if holds],
    )


def _describe_roc(
    curves: Mapping[str, Sequence[Sequence[float]]], attacks: Mapping[str, MembershipAttackResult]
) -> list[RocPlot]:
    """Describe the curves of the attacks, and of the strongest rule only: more rules would hide the attacks."""
    rules = {name: abs(attack.auc.value - 0.5) for name, attack in attacks.items() if attack.is_rule}
    strongest = max(rules, key=rules.__getitem__, default=None)
    points = [
        RocPoint(format_text(name) + (" (rule)" if name in rules else ""), fpr, tpr)
        for name, curve in curves.items()
        if name in attacks and (name == strongest or name not in rules)
        for fpr, tpr in curve
        if finite_or_none(fpr) and finite_or_none(tpr) is not None
    ]
    if not points:
        return []
    return [
        RocPlot(
            id="roc",
            title="Members found against non-members accused",
            caption="Both scales are logarithmic, because an accusation is worth little if it is often wrong. Only the "
            "strongest rule is drawn.",
            points=points,
            lines=[ReferenceLine("chance")],
        )
    ]


def _compare_defense(result: MembershipResult) -> list[ComparisonRow]:
    """Return the AUC of everything without the defense, with it, and with an attacker who adapts to it."""
    if result.before is None:
        return []
    settings = (result.before.attacks, {} if result.static is None else result.static.attacks, result.attacks)
    return [
        ComparisonRow(
            format_text(name),
            [format_estimate(attacks[name].auc if name in attacks else None) for attacks in settings],
        )
        for name in result.attacks
    ]


def _list_hits(utility: MembershipUtility) -> list[HitRow]:
    compared = utility.before is not None
    parts = [(", undefended", utility.before), (", defended" if compared else "", utility.after)]
    rows = [
        HitRow(f"{group}{release}", format_estimate(hits))
        for release, part in parts
        if part is not None
        for group, hits in (("members", part.members), ("non-members", part.non_members))
    ]
    if utility.non_member_change is not None:
        rows.append(HitRow("non-members, change", format_estimate(utility.non_member_change, signed=True)))
    return rows


def _build_defense_row(point: MembershipFrontierPoint) -> DefenseRow:
    return DefenseRow(
        label=format_text(point.label),
        auc=format_estimate(point.auc),
        bound="none" if point.max_auc is None else format_number(point.max_auc),
        hit_rate=format_estimate(point.hit_rate),
        cost="" if point.change is None else f"{100 * point.change:+.0f} %",
        note=redact_sentence(point.reason),
    )


def _list_protocol_terms(result: MembershipResult) -> list[Term]:
    rules, source = result.protocol, result.input
    serving, references = source.serving, rules.references
    terms: list[tuple[str, object]] = [
        ("recveil", result.recveil_version),
        ("Target model", source.model),
        ("Shadow model", source.shadow_model),
        ("Non-members are served", None if serving is None else _SERVING.get(serving.nonmembers, serving.nonmembers)),
        ("Seen items", None if serving is None else _SEEN.get(serving.seen, serving.seen)),
        ("List length", None if serving is None else serving.k),
        ("Attacks", ", ".join(rules.attacks) or "rules only"),
        ("Attack options", ", ".join(f"{name} {value}" for name, value in rules.attack_options.items()) or None),
        ("Reference models", None if references is None else references.n),
        ("Reference signal", None if references is None else references.signal),
        ("Kind of attacker", rules.kind),
        ("Margin (AUC)", f"{rules.margin:g}"),
        ("Seed", rules.seed),
    ]
    if result.defense is not None:
        options = "".join(f", {name} {value}" for name, value in result.defense.options.items())
        terms.append(("Defense", f"{result.defense.name}{options}"))
    shown = [Term(term, redact_sentence(value)) for term, value in terms if value is not None]
    command = [Term("Command", format_command(result.command_line), is_code=True)] if result.command_line else []
    return shown + command
