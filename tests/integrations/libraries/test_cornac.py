"""Models of Cornac, trained on MovieLens 100K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recveil as rv
from recveil.core.errors import UsageError

cornac = pytest.importorskip("cornac")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

MODELS = {
    "BPR": {"k": 16, "max_iter": 60, "learning_rate": 0.02, "verbose": False, "seed": 0},
    "MF": {"k": 16, "max_iter": 20, "use_bias": True, "verbose": False, "seed": 0},
    "NMF": {"k": 8, "max_iter": 20, "verbose": False, "seed": 0},
    "EASE": {"verbose": False, "seed": 0},
    "ItemKNN": {"k": 20, "verbose": False},
    "MostPop": {},
}


@pytest.mark.parametrize("kind", MODELS)
def test_models_with_and_without_vectors(kind: str, movielens: Any, check_lists: Any, check_privacy: Any) -> None:
    rows = [(*pair, 1.0) for pair in movielens.train[["user_id", "item_id"]].itertuples(index=False)]
    train = cornac.data.Dataset.from_uir(rows, seed=0)
    model = getattr(cornac.models, kind)(**MODELS[kind]).fit(train)
    release = rv.from_model(model, interactions=movielens.train, held_out=movielens.held_out)
    assert release.has_vectors == (kind in ("BPR", "MF", "NMF"))

    def recommend(user: str, seen: list[str], k: int) -> list[str]:
        scores = np.array(model.score(model.uid_map[user]), dtype=np.float64).ravel()
        scores[[model.iid_map[item] for item in seen]] = -np.inf
        return [model.item_ids[item] for item in np.argsort(-scores, kind="stable")[:k]]

    check_lists(release, recommend)
    if kind == "BPR":
        check_privacy(release)


def test_an_untrained_model_is_refused() -> None:
    with pytest.raises(UsageError, match="not trained"):
        rv.from_model(cornac.models.BPR())
