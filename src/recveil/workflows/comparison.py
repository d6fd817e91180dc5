"""Audits before and after a defense, of the vectors and of the lists made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from recveil.attacks.attribute.surfaces import build_view, join_heads
from recveil.audits.attribute.user_order import hash_rows
from recveil.core.random import make_generator
from recveil.core.result_parts import ListAudits, Utility, Verdict
from recveil.core.timing import Clock
from recveil.core.types import Attribute, FloatArray, IntArray, Release
from recveil.data.io.ids import Ids
from recveil.workflows.audit_protocol import AuditProtocol, Results, attach_details, collect_notes, collect_results
from recveil.workflows.utility import Recommendations, compare_rankings

__all__ = [
    "ComparedAudits",
    "audit_lists",
    "compare_audits",
    "compare_recommendations",
    "describe_heads",
    "describe_omissions",
    "view_with_heads",
]

LIST_LENGTH = 10
"""Length of the lists that are audited before and after."""


@dataclass(frozen=True)
class ComparedAudits:
    """Audits of a table before and after a defense, and of attackers who hold both."""

    before: Results
    after: Results
    past: dict[str, Results]
    notes: list[str] = field(default_factory=list)


def compare_audits(
    before: FloatArray,
    after: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
    *,
    clock: Clock,
    activity: IntArray | None = None,
    past: bool = True,
    ids: Ids | None = None,
) -> ComparedAudits:
    """Audit a table before and after a defense, with leak maps and accuracy by activity.

    Args:
        before: the undefended vectors.
        after: the defended vectors of the same users.
        targets: attributes with classes.
        protocol: the rules.
        clock: takes the seconds of each step.
        activity: interactions of each user, where known.
        past: audit attackers who hold both tables as well.
        ids: ids of the users, from which folds are derived; the rows of `before` serve where there are none.
    """
    ids = hash_rows(before) if ids is None else ids  # the same folds before and after
    both: dict[str, Results] = {}
    if past:  # first: the static attacker's fits serve the audit before, if the protocol has a memory
        with clock.measure_step("audit of both tables"):
            both = protocol.audit_past([before], after, targets, ids=ids)
    with clock.measure_step("audit before"):
        earlier = protocol.audit_classes(before, targets, ids=ids)
    with clock.measure_step("audit after"):
        later = protocol.audit_classes(after, targets, ids=ids)
    with clock.measure_step("map the leaks"):
        results = attach_details(
            [before, after], targets, [earlier, later], protocol.rules, seed=protocol.seed, activity=activity
        )
    return ComparedAudits(results[0], results[1], both, collect_notes([*earlier, *later]))


def compare_recommendations(
    recommendations: Recommendations, before: FloatArray, after: FloatArray, targets: Sequence[Attribute]
) -> Utility:
    """Compare what the recommendations are worth before and after, overall and for each class."""
    in_split_order = [replace(target, codes=target.codes[recommendations.rows]) for target in targets]
    ranks = [recommendations.rank_test_items(x) for x in (before, after)]
    return compare_rankings(ranks[0], ranks[1], in_split_order, note=recommendations.note)


def audit_lists(
    recommendations: Recommendations,
    before: FloatArray,
    after: FloatArray,
    targets: Sequence[Attribute],
    protocol: AuditProtocol,
) -> ListAudits:
    """Audit the lists made from the vectors before and after, lists that omit nothing, and these with the vectors.

    The lists after are what is released: while they are inconclusive, repeats are added. The others are shown beside
    them, and get no more than `repeats`.

    Args:
        recommendations: how users are served.
        before: the undefended vectors.
        after: the defended vectors.
        targets: attributes with classes.
        protocol: the rules; p-values are those of the corrected t.
    """
    ids = hash_rows(before)  # the same folds before and after
    rules = replace(protocol.start_with_one_repeat(), permutations=0)

    beside = replace(rules, max_repeats=protocol.repeats)

    def audit(release: Release, rules: AuditProtocol) -> Results:
        lists = build_view(release, "lists", rng=make_generator(protocol.seed, "view"))
        return collect_results(rules.audit_classes(lists, targets, ids=ids))

    with_heads = view_with_heads(recommendations, after, protocol.seed)
    return ListAudits(
        before=audit(recommendations.make_release(before, LIST_LENGTH), beside),
        after=audit(recommendations.make_release(after, LIST_LENGTH), rules),
        after_with_seen=audit(recommendations.make_release(after, LIST_LENGTH, with_seen=True), beside),
        with_vectors=collect_results(rules.audit_classes(with_heads, targets, ids=ids)),
    )


def view_with_heads(recommendations: Recommendations, x: FloatArray, seed: int) -> FloatArray:
    """Return what an attacker with item vectors sees: the vectors, and the items that score high by them.

    A defense that moves vectors can take them off the places where undefended vectors lie; which items then score high
    tells on which side, though the vectors alone do not show it to learners. Users who are not served have no items.
    """
    served = np.full(len(x), -1, dtype=np.int64)
    served[recommendations.rows] = np.arange(len(recommendations.rows))

    def score(users: IntArray) -> FloatArray:
        positions = served[users]
        scores = np.array(recommendations.score(positions.clip(0), x[users]), dtype=np.float64)
        scores[positions < 0] = -np.inf
        return scores

    return join_heads(x, score, make_generator(seed, "view"))


def describe_heads(lists: ListAudits, after: Results, *, checked: bool) -> list[str]:
    """Return a warning for each attribute that item vectors reveal beside a table which alone does not.

    Args:
        lists: audits of the lists.
        after: audits of the defended vectors.
        checked: the defense was chosen for an attacker with item vectors, so nothing better is known.
    """
    advice = "Keep the items private" + ("." if checked else ", or cloak with `release_items`, which checks both.")
    return [
        f"WARNING: an attacker who also has the item vectors can guess {name}: advantage "
        f"{audit.headline.advantage.value:.2f} from the vectors and the items that score high. {advice}"
        for name, audit in lists.with_vectors.items()
        if audit.verdict is Verdict.LEAK and after[name].verdict is not Verdict.LEAK
    ]


def describe_omissions(lists: ListAudits) -> list[str]:
    """Return a sentence for each attribute that lists reveal by the seen items they omit."""
    sentences = []
    for name, after in lists.after.items():
        whole = lists.after_with_seen[name]
        if after.verdict is Verdict.LEAK and whole.verdict is not Verdict.LEAK:
            omitting, complete = (target.headline.advantage.value for target in (after, whole))
            sentences.append(
                f"The lists reveal {name} (advantage {omitting:.2f}) because they omit each user's seen items. "
                f"Lists from the same vectors that omit nothing have an advantage of {complete:.2f}."
            )
    return sentences
