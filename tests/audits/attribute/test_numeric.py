"""The audit of a number: leaks are found, absent ones are not, and predictions that are always wrong are a leak."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.attacks.attribute.regressors import REGRESSIONS
from recveil.audits.attribute.folds import CrossValidation
from recveil.audits.attribute.numeric import audit_numeric_attribute
from recveil.core.errors import DataError
from recveil.core.result_parts import NumericTarget, Verdict
from recveil.core.types import Attribute

QUICK, FIVE = CrossValidation(3, 1), CrossValidation(5, 1)


def number(values: np.ndarray) -> Attribute:
    return Attribute("age", np.full(len(values), -1), (), values=values)


@pytest.mark.thorough
def test_a_number_that_leaks_is_called_a_leak() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5)).astype(np.float32)
    audit = audit_numeric_attribute(x, number(40 + 5 * x[:, 0] + 5 * rng.normal(size=500)), rules=QUICK)
    assert audit.verdict == "leak"
    assert audit.headline_attack == "ridge"
    assert audit.headline.r2.value == pytest.approx(0.5, abs=0.12)  # half of the variance can be known
    assert audit.headline.advantage.value == pytest.approx(0.5**0.5, abs=0.1)
    assert audit.attacks["mean"].degenerate
    assert abs(audit.attacks["mean"].r2.value) < 0.02
    assert audit.p_value < 0.01
    assert "age" in audit.sentence


@pytest.mark.thorough
def test_no_leak_is_reported_where_there_is_none() -> None:
    rng = np.random.default_rng(1)
    verdicts, values = [], []
    for seed in range(4):
        audit = audit_numeric_attribute(rng.normal(size=(200, 4)), number(rng.normal(size=200)), rules=QUICK, seed=seed)
        verdicts.append(audit.verdict)
        values.append(audit.headline.advantage.value)
        assert audit.headline.r2.value < 0.1
    assert verdicts.count("leak") <= 1
    assert np.mean(values) < 0.2


@pytest.mark.thorough
def test_predictions_that_are_always_wrong_are_a_leak() -> None:
    """Vectors made exactly uncorrelated with the number in sample: an attacker is then wrong on held-out users."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=300)
    x = rng.normal(size=(300, 60))
    centered = values - values.mean()
    x -= np.outer(centered, centered @ (x - x.mean(0))) / (centered @ centered)
    audit = audit_numeric_attribute(x, number(values), rules=FIVE)
    assert audit.attacks["ridge"].inverted
    assert audit.attacks["ridge"].correlation.high < 0
    assert audit.attacks["ridge"].advantage.low > 0
    assert audit.verdict == "leak"


@pytest.mark.thorough
@pytest.mark.usefixtures("two_regressions")
def test_with_many_users_and_no_leak_the_verdict_is_none() -> None:
    rng = np.random.default_rng(3)
    rules = replace(FIVE, max_repeats=5)  # one repeat leaves an interval of [0, 0.06]
    audit = audit_numeric_attribute(rng.normal(size=(12_000, 3)), number(rng.normal(size=12_000)), rules=rules)
    assert audit.verdict == "none"
    assert audit.resolution < 0.1


def test_unknown_values_take_no_part_and_are_counted() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=120)
    values[:20] = np.nan
    audit = audit_numeric_attribute(rng.normal(size=(120, 3)), number(values), rules=QUICK)
    assert audit.n == 100
    assert audit.n_undisclosed == 20
    assert "20 users" in audit.notes[0]
    result = audit.to_result()
    assert (result.n, result.n_undisclosed, result.verdict) == (100, 20, audit.verdict)
    assert (result.headline.attack, result.headline.r2) == (audit.headline_attack, audit.headline.r2)
    assert NumericTarget.model_validate_json(result.model_dump_json()) == result


def test_too_few_or_too_equal_values_are_refused() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(DataError, match="has 30 known values"):
        audit_numeric_attribute(rng.normal(size=(30, 3)), number(rng.normal(size=30)))
    with pytest.raises(DataError, match="1 of them different"):
        audit_numeric_attribute(rng.normal(size=(100, 3)), number(np.ones(100)))
    with pytest.raises(DataError, match="a class, not a number"):
        audit_numeric_attribute(rng.normal(size=(3, 3)), Attribute("g", np.zeros(3, dtype=np.int64), ("a",)))


@pytest.fixture
def two_regressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the mean and the quickest regression."""
    for name in set(REGRESSIONS) - {"mean", "ridge"}:
        monkeypatch.delitem(REGRESSIONS, name)


@pytest.mark.usefixtures("two_regressions")
def test_repeats_are_added_while_the_audit_of_a_number_is_inconclusive() -> None:
    rng = np.random.default_rng(8)
    x, values = rng.normal(size=(4000, 3)), rng.normal(size=4000)
    inconclusive = values + 0.055 * x[:, 0]
    once = audit_numeric_attribute(x, number(inconclusive), rules=replace(FIVE, repeats=1))
    more = audit_numeric_attribute(x, number(inconclusive), rules=replace(FIVE, repeats=1, max_repeats=4))
    assert (once.verdict, once.repeats_used) == (Verdict.INCONCLUSIVE, 1)
    assert "More repeats may resolve it" in once.sentence
    assert more.repeats_used > 1
    assert more.to_result().repeats_used == more.repeats_used
    assert len(more.fold_advantages) == FIVE.folds * more.repeats_used


@pytest.mark.usefixtures("two_regressions")
def test_no_repeats_are_added_where_more_users_are_needed() -> None:
    rng = np.random.default_rng(8)
    audit = audit_numeric_attribute(
        rng.normal(size=(120, 3)), number(rng.normal(size=120)), rules=replace(QUICK, max_repeats=10)
    )
    assert (audit.verdict, audit.repeats_used) == (Verdict.INCONCLUSIVE, QUICK.repeats)
    assert "more users are needed" in audit.sentence
