"""Construction of a recommender by name, with the options that were tuned for the data set."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from recveil.core.errors import UsageError, unknown_name
from recveil.core.protocols import Recommender
from recveil.models import MODELS

__all__ = ["find_profile_options", "find_tuned_options", "list_profiles", "make_model"]


def make_model(
    name: str, data_name: str, options: Mapping[str, Any], device: str | None, *, profile: str = ""
) -> Recommender:
    """Make a model with the options tuned for the data set, or those of a paper, overridden by `options`.

    Args:
        name: name of the model in `MODELS`.
        data_name: name of the data set; the model's defaults serve where nothing was tuned for it.
        options: options that take precedence over the tuned ones.
        device: device to train on; None chooses one.
        profile: paper whose options replace the tuned ones, such as raid2025; empty for none.

    Returns:
        The untrained model.

    Raises:
        UsageError: no model has this name, or the model has no such profile or does not take one of the options.
    """
    found = find_profile_options(name, profile) if profile else find_tuned_options(name, data_name)
    model: Recommender = MODELS.make(name, **{"device": device, **found, **options})
    return model


def find_profile_options(name: str, profile: str) -> Mapping[str, float]:
    """Return the options of a paper for this model; the model's module declares them in `PROFILES`.

    Raises:
        UsageError: the model has no options of this paper.
    """
    profiles = _read_declared(name, "PROFILES")
    if profile not in profiles:
        known = list_profiles()
        if profile not in known:
            raise unknown_name("profile", profile, known)
        raise UsageError(f"The profile '{profile}' has no options for {name}. It has: {', '.join(known[profile])}.")
    return profiles[profile]


def list_profiles() -> dict[str, list[str]]:
    """List the profiles and the models that each has options for."""
    found: dict[str, list[str]] = {}
    for traits in MODELS.all_traits():
        for profile in _read_declared(traits.name, "PROFILES"):
            found.setdefault(profile, []).append(traits.name)
    return found


def find_tuned_options(name: str, data_name: str) -> Mapping[str, float]:
    """Return the options that were tuned for the data set, if any.

    The model's module declares them in `TUNED_OPTIONS`.
    """
    return _read_declared(name, "TUNED_OPTIONS").get(data_name, {})


def _read_declared(name: str, constant: str) -> Mapping[str, Mapping[str, float]]:
    declared: Mapping[str, Mapping[str, float]] = vars(import_module(MODELS.load(name).__module__)).get(constant, {})
    return declared
