"""`from_model`: a trained model of another library as vectors, raw ids and a scoring function.

The library is found by the module of the model's class, so none is imported to find out. Only live objects are read:
nothing is unpickled.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

from recveil.core.errors import UsageError
from recveil.integrations.model_release import ModelRelease
from recveil.integrations.model_request import ModelRequest, name_model

__all__ = ["LIBRARIES", "from_model"]

LIBRARIES = ("implicit", "lenskit", "cornac", "rectools", "lightfm", "surprise", "gensim", "torch")
"""Libraries whose models are read, each by the module of the same name in `libraries`."""


def from_model(
    model: Any,
    *,
    user_ids: Any = None,
    item_ids: Any = None,
    interactions: Any = None,
    held_out: Any = None,
    **options: Any,
) -> ModelRelease:
    """Read the user vectors, item vectors, raw ids and scores of a trained model.

    The result goes into `audit` and `cloak` in the place of a table. With `interactions` they also measure the
    recommendation lists, and what a defense costs.

    Args:
        model: a trained model of implicit, LensKit, Cornac, RecTools, LightFM, Surprise, gensim or torch.
        user_ids: raw ids of the users by row, for libraries that keep none; "row-number" if they are 0, 1, 2, ...
        item_ids: raw ids of the items by row, likewise.
        interactions: a DataFrame (user_id, item_id[, timestamp]), or a sparse user-by-item matrix in the order of rows.
        held_out: interactions that the model was not trained on, on which utility is measured.
        **options: of one library: `dataset` (RecTools), `user_features` and `item_features` (LightFM), `keys` and
            `items` (gensim), `users`, `items`, `user_bias`, `item_bias` and `score` (torch).

    Raises:
        UsageError: the library is unknown, the model was not trained, or something it needs was not given.

    Example:
        >>> import recveil as rv, torch
        >>> tables = torch.nn.ModuleDict({"user": torch.nn.Embedding(5, 3), "item": torch.nn.Embedding(7, 3)})
        >>> rv.from_model(tables, users="user", items="item", user_ids="row-number", item_ids="row-number").name
        'torch ModuleDict'
    """
    reader = import_module(f"recveil.integrations.libraries.{_find_library(model)}")
    request = ModelRequest(model, user_ids, item_ids, interactions, held_out, options)
    release: ModelRelease = reader.read_model(request)
    if release.interactions is None:
        release = replace(release, interactions=request.read_interactions(release.user_ids, release.item_ids))
    return replace(release, held_out=request.read_held_out(release.user_ids, release.item_ids))


def _find_library(model: Any) -> str:
    """Return the library that a class or one of its bases comes from, the nearest first."""
    for base in type(model).__mro__:
        library = base.__module__.split(".")[0]
        if library in LIBRARIES:
            return library
    raise UsageError(
        f"recveil reads no models of this library ({name_model(model)}; it reads {', '.join(LIBRARIES)}). Give the "
        "vectors themselves, `audit(X, y)` with one row for each user, or a DataFrame with `user_id` and `embedding`."
    )
