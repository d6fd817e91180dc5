"""Vectors of gensim, trained on MovieLens 100K."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import recveil as rv
from recveil.core.errors import UsageError
from recveil.data.io.ids import as_numpy

models = pytest.importorskip("gensim.models")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def list_histories(movielens: Any) -> dict[str, list[str]]:
    ordered = movielens.train.sort_values("timestamp")
    return ordered.groupby("user_id")["item_id"].apply(list).to_dict()


def test_items_as_words_and_users_as_their_histories(movielens: Any, check_lists: Any, check_privacy: Any) -> None:
    histories = list_histories(movielens)
    model = models.Word2Vec(list(histories.values()), vector_size=24, min_count=1, epochs=10, seed=0, workers=1)
    release = rv.from_model(model, interactions=movielens.train, held_out=movielens.held_out)

    def recommend(user: str, seen: list[str], k: int) -> list[str]:
        similar = model.wv.most_similar(positive=seen, topn=k)  # it leaves out the given items
        return [key for key, _ in similar]

    check_lists(release, recommend)
    check_privacy(release)
    same = rv.from_model(model.wv, interactions=movielens.train)
    np.testing.assert_array_equal(same.user_vectors, release.user_vectors)


def test_users_as_documents(movielens: Any, check_privacy: Any) -> None:
    histories = list_histories(movielens)
    documents = [models.doc2vec.TaggedDocument(items, [user]) for user, items in histories.items()]
    model = models.Doc2Vec(documents, vector_size=24, dm=0, min_count=1, epochs=30, seed=0, workers=1)
    release = rv.from_model(model, interactions=movielens.train, held_out=movielens.held_out)
    row = as_numpy(release.user_ids).tolist().index("u9990")
    np.testing.assert_array_equal(release.user_vectors[row], model.dv["u9990"])
    column = as_numpy(release.item_ids).tolist().index("i9949")
    own = model.dv["u9990"] @ model.syn1neg[model.wv.key_to_index["i9949"]]
    assert release.score(np.array([row]), release.user_vectors[[row]])[0, column] == pytest.approx(own, abs=1e-4)
    check_privacy(release)


def test_keys_of_users_alone_are_audited(movielens: Any) -> None:
    vectors = models.KeyedVectors(3)
    vectors.add_vectors(movielens.user_ids, np.random.default_rng(0).normal(size=(943, 3)).astype(np.float32))
    with pytest.raises(UsageError, match="keys="):
        rv.from_model(vectors)
    release = rv.from_model(vectors, keys="users")
    result = rv.audit(
        release, movielens.users, target="gender", details=False, panel="logistic", folds=3, repeats=1, max_repeats=1
    )
    assert result.verdict != "leak"
