"""The page of an attribute audit: of a table, of a defended table, or of a trained model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recveil.core.list_parts import DefendedLists
from recveil.core.result_parts import ClassTarget, InputSummary, NumericTarget
from recveil.core.results import AuditResult, CloakResult, TrainResult
from recveil.report.attack_section import (
    HeadlineRow,
    NumericSection,
    TargetSection,
    build_headline,
    build_numeric_section,
    build_target_section,
)
from recveil.report.cost_section import CostTile, UtilitySection, build_cost_tiles, build_utility_section
from recveil.report.formatting import (
    format_class_size,
    format_command,
    format_count,
    format_text,
    hide_folders,
    join_names,
    redact_sentence,
)
from recveil.report.frontier_section import FrontierSection, build_frontier_section
from recveil.report.page_parts import BADGES, PageTop, Term, VerdictCard
from recveil.report.recommendation import AttributeResult, get_defense, recommend_release
from recveil.report.statements import (
    describe_attack_success,
    describe_evidence,
    describe_power,
    find_weakest,
    summarize_attack_success,
)

__all__ = ["AttributePage", "build_attribute_page"]

USER_VECTORS = "user vectors"
MAX_GROUPS = 4
"""Groups of attributes at the top that differ in their users; the rest is in the details."""

Targets = Mapping[str, ClassTarget | NumericTarget]


@dataclass(frozen=True)
class AttributePage:
    """Everything the page shows, formatted; an empty part has no section."""

    top: PageTop
    threat: list[Term]
    targets: list[TargetSection]
    numbers: list[NumericSection]
    earlier: list[HeadlineRow]
    lists: list[HeadlineRow]
    frontier: FrontierSection | None
    utility: UtilitySection | None
    cost: list[CostTile]
    protocol: list[Term]


def build_attribute_page(result: AttributeResult) -> AttributePage:
    """Return the page of an audit, of a defended table or of a trained model."""
    before = {} if isinstance(result, AuditResult) else result.before
    utility = None if isinstance(result, AuditResult) else result.utility
    return AttributePage(
        top=_build_top(result),
        threat=_list_threat_terms(result) if result.targets else [],
        targets=[
            build_target_section(name, target, _find_classes(before, name))
            for name, target in result.targets.items()
            if isinstance(target, ClassTarget)
        ],
        numbers=[
            build_numeric_section(name, target)
            for name, target in result.targets.items()
            if isinstance(target, NumericTarget)
        ],
        earlier=[
            *_list_headlines(result.static, "learned from the earlier table, attacks this one"),
            *_list_headlines(result.two_releases, "holds both tables and sees how each user moved"),
        ],
        lists=_list_list_headlines(result),
        frontier=build_frontier_section(result.frontier if isinstance(result, CloakResult) else None),
        utility=build_utility_section(utility),
        cost=build_cost_tiles(get_defense(result), utility, result.timings),
        protocol=_list_protocol_terms(result),
    )


def _list_headlines(targets: Targets, context: str) -> list[HeadlineRow]:
    return [build_headline(name, target, context=context) for name, target in targets.items()]


def _list_list_headlines(result: AttributeResult) -> list[HeadlineRow]:
    """Return what the recommendation lists tell, where they were audited."""
    if not isinstance(result, CloakResult) or result.lists is None:
        return []
    return [
        *_list_headlines(result.lists.before, "before the defense"),
        *_list_headlines(result.lists.after, "after the defense"),
        *_list_headlines(result.lists.after_with_seen, "after, with seen items listed as well"),
        *_list_headlines(result.lists.with_vectors, "after, the vectors and which items score high"),
        *_list_defended_headlines(result.defended_lists),
    ]


def _list_defended_headlines(lists: DefendedLists | None) -> list[HeadlineRow]:
    """Return what lists tell that were made by a list defense."""
    if lists is None:
        return []
    return [
        *_list_headlines(lists.undefended_omissions, "after, what the lists omit"),
        *_list_headlines(lists.undefended_together, "after, vectors and lists together"),
        *_list_headlines(lists.lists, f"lists by {lists.method}"),
        *_list_headlines(lists.omissions, f"lists by {lists.method}, what they omit"),
        *_list_headlines(lists.together, f"lists by {lists.method} and vectors together"),
    ]


def _find_classes(targets: Targets, name: str) -> ClassTarget | None:
    target = targets.get(name)
    return target if isinstance(target, ClassTarget) else None


def _build_top(result: AttributeResult) -> PageTop:
    name = format_text(hide_folders(result.input.name))
    kind = {"audit": "Privacy audit", "train": "Trained model"}.get(result.command, "Defended release")
    return PageTop(
        eyebrow="recveil privacy report",
        title=f"{kind}: {name}",
        released=_describe_release(result),
        cards=[_build_card(result, target_name, target) for target_name, target in result.targets.items()],
        recommendation=recommend_release(result),
        measured=_list_measured(result),
        not_covered=_list_gaps(result),
        warnings=[redact_sentence(warning) for warning in result.warnings],
        version=format_text(result.recveil_version),
    )


def _describe_release(result: AttributeResult) -> str:
    """Say what was released, and with which defense."""
    surface = USER_VECTORS if result.protocol is None else result.protocol.surface
    sentence = f"Released: {format_text(surface)} of {_describe_size(result.input)}."
    defense = get_defense(result)
    if defense is None:
        return f"{sentence} No defense."
    protected = join_names(defense.targets) if defense.targets else "no attribute"
    return f"{sentence} Defense: {format_text(defense.name)} at strength {defense.strength:g}, protecting {protected}."


def _describe_size(source: InputSummary) -> str:
    width = "" if source.d is None else f", {format_count(source.d)} numbers each"
    counts = {"items": source.n_items, "interactions": source.n_interactions}
    origin = [f"model {format_text(source.model)}"] if source.model else []
    origin += [f"{format_count(value)} {unit}" for unit, value in counts.items() if value is not None]
    trained = f" ({', '.join(origin)})" if origin else ""
    return f"{format_class_size(source.n_users)} users{width}{trained}"


def _build_card(result: AttributeResult, name: str, target: ClassTarget | NumericTarget) -> VerdictCard:
    before = None if isinstance(result, AuditResult) else result.before.get(name)
    defense = get_defense(result)
    return VerdictCard(
        title=format_text(name),
        badge=BADGES[target.verdict],
        statement=describe_attack_success(target),
        evidence=describe_evidence(target),
        before=None if before is None else BADGES[before.verdict],
        before_statement="" if before is None else summarize_attack_success(before),
        is_unprotected=defense is not None and name not in defense.targets,
    )


def _list_measured(result: AttributeResult) -> list[str]:
    """Say for which users, with which attackers and with which power this was measured."""
    rules = result.protocol
    panel = (
        []
        if rules is None
        else [
            f"Attacker panel {format_text(rules.panel)}: {len(rules.attacks)} attacks, {rules.folds} folds, "
            f"{rules.repeats} {'repeat' if rules.repeats == 1 else 'repeats'}."
        ]
    )
    sample = [] if result.input.sample is None else [redact_sentence(result.input.sample)]
    power = [f"{describe_power(find_weakest(result.targets.values()))}."] if result.targets else []
    return [*_list_users(result)[:MAX_GROUPS], *sample, *panel, *power]


def _list_users(result: AttributeResult) -> list[str]:
    """Say how many users were attacked, and how many did not disclose the attribute."""
    groups: dict[str, list[str]] = {}
    for name, target in result.targets.items():
        users = f"{format_class_size(target.n)} of {format_class_size(result.input.n_users)} users"
        if target.n_undisclosed:
            share = f" ({100 * target.n_undisclosed / max(result.input.n_users, 1):.0f} %)"
            users += f"; {format_count(target.n_undisclosed)}{share} did not disclose it"
        groups.setdefault(users, []).append(name)
    return [f"{join_names(names)}: {users}." for users, names in groups.items()]


def _list_gaps(result: AttributeResult) -> list[str]:
    """Say what the verdicts do not cover."""
    if not result.targets:
        return ["Everything: no attribute was audited."]
    gaps = [
        f"Attributes other than {join_names(list(result.targets))}.",
        "Attackers stronger than this panel, or who know more than the released table.",
    ]
    if get_defense(result) is not None and not result.two_releases:
        gaps.append("An attacker who holds the undefended table as well: never publish both tables.")
    if isinstance(result, CloakResult) and result.lists is None:
        gaps.append("Recommendation lists made from these vectors.")
    return gaps


def _list_threat_terms(result: AttributeResult) -> list[Term]:
    """Say who the attacker is, from what the audit did."""
    rules, source = result.protocol, result.input
    surface = USER_VECTORS if rules is None else format_text(rules.surface)
    shape = (
        "" if source.d is None else f" ({format_count(source.n_users)} users, {format_count(source.d)} numbers each)"
    )
    known = "some users" if rules is None else f"{rules.folds - 1} of every {rules.folds} users"
    if rules is not None and rules.leak_ratio is not None:
        known = f"{100 * rules.leak_ratio:.0f} % of the users"
    terms = [
        Term("Goal", f"to learn {join_names(list(result.targets))} of users who did not disclose it."),
        Term("Sees", f"the {surface}{shape}, exactly as released."),
        Term("Knows", f"the true value for {known}, from a survey or another service, and learns from these."),
        Term("Does not see", "the interactions, the model, its training, or any other table."),
    ]
    if get_defense(result) is not None and rules is not None and rules.attacker == "adaptive":
        terms.append(Term("Adapts", "to the defense: learns on the defended table, not on an earlier one."))
    return terms


def _list_protocol_terms(result: AttributeResult) -> list[Term]:
    """Return what one needs to get the same numbers again."""
    rules, defense = result.protocol, get_defense(result)
    terms = [("recveil", result.recveil_version), *_list_training_terms(result)]
    if rules is not None:
        terms += [
            ("Panel", rules.panel),
            ("Attacks", ", ".join(rules.attacks)),
            ("Kind of attacker", rules.attacker),
            ("Surface", rules.surface),
            ("Folds", str(rules.folds)),
            ("Repeats", str(rules.repeats)),
            ("Inner folds", str(rules.inner_folds)),
            ("P-value", rules.p_value),
            ("Margin (advantage)", f"{rules.margin:g}"),
            ("Seed", str(rules.seed)),
        ]
    if defense is not None:
        options = "".join(f", {name} {value}" for name, value in defense.options.items())
        terms.append(("Defense", f"{defense.name}, strength {defense.strength:g}{options}"))
        terms += [("Note", note) for note in defense.notes]
    shown = [Term(term, redact_sentence(text)) for term, text in terms]
    command = [Term("Command", format_command(result.command_line), is_code=True)] if result.command_line else []
    return shown + command


def _list_training_terms(result: AttributeResult) -> list[tuple[str, str]]:
    """Return the terms of the training; nothing for a result without one."""
    if not isinstance(result, TrainResult):
        return []
    config = result.config
    options = ", ".join(f"{name} {value}" for name, value in config.options.items())
    terms = [
        ("Data", config.data),
        ("Model", f"{config.model} ({options})" if options else config.model),
        ("Split", config.split),
        ("List length", str(config.k)),
        ("Training seed", str(config.seed)),
    ]
    return terms + ([("Training stopped", result.stopped)] if result.stopped else [])
