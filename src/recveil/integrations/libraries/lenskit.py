"""Models of LensKit: trained pipelines or scorers with user vectors, and item-based scorers by their lists.

Tested with LensKit 2025.8.1, which needs pandas 2.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import FloatArray, IntArray
from recveil.data.io.ids import Ids, as_numpy
from recveil.integrations.model_release import ModelRelease, release_factors, release_scores
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]


def read_model(request: ModelRequest) -> ModelRelease:
    """Read a pipeline or a scorer of LensKit; it keeps the raw ids."""
    request.take_options()
    scorer = _find_scorer(request.model)
    name = f"lenskit {type(scorer).__name__}"
    items = _get_either(scorer, "items", "items_")
    if items is None:
        raise UsageError(f"This {name} has no items, so it was not trained. Train the pipeline first.")
    item_ids = request.convert_ids(items.ids(), "item")
    parts = _find_factors(scorer)
    if parts is None:
        return _read_item_scorer(request, scorer, name, item_ids)
    user_ids = request.convert_ids(_get_either(scorer, "users", "users_").ids(), "user")
    users, vectors, user_bias, item_bias = parts
    return release_factors(name, users, vectors, user_ids, item_ids, user_bias=user_bias, item_bias=item_bias)


def _find_scorer(model: Any) -> Any:
    """Return the scorer of a pipeline, or the scorer itself."""
    if not hasattr(model, "component_names"):
        return model
    names = [name for name in model.component_names() if name == "scorer"]
    if not names:
        raise UsageError("This pipeline has no component `scorer`. Give the component that scores items itself.")
    return model.component("scorer")


def _find_factors(scorer: Any) -> tuple[Any, Any, Any, Any] | None:
    """Return the vectors and biases of users and items; None where the scorer holds no user vectors."""
    network = getattr(scorer, "model", None)
    if network is not None and hasattr(network, "u_embed"):
        layers = getattr(network, "u_layers", None) is not None
        users, items = (network.u_layers, network.i_layers) if layers else (network.u_embed, network.i_embed)
        return (*map(_detach, (users, items, network.u_bias, network.i_bias)),)  # type: ignore[return-value]
    users = _get_either(scorer, "user_embeddings", "user_features_")
    if users is None:
        return None
    bias = getattr(scorer, "bias", None)
    user_bias = None if bias is None else bias.user_biases
    item_bias = None if bias is None else bias.global_bias + (0 if bias.item_biases is None else bias.item_biases)
    return users, _get_either(scorer, "item_embeddings", "item_features_"), user_bias, item_bias


def _read_item_scorer(request: ModelRequest, scorer: Any, name: str, item_ids: Ids) -> ModelRelease:
    """Read a scorer that looks at the user's interactions; LensKit itself scores each history."""
    lenskit = import_module("lenskit.data")
    user_ids = request.read_history_ids()
    histories = request.read_histories(user_ids, item_ids)
    catalog = lenskit.ItemList(item_ids=as_numpy(item_ids))

    def score(users: IntArray) -> FloatArray:
        rows = []
        for user in users:
            seen = lenskit.ItemList(item_ids=as_numpy(item_ids)[histories[user].indices])
            scores = scorer(lenskit.RecQuery(user_items=seen), catalog).scores()
            rows.append(np.nan_to_num(np.asarray(scores, dtype=np.float32), nan=-np.inf))
        return np.stack(rows)

    return release_scores(name, score, user_ids, item_ids)


def _get_either(model: Any, first: str, second: str) -> Any:
    return getattr(model, first, getattr(model, second, None))


def _detach(table: Any) -> FloatArray | None:
    """Return a tensor or an embedding as an array."""
    if table is None:
        return None
    return np.asarray(getattr(table, "weight", table).detach().cpu())
