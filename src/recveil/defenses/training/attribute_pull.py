"""The pull of one attribute: its classes, where its users should go, and the loss of those who are not there."""

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
    """A loss for each user of known class: the squared way to go, in units of the median squared distance.

    `align` makes the alignment from the codes of these users. With `weighting="equal"` the loss is the sum over classes
    of the mean over their users, with `"size"` the mean over users. `along`: a place moves along with its user, so that
    the pull keeps its direction and length whatever else the user learns.
    """

    def __init__(
        self, attribute: Attribute, align: Callable[[torch.Tensor], Alignment], *, weighting: str, along: bool
    ) -> None:
        self.align, self.weighting, self.along = align, weighting, along
        self.known = np.flatnonzero(attribute.known)
        present, codes = np.unique(attribute.codes[self.known], return_inverse=True)
        self.n_classes = len(present)
        self.every = np.full(len(attribute.codes), self.n_classes)  # the last class: users whose attribute is unknown
        self.every[self.known] = codes
        self.alignment: Alignment | None = None

    def refresh_aim(self, table: torch.Tensor, *, renew: bool) -> None:
        """Look at the whole table, and say where each user of known class should go."""
        if self.alignment is None:
            self._move_to_device(table.device)
        assert self.alignment is not None
        x = table[self.rows].float()
        places = self.alignment(x, renew=renew)
        self.scale = compute_typical_distance(x)
        aim = places.toward - x if self.along else places.toward
        self.aim = x.new_zeros(table.shape).index_copy(0, self.rows, aim)
        self.spread = x.new_zeros(len(table)).index_copy(0, self.rows, places.spread)
        if self.along:  # loss and slope then depend on nothing that a step changes: both are made here, for everybody
            self.loss = self.weights * (self.aim.square().sum(1) + self.spread) / self.scale
            self.slope = -2 * self.weights[:, None] * self.aim / self.scale

    def __call__(self, users: torch.Tensor, vectors: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        """The loss of a batch, whose users stand for all: `counts` says how often each row of it is to be taken.

        That is n / B times, B being the users of the batch. So over batches of which every user is as likely a part as
        any other, the mean is the loss of the whole, for small classes too, of whom many batches have nobody.
        """
        if self.along:
            found: torch.Tensor = _Along.apply(vectors, self.loss, self.slope, users, counts)  # type: ignore[no-untyped-call]
            return found
        way = (vectors - self.aim[users]).square().sum(1) + self.spread[users]
        return (self.weights[users] * counts * way).sum() / self.scale

    def _move_to_device(self, device: torch.device) -> None:
        """Bring what is needed to where the vectors are."""
        self.rows, codes = (torch.as_tensor(a, device=device) for a in (self.known, self.every))
        own = codes[self.rows]
        sizes = torch.bincount(own).float()
        by_class = 1 / sizes if self.weighting == "equal" else torch.full_like(sizes, 1 / len(own))
        self.weights = torch.cat([by_class, by_class.new_zeros(1)])[codes]  # what each user counts; nothing if unknown
        self.alignment = self.align(own)


class _Along(torch.autograd.Function):
    """A loss and a slope that are known for everybody, looked up for the users of a batch: a few small steps."""

    @staticmethod
    def forward(ctx: Any, vectors: torch.Tensor, loss: torch.Tensor, slope: torch.Tensor, *batch: torch.Tensor) -> Any:
        users, counts = batch
        ctx.save_for_backward(slope, users, counts)
        return torch.dot(loss[users], counts).to(vectors.dtype)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        slope, users, counts = ctx.saved_tensors
        return slope[users] * (counts * gradients[0])[:, None], None, None, None, None
