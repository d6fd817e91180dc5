"""Models of implicit: ALS, BPR and logistic matrix factorization, and item-item models by their lists.

Tested with implicit 0.7.3.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from recveil.core.types import FloatArray, IntArray
from recveil.integrations.model_release import ModelRelease, release_factors, release_scores
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a model of implicit."""
    request.take_options()
    model = request.model
    if hasattr(model, "similarity"):
        return _read_item_model(request)
    users, items = _as_numpy(request.require_attribute("user_factors")), _as_numpy(model.item_factors)
    user_ids, item_ids = request.read_ids("user", len(users)), request.read_ids("item", len(items))
    return release_factors(request.name, users, items, user_ids, item_ids)


def _read_item_model(request: ModelRequest) -> ModelRelease:
    """Read a model that scores items by their similarity to the user's interactions."""
    similarity = sparse.csr_matrix(request.require_attribute("similarity"))
    user_ids, item_ids = request.read_history_ids(), request.read_ids("item", similarity.shape[0])
    histories = request.read_histories(user_ids, item_ids)

    def score(users: IntArray) -> FloatArray:
        return np.asarray((histories[users] @ similarity).toarray(), dtype=np.float32)

    return release_scores(request.name, score, user_ids, item_ids)


def _as_numpy(factors: object) -> FloatArray:
    """Return factors of the processor or of a GPU."""
    return np.asarray(factors.to_numpy() if hasattr(factors, "to_numpy") else factors)
