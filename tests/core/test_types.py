import json
import math

import numpy as np
import pytest

from recveil.core.types import Attribute, Dataset, Estimate, Record


def test_an_attribute_counts_the_known_and_follows_the_users() -> None:
    a = Attribute("g", np.array([0, 1, -1, 1]), ("F", "M"))
    assert a.counts.tolist() == [1, 2]
    assert a.known.tolist() == [True, True, False, True]
    assert a.take(np.array([3, 0])).codes.tolist() == [1, 0]
    assert not a.is_numeric


def test_a_continuous_attribute_knows_what_is_missing() -> None:
    a = Attribute("age", np.full(3, -1), (), values=np.array([30.0, np.nan, 50.0]))
    assert a.is_numeric
    assert a.known.tolist() == [True, False, True]
    assert a.take(np.array([2])).values.tolist() == [50.0]


def test_taking_rows_keeps_the_id_space() -> None:
    d = Dataset("d", np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([5, 6, 7]), np.arange(3), np.arange(2))
    part = d.take(np.array([False, True, True]))
    assert (len(part), part.n_users, part.n_items) == (2, 3, 2)
    assert part.time.tolist() == [6, 7]
    assert len(d) == 3


def test_estimates_survive_json_and_nan_becomes_null() -> None:
    e = Estimate(0.5, math.nan, 0.7, 10)
    text = json.dumps(e.to_dict(), allow_nan=False)
    back = Estimate.from_dict(json.loads(text))
    assert back.value == 0.5
    assert math.isnan(back.low)
    assert back.n == 10


@pytest.mark.parametrize(
    "wrong",
    [3, None, [], {}, {"value": "0.5"}, {"low": True}, {"high": []}, {"n": 1.5}, {"n": None}, {"n": "5"}],
    ids=str,
)
def test_other_content_is_no_estimate(wrong: object) -> None:
    content = {**Estimate(0.1, 0.0, 0.2, 5).to_dict(), **wrong} if wrong and isinstance(wrong, dict) else wrong
    with pytest.raises(ValueError, match="an estimate needs"):
        Estimate.from_dict(content)


def test_a_record_is_one_flat_row_and_cannot_be_changed() -> None:
    r = Record("ml", "bprmf", "none", "mlp", "gender", 0, "advantage", Estimate(0.1, 0.0, 0.2, 5))
    assert r.to_dict()["estimate"] == {"value": 0.1, "low": 0.0, "high": 0.2, "n": 5}
    with pytest.raises(AttributeError):
        r.seed = 1  # type: ignore[misc]


def test_data_show_their_size_and_not_their_arrays() -> None:
    gender = Attribute("gender", np.array([0, 1, -1]), ("F", "M"))
    d = Dataset("d", np.zeros(1000, int), np.zeros(1000, int), None, np.arange(3), np.arange(2), {"gender": gender})
    assert repr(d) == "Dataset('d': 3 users, 2 items, 1,000 interactions; attributes: gender)"
    assert repr(gender) == "Attribute('gender': 2 classes, 2 of 3 users disclosed it)"
