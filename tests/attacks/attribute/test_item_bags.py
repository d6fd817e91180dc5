"""Bags of items: what they hold, and what a reduction keeps."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from recveil.attacks.attribute.item_bags import build_bag, reduce_bag, turn_to_main_directions, weight_items
from recveil.core.errors import DataError
from recveil.core.types import Release


def test_a_bag_counts_each_listed_item_once() -> None:
    bag = weight_items(build_bag(Release(lists=np.array([[2, 2], [0, -1]])), "equal"), "equal")
    np.testing.assert_array_equal(bag.toarray(), [[0, 0, 1], [1, 0, 0]])
    with pytest.raises(DataError, match="vectors for 2 items only"):
        build_bag(Release(item_vectors=np.eye(2), lists=np.array([[2]])), "equal")


def test_a_reduction_keeps_distances_where_the_bag_has_few_directions() -> None:
    rng = np.random.default_rng(0)
    kinds = (rng.random((3, 50)) < 0.3).astype(np.float32)
    bag = sparse.csr_array(kinds[rng.integers(3, size=200)])
    reduced = reduce_bag(bag, 8, rng)
    assert reduced.shape[1] <= 8
    full = bag.toarray()
    np.testing.assert_allclose(
        np.linalg.norm(reduced[:50] - reduced[50:100], axis=1),
        np.linalg.norm(full[:50] - full[50:100], axis=1),
        atol=1e-3,
    )


def test_directions_of_rounding_error_are_dropped() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((100, 1)) @ rng.standard_normal((1, 6))
    assert turn_to_main_directions(x.astype(np.float32), 6).shape[1] == 1
