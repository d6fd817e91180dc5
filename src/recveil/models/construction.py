"""Construction of a recommender by name, with the options that were tuned for the data set."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from recveil.core.protocols import Recommender
from recveil.models import MODELS

__all__ = ["find_tuned_options", "make_model"]


def make_model(name: str, data_name: str, options: Mapping[str, Any], device: str | None) -> Recommender:
    """Make a model with the options tuned for the data set, overridden by `options`.

    Args:
        name: name of the model in `MODELS`.
        data_name: name of the data set; the model's defaults serve where nothing was tuned for it.
        options: options that take precedence over the tuned ones.
        device: device to train on; None chooses one.

    Returns:
        The untrained model.

    Raises:
        UsageError: no model has this name, or the model does not take one of the options.
    """
    model: Recommender = MODELS.make(name, **{"device": device, **find_tuned_options(name, data_name), **options})
    return model


def find_tuned_options(name: str, data_name: str) -> Mapping[str, float]:
    """Return the options that were tuned for the data set, if any.

    The model's module declares them in `TUNED_OPTIONS`.
    """
    module = import_module(MODELS.load(name).__module__)
    tuned: Mapping[str, Mapping[str, float]] = vars(module).get("TUNED_OPTIONS", {})
    return tuned.get(data_name, {})
