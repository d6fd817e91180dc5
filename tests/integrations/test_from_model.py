"""`from_model`: the library is found by the class, attributes by their ids, lists and utility are measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import recveil as rv
from integrations.torch_module import CODES, PAIRS, QUICK, USERS, read_module
from recveil.core.errors import DataError, UsageError

pytestmark = pytest.mark.usefixtures("quick_self_check")


@pytest.mark.thorough
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_attributes_are_matched_by_id_and_lists_and_utility_are_measured(frame: Any) -> None:
    users = frame({name: USERS[name].tolist() for name in USERS})
    release = read_module(interactions=frame({name: PAIRS[name].tolist() for name in PAIRS}))
    assert rv.audit(release, users, target="gender", details=False, **QUICK).verdict == "leak"
    in_order = rv.audit(release, {"gender": CODES}, details=False, **QUICK)
    assert in_order.headline.advantage.value > 0.7
    lists = rv.audit(release, users, target="gender", surface="lists", details=False, **QUICK)
    assert lists.protocol.surface == "lists"
    result = rv.cloak(release, users, target="gender", method="gaussian", **QUICK)
    assert result.input.name.endswith("Recommender")
    assert result.utility is not None
    assert set(result.lists.after) == {"gender"}
    assert result.targets["gender"].headline.advantage.value < 0.3
    assert isinstance(result.table, rv.ModelRelease)
    assert result.table.user_ids is release.user_ids
    assert not np.allclose(result.table.user_vectors, release.user_vectors)


def test_a_model_of_an_unknown_library_is_told_what_is_needed() -> None:
    with pytest.raises(UsageError, match="Give the vectors themselves") as error:
        rv.from_model(object())
    assert "builtins object" in str(error.value)
    with pytest.raises(DataError, match="ids do not match"):
        rv.audit(read_module(), USERS.assign(user_id=USERS["user_id"] + "?"), target="gender")
    with pytest.raises(DataError, match="no column 'gendr'"):
        rv.audit(read_module(), USERS, target="gendr")
    with pytest.raises(UsageError, match="by `from_model`"):
        rv.audit(np.zeros((4, 2)), np.arange(4) % 2, surface="lists")


def test_no_library_is_imported_to_find_the_reader() -> None:
    fake = type("AlternatingLeastSquares", (), {"__module__": "implicit.cpu.als"})()
    with pytest.raises(UsageError, match="was not trained"):
        rv.from_model(fake)
