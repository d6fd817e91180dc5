"""The rules of an attribute audit, and how they are applied to a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from recveil.attacks.attribute.classifiers import Classifier
from recveil.attacks.attribute.panels import panel_members, panel_names, parse_attackers
from recveil.attacks.attribute.surfaces import join_releases
from recveil.attacks.attribute.tasks import Attack
from recveil.audits.attribute.activity import audit_by_activity
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation, TrialMemory
from recveil.audits.attribute.leak_map import map_leaks
from recveil.audits.attribute.numeric import NumericAudit, audit_numeric_attribute
from recveil.audits.attribute.user_order import hash_rows
from recveil.audits.verdicts import MARGIN, TargetAudit
from recveil.core.device import check_device
from recveil.core.errors import UsageError
from recveil.core.option_types import (
    CountOrZero,
    Folds,
    LeakRatio,
    NonNegativeFloat,
    Repeats,
    SeedNumber,
    Share,
    check_fields,
)
from recveil.core.random import make_generator
from recveil.core.result_parts import AttributeProtocol, ClassTarget, CurvePoint, NumericTarget
from recveil.core.types import Attribute, FloatArray, IntArray
from recveil.data.io.ids import Ids

__all__ = ["AuditProtocol", "attach_details", "collect_notes", "collect_results"]

LEAK_RATIOS = (0.2, 0.4, 0.6, 0.8)
"""Shares of the users whose attribute the attacker knows, for the curve."""

Results = dict[str, ClassTarget | NumericTarget]


@dataclass(frozen=True)
class AuditProtocol:
    """Rules under which attackers are run.

    Attributes:
        panel: name of the attacker panel, or attack names between commas.
        folds: parts of the users; each is attacked in turn.
        repeats: repeats of cross-validation.
        max_repeats: repeats up to which an inconclusive audit of classes goes on, while a leak that is clear after the
            first needs no other; if it is not above `repeats`, there are exactly `repeats`.
        max_seconds: wall-clock seconds of one audit after which no repeats are added.
        margin: advantage under which a leak is not called one.
        permutations: permutations of the labels for an exact p-value; 0 for the corrected t.
        leak_ratio: share of users whose attribute the attacker knows; all who are not attacked if None.
        surface: what the attacker sees.
        seed: the same seed gives the same numbers.
        device: torch device of the attackers.
        curve: whether the audit is repeated for smaller shares of known users.
        attacks: attacks by name in place of the panel; scikit-learn classifiers work as they are.
        rehearse: share of the disclosed users whose class is hidden from a defense and then attacked; None for none.
        rehearsed_method: name of that defense.
        key: secret number that the draws of a defense are derived from; the seed if None.
        max_cost: share of NDCG@10 that a defense may cost, where it is known how users are served.
        memory: trials of the audits of one command, so that nothing is attacked twice on the same folds; None for none.
    """

    panel: str = "fast"
    folds: Folds = 5
    repeats: Repeats = 2
    margin: Share = MARGIN
    permutations: CountOrZero = 0
    leak_ratio: LeakRatio | None = None
    surface: str = "user_vectors"
    seed: SeedNumber = 0
    device: str | None = None
    curve: bool = False
    attacks: Mapping[str, Attack | Classifier] | None = None
    max_repeats: CountOrZero = 10
    max_seconds: NonNegativeFloat = 60.0
    rehearse: LeakRatio | None = None
    rehearsed_method: str = ""
    key: int | None = None
    max_cost: Share = 0.1
    memory: TrialMemory | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_fields(self, "")
        if (self.rehearse is None) != (not self.rehearsed_method):
            raise UsageError("A rehearsal needs both `rehearse`, such as 0.3, and `method`, a defense. Give both.")
        check_device(self.device)

    @property
    def draw_seed(self) -> int:
        """The seed of what a defense draws."""
        return self.seed if self.key is None else self.key

    @property
    def rules(self) -> CrossValidation:
        """The folds."""
        return CrossValidation(
            self.folds,
            self.repeats,
            leak_ratio=self.leak_ratio,
            permutations=self.permutations,
            max_repeats=self.max_repeats,
            max_seconds=self.max_seconds,
            memory=self.memory,
        )

    @property
    def attack_names(self) -> list[str]:
        """Names of the attacks; an unknown panel or attack is an error."""
        if self.attacks:
            return list(self.attacks)
        if self.panel in panel_names():
            return list(panel_members(self.panel))
        return list(parse_attackers(self.panel, self.device))

    def start_with_one_repeat(self) -> AuditProtocol:
        """Return the rules for audits beside the main ones: one repeat, and more only while that is inconclusive."""
        return replace(self, repeats=1, max_repeats=max(self.repeats, self.max_repeats))

    def audit_classes(
        self,
        x: FloatArray,
        targets: Sequence[Attribute],
        *,
        ids: Ids | None = None,
        attacked_in: FloatArray | None = None,
    ) -> list[TargetAudit]:
        """Audit each of these attributes; the static attacker meets the attacked users in `attacked_in`.

        Folds are derived from `ids`, or from the rows of `x` where there are none.
        """
        attacks = self.attacks or parse_attackers(self.panel, self.device)
        return [
            audit_attribute(
                x,
                target,
                attacks,
                rules=self.rules,
                margin=self.margin,
                seed=self.seed,
                ids=ids,
                attacked_in=attacked_in,
            )
            for target in targets
        ]

    def audit_numbers(
        self, x: FloatArray, targets: Sequence[Attribute], *, ids: Ids | None = None
    ) -> list[NumericAudit]:
        """Audit each of these numbers by regression."""
        return [
            audit_numeric_attribute(x, target, rules=self.rules, margin=self.margin, seed=self.seed, ids=ids)
            for target in targets
        ]

    def audit_targets(
        self, x: FloatArray, targets: Sequence[Attribute], *, ids: Ids | None = None
    ) -> list[TargetAudit | NumericAudit]:
        """Audit classes and numbers, in the order of the targets."""
        return [
            (self.audit_numbers if target.is_numeric else self.audit_classes)(x, [target], ids=ids)[0]
            for target in targets
        ]

    def audit_past(
        self, before: Sequence[FloatArray], after: FloatArray, targets: Sequence[Attribute], *, ids: Ids | None = None
    ) -> dict[str, Results]:
        """Audit the attackers who hold earlier tables: one who learned from the first, and one who holds all of them.

        The first gets `repeats` repeats and no more, since an attacker who learns again decides. The other gets one
        repeat, and more only while that is inconclusive.

        Args:
            before: the earlier tables of the same users, oldest first.
            after: the table of today.
            targets: attributes with classes.
            ids: ids of the users, from which folds are derived; the rows of the first table serve where there are none.
        """
        ids = hash_rows(before[0]) if ids is None else ids
        static, both = replace(self, max_repeats=0), self.start_with_one_repeat()
        return {
            "static": collect_results(static.audit_classes(before[0], targets, ids=ids, attacked_in=after)),
            "two_releases": collect_results(both.audit_classes(join_releases(*before, after), targets, ids=ids)),
        }

    def audit_curve(
        self,
        x: FloatArray,
        targets: Sequence[Attribute],
        audits: Sequence[TargetAudit],
        *,
        ids: Ids | None = None,
    ) -> dict[str, list[CurvePoint]]:
        """Audit each target at every leak ratio that these folds allow; `audits` are those of the main run."""
        largest = 1 - 1 / self.folds
        main = self.leak_ratio or largest
        others = [ratio for ratio in LEAK_RATIOS if ratio < largest + 1e-9 and abs(ratio - main) > 1e-9]
        runs = {
            ratio: replace(self, leak_ratio=ratio, permutations=0, max_repeats=0).audit_classes(x, targets, ids=ids)
            for ratio in others
        }
        runs[round(main, 4)] = list(audits)
        return {
            target.name: [_curve_point(ratio, runs[ratio][i]) for ratio in sorted(runs)]
            for i, target in enumerate(targets)
        }

    def to_result(self) -> AttributeProtocol:
        """Return the rules as a part of a result document."""
        permuted = f"{self.permutations} permutations of the labels"
        return AttributeProtocol(
            panel="custom" if self.attacks else self.panel,
            attacks=self.attack_names,
            folds=self.folds,
            repeats=self.repeats,
            inner_folds=self.rules.inner_folds,
            margin=self.margin,
            surface=self.surface.replace("_", " "),
            p_value=permuted if self.permutations else "corrected resampled t, one-sided",
            leak_ratio=self.leak_ratio,
            seed=self.seed,
        )


def collect_results(audits: Sequence[TargetAudit | NumericAudit]) -> Results:
    """Return the results of audits by the name of their target."""
    return {audit.target: audit.to_result() for audit in audits}


def collect_notes(audits: Sequence[TargetAudit | NumericAudit]) -> list[str]:
    """Return the notes of audits, each once."""
    return list(dict.fromkeys(note for audit in audits for note in audit.notes))


def attach_details(
    tables: Sequence[FloatArray],
    targets: Sequence[Attribute],
    audits: Sequence[Sequence[TargetAudit]],
    rules: CrossValidation,
    *,
    seed: int,
    activity: IntArray | None = None,
) -> list[Results]:
    """Return the results of each table with its leak maps, and with the accuracy by activity where it is known.

    Args:
        tables: vectors of the same users, one table for each release.
        targets: attributes that were attacked.
        audits: for each table the audits of all targets.
        rules: the folds of the audits.
        seed: splits the users into halves.
        activity: interactions of each user.
    """
    results = [collect_results(each) for each in audits]
    for i, target in enumerate(targets):
        users, labels = audits[0][i].users, audits[0][i].labels
        codes = np.unique(target.codes[users], return_inverse=True)[1].astype(np.int64)
        maps = map_leaks([x[users] for x in tables], codes, labels, rng=make_generator(seed, "where", target.name))
        for result, leak_map, audited in zip(results, maps, audits, strict=True):
            groups = None
            if activity is not None:
                groups = audit_by_activity(audited[i], activity, test_share=rules.test_share)
            details = {"leak_map": leak_map, "activity": groups}
            result[target.name] = result[target.name].model_copy(update=details)
    return results


def _curve_point(ratio: float, audit: TargetAudit) -> CurvePoint:
    headline = audit.headline
    return CurvePoint(ratio=ratio, advantage=headline.advantage, balanced_accuracy=headline.balanced_accuracy)
