"""Models of RecTools: those with vectors, and all others by their lists. Tested with RecTools 0.19.0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.data.io.ids import as_numpy
from recveil.integrations.model_release import ModelRelease, release_factors, release_neighbors, release_scores
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a model of RecTools; its data set holds raw ids and interactions."""
    [dataset] = request.take_options("dataset")
    model = request.model
    if dataset is None:
        raise UsageError("A model of RecTools keeps no ids. Give `dataset`, the one that it was fitted on.")
    if not getattr(model, "is_fitted", False):
        raise UsageError(f"This {request.name} was not fitted. Fit it first.")
    user_ids = request.convert_ids(dataset.user_id_map.external_ids, "user")
    item_ids = request.convert_ids(dataset.item_id_map.external_ids, "item")
    if hasattr(model, "_get_u2i_vectors"):  # exactly what `recommend` ranks by, biases included
        users, items = model._get_u2i_vectors(dataset)
        if model.u2i_dist == "dot":
            release = release_factors(request.name, users, items, user_ids, item_ids)
        else:
            cosine = model.u2i_dist == "cosine"
            release = release_neighbors(request.name, users, items, user_ids, item_ids, cosine=cosine)
    else:
        release = release_scores(request.name, lambda rows: _score_users(model, dataset, rows), user_ids, item_ids)
    if request.interactions is not None:
        return release
    return replace(release, interactions=_read_interactions(dataset, request.name, release))


def _read_interactions(dataset: Any, name: str, release: ModelRelease) -> Dataset:
    table = dataset.interactions.df
    user, item = (table[column].to_numpy(dtype=np.int64) for column in ("user_id", "item_id"))
    time = table["datetime"].to_numpy().astype("datetime64[s]").astype(np.int64)
    return Dataset(name, user, item, time, as_numpy(release.user_ids), as_numpy(release.item_ids))


def _score_users(model: Any, dataset: Any, users: IntArray) -> FloatArray:
    """Score all items by the ranking of a model that exposes nothing else; unranked items get the lowest score."""
    n_items = dataset.item_id_map.size
    raw = dataset.user_id_map.convert_to_external(users)
    ranked = model.recommend(raw, dataset, k=n_items, filter_viewed=False)
    scores = np.full((len(users), n_items), -np.inf, dtype=np.float32)
    row = {user: i for i, user in enumerate(raw)}
    rows = ranked["user_id"].map(row).to_numpy()
    items = dataset.item_id_map.convert_to_internal(ranked["item_id"])
    scores[rows, items] = -ranked["rank"].to_numpy()
    return scores
