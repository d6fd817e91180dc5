"""The self-check of a defense: what strong attacks find before and after, inside the users it was given.

Attackers learn from some users and are tried on others, before the table is handed over. `auto` tries defenses, the
cheapest first, and takes the first that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.verdicts import TargetAudit
from recveil.core.errors import UsageError
from recveil.core.registry import check_options
from recveil.core.self_check_parts import SelfCheck, SelfCheckTarget
from recveil.core.types import Attribute, FloatArray
from recveil.defenses import DEFENSES
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.defended_release import ChosenDefense

__all__ = ["AUTO", "CheckedTable", "check_release", "choose_defense", "list_candidates"]

AUTO = "auto"
"""Name that stands for the cheapest defense that passes the self-check."""

CHECK_PANELS = ("fast", "strong")
"""Panels whose attacks make the check."""


REPEATS = 2
"""Repeats of cross-validation: with one, intervals are too wide to see a leak of the size of the margin."""


@dataclass(frozen=True, eq=False)
class CheckedTable:
    """A defended table, the defense that made it, and its self-check."""

    defense: ChosenDefense
    x: FloatArray
    check: SelfCheck


def list_candidates(defense: ChosenDefense, *, streams: bool = False, undisclosed: bool = False) -> list[ChosenDefense]:
    """Return the defense itself, or for `auto` the defenses to try, the cheapest first.

    Where users are undisclosed and it was not said who must be protected, those that protect everybody come first.

    Args:
        defense: the chosen defense.
        streams: list only defenses of tables larger than memory.
        undisclosed: some users did not disclose the attribute.

    Raises:
        UsageError: options of one method were given with `auto`.
    """
    if defense.name != AUTO:
        return [defense]
    check_options(f"{AUTO} (other options need the name of one defense as `method`)", defense.options, ["strength"])
    everybody = defense.protects_everybody
    wanted = {True, False} if everybody is None and undisclosed else {bool(everybody)}
    traits = [
        traits
        for traits in DEFENSES.all_traits()
        if traits.auto_rank
        and (traits.streams or not streams)
        and (traits.keeps_map or not defense.needs_map)
        and traits.protects_undisclosed in wanted
    ]
    if not traits:
        raise UsageError("No defense that `auto` tries is for such a table. Name one as `method`.")
    return [
        replace(defense, name=t.name) for t in sorted(traits, key=lambda t: (not t.protects_undisclosed, t.auto_rank))
    ]


def choose_defense(
    x: FloatArray,
    targets: Sequence[Attribute],
    candidates: Sequence[ChosenDefense],
    apply_defense: Callable[[ChosenDefense], FloatArray],
    protocol: AuditProtocol,
) -> CheckedTable:
    """Return the first candidate that passes the self-check; if none does, the one that leaves least.

    Args:
        x: the undefended vectors.
        targets: attributes to protect, with classes.
        candidates: defenses to try, in turn.
        apply_defense: returns the vectors that a defense makes.
        protocol: the rules of the audits; its seed and margin are used.
    """
    before = _audit_strongly(x, targets, protocol)
    tried: dict[str, float] = {}
    tables = []
    for candidate in candidates:
        cloaked = apply_defense(candidate)
        check = _compare(before, _audit_strongly(cloaked, targets, protocol), protocol.margin)
        tried[candidate.name] = check.largest_advantage
        tables.append(CheckedTable(candidate, cloaked, check))
        if check.passed:
            break
    best = tables[-1] if tables[-1].check.passed else min(tables, key=lambda table: table.check.largest_advantage)
    return replace(best, check=best.check.model_copy(update={"tried": tried}))


def check_release(
    before: FloatArray, after: FloatArray, targets: Sequence[Attribute], protocol: AuditProtocol, name: str
) -> SelfCheck:
    """Check one defended table.

    Args:
        before: the undefended vectors.
        after: the defended vectors of the same users.
        targets: attributes that were to be protected, with classes.
        protocol: the rules of the audits; its seed and margin are used.
        name: name of the defense.
    """
    return choose_defense(before, targets, [ChosenDefense(name)], lambda _: after, protocol).check


def _audit_strongly(x: FloatArray, targets: Sequence[Attribute], protocol: AuditProtocol) -> Mapping[str, TargetAudit]:
    attacks = {name: attack for panel in CHECK_PANELS for name, attack in make_panel(panel, protocol.device).items()}
    rules = replace(protocol, attacks=attacks, repeats=REPEATS, max_repeats=REPEATS, permutations=0, leak_ratio=None)
    return {audit.target: audit for audit in rules.audit_classes(x, targets)}


def _compare(before: Mapping[str, TargetAudit], after: Mapping[str, TargetAudit], margin: float) -> SelfCheck:
    targets = {}
    for name, audit in after.items():
        left, had = audit.headline.advantage, before[name].headline.advantage
        # Shown to be within the margin, or no more than chance gives; and never more than before.
        passed = (left.high <= margin or left.low <= 0) and left.low <= max(had.value, 0.0)
        strongest = max(audit.fold_shares, key=lambda attack: audit.fold_shares[attack])
        targets[name] = SelfCheckTarget(before=had, after=left, attack=strongest, passed=passed)
    return SelfCheck(margin=margin, targets=targets, tried={})
