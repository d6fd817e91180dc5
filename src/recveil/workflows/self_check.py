"""The self-check of a defense: what strong attacks find before and after, inside the users it was given.

Attackers learn from some users and are tried on others, before the table is handed over. `auto` tries defenses, the
cheapest first, and takes the first that passes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from recveil.attacks.attribute.panels import make_panel
from recveil.audits.attribute.user_order import hash_rows
from recveil.audits.verdicts import TargetAudit
from recveil.core.errors import UsageError
from recveil.core.protocols import TableView
from recveil.core.registry import check_options
from recveil.core.self_check_parts import SelfCheck, SelfCheckTarget
from recveil.core.types import Attribute, FloatArray
from recveil.data.io.ids import Ids
from recveil.defenses import DEFENSES
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.defended_release import ChosenDefense

__all__ = ["AUTO", "VECTORS_ALONE", "CheckedTable", "check_release", "choose_defense", "list_candidates"]

AUTO = "auto"
"""Name that stands for the cheapest defense that passes the self-check."""

CHECK_PANELS = ("fast", "strong")
"""Panels whose attacks make the check; those of the first say how much there was before, unless that decides."""

CHECK_FOLDS = 1 << 20
"""Changes the seed of the folds of every defense after the first, which is taken because others failed: the audit that
follows judges it on other folds. The first is checked on the folds of that audit, so that nothing is attacked twice; an
audit of it is wrong no more often because a check has seen the same folds."""

REPEATS = 2
"""Repeats of cross-validation: with one, intervals are too wide to see a leak of the size of the margin. What there was
before is not judged: one repeat is enough where that is conclusive."""

VECTORS_ALONE: Mapping[str, TableView] = {"user_vectors": lambda x: x}


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
    *,
    ids: Ids | None = None,
    views: Mapping[str, TableView] = VECTORS_ALONE,
) -> CheckedTable:
    """Return the first candidate that passes the self-check; if none does, the one that leaves least.

    Args:
        x: the undefended vectors.
        targets: attributes to protect, with classes.
        candidates: defenses to try, in turn.
        apply_defense: returns the vectors that a defense makes.
        protocol: the rules of the audits; its seed and margin are used.
        ids: ids of the users, from which folds are derived; the rows of `x` serve where there are none.
        views: what attackers see of a table, by the name of the surface; a defense must pass on all of them.
    """
    ids = hash_rows(x) if ids is None else ids
    surfaces = [_CheckedSurface(name, view, x, targets, protocol, ids) for name, view in views.items()]
    tried: dict[str, float] = {}
    tables: list[CheckedTable] = []
    for candidate in candidates:
        cloaked = apply_defense(candidate)
        check = _check_surfaces(surfaces, cloaked, is_first=not tables)
        tried[candidate.name] = check.largest_advantage
        tables.append(CheckedTable(candidate, cloaked, check))
        if check.passed:
            break
    best = tables[-1] if tables[-1].check.passed else min(tables, key=lambda table: table.check.largest_advantage)
    return replace(best, check=best.check.model_copy(update={"tried": tried}))


def check_release(
    before: FloatArray,
    after: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    name: str,
    *,
    ids: Ids | None = None,
) -> SelfCheck:
    """Check one defended table.

    Args:
        before: the undefended vectors.
        after: the defended vectors of the same users.
        targets: attributes that were to be protected, with classes.
        protocol: the rules of the audits; its seed and margin are used.
        name: name of the defense.
        ids: ids of the users, from which folds are derived; the rows of `before` serve where there are none.
    """
    return choose_defense(before, targets, [ChosenDefense(name)], lambda _: after, protocol, ids=ids).check


@dataclass(eq=False)
class _CheckedSurface:
    """Attacks on one surface of the tables that were tried, with what they found before any defense."""

    name: str
    view: TableView
    x: FloatArray
    targets: Sequence[Attribute]
    protocol: AuditProtocol
    ids: Ids
    before: Mapping[str, TargetAudit] = field(default_factory=dict)

    def check(self, cloaked: FloatArray, *, is_first: bool) -> SelfCheck:
        """Check one defended table."""
        seen = self.view(cloaked)
        if not self.before:
            if self.protocol.memory is not None:  # the same fits serve the static attacker of an audit before and after
                self._attack(self.view(self.x), CHECK_PANELS[:1], attacked_in=seen, repeats=1)
            self.before = self._attack(self.view(self.x), CHECK_PANELS[:1], repeats=1)
        other_folds = replace(self.protocol, seed=self.protocol.seed ^ CHECK_FOLDS, memory=None)
        after = self._attack(seen, CHECK_PANELS, protocol=self.protocol if is_first else other_folds)
        if any(_exceeds(after[name], self.before[name]) for name in after):  # then all attacks say what was before
            self.before = self._attack(self.view(self.x), CHECK_PANELS)
        return _compare(self.before, after, self.protocol.margin, self.name)

    def _attack(
        self,
        x: FloatArray,
        panels: Sequence[str],
        *,
        attacked_in: FloatArray | None = None,
        repeats: int = REPEATS,
        protocol: AuditProtocol | None = None,
    ) -> Mapping[str, TargetAudit]:
        rules = self.protocol if protocol is None else protocol
        attacks = {name: attack for panel in panels for name, attack in make_panel(panel, rules.device).items()}
        rules = replace(rules, attacks=attacks, repeats=repeats, max_repeats=REPEATS, permutations=0, leak_ratio=None)
        audits = rules.audit_classes(x, self.targets, ids=self.ids, attacked_in=attacked_in)
        return {audit.target: audit for audit in audits}


def _check_surfaces(surfaces: Sequence[_CheckedSurface], cloaked: FloatArray, *, is_first: bool) -> SelfCheck:
    """Return what is worst of each attribute; a surface is not attacked once an earlier one has failed."""
    worst = surfaces[0].check(cloaked, is_first=is_first)
    for surface in surfaces[1:]:
        if worst.passed:
            check = surface.check(cloaked, is_first=is_first)
            worst = worst.model_copy(
                update={"targets": {n: max(t, check.targets[n], key=_rank_target) for n, t in worst.targets.items()}}
            )
    return worst


def _rank_target(target: SelfCheckTarget) -> tuple[bool, float]:
    return not target.passed, target.after.value


def _exceeds(after: TargetAudit, before: TargetAudit) -> bool:
    """Whether more is left for sure than there was before."""
    return after.headline.advantage.low > max(before.headline.advantage.value, 0.0)


def _compare(
    before: Mapping[str, TargetAudit], after: Mapping[str, TargetAudit], margin: float, surface: str
) -> SelfCheck:
    targets = {}
    for name, audit in after.items():
        left, had = audit.headline.advantage, before[name].headline.advantage
        # Shown to be within the margin, or no more than chance gives; and never more than before.
        passed = (left.high <= margin or left.low <= 0) and not _exceeds(audit, before[name])
        strongest = max(audit.fold_shares, key=lambda attack: audit.fold_shares[attack])
        targets[name] = SelfCheckTarget(before=had, after=left, attack=strongest, surface=surface, passed=passed)
    return SelfCheck(margin=margin, targets=targets, tried={})
