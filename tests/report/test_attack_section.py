from __future__ import annotations

from recveil.core.results import CloakResult
from recveil.report.attribute_page import build_attribute_page
from recveil.report.formatting import MISSING


def test_the_attack_table_has_intervals_references_and_flags(cloak_result: CloakResult) -> None:
    gender = build_attribute_page(cloak_result).targets[0]
    rows = {group.attack: {row.release: row for row in group.rows} for group in gender.attacks}
    assert str(rows["logistic"]["before"].scores[0]) == "0.812 [0.782, 0.842]"
    assert rows["logistic"]["before"].flags == ["headline"]
    assert rows["logistic"]["after"].flags == ["inverted"]
    assert rows["trees"]["after"].flags == ["degenerate"]
    references = {row.name: row for row in gender.references}
    assert references["Chance"].balanced_accuracy == "0.500"
    assert references["Always the largest class"].accuracy == "0.600"
    assert references["Best possible attack in this synthetic world"].balanced_accuracy == "0.860"
    assert [row.fold_share for row in gender.headlines] == ["in 80 % of folds"] * 2


def test_an_attack_run_on_one_release_only_is_shown_all_the_same(cloak_result: CloakResult) -> None:
    gender = cloak_result.before["gender"]
    attacks = {"old" if name == "mlp" else name: attack for name, attack in gender.attacks.items()}
    before = {**cloak_result.before, "gender": gender.model_copy(update={"attacks": attacks})}
    page = build_attribute_page(cloak_result.model_copy(update={"before": before}))
    shown = {group.attack: [row.scores[0].value for row in group.rows] for group in page.targets[0].attacks}
    assert shown["old"] == ["0.803", MISSING]
    assert shown["mlp"] == [MISSING, "0.512"]
