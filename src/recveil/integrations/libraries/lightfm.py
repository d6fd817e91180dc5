"""Models of LightFM, with or without features of users and items.

Tested with lightfm-next 1.18.7, which installs the module `lightfm`.
"""

from __future__ import annotations

from recveil.integrations.model_release import ModelRelease, release_factors
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a model of LightFM; user biases are a column of the user vectors."""
    user_features, item_features = request.take_options("user_features", "item_features")
    request.require_attribute("user_embeddings")
    user_bias, users = request.model.get_user_representations(user_features)
    item_bias, items = request.model.get_item_representations(item_features)
    user_ids, item_ids = request.read_ids("user", len(users)), request.read_ids("item", len(items))
    return release_factors(request.name, users, items, user_ids, item_ids, user_bias=user_bias, item_bias=item_bias)
