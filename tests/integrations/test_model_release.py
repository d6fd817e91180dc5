"""Releases of models: scores of factors and of neighbors, and the split that utility is measured on."""

from __future__ import annotations

import numpy as np
import pytest

from integrations.torch_module import PAIRS, RNG, N, read_module
from recveil.core.errors import UsageError
from recveil.integrations.model_release import release_factors, release_neighbors


def test_constant_columns_of_users_move_into_the_score() -> None:
    users, items = RNG.normal(size=(5, 2)), RNG.normal(size=(4, 3))
    with_ones = np.column_stack([users, np.ones(5)])
    release = release_factors("x", with_ones, items, np.arange(5), np.arange(4), user_bias=np.arange(5.0))
    assert release.user_vectors.shape == (5, 3)
    expected = with_ones @ items.T + np.arange(5.0)[:, None]
    np.testing.assert_allclose(release.score(np.arange(5), release.user_vectors), expected, atol=1e-5)


@pytest.mark.parametrize("cosine", [True, False])
def test_neighbors_are_ranked_by_their_distance(cosine: bool) -> None:
    users, items = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=(9, 3)).astype(np.float32)
    release = release_neighbors("x", users, items, np.arange(5), np.arange(9), cosine=cosine)
    order = np.argsort(-release.score(np.arange(5), users), axis=1)
    angles = (users @ items.T) / np.linalg.norm(users, axis=1)[:, None] / np.linalg.norm(items, axis=1)
    distances = np.linalg.norm(users[:, None] - items[None], axis=2)
    np.testing.assert_array_equal(order, np.argsort(-angles if cosine else distances, axis=1))


def test_held_out_interactions_are_what_utility_is_measured_on() -> None:
    held = PAIRS.groupby("user_id").tail(1)
    release = read_module(interactions=PAIRS.drop(held.index), held_out=held)
    served = release.make_recommendations(seed=0)
    assert len(served.split.test) == N
    assert len(served.split.train) == 5 * N
    assert served.note == ""
    assert "too high" in read_module(interactions=PAIRS.assign(timestamp=1)).make_recommendations(seed=0).note
    with pytest.raises(UsageError, match="needs `interactions`"):
        read_module(held_out=held)
