from __future__ import annotations

import math

from recveil.core.results import AuditResult, CloakResult
from recveil.core.types import Estimate
from recveil.report.attack_figures import describe_attacks


def list_releases(result: CloakResult, name: str = "gender") -> dict:
    return {"before": result.before[name], "after": result.targets[name]}


def test_a_compared_attribute_has_four_figures_of_two_releases(cloak_result: CloakResult) -> None:
    plots = {plot.id: plot for plot in describe_attacks("gender", list_releases(cloak_result))}
    assert list(plots) == ["gender.accuracy", "gender.advantage", "gender.confusion.before", "gender.confusion.after"]
    accuracy = plots["gender.accuracy"]
    assert accuracy.releases == ["before", "after"]
    assert [line.position for line in accuracy.lines] == [0.5, 0.86]
    assert [line.position for line in plots["gender.advantage"].lines] == [0.05]
    assert {(p.group, p.release, p.value) for p in accuracy.points} == {
        (attack, release, result.balanced_accuracy.value)
        for release, target in list_releases(cloak_result).items()
        for attack, result in target.attacks.items()
    }


def test_a_missing_number_is_not_drawn_and_an_empty_figure_not_made(audit_result: AuditResult) -> None:
    gender = audit_result.targets["gender"]
    nothing = Estimate(math.nan, math.nan, math.nan, 0)
    attacks = {
        name: attack.model_copy(
            update={"advantage": nothing} | ({"balanced_accuracy": nothing} if name == "logistic" else {})
        )
        for name, attack in gender.attacks.items()
    }
    changed = gender.model_copy(update={"attacks": attacks, "confusion": [[math.nan] * 2] * 2})
    (accuracy,) = describe_attacks("gender", {"": changed})
    assert accuracy.releases == ()
    assert [point.group for point in accuracy.points] == ["trees", "mlp"]


def test_the_rows_of_a_confusion_matrix_are_the_true_classes(audit_result: AuditResult) -> None:
    gender = audit_result.targets["gender"].model_copy(update={"confusion": [[0.9, 0.1], [0.3, 0.7]]})
    plot = describe_attacks("gender", {"": gender})[-1]
    shares = {(square.row, square.column): square.text for square in plot.squares}
    assert shares == {("F", "F"): "90 %", ("F", "M"): "10 %", ("M", "F"): "30 %", ("M", "M"): "70 %"}
