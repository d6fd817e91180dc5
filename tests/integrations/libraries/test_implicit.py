"""Models of implicit, trained on MovieLens 100K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recveil as rv
from recveil.core.errors import DataError, UsageError

implicit = pytest.importorskip("implicit")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

QUICK = {"panel": "logistic", "folds": 3, "repeats": 1, "max_repeats": 1}


def make_recommend(model: Any, movielens: Any) -> Any:
    """Return implicit's own recommendations by raw id."""

    def recommend(user: str, seen: list[str], k: int) -> list[str]:
        row = movielens.user_ids.index(user)
        items, _ = model.recommend(row, movielens.matrix[row], N=k)
        return np.array(movielens.item_ids)[items].tolist()

    return recommend


def read(model: Any, movielens: Any, **options: Any) -> rv.ModelRelease:
    ids = {"user_ids": movielens.user_ids, "item_ids": movielens.item_ids}
    return rv.from_model(model, **ids, interactions=movielens.train, held_out=movielens.held_out, **options)


@pytest.mark.parametrize("kind", ["als", "bpr", "lmf"])
def test_factor_models(kind: str, movielens: Any, check_lists: Any, check_privacy: Any) -> None:
    classes = {
        "als": implicit.als.AlternatingLeastSquares,
        "bpr": implicit.bpr.BayesianPersonalizedRanking,
        "lmf": implicit.lmf.LogisticMatrixFactorization,
    }
    model = classes[kind](factors=32, iterations=30, random_state=0, num_threads=1)
    model.fit(movielens.matrix, show_progress=False)
    release = read(model, movielens)
    assert release.user_vectors.shape == (943, 32 + (kind == "lmf"))  # a column of ones is no part of a user
    check_lists(release, make_recommend(model, movielens))
    check_privacy(release, leaks=kind == "als")


@pytest.mark.parametrize("form", ["frame", "matrix"])
def test_item_models_are_audited_by_their_lists(form: str, movielens: Any, check_lists: Any) -> None:
    model = implicit.nearest_neighbours.CosineRecommender(K=50, num_threads=1)
    model.fit(movielens.matrix, show_progress=False)
    interactions = movielens.train if form == "frame" else movielens.matrix
    release = rv.from_model(model, user_ids=movielens.user_ids, item_ids=movielens.item_ids, interactions=interactions)
    check_lists(release, make_recommend(model, movielens))
    result = rv.audit(release, movielens.users, target="gender", details=False, **QUICK)
    assert result.protocol.surface == "lists"
    assert 0 <= result.headline.advantage.value < 0.4
    scores = rv.audit(release, movielens.users, target="gender", surface="scores", details=False, **QUICK)
    assert scores.headline.advantage.value > 0.2
    with pytest.raises(UsageError, match="no user vectors"):
        rv.cloak(release, movielens.users, target="gender")


def test_ids_that_are_missing_or_do_not_match_are_named(movielens: Any) -> None:
    model = implicit.als.AlternatingLeastSquares(factors=4, iterations=1, random_state=0, num_threads=1)
    with pytest.raises(UsageError, match="not trained"):
        read(model, movielens)
    model.fit(movielens.matrix, show_progress=False)
    with pytest.raises(UsageError, match="row-number"):
        rv.from_model(model)
    with pytest.raises(DataError, match="942 user ids"):
        rv.from_model(model, user_ids=movielens.user_ids[1:], item_ids="row-number")
    with pytest.raises(DataError, match="0 of the"):
        rv.from_model(model, user_ids="row-number", item_ids="row-number", interactions=movielens.train)
    with pytest.raises(UsageError, match="takes no option 'dataset'"):
        read(model, movielens, dataset=1)
