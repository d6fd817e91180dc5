"""Attribute unlearning after training: pull users of different classes together (U2U), or their distributions (D2D).

Li et al., Making Users Indistinguishable (ACM MM 2023), extended in TOIS; the baselines of AttrCloak and RAID. Both
minimize a loss of the user vectors plus a retention loss, by Adam.

Departs: losses are means (the code of the paper sums over pairs, which leaves retention next to no weight), for any
number of classes; gradients are in closed form; D2D compares every class with all users (the paper, with one class that
it picks) without bias; steps are shares of the standard deviation of the table, so that its unit does not matter.

Limit: **U2U injects the label.** It draws each user to the mean of the *other* classes, a point of its own for each
class; Adam moves all at the same pace, so users pile up there. A line sees less than before, a tree sees more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np
import torch

from recveil.core import device as devices
from recveil.core.errors import UsageError, unknown_name
from recveil.core.progress import track_progress
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.defenses.embeddings.cells import cells_of, check_table
from recveil.defenses.embeddings.transformers import EmbeddingTransformer

__all__ = ["D2D", "U2U", "mmd", "order_hinge", "pair_distance"]

METHODS = (
    DefenseTraits(
        "u2u",
        builder="U2U",
        undisclosed_users="stay where they are",
        search_space={"weight": Range(0.03, 10.0, log=True)},
        paper="Li et al., Making Users Indistinguishable (ACM MM 2023)",
    ),
    DefenseTraits(
        "d2d",
        builder="D2D",
        quadratic=True,
        undisclosed_users="stay where they are",
        search_space={"weight": Range(0.003, 3.0, log=True)},
        paper="Li et al., Making Users Indistinguishable (ACM MM 2023)",
    ),
)

BLOCK = {"cpu": 256, "cuda": 4096}
"""Users whose distances to as many others are held at once: few enough for a cache, or to keep a GPU busy."""

RETENTION = ("l2", "utility")

Members = Sequence[torch.Tensor]
"""For each class of one attribute the rows of its users."""

Loss = Callable[[torch.Tensor], torch.Tensor]
Objective = Callable[[torch.Tensor, Members], tuple[float, torch.Tensor]]
"""(users, classes) -> the loss and its gradient, zero for users of no class."""


def pair_distance(x: torch.Tensor, members: Members) -> tuple[float, torch.Tensor]:
    """U2U: the mean squared distance of two users of different classes, and its gradient, without looking at pairs."""
    rows = torch.cat(list(members))
    n = len(rows)
    z = x - x[rows].mean(0)  # distances stay, and large means do not drown them
    sums = torch.stack([z[m].sum(0) for m in members])  # (K, d), n_k m_k
    pairs = (n**2 - sum(len(m) ** 2 for m in members)) / 2
    everyone = n * z[rows].square().sum() - sums.sum(0).square().sum()
    same_class = sum(len(m) * z[m].square().sum() - s.square().sum() for m, s in zip(members, sums, strict=True))
    gradient = torch.zeros_like(z)
    for m, s in zip(members, sums, strict=True):
        gradient[m] = (n - len(m)) * z[m] - (sums.sum(0) - s)
    return float((everyone - same_class) / pairs), gradient * (2 / pairs)


def mmd(x: torch.Tensor, members: Members, *, block: int | None = None) -> tuple[float, torch.Tensor]:
    """D2D: how far the classes lie from all users together, the unbiased MMD^2 with weights p_k, and its gradient.

    sum_k p_k Kbar_kk - sum_kl p_k p_l Kbar_kl, where Kbar are means over pairs of two users of the sum of five Gaussian
    kernels; their widths, the mean squared distance / 4 times 1, 2, 4, 8, 16, are held fixed in the gradient. Below
    zero the classes are more alike than two samples of one distribution: that is a leak turned upside down.
    A class of one user has no pair of its own and takes no part. Memory grows with `block` squared, not with n.
    """
    members = [m for m in members if len(m) > 1]
    gradient = torch.zeros_like(x)
    n = sum(len(m) for m in members)
    if len(members) < 2:
        return 0.0, gradient
    z = x - x[torch.cat(members)].mean(0)
    width = float(sum(z[m].square().sum() for m in members)) * 2 / (n - 1) / 4
    if width <= 0:
        return 0.0, gradient
    value = -sum(5 * (1 - len(m) / n) * len(m) / (n * (len(m) - 1)) for m in members)  # nobody is a pair
    block = block or BLOCK.get(x.device.type, 1024)
    blocks = [(k, m[i : i + block]) for k, m in enumerate(members) for i in range(0, len(m), block)]
    for (k, a), (other, b) in combinations_with_replacement(blocks, 2):
        # Of each ordered pair; p_k / n_k is 1 / n.
        weight = (1 - len(members[k]) / n) / (n * (len(members[k]) - 1)) if k == other else -1 / n**2
        kernel, slope = _kernels(z[a], z[b], width)
        value += weight * (1 if a is b else 2) * kernel
        gradient[a] += 4 * weight * (slope.sum(1, keepdim=True) * z[a] - slope @ z[b])
        if a is not b:
            gradient[b] += 4 * weight * (slope.sum(0)[:, None] * z[b] - slope.mT @ z[a])
    return value, gradient


def _kernels(a: torch.Tensor, b: torch.Tensor, width: float) -> tuple[float, torch.Tensor]:
    """The sum of all kernel values, and for each pair the derivative in the squared distance."""
    squared = torch.addmm(a.square().sum(1)[:, None] + b.square().sum(1), a, b.mT, alpha=-2).clamp_(min=0)
    power = squared.mul_(-1 / (16 * width)).exp_()  # the widest; squared again and again, the narrower ones
    total, slope = power.sum(), power / (-16 * width)
    for times in (8, 4, 2, 1):
        power = power.square_()
        total += power.sum()
        slope.add_(power, alpha=-1 / (times * width))
    return float(total), slope


def order_hinge(x: FloatArray, items: FloatArray, *, k: int = 20, margin: float = 0.05) -> Loss:
    """A retention loss for `retention="utility"`: keep the order of each user's k best items by dot product.

    Where the score of one of them leads that of the next by less than `margin`, what is missing counts (TOIS). The
    table `x` before the defense says which items these are.
    """
    if items.ndim != 2 or items.shape[1] != x.shape[1]:
        raise UsageError(
            f"User vectors have {x.shape[1]} dimensions, item vectors shape {items.shape}: they must agree."
        )
    q, start = torch.tensor(items, dtype=torch.float32), torch.tensor(x, dtype=torch.float32)
    parts = (start[i : i + 1024] for i in range(0, len(start), 1024))
    frozen = torch.cat([(part @ q.T).topk(min(k, len(q))).indices for part in parts])

    def loss(users: torch.Tensor) -> torch.Tensor:
        lists = q.to(users.device)[frozen.to(users.device)]  # (n, k, d)
        score = torch.einsum("nd,nkd->nk", users, lists)
        return torch.relu(margin - (score[:, :-1] - score[:, 1:])).mean()

    return loss


@dataclass
class U2U(EmbeddingTransformer):
    """User-to-user unlearning: pull users of different classes together. Injects the label for trees.

    `learning_rate` is in standard deviations of the table, `weight` that of the retention loss: `"l2"`, the squared
    distance to the start (in units of the variance), or `"utility"`, the loss handed over with the call. `strength`
    walks straight from nothing (0) to all of it (1). Users whose attribute is unknown take no part and stay.
    """

    injects: ClassVar[bool] = True
    """Attackers who do not draw lines may find more than before: look at the audit."""

    learning_rate: float = 3e-3
    steps: int = 500
    weight: float = 0.01
    retention: str = "l2"
    strength: float = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: Loss | None = None
    ) -> FloatArray:
        """The cloaked table; `rng` is not used, `utility` only if `retention` says so."""
        return _descend(self, pair_distance, x, codes, utility)


@dataclass
class D2D(EmbeddingTransformer):
    """Distribution-to-distribution unlearning: pull the class distributions together until their MMD is zero.

    The fields are those of `U2U`. It stops where the unbiased MMD of every attribute is at zero or below, and takes
    time quadratic in the number of users. Users whose attribute is unknown, and a class of one, take no part and stay.
    """

    learning_rate: float = 3e-3
    steps: int = 500
    weight: float = 0.1
    retention: str = "l2"
    strength: float = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: Loss | None = None
    ) -> FloatArray:
        """The cloaked table; `rng` is not used, `utility` only if `retention` says so."""
        return _descend(self, lambda users, m: mmd(users.to(torch.float32), m), x, codes, utility)


def _descend(
    method: U2U | D2D, objective: Objective, x: FloatArray, codes: IntArray, utility: Loss | None
) -> FloatArray:
    """Adam on the mean of the attributes' losses plus the weighted retention loss.

    An attribute whose loss is down to zero pulls no more; when that is so of all of them, it is over.
    """
    check_table(x, codes, method.strength)
    utility = _chosen(method, utility)
    where = devices.resolve_device(method.device)
    attributes = _classes(codes, where)
    table = torch.tensor(x, dtype=torch.float64, device=where)
    known = torch.as_tensor((codes.reshape(len(x), -1) != UNDISCLOSED).any(1), device=where)
    spread = table[known].std(0, correction=0) if attributes else table.new_zeros(x.shape[1])
    unit = float(spread.square().sum()) ** 0.5
    if unit == 0 or method.strength == 0:
        return np.array(x, dtype=np.float32)
    start = table / unit  # now the total variance is one
    # Adam takes full steps however small a gradient is: where nobody varies, rounding errors would set the direction.
    free = known[:, None] & (spread > 1e-6 * unit)
    users = start.clone().requires_grad_()
    adam = torch.optim.Adam([users], lr=method.learning_rate / x.shape[1] ** 0.5, eps=1e-8 / len(x))
    for _ in track_progress(range(method.steps), f"unlearning ({type(method).__name__})", method.steps):
        now = users.detach()
        pulls = [gradient for value, gradient in (objective(now, m) for m in attributes) if value > 0]
        if not pulls:
            break
        hold = 2 * (now - start) / known.sum() if utility is None else _slope(utility, now, unit)
        pull = torch.stack(pulls).sum(0) / len(attributes)
        users.grad = torch.where(free, pull + method.weight * hold, 0.0)
        adam.step()
    moved = users.detach() * unit
    out: FloatArray = ((1 - method.strength) * table + method.strength * moved).to(torch.float32).cpu().numpy()
    return out


def _chosen(method: U2U | D2D, utility: Loss | None) -> Loss | None:
    """The utility loss if it is to be the retention; none for the distance to the start."""
    if method.retention not in RETENTION:
        raise unknown_name("retention", method.retention, RETENTION)
    if method.retention == "l2":
        return None
    if utility is None:
        raise UsageError("retention='utility' needs a utility loss, and none was given. Hand one over, or use 'l2'.")
    return utility


def _classes(codes: IntArray, where: torch.device) -> list[list[torch.Tensor]]:
    """For each attribute of two classes or more, the rows of each class."""
    cells = [cells_of(column, minimum=1)[0] for column in codes.reshape(len(codes), -1).T]
    rows = [[np.flatnonzero(c.codes == k) for k in range(c.n_classes)] for c in cells if c.n_classes > 1]
    return [[torch.as_tensor(m, device=where) for m in members] for members in rows]


def _slope(utility: Loss, users: torch.Tensor, unit: float) -> torch.Tensor:
    """The gradient of a loss that knows the users in their own unit."""
    table = (users * unit).to(torch.float32).requires_grad_()
    return torch.autograd.grad(utility(table), table)[0].double() * unit
