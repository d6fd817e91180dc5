"""Models of LightFM, trained on MovieLens 100K."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import recveil as rv

with warnings.catch_warnings():  # it warns where it was built without OpenMP
    warnings.simplefilter("ignore")
    lightfm = pytest.importorskip("lightfm")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("features", [False, True])
def test_models_with_and_without_features(features: bool, movielens: Any, check_lists: Any, check_privacy: Any) -> None:
    tags = sparse.random(943, 5, density=0.3, random_state=0, format="csr", dtype=np.float32)
    own = sparse.hstack([sparse.identity(943, dtype=np.float32), tags]).tocsr() if features else None
    model = lightfm.LightFM(no_components=16, loss="warp", random_state=0, learning_rate=0.05)
    model.fit(movielens.matrix.tocoo(), user_features=own, epochs=15, num_threads=1)
    release = rv.from_model(
        model,
        user_ids=movielens.user_ids,
        item_ids=movielens.item_ids,
        interactions=movielens.train,
        held_out=movielens.held_out,
        user_features=own,
    )
    assert release.user_vectors.shape == (943, 17)  # the bias of a user is released as well

    def recommend(user: str, seen: list[str], k: int) -> list[str]:
        row = movielens.user_ids.index(user)
        scores = model.predict(row, np.arange(1682), user_features=own)
        scores[np.isin(movielens.item_ids, seen)] = -np.inf
        return np.array(movielens.item_ids)[np.argsort(-scores)[:k]].tolist()

    check_lists(release, recommend)
    rows = np.arange(4)
    own_scores = np.stack([model.predict(int(row), np.arange(1682), user_features=own) for row in rows])
    np.testing.assert_allclose(release.score(rows, release.user_vectors[rows]), own_scores, atol=1e-4)
    check_privacy(release)
