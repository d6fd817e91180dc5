"""The rule for the one next step at the top of a report.

Attributes: a leak is not released (defend it, or defend it better); no leak is released alone; anything else is
measured again. Membership: the same, with the rule by which lists are served as a cause of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from recveil.core.result_parts import ClassTarget, DefenseSummary, FrontierPoint, NumericTarget, Utility, Verdict
from recveil.core.results import AuditResult, CloakResult, MembershipResult, TrainResult
from recveil.report.figures import list_distinct
from recveil.report.formatting import (
    finite_or_none,
    format_command,
    format_number,
    format_text,
    join_names,
)
from recveil.report.next_command import AttributeResult, is_of_lists, write_command
from recveil.report.page_parts import Recommendation
from recveil.report.statements import describe_cost, describe_power, find_weakest

__all__ = ["AttributeResult", "get_defense", "recommend_for_members", "recommend_release"]

Targets = Mapping[str, ClassTarget | NumericTarget]


def recommend_release(result: AttributeResult) -> Recommendation:
    """Return the next step after an attribute audit.

    The first that holds decides: nothing was audited; something leaks; the defense failed its self-check; something is
    inconclusive; nothing leaks.
    """
    if not result.targets:
        return Recommendation(
            "audit",
            "Audit this model before you release anything of it.",
            ["No attribute was audited."],
            _describe_price(result),
            write_command("audit", result, ["ATTRIBUTE"]),
        )
    leaking = [name for name, target in result.targets.items() if target.verdict == Verdict.LEAK]
    if leaking:
        return _withhold_leaks(result, leaking)
    if isinstance(result, CloakResult) and result.self_check is not None and not result.self_check.passed:
        stronger, command = _name_stronger_option(result, result.defense)
        reasons = [format_text(result.self_check.sentence), stronger]
        return Recommendation(
            "withhold", "Do not release this table. Use a stronger defense.", reasons, _describe_price(result), command
        )
    unsettled = {name: target for name, target in result.targets.items() if target.verdict != Verdict.NONE}
    if unsettled:
        return _measure_again(result, unsettled)
    headline = "Expose these lists only." if is_of_lists(result) else "Release this table only."
    if isinstance(result, CloakResult) and result.self_check is not None and result.self_check.is_too_expensive:
        headline = "Release this table only, and only if its price is acceptable."
    return Recommendation("release", headline, _list_conditions(result), _describe_price(result))


def get_defense(result: AttributeResult) -> DefenseSummary | None:
    """Return the defense of a result, where one was applied."""
    match result:
        case CloakResult():
            return result.defense
        case TrainResult():
            return result.config.defense
        case _:
            return None


def _withhold_leaks(result: AttributeResult, leaking: list[str]) -> Recommendation:
    """Return how to stop a leak: defend, protect more attributes, or defend more strongly."""
    defense = get_defense(result)
    names = join_names(leaking)
    if defense is None:
        numbers = [name for name in leaking if isinstance(result.targets[name], NumericTarget)]
        reasons = [f"{names} can be guessed from it. Defend it, audit it again, and release the defended table only."]
        reasons += [f"Cut {join_names(numbers)} into classes to defend it."] if numbers else []
        command = write_command("cloak", result, _split_joint(leaking, result.targets), bins=numbers)
        if is_of_lists(result):
            reasons = [f"{names} can be guessed from them. Make them again from defended vectors, and audit them."]
            return Recommendation("withhold", "Do not expose these lists. Defend them first.", reasons, command=command)
        return Recommendation("withhold", "Do not release this table. Defend it first.", reasons, command=command)
    protected = [name for name in _split_joint(leaking, result.targets) if name in defense.targets]
    if not protected:
        wanted = list_distinct([*defense.targets, *_split_joint(leaking, result.targets)])
        return Recommendation(
            "withhold",
            f"Do not release this table. Protect {names} as well.",
            [f"The defense covered {join_names(defense.targets)} only; {names} can still be guessed."],
            _describe_price(result),
            write_command("cloak", result, wanted),
        )
    stronger, command = _name_stronger_option(result, defense)
    reasons = [f"{names} can be guessed in spite of the defense {format_text(defense.name)}.", stronger]
    return Recommendation(
        "withhold",
        "Do not release this table. Use a stronger defense.",
        reasons,
        _describe_price(result),
        command,
    )


def _name_stronger_option(result: AttributeResult, defense: DefenseSummary) -> tuple[str, str]:
    """Name the nearest option that is stronger than this defense, and its command."""
    if defense.strength < 1:
        sentence = f"It ran at strength {defense.strength:g}; full strength is 1."
        return sentence, write_command("cloak", result, defense.targets, method=defense.name, strength=1)
    if not isinstance(result, CloakResult):
        return "Defend the vectors of the trained model as well.", write_command("cloak", result, defense.targets)
    if result.frontier is None or not result.frontier.has_all_methods:
        sentence = "Compare all methods at several strengths."
        return sentence, write_command("cloak", result, defense.targets, flags=["--frontier"])
    reached = max(target.headline.advantage.value for target in result.targets.values())
    better = [point for point in result.frontier.points if _is_private(point) and point.advantage < reached]
    if not better:
        return "No method of the frontier left less to an attacker: do not release user vectors.", ""
    point = min(better, key=lambda point: point.cost)
    cost = f"{result.frontier.cost_measure} {format_number(point.cost)}"
    sentence = (
        f"On the frontier {format_text(point.method)} at strength {point.strength:g} leaves an advantage of "
        f"{format_number(point.advantage)} ({format_text(cost)})."
    )
    command = write_command("cloak", result, defense.targets, method=point.method, strength=point.strength)
    return sentence, command


def _is_private(point: FrontierPoint) -> bool:
    known = finite_or_none(point.cost) is not None and finite_or_none(point.advantage) is not None
    return known and all(target.verdict != Verdict.LEAK for target in point.targets.values())


def _measure_again(result: AttributeResult, unsettled: Targets) -> Recommendation:
    """Return what would settle the verdict, from the power of the audit that settled least."""
    weakest = find_weakest(unsettled.values())
    reasons = [
        f"The audit can neither show nor exclude a leak of {join_names(list(unsettled))}.",
        f"{describe_power(weakest)}; the margin is {weakest.margin:g}.",
        *_list_conditions(result),
    ]
    headline = "Do not release yet. Measure again with more users or more repeats."
    return Recommendation("measure", headline, reasons, _describe_price(result))


def _list_conditions(result: AttributeResult) -> list[str]:
    """Return what must stay private for the verdicts to hold."""
    conditions = []
    both = _list_leaks(result.two_releases)
    if both:
        conditions.append(
            f"Keep the earlier table private: an attacker who holds both tables can guess {join_names(both)}."
        )
    elif get_defense(result) is not None and not result.two_releases:
        conditions.append("Keep the undefended table private: an attacker who holds both tables was not measured.")
    if isinstance(result, CloakResult) and result.self_check is not None and result.self_check.price is not None:
        conditions += filter(None, [format_text(result.self_check.price.sentence)])
    if isinstance(result, CloakResult) and result.lists is not None:
        if ranked := _list_leaks(result.lists.with_vectors):
            conditions.append(
                f"Keep the item vectors private: who has them sees which items score high, and can guess "
                f"{join_names(ranked)}."
            )
        defended = result.defended_lists
        if defended is None:
            conditions += _describe_list_leaks(_list_leaks(result.lists.before), _list_leaks(result.lists.after))
        else:
            audits = [defended.lists, defended.omissions, defended.together]
            leaks = list(dict.fromkeys(name for targets in audits for name in _list_leaks(targets)))
            conditions += _describe_list_leaks(leaks, leaks)
    return conditions


def _describe_list_leaks(before: Sequence[str], after: Sequence[str]) -> list[str]:
    """Return what the lists reveal in spite of the defense, and what they reveal because of it."""
    old, new = [name for name in after if name in before], [name for name in after if name not in before]
    still = [f"Keep the recommendation lists private: they still leak {join_names(old)}."] if old else []
    made = [f"Keep the recommendation lists private: the defense made them leak {join_names(new)}."] if new else []
    return still + made


def _list_leaks(targets: Targets) -> list[str]:
    return [name for name, target in targets.items() if target.verdict == Verdict.LEAK]


def _describe_price(result: AttributeResult) -> str:
    """Return what the defense costs; empty without a defense."""
    defense = get_defense(result)
    utility: Utility | None = None if isinstance(result, AuditResult) else result.utility
    if defense is None:
        return ""
    ranking = "" if utility is None else describe_cost(utility)
    moved = f"The ranking was not measured; vectors moved by {format_number(defense.displacement)} of their spread."
    return ranking or moved


def _split_joint(names: Iterable[str], known: Targets) -> list[str]:
    """Return the attributes themselves in the place of joint classes such as "gender & age"."""
    parts = [name.split(" & ") if set(name.split(" & ")) <= known.keys() else [name] for name in names]
    return list_distinct([name for group in parts for name in group])


_MEMBER_STEPS = {
    Verdict.LEAK: Recommendation(
        "withhold",
        "Do not expose these lists. Defend them first.",
        ["The lists show whose data the model was trained on. Defend them, and audit them again."],
    ),
    Verdict.EXPLAINED: Recommendation(
        "measure",
        "Make the lists of members and non-members alike, then audit again.",
        [
            "A rule that looks at one quantity of the lists identifies members as well as any attack: members are "
            "served differently. No attack shows a trace of the training beyond that."
        ],
    ),
    Verdict.NONE: Recommendation(
        "release",
        "Expose only lists that are served like these.",
        ["No attack and no rule of this audit tells members and non-members apart by more than the margin."],
    ),
    Verdict.INCONCLUSIVE: Recommendation(
        "measure",
        "Do not expose these lists yet. Audit again with more users.",
        ["The audit can neither show nor exclude that members can be identified."],
    ),
    Verdict.UNKNOWN: Recommendation(
        "audit",
        "Name the members of the target, and audit again.",
        ["The members of the target are not known, so there are scores and no verdict."],
    ),
}


def recommend_for_members(result: MembershipResult) -> Recommendation:
    """Return the next step after a membership audit; only the verdict and the defense decide."""
    step = replace(_MEMBER_STEPS[result.verdict], cost=_describe_list_cost(result))
    if result.verdict != Verdict.LEAK:
        return step
    if result.defense is not None:
        reason = f"The lists identify members in spite of the defense {format_text(result.defense.name)}."
        headline = "Do not expose these lists. Use a stronger defense."
        return replace(step, headline=headline, reasons=[reason], command="recveil list defenses")
    can_train = bool(result.command_line) and result.input.model is not None and result.frontier is None
    command = format_command([*result.command_line, "--frontier"]) if can_train else ""
    reasons = [*step.reasons, *(format_text(line) for line in result.advice)]
    return replace(step, reasons=reasons, command=command or "recveil list models")


def _describe_list_cost(result: MembershipResult) -> str:
    """Return how the hit rates of both groups change; empty without a defense."""
    utility = result.utility
    if result.defense is None or utility is None or utility.before is None:
        return ""
    hits = [
        f"{group} from {format_number(before.value)} to {format_number(after.value)}"
        for group, before, after in (
            ("members", utility.before.members, utility.after.members),
            ("non-members", utility.before.non_members, utility.after.non_members),
        )
    ]
    return f"Hit rate of {' and of '.join(hits)}."
