"""Numbers of results in rows."""

from __future__ import annotations

from documents import *  # noqa: F403
from recveil.core.results import AuditResult, CloakResult, MembershipResult, StudyResult
from recveil.report.numbers import list_numbers


def test_every_attack_and_metric_has_a_row_with_its_interval(audit_result: AuditResult) -> None:
    frame = audit_result.to_frame()
    target = audit_result.targets["gender"]
    row = frame[(frame.target == "gender") & (frame.attack == "headline") & (frame.metric == "advantage")].iloc[0]
    advantage = target.headline.advantage
    assert (row.value, row.low, row.high, row.n) == (advantage.value, advantage.low, advantage.high, advantage.n)
    assert set(frame[frame.target == "gender"].attack) == {"headline", *target.attacks}


def test_releases_and_utility_are_told_apart(cloak_result: CloakResult, membership_result: MembershipResult) -> None:
    rows = list_numbers(cloak_result)
    assert {row.release for row in rows if row.target == "gender"} == {"before", "after"}
    change = cloak_result.utility.difference["ndcg@10"]
    assert [row.value for row in rows if (row.release, row.metric) == ("difference", "ndcg@10")] == [change.value]
    members = {row.attack for row in list_numbers(membership_result)}
    assert members == set(membership_result.attacks)


def test_a_study_has_tables_of_its_own(study_result: StudyResult) -> None:
    assert study_result.to_arrow().num_rows == 0
