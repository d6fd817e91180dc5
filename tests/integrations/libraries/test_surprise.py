"""Models of Surprise, trained on MovieLens 100K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recveil as rv
from recveil.core.errors import UsageError
from recveil.data.io.ids import as_numpy

surprise = pytest.importorskip("surprise")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def make_trainset(movielens: Any) -> Any:
    rated = movielens.train.assign(rating=np.random.default_rng(0).integers(1, 6, len(movielens.train)))
    data = surprise.Dataset.load_from_df(rated[["user_id", "item_id", "rating"]], surprise.Reader())
    return data.build_full_trainset()


@pytest.mark.parametrize("kind", ["SVD", "SVD unbiased", "SVDpp", "NMF"])
def test_scores_are_those_of_surprise(kind: str, movielens: Any) -> None:
    name, *unbiased = kind.split()
    options = {"biased": False} if unbiased else {}
    model = getattr(surprise, name)(n_factors=8, n_epochs=2 if name == "SVDpp" else 5, random_state=0, **options)
    model.fit(make_trainset(movielens))
    release = rv.from_model(model, interactions=movielens.train, held_out=movielens.held_out)
    users, items = as_numpy(release.user_ids), as_numpy(release.item_ids)
    scores = release.score(np.arange(3), release.user_vectors[:3])
    for row in range(3):
        for column in range(0, len(items), 97):
            own = model.estimate(model.trainset.to_inner_uid(users[row]), model.trainset.to_inner_iid(items[column]))
            assert scores[row, column] == pytest.approx(own, abs=1e-4)


def test_a_model_is_audited(movielens: Any) -> None:
    train = movielens.train.assign(rating=1 + 4 * (movielens.train["timestamp"].rank(pct=True)))
    data = surprise.Dataset.load_from_df(train[["user_id", "item_id", "rating"]], surprise.Reader())
    model = surprise.SVDpp(n_factors=8, n_epochs=5, random_state=0).fit(data.build_full_trainset())
    release = rv.from_model(model, interactions=movielens.train)
    result = rv.audit(
        release, movielens.users, target="gender", details=False, panel="logistic", folds=3, repeats=1, max_repeats=1
    )
    assert result.headline.advantage.n == 943
    assert release.interactions is not None
    assert len(release.interactions) == len(movielens.train)


def test_neighbor_models_and_untrained_models_are_refused(movielens: Any) -> None:
    with pytest.raises(UsageError, match="not trained"):
        rv.from_model(surprise.SVD())
    model = surprise.NormalPredictor().fit(make_trainset(movielens))
    with pytest.raises(UsageError, match="holds no user vectors"):
        rv.from_model(model)
