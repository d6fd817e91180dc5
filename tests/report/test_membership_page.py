"""The page of a membership audit: what it shows of a document, and what it never does."""

from __future__ import annotations

from recveil.core.membership_parts import MembershipFrontier, MembershipFrontierPoint, ReferenceProtocol
from recveil.core.result_parts import Verdict
from recveil.core.results import MembershipResult
from recveil.core.types import Estimate
from recveil.report.html import render
from recveil.report.membership_page import build_membership_page


def test_the_top_says_how_often_a_member_is_told(membership_result: MembershipResult) -> None:
    top = build_membership_page(membership_result).top
    (card,) = top.cards
    assert card.badge.word == "Leak"
    assert "picks the member in 70 of 100 pairs; guessing gets 50" in card.statement
    assert "finds 10 of 100 members while accusing 1 of 100 non-members" in card.evidence
    assert top.measured[0] == "800 users, 400 of them members."
    assert top.warnings == ["Excluded: fewer than 10 users with too few interactions."]


def test_all_attacks_are_in_the_table_and_only_the_strongest_rule_in_the_figure(
    membership_result: MembershipResult,
) -> None:
    page = build_membership_page(membership_result)
    assert [row.attack for row in page.rows] == ["overlap", "popular-list", "dlmia"]
    assert page.rows[2].auc.value == "0.700"
    assert page.rows[2].realized_fpr == "0.0095"
    assert [rate.value for rate in page.rows[2].rates] == ["–", "0.100"]
    assert page.rows[1].flags == ["rule"]
    (plot,) = page.plots
    assert {point.attack for point in plot.points} == {"popular-list (rule)", "dlmia"}
    assert page.comparison == []
    assert render(membership_result).count("<svg") == 1


def test_attacks_with_reference_models_are_said_to_see_scores(membership_result: MembershipResult) -> None:
    plain = {term.term: term.text for term in build_membership_page(membership_result).threat}
    assert "Stronger" not in plain
    assert "scores" in plain["Does not see"]
    references = ReferenceProtocol(n=16, signal="log-odds")
    protocol = membership_result.protocol.model_copy(update={"references": references, "kind": "inductive"})
    page = build_membership_page(membership_result.model_copy(update={"protocol": protocol}))
    threat = {term.term: term.text for term in page.threat}
    assert "16 reference models" in threat["Stronger"]
    assert "scores" not in threat["Does not see"]
    assert "one half" in threat["Looks at"]
    assert {term.term: term.text for term in page.protocol}["Reference signal"] == "log-odds"


def test_a_defense_is_compared_in_three_settings(defended_membership: MembershipResult) -> None:
    page = build_membership_page(defended_membership)
    scores = {row.attack: [score.value for score in row.scores] for row in page.comparison}
    assert scores["dlmia"] == ["0.900", "0.400", "0.700"]
    assert scores["overlap"] == ["–", "–", "0.500"]
    assert [row.group for row in page.hits][:1] == ["members, undefended"]
    assert page.hits[-1].hit_rate.value == "−0.100"
    assert "90 of 100" in page.top.cards[0].before_statement


def test_scores_alone_make_a_page_without_a_table(membership_result: MembershipResult) -> None:
    parts = {"attacks": {}, "roc": {}, "n_members": None, "verdict": Verdict.UNKNOWN, "best_attack": None}
    html = render(membership_result.model_copy(update=parts))
    assert "Scores only" in html
    assert "An outsider can tell." in html  # the sentence, where no number can be told
    assert "<svg" not in html


def test_the_frontier_is_a_table_and_advice_is_escaped(membership_result: MembershipResult) -> None:
    points = [
        MembershipFrontierPoint(
            kind="epsilon",
            label="private, epsilon 2",
            model="m",
            serving="fold-in",
            auc=Estimate(0.53, 0.5, 0.56, 100),
            max_auc=0.639,
            hit_rate=Estimate(0.2, 0.1, 0.3, 100),
            cost=0.25,
        ),
        MembershipFrontierPoint(kind="epsilon", label="private, epsilon 1", model="m", serving="fold-in", reason="few"),
    ]
    frontier = MembershipFrontier(points=points, n_references=4, limit=0.6, measured_choice=0, guaranteed_choice=0)
    result = membership_result.model_copy(update={"frontier": frontier, "advice": ["<script>"]})
    page = build_membership_page(result)
    assert [(row.bound, row.cost, row.note) for row in page.frontier] == [("0.639", "-25 %", ""), ("none", "", "few")]
    html = render(result)
    assert "private, epsilon 2" in html
    assert "<li><script>" not in html
