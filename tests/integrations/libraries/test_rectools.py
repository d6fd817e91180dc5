"""Models of RecTools, fitted on MovieLens 100K."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import recveil as rv
from recveil.core.errors import UsageError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    rectools = pytest.importorskip("rectools")
    models = pytest.importorskip("rectools.models")
    als = pytest.importorskip("implicit.als")
    neighbors = pytest.importorskip("implicit.nearest_neighbours")
    from rectools.dataset import Dataset
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def make_model(kind: str) -> Any:
    match kind:
        case "als":
            model = als.AlternatingLeastSquares(factors=24, iterations=10, random_state=0, num_threads=1)
            return models.ImplicitALSWrapperModel(model)
        case "svd":
            return models.PureSVDModel(factors=24)
        case "knn":
            return models.ImplicitItemKNNWrapperModel(neighbors.CosineRecommender(K=30, num_threads=1))
        case _:
            return models.EASEModel()


@pytest.mark.parametrize("kind", ["als", "svd", "knn", "ease"])
def test_models_with_and_without_vectors(kind: str, movielens: Any, check_lists: Any, check_privacy: Any) -> None:
    import pandas as pd

    frame = movielens.train.assign(weight=1.0, datetime=pd.to_datetime(movielens.train["timestamp"], unit="s"))
    dataset = Dataset.construct(frame[["user_id", "item_id", "weight", "datetime"]])
    model = make_model(kind)
    with pytest.raises(UsageError, match="not fitted"):
        rv.from_model(model, dataset=dataset)
    model.fit(dataset)
    with pytest.raises(UsageError, match="`dataset`"):
        rv.from_model(model)
    release = rv.from_model(model, dataset=dataset)
    assert release.has_vectors == (kind in ("als", "svd"))
    assert len(release.interactions) == len(frame)

    def recommend(user: str, seen: list[str], k: int) -> list[str]:
        return model.recommend([user], dataset, k=k, filter_viewed=True)["item_id"].tolist()

    check_lists(release, recommend)
    if release.has_vectors:
        check_privacy(release)
        assert np.ptp(release.interactions.time) > 0
