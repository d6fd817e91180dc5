"""Checks of options, targets and tables that all defenses in training share."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Attribute

__all__ = ["check_minimum", "check_rows", "check_strength", "check_targets", "make_early_call_error"]


def check_strength(strength: float, device: str | None) -> None:
    """Refuse a strength that is no share, and a device that is not there."""
    if not 0 <= strength <= 1:
        raise UsageError(f"strength must lie between 0 (nothing) and 1 (all of it); got {strength:g}.")
    if device is not None:
        resolve_device(device)


def check_minimum(least: float, **values: float) -> None:
    """Refuse numbers below the least that makes sense."""
    for name, value in values.items():
        if not (math.isfinite(value) and value >= least):
            raise UsageError(f"{name} must be a number of {least:g} or more; got {value:g}.")


def check_targets(targets: Sequence[Attribute], *, numbers: bool) -> int:
    """How many users there are, by attributes that agree on it."""
    if not targets:
        raise UsageError("No attribute was given to protect. Name at least one, as in --target gender.")
    lengths = {t.name: len(t.known) for t in targets}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name}: {n:,}" for name, n in lengths.items())
        raise DataError(f"The attributes are of different numbers of users ({told}). Give one row for each user.")
    for target in targets:
        if target.is_numeric and not numbers:
            raise DataError(
                f"Attribute '{target.name}' is a number, and this defense knows classes only. Cut it into classes, as "
                f"in --bins {target.name}=35,45, or use adversarial."
            )
    return len(targets[0].known)


def check_rows(table: torch.Tensor, n_users: int) -> None:
    """Refuse a table of other users than the attributes are of."""
    if table.ndim != 2 or len(table) != n_users:
        shape = tuple(table.shape)
        raise DataError(f"The attributes are of {n_users:,} users, and the table has shape {shape}. Give one row each.")


def make_early_call_error() -> UsageError:
    """The error for a loss that was asked for too early."""
    return UsageError("The penalty has not seen the table yet. Call start_epoch(user_vectors) before each epoch.")
