"""Audits before and after a defense, of the vectors and of the lists made from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from documents import build_target
from recveil.core.result_parts import ListAudits
from recveil.core.timing import Clock
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.testing.worlds import make_planted_leak
from recveil.workflows.audit_protocol import AuditProtocol
from recveil.workflows.comparison import (
    audit_lists,
    compare_audits,
    compare_recommendations,
    describe_heads,
    describe_omissions,
    view_with_heads,
)
from recveil.workflows.utility import Recommendations


def test_the_same_users_are_audited_before_and_after(quick: AuditProtocol) -> None:
    before, secret = make_planted_leak(240, 4, 2, 3.0, rng=np.random.default_rng(0))
    after = np.random.default_rng(1).standard_normal(before.shape)
    clock = Clock()
    compared = compare_audits(before, after, [secret], quick, clock=clock)
    assert compared.before["secret"].verdict == "leak"
    assert compared.after["secret"].verdict != "leak"
    assert compared.before["secret"].leak_map.ranges == compared.after["secret"].leak_map.ranges
    assert set(compared.past) == {"static", "two_releases"}
    assert {"audit before", "audit after", "audit of both tables"} <= set(clock.seconds)
    assert compare_audits(before, after, [secret], quick, clock=clock, past=False).past == {}


@pytest.fixture(scope="module")
def served() -> tuple[Recommendations, np.ndarray, object]:
    """Users served by their own tastes, in which the class leaks."""
    rng = np.random.default_rng(2)
    world = make_world(n_users=240, n_items=60, n_interactions=5_000, leaks={"gender": 4.0}, rng=rng)
    x, items = world.taste.astype(np.float32), rng.standard_normal((60, world.taste.shape[1])).astype(np.float32)
    rows = np.arange(240)[::-1]  # the table is in another order than the data
    gender = world.dataset.attributes["gender"].take(rows)
    return Recommendations(leave_one_out(world.dataset), lambda users, x: x @ items.T, items, rows), x[rows], gender


def test_lists_and_what_they_are_worth_follow_the_vectors(served: tuple, quick: AuditProtocol) -> None:
    recommendations, x, gender = served
    flat = np.tile(x.mean(0), (len(x), 1))
    lists = audit_lists(recommendations, x, flat, [gender], quick)
    assert lists.before["gender"].verdict == "leak"
    assert lists.after_with_seen["gender"].verdict != "leak"  # all users get the same list
    same = compare_recommendations(recommendations, x, x, [gender])
    assert same.difference["ndcg@10"].value == 0
    sizes = {label: change.after["ndcg@10"].n for label, change in same.per_class["gender"].items()}
    assert sizes == dict(zip(gender.labels, gender.counts.tolist(), strict=True))


def test_only_the_released_lists_may_get_more_repeats_than_were_asked_for(
    served: tuple, quick: AuditProtocol, monkeypatch: pytest.MonkeyPatch
) -> None:
    recommendations, x, gender = served
    most, audit_classes = [], AuditProtocol.audit_classes

    def note_repeats(self: AuditProtocol, *given: object, **options: object) -> object:
        most.append((self.repeats, self.max_repeats))
        return audit_classes(self, *given, **options)

    monkeypatch.setattr(AuditProtocol, "audit_classes", note_repeats)
    audit_lists(recommendations, x, x, [gender], replace(quick, repeats=2, max_repeats=8))
    assert most == [(1, 2), (1, 8), (1, 2), (1, 8)]  # before, after, after with seen items, these with the vectors


def test_item_vectors_show_which_items_rank_first(served: tuple, quick: AuditProtocol) -> None:
    recommendations, x, gender = served
    hidden = np.random.default_rng(0).permutation(x)
    both = [audit_lists(recommendations, x, table, [gender], quick).with_vectors["gender"] for table in (x, hidden)]
    assert [audit.verdict == "leak" for audit in both] == [True, False]
    seen = view_with_heads(recommendations, x, seed=0)
    np.testing.assert_array_equal(seen[:, : x.shape[1]], x)
    assert seen.shape[1] > x.shape[1]


@pytest.mark.parametrize(("heads", "after", "count"), [("leak", "none", 1), ("leak", "leak", 0), ("none", "none", 0)])
def test_item_vectors_are_warned_of_where_the_table_alone_is_safe(heads: str, after: str, count: int) -> None:
    made = {verdict: build_target(["F", "M"], {"logistic": 0.75}, verdict) for verdict in ("leak", "none")}
    audits = ListAudits(before={}, after={}, after_with_seen={}, with_vectors={"gender": made[heads]})
    for checked in (False, True):
        sentences = describe_heads(audits, {"gender": made[after]}, checked=checked)
        assert len(sentences) == count
        assert all("gender" in sentence and "0.50" in sentence for sentence in sentences)
        assert all(("release_items" in sentence) != checked for sentence in sentences)


@pytest.mark.parametrize(("after", "whole", "count"), [("leak", "none", 1), ("leak", "leak", 0), ("none", "none", 0)])
def test_omitted_seen_items_are_named_only_where_they_alone_leak(after: str, whole: str, count: int) -> None:
    made = {verdict: build_target(["F", "M"], {"logistic": 0.75}, verdict) for verdict in ("leak", "none")}
    audits = ListAudits(before={}, after={"gender": made[after]}, after_with_seen={"gender": made[whole]})
    sentences = describe_omissions(audits)
    assert len(sentences) == count
    assert all("gender" in sentence and "0.50" in sentence for sentence in sentences)
