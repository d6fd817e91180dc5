"""Modules of torch, and of what is built on it (RecBole, Lightning): embedding tables by their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from recveil.core.errors import UsageError
from recveil.core.types import FloatArray
from recveil.integrations.model_release import ModelRelease, release_factors
from recveil.integrations.model_request import ModelRequest

__all__ = ["read_model"]

MAX_NAMES_LISTED = 12


def read_model(request: ModelRequest) -> ModelRelease:
    """Read tables of a module: `users`, and where they exist `items`, `user_bias` and `item_bias`.

    Scores are products of the vectors, or what `score(rows of users, user vectors)` returns.
    """
    users, items, user_bias, item_bias, score = request.take_options(
        "users", "items", "user_bias", "item_bias", "score"
    )
    tables = _list_tables(request.model)
    if users is None:
        raise UsageError(f"Name the table of user vectors by `users`. {_describe_tables(tables)}")
    x = _find_table(tables, users)
    user_ids = request.read_ids("user", len(x))
    if items is None:
        n_items = 0 if score is None else len(request.item_ids if request.item_ids is not None else ())
        item_ids = request.read_ids("item", n_items) if n_items else np.empty(0, dtype=np.int64)
        return ModelRelease(request.name, x, user_ids, item_ids, score=_wrap_score(score))
    y = _find_table(tables, items)
    biases = [None if name is None else _find_table(tables, name) for name in (user_bias, item_bias)]
    release = release_factors(
        request.name, x, y, user_ids, request.read_ids("item", len(y)), user_bias=biases[0], item_bias=biases[1]
    )
    if score is None:
        return release
    return replace(release, user_vectors=x, item_vectors=y, score=_wrap_score(score), is_dot_product=False)


def _list_tables(model: Any) -> Mapping[str, Any]:
    """List parameters, buffers and modules with a weight by name, tables only."""
    tables = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    weights = {name: tables[f"{name}.weight"] for name, _ in model.named_modules() if f"{name}.weight" in tables}
    return {name: table for name, table in {**weights, **tables}.items() if table.ndim in (1, 2)}


def _find_table(tables: Mapping[str, Any], name: str) -> FloatArray:
    if name not in tables:
        raise UsageError(f"The module has no table '{name}'. {_describe_tables(tables)}")
    return np.asarray(tables[name].detach().float().cpu())


def _describe_tables(tables: Mapping[str, Any]) -> str:
    shapes = [f"{name} {tuple(table.shape)}" for name, table in tables.items() if table.ndim == 2]
    return f"Its tables: {', '.join(shapes[:MAX_NAMES_LISTED]) or 'none'}."


def _wrap_score(score: Callable[..., Any] | None) -> Callable[..., FloatArray] | None:
    """Return the scores of a function on arrays or tensors as an array."""
    if score is None:
        return None

    def score_items(users: Any, vectors: FloatArray) -> FloatArray:
        scores = score(users, vectors)
        return np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores, dtype=np.float32)

    return score_items
