"""Models of Cornac: those with vectors for nearest-neighbor search, and all others by their lists.

Tested with Cornac 3.0.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from recveil.core.types import FloatArray, IntArray
from recveil.integrations.model_release import ModelRelease, release_factors, release_neighbors, release_scores
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a model of Cornac; it keeps the raw ids of all users and items, the trained ones first."""
    request.take_options()
    model = request.model
    request.require_attribute("uid_map")
    user_ids = request.convert_ids(model.user_ids[: model.num_users], "user")
    item_ids = request.convert_ids(model.item_ids[: model.num_items], "item")
    users = model.get_user_vectors() if hasattr(model, "get_user_vectors") else None
    if users is None or sparse.issparse(users):  # the rows of a sparse table are the interactions themselves
        return release_scores(request.name, lambda rows: _score_users(model, rows), user_ids, item_ids)
    items, measure = model.get_item_vectors(), str(model.get_vector_measure()).split()[0]
    if measure != "dot":
        return release_neighbors(request.name, users, items, user_ids, item_ids, cosine=measure == "cosine")
    bias = getattr(model, "u_biases", None) if getattr(model, "use_bias", False) else None
    return release_factors(request.name, users, items, user_ids, item_ids, user_bias=bias)


def _score_users(model: Any, users: IntArray) -> FloatArray:
    return np.stack([np.asarray(model.score(int(user)), dtype=np.float32).ravel()[: model.num_items] for user in users])
