"""The verdict by cases; that it is right in worlds with known answers is shown in attribute/test_audit.py."""

import math

import numpy as np
import pytest

from documents import build_attack
from recveil.audits.verdicts import TargetAudit, judge_advantage, judge_many_classes
from recveil.core.result_parts import Verdict
from recveil.core.types import Estimate


@pytest.mark.parametrize(
    ("advantage", "options", "verdict"),
    [
        ((0.2, 0.1, 0.3), {}, "leak"),
        ((0.2, 0.0, 0.4), {}, "inconclusive"),  # chance is not excluded
        ((0.03, 0.01, 0.06), {}, "inconclusive"),  # something, but perhaps under the margin
        ((0.02, 0.01, 0.04), {}, "none"),  # something, and all of it under the margin
        ((0.0, 0.0, 0.04), {}, "none"),
        ((0.0, 0.0, 0.04), {"degenerate": True}, "inconclusive"),
        ((0.0, 0.0, 0.04), {"resolution": 0.3}, "inconclusive"),  # too few users to say so
        ((0.2, 0.1, 0.3), {"margin": 0.25}, "inconclusive"),
        ((math.nan, math.nan, math.nan), {}, "inconclusive"),
    ],
)
def test_the_verdict_by_cases(advantage: tuple[float, float, float], options: dict[str, float], verdict: str) -> None:
    rules = {"degenerate": False, "margin": 0.05, "resolution": 0.06, **options}
    degenerate = bool(rules.pop("degenerate"))
    assert judge_advantage(Estimate(*advantage, 100), degenerate, **rules) == verdict


def test_a_target_tells_its_verdict_and_numbers_in_its_result() -> None:
    attacks = {"one": build_attack(0.8, ["a", "b"]), "two": build_attack(0.5, ["a", "b"])}
    audit = TargetAudit(
        target="job",
        labels=("a", "b"),
        counts=(60, 40),
        attacks=attacks,
        headline=attacks["one"],
        fold_shares={"one": 0.75, "two": 0.25},
        p_value=0.001,
        confusion=np.array([[0.8, 0.2], [1 / 3, 2 / 3]]),
        margin=0.05,
        resolution=0.06,
        detectable=0.1,
        n_undisclosed=3,
    )
    result = audit.to_result()
    assert (result.verdict, result.sentence) == (audit.verdict, audit.sentence)
    assert "job" in result.sentence
    assert (result.n, result.chance, result.majority, result.n_undisclosed) == (100, 0.5, 0.6, 3)
    assert (result.headline.attack, result.headline.p_value) == ("one", 0.001)
    assert result.headline.advantage == attacks["one"].advantage
    assert result.counts == {"a": 60, "b": 40}
    assert result.confusion == [[0.8, 0.2], [0.3333, 0.6667]]


@pytest.mark.parametrize(
    ("verdict", "auc", "expected"),
    [
        (Verdict.NONE, (0.588, 0.54, 0.64), Verdict.LEAK),
        (Verdict.NONE, (0.53, 0.51, 0.56), Verdict.INCONCLUSIVE),
        (Verdict.NONE, (0.50, 0.48, 0.52), Verdict.NONE),
        (Verdict.INCONCLUSIVE, (0.50, 0.48, 0.52), Verdict.INCONCLUSIVE),
        (Verdict.LEAK, (0.50, 0.48, 0.52), Verdict.LEAK),
    ],
)
def test_many_classes_are_judged_by_the_auc_too(
    verdict: Verdict, auc: tuple[float, float, float], expected: Verdict
) -> None:
    assert judge_many_classes(verdict, Estimate(*auc, 100), margin=0.05) is expected
