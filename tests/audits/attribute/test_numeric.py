"""The audit of a number: found where it is, not where it is not, and not fooled by guesses that are always wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest

from recveil.audits.attribute.folds import Folds
from recveil.audits.attribute.numeric import audit_number
from recveil.core.errors import DataError
from recveil.core.types import Attribute

QUICK = Folds(5, 1)


def number(values: np.ndarray) -> Attribute:
    return Attribute("age", np.full(len(values), -1), (), values=values)


def test_a_number_that_leaks_is_called_a_leak() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5)).astype(np.float32)
    found = audit_number(x, number(40 + 5 * x[:, 0] + 5 * rng.normal(size=500)), rules=QUICK)
    assert found.verdict == "leak"
    assert found.headline_attack == "ridge"
    assert found.headline.r2.value == pytest.approx(0.5, abs=0.12)  # half of the variance can be known
    assert found.headline.advantage.value == pytest.approx(0.5**0.5, abs=0.1)
    assert found.attacks["mean"].degenerate
    assert abs(found.attacks["mean"].r2.value) < 0.02
    assert found.p_value < 0.01
    assert "can guess age" in found.sentence()


def test_nothing_is_found_where_nothing_is() -> None:
    rng = np.random.default_rng(1)
    verdicts, values = [], []
    for seed in range(8):
        found = audit_number(rng.normal(size=(200, 4)), number(rng.normal(size=200)), rules=QUICK, seed=seed)
        verdicts.append(found.verdict)
        values.append(found.headline.advantage.value)
        assert found.headline.r2.value < 0.1
    assert verdicts.count("leak") <= 1
    assert np.mean(values) < 0.15


def test_guesses_that_are_always_wrong_are_a_leak() -> None:
    """Vectors made exactly uncorrelated with the number in sample: who learns on some is wrong on the others."""
    rng = np.random.default_rng(2)
    values = rng.normal(size=300)
    x = rng.normal(size=(300, 60))
    centered = values - values.mean()
    x -= np.outer(centered, centered @ (x - x.mean(0))) / (centered @ centered)
    found = audit_number(x, number(values), rules=Folds(5, 2))
    assert found.attacks["ridge"].inverted
    assert found.attacks["ridge"].correlation.high < 0
    assert found.attacks["ridge"].advantage.low > 0
    assert found.verdict == "leak"


def test_many_users_without_a_leak_are_said_to_be_free_of_one() -> None:
    rng = np.random.default_rng(3)
    found = audit_number(rng.normal(size=(6000, 3)), number(rng.normal(size=6000)), rules=QUICK)
    assert found.verdict == "none"
    assert found.resolution < 0.1


def test_unknown_values_take_no_part_and_are_counted() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=120)
    values[:20] = np.nan
    found = audit_number(rng.normal(size=(120, 3)), number(values), rules=QUICK)
    assert found.n == 100
    assert found.notes == ["age: 20 users have no known value and took no part."]
    json.dumps(found.to_dict(), allow_nan=False)


def test_too_few_or_too_equal_values_are_refused() -> None:
    rng = np.random.default_rng(5)
    with pytest.raises(DataError, match="has 30 known values"):
        audit_number(rng.normal(size=(30, 3)), number(rng.normal(size=30)))
    with pytest.raises(DataError, match="1 of them different"):
        audit_number(rng.normal(size=(100, 3)), number(np.ones(100)))
    with pytest.raises(DataError, match="a class, not a number"):
        audit_number(rng.normal(size=(3, 3)), Attribute("g", np.zeros(3, dtype=np.int64), ("a",)))
