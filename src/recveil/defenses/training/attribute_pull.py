"""The pull of one attribute: the classes of its users, the places they should go to, and the loss of the way left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from recveil.core.types import Attribute
from recveil.defenses.training.alignment import Alignment
from recveil.transport.distances import compute_typical_distance

__all__ = ["Pull"]


class Pull:
    """A loss for each user who discloses the attribute: the squared way left, over the median squared distance.

    Args:
        attribute: the attribute.
        align: function that makes the alignment from the codes of these users.
        weighting: `equal` for the sum over classes of the mean over their users, `size` for the mean over users.
        along: a place moves along with its user, so that the pull keeps its direction and length whatever else the
            user learns.
    """

    def __init__(
        self, attribute: Attribute, align: Callable[[torch.Tensor], Alignment], *, weighting: str, along: bool
    ) -> None:
        self.align, self.weighting, self.along = align, weighting, along
        self.known = np.flatnonzero(attribute.known)
        present, codes = np.unique(attribute.codes[self.known], return_inverse=True)
        self.n_classes = len(present)
        self.class_codes = np.full(len(attribute.codes), self.n_classes)  # the last class: undisclosed users
        self.class_codes[self.known] = codes
        self.alignment: Alignment | None = None

    def refresh_aim(self, table: torch.Tensor, *, renew: bool) -> None:
        """Compute from the whole table where each user should go; `renew` computes a new common target."""
        if self.alignment is None:
            self._move_to_device(table.device)
        assert self.alignment is not None
        x = table[self.rows].float()
        places = self.alignment(x, renew=renew)
        self.scale = compute_typical_distance(x)
        aim = places.toward - x if self.along else places.toward
        self.aim = x.new_zeros(table.shape).index_copy(0, self.rows, aim)
        self.spread = x.new_zeros(len(table)).index_copy(0, self.rows, places.spread)
        if self.along:  # loss and slope do not depend on the steps, so both are computed here for all users
            self.loss = self.weights * (self.aim.square().sum(1) + self.spread) / self.scale
            self.slope = -2 * self.weights[:, None] * self.aim / self.scale

    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """Return the loss of a batch whose users stand for all users.

        With `counts` of n / B in a batch of B users, the mean over random batches is the loss of the whole table, for
        small classes too, which are absent from many batches.

        Args:
            users: users of the batch.
            vectors: their vectors.
            counts: how often each row of the batch counts.
        """
        if self.along:
            loss: torch.Tensor = _Along.apply(vectors, self.loss, self.slope, users, counts)  # type: ignore[no-untyped-call]
            return loss
        squared_way = (vectors - self.aim[users]).square().sum(1) + self.spread[users]
        return (self.weights[users] * counts * squared_way).sum() / self.scale

    def _move_to_device(self, device: torch.device) -> None:
        """Move codes and weights to the device of the vectors, and make the alignment there."""
        self.rows, codes = (torch.as_tensor(a, device=device) for a in (self.known, self.class_codes))
        own = codes[self.rows]
        sizes = torch.bincount(own).float()
        by_class = 1 / sizes if self.weighting == "equal" else torch.full_like(sizes, 1 / len(own))
        self.weights = torch.cat([by_class, by_class.new_zeros(1)])[codes]  # zero for undisclosed users
        self.alignment = self.align(own)


class _Along(torch.autograd.Function):
    """Loss and slope of all users, looked up for the users of a batch, in few kernels."""

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, loss: torch.Tensor, slope: torch.Tensor, *batch: torch.Tensor) -> Any:
        users, counts = batch
        ctx.save_for_backward(slope, users, counts)
        return torch.dot(loss[users], counts).to(vectors.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        slope, users, counts = ctx.saved_tensors
        return slope[users] * (counts * gradients[0])[:, None], None, None, None, None
