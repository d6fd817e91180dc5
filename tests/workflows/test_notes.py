"""Notes beside a defended table: merged classes, constant columns, small classes, undisclosed users."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses import DEFENSES
from recveil.workflows.notes import (
    describe_cheaper_protection,
    describe_unchecked_classes,
    describe_undisclosed,
    list_notes,
    merge_small_classes,
    refuse_rows_of_ids,
)

METHODS = [traits.name for traits in DEFENSES.all_traits() if traits.place == "embeddings"]
X = np.random.default_rng(0).standard_normal((90, 3))
JOB = Attribute("job", np.arange(90) % 3, ("cook", "nurse", "baker"))


@pytest.mark.parametrize("method", METHODS)
def test_good_input_needs_no_note_and_poor_input_gets_one_each(method: str) -> None:
    assert list_notes(X, [JOB], method) == []
    constant = X.copy()
    constant[:, 1] = 7
    [note] = list_notes(constant, [JOB], method)
    assert note.startswith("1 of 3 columns are the same for all users")
    hidden = Attribute("job", np.where(np.arange(90) < 5, UNDISCLOSED, JOB.codes), JOB.labels)
    assert list_notes(X, [hidden], method) == [describe_undisclosed(5, "job", method)]
    assert DEFENSES.traits(method).undisclosed_users in describe_undisclosed(5, "job", method)


def test_only_methods_that_equalize_covariances_have_some_to_regularize() -> None:
    wide = np.random.default_rng(0).standard_normal((90, 40))
    noted = {method for method in METHODS if list_notes(wide, [JOB], method)}
    assert noted == {traits.name for traits in DEFENSES.all_traits() if traits.equalizes_covariances}
    assert {"gaussian", "sliced"} <= noted
    assert (
        "job: 3 of 3 classes have no more users than the vectors have dimensions (40)"
        in (list_notes(wide, [JOB], "gaussian")[0])
    )


def test_classes_of_one_user_become_one_class_with_a_name_of_its_own() -> None:
    job = Attribute("job", np.array([0, 0, 1, 1, 2, UNDISCLOSED, 3]), ("cook", "rest", "spy", "pilot"))
    [merged], [note] = merge_small_classes([job])
    assert merged.labels == ("cook", "rest", "rest of job")
    assert merged.codes.tolist() == [0, 0, 1, 1, 2, UNDISCLOSED, 2]
    assert "'spy', 'pilot' were made one class, 'rest of job', of 2 users" in note
    assert merge_small_classes([merged]) == ([merged], [])


@pytest.mark.parametrize(("codes", "reason"), [([0] * 4, "'job'"), ([0, 0, 0, 1], "1 user"), ([-1] * 4, "'job'")])
def test_without_two_classes_to_hide_in_a_table_is_refused(codes: list[int], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        merge_small_classes([Attribute("job", np.array(codes), ("cook", "spy"))])


def test_classes_that_the_check_leaves_out_are_named() -> None:
    job = Attribute("job", np.array([0] * 6 + [1] * 5 + [2] * 3), ("cook", "nurse", "spy"))
    [note] = describe_unchecked_classes([JOB, job], folds=5)
    assert note.startswith("job: 1 of 3 classes have fewer than 5 users (such as 'spy')")
    assert describe_unchecked_classes([job], folds=3) == []


def test_rows_that_name_their_users_are_refused_and_others_are_not() -> None:
    with pytest.raises(DataError, match="names its user"):
        refuse_rows_of_ids(np.hstack([np.eye(9), np.ones((9, 1))])[::-1])
    for x in (X, np.eye(9)[np.arange(40) % 9], np.eye(9) + np.eye(9)[:, ::-1], np.zeros((4, 4))):
        refuse_rows_of_ids(x)


def test_who_would_stay_unprotected_is_counted_where_protecting_everybody_is_dear() -> None:
    job = Attribute("job", np.array([0, 1, -1, -1]), ("a", "b"))
    whole = Attribute("sex", np.array([0, 1, 0, 1]), ("a", "b"))
    [sentence] = describe_cheaper_protection([job, whole])
    assert "the 2 of 4 users who did not disclose job" in sentence
