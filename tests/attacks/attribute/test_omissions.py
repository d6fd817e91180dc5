"""What a list lacks above its last item, from scores, from vectors, and from the other lists."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.attribute.omissions import find_omissions
from recveil.core.errors import DataError
from recveil.core.types import Release

SCORES = np.array([[5.0, 4, 3, 2, 1], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]])
LISTS = np.array([[1, 3], [4, -1], [-1, -1]])
MISSING = [[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


@pytest.mark.parametrize("block", [1, 2**20])
def test_unlisted_items_above_the_last_one_are_missing(block: int) -> None:
    by_score = Release(lists=LISTS, score=lambda users: SCORES[users])
    np.testing.assert_array_equal(find_omissions(by_score, block).toarray(), MISSING)
    by_vectors = Release(SCORES, np.eye(5), LISTS)
    np.testing.assert_array_equal(find_omissions(by_vectors, block).toarray(), MISSING)


def test_lists_alone_are_compared_with_what_the_other_lists_name() -> None:
    release = Release(lists=np.array([[0, 1], [0, 1], [0, 2], [1, 2]]))  # named 3, 3 and 2 times
    np.testing.assert_array_equal(find_omissions(release).toarray(), [[0, 0, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]])


def test_lists_that_do_not_fit_are_refused() -> None:
    with pytest.raises(DataError, match="Every list of this release is empty"):
        find_omissions(Release(lists=np.full((3, 2), -1)))
    with pytest.raises(DataError, match="scores of 5 items only"):
        find_omissions(Release(lists=np.array([[7]]), score=lambda users: SCORES[users]))
