"""Models of Surprise with factors: SVD, SVD++ and NMF. Tested with scikit-surprise 1.1.5."""

from __future__ import annotations

from typing import Any

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import FloatArray
from recveil.integrations.model_release import ModelRelease, release_factors
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a model of Surprise; its training set holds the raw ids."""
    request.take_options()
    model = request.model
    trainset = request.require_attribute("trainset")
    if not hasattr(model, "pu"):
        raise UsageError(
            f"A {request.name} holds no user vectors; SVD, SVDpp and NMF do. Write its recommendations to a file and "
            "audit them by `recveil audit --recommendations`."
        )
    users = model.pu + _sum_implicit(model, trainset) if hasattr(model, "yj") else model.pu
    user_ids = request.convert_ids([trainset.to_raw_uid(row) for row in trainset.all_users()], "user")
    item_ids = request.convert_ids([trainset.to_raw_iid(row) for row in trainset.all_items()], "item")
    has_bias = getattr(model, "biased", True)
    return release_factors(
        request.name,
        users,
        model.qi,
        user_ids,
        item_ids,
        user_bias=model.bu if has_bias else None,
        item_bias=model.bi + trainset.global_mean if has_bias else None,
    )


def _sum_implicit(model: Any, trainset: Any) -> FloatArray:
    """Return what SVD++ adds to the factors of each user: the mean of the rated items' factors times sqrt(count)."""
    rated = [[item for item, _ in trainset.ur[user]] for user in trainset.all_users()]
    return np.stack([model.yj[items].sum(axis=0) / np.sqrt(len(items)) for items in rated])
