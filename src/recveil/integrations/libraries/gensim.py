"""Vectors of gensim: item keys with the users' histories (item2vec), user keys, and Doc2Vec with users as documents.

Tested with gensim 4.4.0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import FloatArray
from recveil.integrations.model_release import ModelRelease, release_factors, release_neighbors
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]

KEYS = ("items", "users")


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a Doc2Vec, Word2Vec, FastText or KeyedVectors."""
    keys, items = request.take_options("keys", "items")
    model = request.model
    if hasattr(model, "dv"):
        return _read_documents(request)
    vectors = getattr(model, "wv", model)
    if keys not in (None, *KEYS):
        raise UsageError(f'`keys` is {keys!r}. Use "items" or "users".')
    if keys == "users":
        return _read_user_keys(request, vectors, items)
    if request.interactions is None:
        raise UsageError(
            "The keys of these vectors are taken for items, so users are known by their interactions. Give "
            '`interactions`, or `keys="users"` if the keys are users.'
        )
    return _read_item_keys(request, vectors)


def _read_documents(request: ModelRequest) -> ModelRelease:
    """Read users as documents and items as words; scores are those of the training with negative samples."""
    model = request.model
    user_ids, item_ids = _list_keys(request, model.dv, "user"), _list_keys(request, model.wv, "item")
    weights = getattr(model, "syn1neg", None)
    if weights is None:  # trained by hierarchical softmax: no vector of an item follows
        return ModelRelease(request.name, np.asarray(model.dv.vectors), user_ids, item_ids)
    return release_factors(request.name, model.dv.vectors, weights, user_ids, item_ids)


def _read_user_keys(request: ModelRequest, vectors: Any, items: Any) -> ModelRelease:
    """Read users as keys; items, where there are some, by their cosine as `most_similar` ranks them."""
    user_ids = _list_keys(request, vectors, "user")
    if items is None:
        return ModelRelease(request.name, np.asarray(vectors.vectors), user_ids, np.empty(0, dtype=np.int64))
    items = getattr(items, "wv", items)
    item_ids = _list_keys(request, items, "item")
    return release_neighbors(request.name, vectors.vectors, items.vectors, user_ids, item_ids, cosine=True)


def _read_item_keys(request: ModelRequest, vectors: Any) -> ModelRelease:
    """Read items as keys; a user is the mean direction of the seen items, as in `most_similar(positive=...)`."""
    item_ids = _list_keys(request, vectors, "item")
    user_ids = request.read_history_ids()
    histories = request.read_histories(user_ids, item_ids)
    histories.data[:] = 1
    items = np.asarray(vectors.vectors, dtype=np.float32)
    means = histories @ _normalize(items)
    return release_neighbors(request.name, _normalize(means), items, user_ids, item_ids, cosine=True)


def _normalize(table: FloatArray) -> FloatArray:
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(norms > 0, norms, 1), dtype=np.float32)


def _list_keys(request: ModelRequest, vectors: Any, owner: str) -> Any:
    return request.convert_ids(vectors.index_to_key, owner)
