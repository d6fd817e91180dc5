"""Checks of options, targets and tables that all defenses in training share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch

from recveil.core.device import check_device
from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import check_fields
from recveil.core.types import Attribute

__all__ = ["check_rows", "check_targets", "check_training_options", "make_early_call_error"]


class _PlacedOptions(Protocol):
    @property
    def device(self) -> str | None: ...


def check_training_options(options: _PlacedOptions) -> None:
    """Refuse options that are not as declared, and a device that does not exist."""
    check_fields(options)
    check_device(options.device)


def check_targets(targets: Sequence[Attribute], *, numbers: bool) -> int:
    """Check that the attributes are of the same users, and return how many these are."""
    if not targets:
        raise UsageError("No attribute was given to protect. Give at least one target.")
    lengths = {t.name: len(t.known) for t in targets}
    if len(set(lengths.values())) > 1:
        sizes = ", ".join(f"{name}: {n:,}" for name, n in lengths.items())
        raise DataError(f"The attributes are of different numbers of users ({sizes}). Give one row for each user.")
    for target in targets:
        if target.is_numeric and not numbers:
            raise DataError(
                f"Attribute '{target.name}' is a number, and this defense protects classes only. Cut it into classes "
                "with bins, or use a defense that takes numeric targets."
            )
    return len(targets[0].known)


def check_rows(table: torch.Tensor, n_users: int) -> None:
    """Refuse a table of another number of users than the attributes have."""
    if table.ndim != 2 or len(table) != n_users:
        shape = tuple(table.shape)
        raise DataError(f"The attributes are of {n_users:,} users, and the table has shape {shape}. Give one row each.")


def make_early_call_error() -> UsageError:
    """Make the error for a penalty that is called before its first epoch."""
    return UsageError(
        "The penalty was called before its first epoch. Call start_epoch(user_vectors) before each epoch."
    )
