"""Size and composition of a data set, as plain values that can be printed or written as JSON."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from recveil.core.types import Attribute, Dataset

__all__ = ["AttributeStatistics", "DatasetStatistics", "describe_dataset"]


class AttributeStatistics(TypedDict, total=False):
    """Composition of an attribute: users per class, or quantiles of the values."""

    unknown: int
    classes: dict[str, int]
    values: dict[str, float] | None


class DatasetStatistics(TypedDict):
    """Size and composition of a data set.

    `per_user` and `per_item` are quantiles of interactions.
    """

    name: str
    users: int
    items: int
    interactions: int
    density: float
    time: dict[str, float] | None
    per_user: dict[str, float]
    per_item: dict[str, float]
    attributes: dict[str, AttributeStatistics]


def describe_dataset(dataset: Dataset) -> DatasetStatistics:
    """Describe the size and composition of a data set."""
    cells = dataset.n_users * dataset.n_items
    time = dataset.time
    return {
        "name": dataset.name,
        "users": dataset.n_users,
        "items": dataset.n_items,
        "interactions": len(dataset),
        "density": len(dataset) / cells if cells else 0.0,
        "time": None if time is None or len(time) == 0 else {"first": time.min().item(), "last": time.max().item()},
        "per_user": _compute_quantiles(np.bincount(dataset.user, minlength=dataset.n_users)),
        "per_item": _compute_quantiles(np.bincount(dataset.item, minlength=dataset.n_items)),
        "attributes": {name: _summarize_attribute(attribute) for name, attribute in dataset.attributes.items()},
    }


def _compute_quantiles(counts: NDArray[Any]) -> dict[str, float]:
    names = ("min", "q25", "median", "q75", "max")
    return {name: float(np.quantile(counts, q)) for name, q in zip(names, (0, 0.25, 0.5, 0.75, 1), strict=True)}


def _summarize_attribute(attribute: Attribute) -> AttributeStatistics:
    unknown = int((~attribute.known).sum())
    if attribute.values is not None:
        known = attribute.values[attribute.known]
        numbers = _compute_quantiles(known) if len(known) else None
        return {"unknown": unknown, "values": numbers}
    return {"unknown": unknown, "classes": dict(zip(attribute.labels, attribute.counts.tolist(), strict=True))}
