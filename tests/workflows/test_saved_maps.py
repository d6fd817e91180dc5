"""What a saved map says: users that it does not protect, users that are far away, vectors of another length."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.defenses.embeddings.drift import Drift
from recveil.defenses.embeddings.fitted_maps import FittedMap
from recveil.defenses.embeddings.map_files import MapOrigin, SavedMap
from recveil.workflows.saved_maps import (
    ApplyRequest,
    check_dimensions,
    count_unprotected,
    describe_map,
    describe_unprotected,
    judge_drift,
)

ORIGIN = MapOrigin(
    attributes=["gender", "age"], n_users=10, date="2026-11-19", version="0", measured="Nothing.", passed=None
)


def make_map(method: str) -> SavedMap:
    return SavedMap(method, {}, [np.array(["F", "M"])], None, FittedMap([], 1.0, 0.0, 4), ORIGIN)


def test_only_a_map_that_needs_classes_leaves_users_without_one_unprotected() -> None:
    assert count_unprotected(make_map("labelfree"), ORIGIN, [3, 4]) == {"gender": 0, "age": 0}
    unprotected = count_unprotected(make_map("gaussian"), ORIGIN, [3, 0])
    assert unprotected == {"gender": 3, "age": 0}
    [warning] = describe_unprotected(make_map("gaussian"), unprotected, 1_000)
    assert warning.startswith("WARNING: 3 of 1,000 users have no known gender")
    assert "labelfree" in warning


def test_drift_warns_and_far_users_are_refused_unless_allowed() -> None:
    near, far = Drift(0.2, 0.0, warns=True, refuses=False), Drift(3.0, 0.0, warns=True, refuses=True)
    request, permissive = ApplyRequest(Path("out")), ApplyRequest(Path("out"), allow_drift=True)
    assert judge_drift(Drift(0.0, 0.0, warns=False, refuses=False), request) == []
    assert judge_drift(near, request)[0].startswith("WARNING")
    with pytest.raises(DataError, match="3.00 standard deviations"):
        judge_drift(far, request)
    assert judge_drift(far, permissive)[0].startswith("WARNING")


def test_vectors_of_another_length_are_refused() -> None:
    check_dimensions(make_map("leace"), 4, Path("a.map"), Path("users"))
    with pytest.raises(DataError, match="4 dimensions, and those in users have 5"):
        check_dimensions(make_map("leace"), 5, Path("a.map"), Path("users"))


def test_a_map_says_where_it_comes_from() -> None:
    words = describe_map(make_map("leace"), ORIGIN)
    assert "leace on 10 users on 2026-11-19" in words
    assert "gender and age" in words
