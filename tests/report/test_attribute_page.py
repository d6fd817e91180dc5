from __future__ import annotations

from recveil.core.result_parts import Verdict
from recveil.core.results import AuditResult, CloakResult, TrainResult
from recveil.core.types import Estimate
from recveil.report.attribute_page import build_attribute_page
from recveil.report.formatting import MISSING


def test_the_top_says_what_was_released_how_bad_it_is_and_for_whom(audit_result: AuditResult) -> None:
    top = build_attribute_page(audit_result).top
    assert "user vectors of 2,000 users, 32 numbers each" in top.released
    (card,) = top.cards
    assert (card.title, card.badge.word, card.before) == ("gender", "Leak", None)
    assert card.statement == "The best attacker is right for 71 of 100 users; guessing gets 50."
    assert "1,900 of 2,000 users; 100 (5 %) did not disclose it" in top.measured[0]
    assert "fast: 3 attacks, 5 folds, 2 repeats" in top.measured[1]
    assert "gender" in top.not_covered[0]


def test_a_compared_card_shows_both_verdicts_and_what_was_not_protected(cloak_result: CloakResult) -> None:
    top = build_attribute_page(cloak_result).top
    gender, age, job = top.cards
    assert (gender.before.word, gender.badge.word) == ("Leak", "No leak found")
    assert "81 of 100" in gender.before_statement
    assert [card.is_unprotected for card in (gender, age, job)] == [False, False, True]
    assert len({card.badge.icon for card in (gender, age)} | {gender.before.icon}) == 3
    assert "sliced at strength 1, protecting gender and age" in top.released


def test_a_number_is_told_by_its_explained_variation(numeric_result: AuditResult) -> None:
    page = build_attribute_page(numeric_result)
    assert "explains 64 %" in page.top.cards[0].statement
    (number,) = page.numbers
    assert number.attacks[0].rows[0].scores[0].value == "0.640"
    assert number.headline.p_value == "< 0.001"
    assert page.targets == []


def test_the_threat_model_follows_the_protocol(audit_result: AuditResult, cloak_result: CloakResult) -> None:
    def list_terms(result: AuditResult | CloakResult) -> dict[str, str]:
        return {term.term: term.text for term in build_attribute_page(result).threat}

    audit = list_terms(audit_result)
    assert "4 of every 5 users" in audit["Knows"]
    assert "2,000 users, 32 numbers each" in audit["Sees"]
    assert "Adapts" not in audit
    assert "gender, age and job" in list_terms(cloak_result)["Goal"]
    assert "Adapts" in list_terms(cloak_result)
    static = cloak_result.protocol.model_copy(update={"attacker": "static", "leak_ratio": 0.2})
    changed = list_terms(cloak_result.model_copy(update={"protocol": static}))
    assert "Adapts" not in changed
    assert "20 % of the users" in changed["Knows"]


def test_the_numbers_of_a_small_class_cannot_be_worked_out_from_the_others(cloak_result: CloakResult) -> None:
    gender = cloak_result.targets["gender"].model_copy(update={"counts": {"F": 7, "M": 1893}, "n_undisclosed": 4})
    classes = cloak_result.utility.per_class["gender"]
    few = {"ndcg@10": Estimate(0.1, 0.0, 0.2, 7)}
    small = classes["F"].model_copy(update={"before": few, "after": few, "difference": few})
    utility = cloak_result.utility.model_copy(update={"per_class": {"gender": {**classes, "F": small}}})
    changed = {"targets": {"gender": gender}, "utility": utility}
    page = build_attribute_page(cloak_result.model_copy(update=changed))
    row = page.targets[0].classes[0]
    assert (row.label, row.size, [recall.value for recall in row.recalls]) == ("F", "fewer than 10", [MISSING] * 2)
    assert "gender.confusion.after" not in {plot.id for plot in page.targets[0].plots}
    assert (page.targets[0].classes[1].size, page.targets[0].classes[1].recalls[0].value) == (MISSING, MISSING)
    assert {row.accuracy for row in page.targets[0].references} == {MISSING}
    assert {score.value for row in page.targets[0].attacks[0].rows[1:] for score in row.scores[2:4]} == {MISSING}
    cost = page.utility.classes[0]
    assert (cost.n, cost.before.value, cost.relative) == ("fewer than 10", MISSING, MISSING)
    assert {point.group for plot in page.utility.plots for point in plot.points} == {"Everyone"}


def test_warnings_and_notes_are_redacted(cloak_result: CloakResult) -> None:
    page = build_attribute_page(cloak_result)
    assert page.top.warnings[1] == "job: its fewer than 10 users of class x are too few; see x.log."
    notes = [term.text for term in page.protocol if term.term == "Note"]
    assert notes == ["fewer than 10 users with undisclosed age went through the label-free map."]


def test_the_protocol_says_how_to_repeat_it(cloak_result: CloakResult, train_result: TrainResult) -> None:
    terms = {term.term: term.text for term in build_attribute_page(cloak_result).protocol}
    assert (terms["Seed"], terms["Folds"], terms["Repeats"], terms["recveil"]) == ("0", "5", "2", "0.1.0")
    assert terms["Defense"] == "sliced, strength 1"
    assert terms["Command"] == "recveil demo --seed 0 --out 'my report.html'"
    trained = {term.term: term.text for term in build_attribute_page(train_result).protocol}
    assert trained["Model"] == "bprmf (epochs 3, embedding_size 8)"
    assert trained["Training seed"] == "3"


def test_attackers_with_an_earlier_table_and_attacks_on_lists_have_their_rows(cloak_result: CloakResult) -> None:
    page = build_attribute_page(cloak_result)
    assert page.earlier == page.lists == []
    assert any("undefended table" in gap for gap in page.top.not_covered)
    before = cloak_result.before
    lists = {"before": before, "after": before, "after_with_seen": before, "with_vectors": before}
    full = CloakResult.model_validate(
        {**cloak_result.model_dump(), "static": before, "two_releases": before, "lists": lists}
    )
    page = build_attribute_page(full)
    assert (len(page.earlier), len(page.lists)) == (2 * len(before), 4 * len(before))
    assert page.earlier[0].badge.kind == Verdict.LEAK
    assert not any("undefended table" in gap for gap in page.top.not_covered)


def test_an_audit_alone_has_no_ranking_and_a_model_without_targets_no_attacks(
    audit_result: AuditResult, train_result: TrainResult
) -> None:
    page = build_attribute_page(audit_result)
    assert page.utility is None
    assert [tile.term for tile in page.cost] == ["Time"]
    alone = train_result.utility.model_copy(update={"before": {}, "difference": {}, "per_class": {}})
    config = train_result.config.model_copy(update={"defense": None})
    parts = {"targets": {}, "before": {}, "protocol": None, "utility": alone, "config": config}
    page = build_attribute_page(train_result.model_copy(update=parts))
    assert page.targets == page.top.cards == page.threat == []
    assert [row.after.value for row in page.utility.rows] == ["0.1060", "0.0530"]
    assert page.utility.plots == []
