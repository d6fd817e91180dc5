"""The rules of an audit: which attacks they name, and what they make of a table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from recveil.core.errors import UsageError
from recveil.core.types import Attribute
from recveil.testing.worlds import make_planted_leak
from recveil.workflows.audit_protocol import AuditProtocol, attach_details, collect_notes, collect_results

X, SECRET = make_planted_leak(240, 4, 2, 3.0, rng=np.random.default_rng(0))
NUMBER = Attribute("height", np.full(240, -1), (), values=X[:, 0].astype(float))


def test_attacks_come_from_a_panel_from_names_or_as_they_are() -> None:
    assert AuditProtocol().attack_names == ["logistic", "qda", "knn", "trees", "mlp"]
    assert AuditProtocol(panel="qda, logistic").attack_names == ["qda", "logistic"]
    with pytest.raises(UsageError, match="Did you mean 'fast'"):
        _ = AuditProtocol(panel="fsat").attack_names
    own = AuditProtocol(attacks={"mine": LogisticRegression()}, folds=3, repeats=1)
    assert own.attack_names == ["mine"]
    assert own.to_result().panel == "custom"
    [audit] = own.audit_classes(X, [SECRET])
    assert (audit.verdict, list(audit.attacks)) == ("leak", ["mine"])


@pytest.mark.parametrize(
    ("rule", "value"),
    [("folds", 1), ("folds", 2.5), ("repeats", 10**25), ("margin", float("nan")), ("leak_ratio", 1e-300)]
    + [("seed", -1), ("seed", True), ("permutations", "many"), ("device", "meta"), ("panel", None)],
)
def test_rules_that_make_no_sense_are_refused_when_they_are_made(rule: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"`{rule}` is |No device"):
        AuditProtocol(**{rule: value})  # type: ignore[arg-type]


def test_the_rules_are_kept_in_the_result() -> None:
    rules = AuditProtocol(panel="qda", folds=4, repeats=3, leak_ratio=0.5, surface="list_means", seed=7).to_result()
    assert (rules.panel, rules.attacks, rules.folds, rules.repeats) == ("qda", ["qda"], 4, 3)
    assert (rules.leak_ratio, rules.surface, rules.seed, rules.margin) == (0.5, "list means", 7, 0.05)
    assert "19 permutations" in AuditProtocol(permutations=19).to_result().p_value


@pytest.mark.thorough
def test_classes_and_numbers_are_audited_in_the_order_of_the_targets(quick: AuditProtocol) -> None:
    audits = quick.audit_targets(X, [NUMBER, SECRET])
    results = collect_results(audits)
    assert list(results) == ["height", "secret"]
    assert [results[name].kind for name in results] == ["number", "classes"]
    assert {results[name].verdict for name in results} == {"leak"}
    hidden = replace(SECRET, codes=np.where(np.arange(240) < 9, -1, SECRET.codes))
    notes = collect_notes(quick.audit_classes(X, [hidden]) * 2)
    assert len(notes) == 1
    assert "9 users" in notes[0]


def test_attackers_of_the_past_hold_an_earlier_table(quick: AuditProtocol) -> None:
    rng = np.random.default_rng(1)
    before = rng.standard_normal((240, 3)).astype(np.float32)
    after = before + np.where(SECRET.codes, 0.05, -0.05).astype(np.float32)[:, None]
    past = quick.audit_past([before], after, [SECRET])
    assert past["static"]["secret"].verdict != "leak"
    assert past["two_releases"]["secret"].headline.balanced_accuracy.value > 0.95


def test_the_curve_has_every_ratio_that_the_folds_allow(quick: AuditProtocol) -> None:
    for protocol, ratios in ((quick, [0.2, 0.4, 0.6, 0.6667]), (replace(quick, folds=2, leak_ratio=0.4), [0.2, 0.4])):
        [audit] = protocol.audit_classes(X, [SECRET])
        points = protocol.audit_curve(X, [SECRET], [audit])["secret"]
        assert [point.ratio for point in points] == ratios
        assert points[-1].advantage == audit.headline.advantage
        assert points[-1].balanced_accuracy == audit.headline.balanced_accuracy


def test_details_are_leak_maps_on_shared_axes_and_groups_by_activity(quick: AuditProtocol) -> None:
    noise = np.random.default_rng(2).standard_normal(X.shape)
    audits = [quick.audit_classes(x, [SECRET]) for x in (X, noise)]
    activity = np.arange(240)
    before, after = attach_details([X, noise], [SECRET], audits, quick.rules, seed=0, activity=activity)
    assert before["secret"].leak_map.ranges == after["secret"].leak_map.ranges
    for result in (before, after):
        assert sum(group.n for group in result["secret"].activity) == 240
    [bare] = attach_details([X], [SECRET], audits[:1], quick.rules, seed=0)
    assert bare["secret"].activity is None
