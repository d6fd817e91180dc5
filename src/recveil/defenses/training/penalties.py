"""Penalties that act in every step and leave the table as it was trained, and the one that does nothing."""

from __future__ import annotations

import math

import torch

__all__ = ["NoPenalty", "PlainPenalty"]


class PlainPenalty:
    """Members of a penalty (`core.protocols.Penalty`) that most defenses share; subclasses add the loss."""

    needs_items = False

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        """Do nothing before an epoch."""

    def measure_shortfall(self, user_vectors: torch.Tensor) -> float:
        """Return inf, so that the last epoch is kept."""
        return math.inf

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        """Return the table as it was trained."""
        return user_vectors


class NoPenalty(PlainPenalty):
    """The penalty of strength 0, or of attributes that do not vary: no loss, no change."""

    def __call__(
        self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return exactly zero."""
        return user_vectors.new_zeros(())
