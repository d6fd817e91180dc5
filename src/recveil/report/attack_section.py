"""Tables of the attacks on one attribute, ready to print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from recveil.core.result_parts import AttackResult, ClassTarget, NumericAttackResult, NumericTarget
from recveil.core.types import Estimate
from recveil.report.attack_figures import describe_attacks
from recveil.report.figures import Plot
from recveil.report.formatting import (
    MISSING,
    ShownEstimate,
    format_class_size,
    format_count,
    format_estimate,
    format_number,
    format_p_value,
    format_text,
    is_too_small,
    redact_sentence,
    select_hidden_classes,
)
from recveil.report.leak_figures import LeakSection, describe_leaks
from recveil.report.page_parts import BADGES, Badge

__all__ = [
    "AttackRow",
    "HeadlineRow",
    "NumericSection",
    "TargetSection",
    "build_headline",
    "build_numeric_section",
    "build_target_section",
]

Releases = Mapping[str, ClassTarget]


@dataclass(frozen=True)
class HeadlineRow:
    """Verdict and headline of one release, or of one other attacker (`context`)."""

    target: str
    release: str
    context: str
    badge: Badge
    sentence: str
    attack: str
    fold_share: str
    accuracy: ShownEstimate
    advantage: ShownEstimate
    p_value: str
    margin: str
    detectable: str
    n: str


@dataclass(frozen=True)
class AttackRow:
    """One attacker on one release; `scores` in the order of the columns."""

    release: str
    scores: list[ShownEstimate]
    flags: list[str]


@dataclass(frozen=True)
class AttackGroup:
    """One attacker on all releases."""

    attack: str
    rows: list[AttackRow]


@dataclass(frozen=True)
class ReferenceRow:
    """Scores to compare with, such as chance."""

    name: str
    balanced_accuracy: str
    advantage: str
    accuracy: str


@dataclass(frozen=True)
class ClassRow:
    """Recall of one class in each release."""

    label: str
    size: str
    recalls: list[ShownEstimate]


@dataclass(frozen=True)
class TargetSection:
    """All about one attribute with classes."""

    name: str
    is_compared: bool
    classes: list[ClassRow]
    headlines: list[HeadlineRow]
    attacks: list[AttackGroup]
    references: list[ReferenceRow]
    plots: list[Plot]
    leaks: LeakSection | None
    notes: list[str]


@dataclass(frozen=True)
class NumericSection:
    """All about one number; scores of a row are R2, advantage and correlation."""

    name: str
    n: str
    mean: str
    spread: str
    headline: HeadlineRow
    attacks: list[AttackGroup]
    notes: list[str]


def build_headline(
    name: str, target: ClassTarget | NumericTarget, *, release: str = "", context: str = ""
) -> HeadlineRow:
    """Return verdict and headline of an audit, ready to print."""
    headline = target.headline
    share = headline.fold_shares.get(headline.attack, 1.0)
    accuracy = target.headline.r2 if isinstance(target, NumericTarget) else target.headline.balanced_accuracy
    return HeadlineRow(
        target=format_text(name),
        release=release,
        context=context,
        badge=BADGES[target.verdict],
        sentence=redact_sentence(target.sentence),
        attack=format_text(headline.attack or MISSING),
        fold_share="" if share >= 1 else f"in {100 * share:.0f} % of folds",
        accuracy=format_estimate(accuracy),
        advantage=format_estimate(headline.advantage),
        p_value=format_p_value(headline.p_value),
        margin=format_number(target.margin),
        detectable=format_number(target.detectable),
        n=format_count(target.n),
    )


def build_target_section(name: str, target: ClassTarget, before: ClassTarget | None) -> TargetSection:
    """Return tables and figures of one attribute, compared with the audit before the defense where there is one."""
    releases = {"before": before, "after": target} if before is not None else {"": target}
    shown = format_text(name)
    attacks = dict.fromkeys(attack for audit in (target, *releases.values()) for attack in audit.attacks)
    return TargetSection(
        name=shown,
        is_compared=before is not None,
        classes=[_build_class_row(label, target, releases) for label in target.labels],
        headlines=[build_headline(name, audit, release=release) for release, audit in releases.items()],
        attacks=[_build_attack_group(attack, releases) for attack in attacks],
        references=_list_references(target, before),
        plots=describe_attacks(shown, releases),
        leaks=describe_leaks(shown, releases),
        notes=[redact_sentence(note) for note in target.notes],
    )


def build_numeric_section(name: str, target: NumericTarget) -> NumericSection:
    """Return the table of the attacks on a number."""
    return NumericSection(
        name=format_text(name),
        n=format_count(target.n),
        mean=format_number(target.mean),
        spread=format_number(target.spread),
        headline=build_headline(name, target),
        attacks=[
            AttackGroup(
                format_text(attack), [_build_attack_row("", result, is_headline=attack == target.headline.attack)]
            )
            for attack, result in target.attacks.items()
        ],
        notes=[redact_sentence(note) for note in target.notes],
    )


def _build_attack_group(attack: str, releases: Releases) -> AttackGroup:
    rows = [
        _build_attack_row(
            release,
            target.attacks.get(attack),
            is_headline=target.headline.attack == attack,
            hides_classes=bool(select_hidden_classes(target.counts)),
        )
        for release, target in releases.items()
    ]
    return AttackGroup(format_text(attack), rows)


def _build_attack_row(
    release: str, result: AttackResult | NumericAttackResult | None, *, is_headline: bool, hides_classes: bool = False
) -> AttackRow:
    """Return the scores of an attacker; accuracy and macro F1 would tell of hidden classes, so they are hidden too."""
    flags = ["headline"] * is_headline
    if result is None:
        return AttackRow(release, [ShownEstimate()] * 5, flags)
    flags += ["inverted"] * result.inverted + ["degenerate"] * result.degenerate
    scores: list[Estimate | None]
    if isinstance(result, NumericAttackResult):
        scores = [result.r2, result.advantage, result.correlation]
    else:
        by_class = [None, None] if hides_classes else [result.accuracy, result.macro_f1]
        scores = [result.balanced_accuracy, result.advantage, *by_class, result.auc]
    return AttackRow(release, [format_estimate(score) for score in scores], flags)


def _build_class_row(label: str, target: ClassTarget, releases: Releases) -> ClassRow:
    """Return the recall of a class by the headline, as the confusion matrix has it; a hidden class keeps its row."""
    size, is_hidden = target.counts.get(label), label in select_hidden_classes(target.counts)
    recalls = [audit.headline.recall for audit in releases.values()]
    return ClassRow(
        label=format_text(label),
        size=MISSING if is_hidden and not is_too_small(size) else format_class_size(size),
        recalls=[format_estimate(None if is_hidden else recall.get(label)) for recall in recalls],
    )


def _list_references(target: ClassTarget, before: ClassTarget | None) -> list[ReferenceRow]:
    """Return guessing, the largest class, and the best possible attack where it is known."""
    chance, nothing = format_number(target.chance), format_number(0)
    largest = MISSING if select_hidden_classes(target.counts) else format_number(target.majority)
    rows = [
        ReferenceRow("Chance", chance, nothing, MISSING),
        ReferenceRow("Always the largest class", chance, nothing, largest),
    ]
    best = target.best_possible if target.best_possible is not None or before is None else before.best_possible
    if best is not None:
        name = "Best possible attack in this synthetic world"
        rows.append(ReferenceRow(name, format_number(best), MISSING, MISSING))
    return rows
