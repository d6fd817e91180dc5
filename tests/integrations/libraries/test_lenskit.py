"""Pipelines and scorers of LensKit, trained on MovieLens 100K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recveil as rv
from recveil.core.errors import UsageError

lenskit = pytest.importorskip("lenskit")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def make_scorer(kind: str) -> Any:
    from lenskit.als import BiasedMFScorer, ImplicitMFScorer
    from lenskit.flexmf import FlexMFImplicitScorer
    from lenskit.knn import ItemKNNScorer

    match kind:
        case "implicit mf":
            return ImplicitMFScorer(embedding_size=24, epochs=10, user_embeddings="prefer")
        case "biased mf":
            return BiasedMFScorer(embedding_size=8, epochs=5, user_embeddings="prefer")
        case "flexmf":
            return FlexMFImplicitScorer(embedding_size=8, epochs=2)
        case _:
            return ItemKNNScorer(max_nbrs=20, feedback="implicit")


@pytest.mark.parametrize("kind", ["implicit mf", "biased mf", "flexmf", "item knn"])
def test_pipelines_with_and_without_vectors(kind: str, movielens: Any, check_lists: Any, check_privacy: Any) -> None:
    from lenskit.data import ItemList, RecQuery, from_interactions_df
    from lenskit.pipeline import topn_pipeline

    rated = movielens.train.assign(rating=3.0 + (movielens.train["timestamp"] % 3))
    data = from_interactions_df(rated)
    pipeline = topn_pipeline(make_scorer(kind), n=10)
    with pytest.raises(UsageError, match="not trained"):
        rv.from_model(pipeline)
    pipeline.train(data)
    release = rv.from_model(pipeline, interactions=movielens.train, held_out=movielens.held_out)
    assert release.has_vectors == (kind != "item knn")
    scorer = pipeline.component("scorer")

    def recommend(user: str, seen: list[str], k: int) -> list[str]:
        query = RecQuery(user_id=user, user_items=ItemList(item_ids=seen))
        catalog = ItemList(item_ids=[item for item in data.items.ids() if item not in set(seen)])
        scored = scorer(query, catalog)
        order = np.argsort(-np.nan_to_num(scored.scores(), nan=-np.inf), kind="stable")
        return np.asarray(scored.ids())[order[:k]].tolist()

    check_lists(release, recommend)
    if kind == "implicit mf":
        check_privacy(release)
        same = rv.from_model(scorer)
        np.testing.assert_array_equal(same.user_vectors, release.user_vectors)
