"""Attribute unlearning after training: pull users of different classes together (U2U), or their distributions (D2D).

Li et al., Making Users Indistinguishable (ACM MM 2023), extended in TOIS; the baselines of AttrCloak and RAID. Both
minimize a loss of the user vectors plus a retention loss, by Adam.

Departs: losses are means (the code of the paper sums over pairs, which leaves retention next to no weight), for any
number of classes. Gradients are in closed form. D2D compares every class with all users without bias (the paper: with
one class of its choice). Steps are shares of the standard deviation of the table, so that its unit does not matter.

Limit: **U2U injects the label.** It draws each user to the mean of the *other* classes, which is another point for each
class. Adam moves all users at the same pace, so they gather there. A linear attacker sees less than before, a tree sees
more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np
import torch

from recveil.core.device import resolve_device
from recveil.core.errors import UsageError, unknown_name
from recveil.core.option_types import Count, NonNegativeFloat, PositiveFloat, Share
from recveil.core.progress import track_progress
from recveil.core.protocols import UtilityLoss
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table, plan_cells
from recveil.defenses.embeddings.transformers import EmbeddingTransformer

__all__ = ["D2D", "U2U", "make_order_hinge", "mmd", "compute_pair_distance"]

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

BLOCK_USERS = {"cpu": 256, "cuda": 4096}
"""Users of a block, by device; distances between two blocks are held at once."""

RETENTION_LOSSES = ("l2", "utility")

Members = Sequence[torch.Tensor]
"""Rows of the users of each class, for one attribute."""

Objective = Callable[[torch.Tensor, Members], tuple[float, torch.Tensor]]
"""Function of users and classes that returns a loss and its gradient, which is zero for users of no class."""


def compute_pair_distance(x: torch.Tensor, members: Members) -> tuple[float, torch.Tensor]:
    """Compute the mean squared distance of users of different classes (U2U), and its gradient, without pairs."""
    rows = torch.cat(list(members))
    n = len(rows)
    z = x - x[rows].mean(0)  # keeps all distances, and large means cost no precision
    sums = torch.stack([z[m].sum(0) for m in members])  # (K, d), n_k m_k
    pairs = (n**2 - sum(len(m) ** 2 for m in members)) / 2
    all_pairs = n * z[rows].square().sum() - sums.sum(0).square().sum()
    same_class = sum(len(m) * z[m].square().sum() - s.square().sum() for m, s in zip(members, sums, strict=True))
    gradient = torch.zeros_like(z)
    for m, s in zip(members, sums, strict=True):
        gradient[m] = (n - len(m)) * z[m] - (sums.sum(0) - s)
    return float((all_pairs - same_class) / pairs), gradient * (2 / pairs)


def mmd(x: torch.Tensor, members: Members, *, block: int | None = None) -> tuple[float, torch.Tensor]:
    """Compute the unbiased squared MMD between the classes and all users (D2D), and its gradient.

    sum_k p_k Kbar_kk - sum_kl p_k p_l Kbar_kl, where p_k are the shares of the classes and Kbar the means over pairs of
    two users of the sum of five Gaussian kernels. Their widths are the mean squared distance / 4 times 1, 2, 4, 8, 16,
    and are held fixed in the gradient. Below zero the classes are more alike than two samples of one distribution,
    which an attacker can exploit by inverting its guess. A class of one user has no pair and is left out.

    Args:
        x: user vectors.
        members: rows of the users of each class.
        block: users of a block; memory grows with its square, not with the number of users.
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
    value = -sum(5 * (1 - len(m) / n) * len(m) / (n * (len(m) - 1)) for m in members)  # a user is no pair with itself
    block = block or BLOCK_USERS.get(x.device.type, 1024)
    blocks = [(k, m[i : i + block]) for k, m in enumerate(members) for i in range(0, len(m), block)]
    for (k, a), (other, b) in combinations_with_replacement(blocks, 2):
        # Weight of each ordered pair; p_k / n_k is 1 / n.
        weight = (1 - len(members[k]) / n) / (n * (len(members[k]) - 1)) if k == other else -1 / n**2
        kernel, slope = _sum_kernels(z[a], z[b], width)
        value += weight * (1 if a is b else 2) * kernel
        gradient[a] += 4 * weight * (slope.sum(1, keepdim=True) * z[a] - slope @ z[b])
        if a is not b:
            gradient[b] += 4 * weight * (slope.sum(0)[:, None] * z[b] - slope.mT @ z[a])
    return value, gradient


def _sum_kernels(a: torch.Tensor, b: torch.Tensor, width: float) -> tuple[float, torch.Tensor]:
    """Return the sum of all kernel values, and the derivative of each pair in the squared distance."""
    squared = torch.addmm(a.square().sum(1)[:, None] + b.square().sum(1), a, b.mT, alpha=-2).clamp_(min=0)
    power = squared.mul_(-1 / (16 * width)).exp_()  # the widest kernel; its squares are the narrower ones
    total, slope = power.sum(), power / (-16 * width)
    for factor in (8, 4, 2, 1):
        power = power.square_()
        total += power.sum()
        slope.add_(power, alpha=-1 / (factor * width))
    return float(total), slope


def make_order_hinge(x: FloatArray, items: FloatArray, *, k: int = 20, margin: float = 0.05) -> UtilityLoss:
    """Make a utility loss that keeps the order of each user's k best items by dot product (TOIS).

    Args:
        x: undefended user vectors, which decide on the items.
        items: item vectors.
        k: items of each user.
        margin: lead of each item over the next that costs nothing; the loss is what is missing to it.
    """
    if items.ndim != 2 or items.shape[1] != x.shape[1]:
        raise UsageError(
            f"User vectors have {x.shape[1]} dimensions, and item vectors have shape {items.shape}. They must agree."
        )
    q, start = torch.tensor(items, dtype=torch.float32), torch.tensor(x, dtype=torch.float32)
    parts = (start[i : i + 1024] for i in range(0, len(start), 1024))
    frozen = torch.cat([(part @ q.T).topk(min(k, len(q))).indices for part in parts])

    def compute_loss(users: torch.Tensor) -> torch.Tensor:
        lists = q.to(users.device)[frozen.to(users.device)]  # (n, k, d)
        score = torch.einsum("nd,nkd->nk", users, lists)
        return torch.relu(margin - (score[:, :-1] - score[:, 1:])).mean()

    return compute_loss


@dataclass
class U2U(EmbeddingTransformer):
    """User-to-user unlearning: users of different classes are pulled together. Injects the label for trees.

    Undisclosed users stay where they are.

    Args:
        learning_rate: step of Adam, in standard deviations of the table.
        steps: most steps.
        weight: weight of the retention loss.
        retention: `l2`, the squared distance to the start in units of the variance, or `utility`, the loss of the call.
        strength: share of the straight way from the start to the result.
        device: where tensors are computed.
        random_state: not used; nothing is random.
    """

    injects: ClassVar[bool] = True
    """Attackers that are not linear may find more than before; the audit shows it."""

    learning_rate: PositiveFloat = 3e-3
    steps: Count = 500
    weight: NonNegativeFloat = 0.01
    retention: str = "l2"
    strength: Share = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `rng` is not used, `utility` only with `retention="utility"`."""
        return _unlearn_table(self, compute_pair_distance, x, codes, utility)


@dataclass
class D2D(EmbeddingTransformer):
    """Distribution-to-distribution unlearning: class distributions are pulled together until their MMD is zero.

    It stops when the unbiased MMD of every attribute is zero or less, and takes time quadratic in the number of users.
    Undisclosed users, and users of a class of one, stay where they are. The options are those of `U2U`.
    """

    learning_rate: PositiveFloat = 3e-3
    steps: Count = 500
    weight: NonNegativeFloat = 0.1
    retention: str = "l2"
    strength: Share = 1.0

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `rng` is not used, `utility` only with `retention="utility"`."""
        return _unlearn_table(self, lambda users, m: mmd(users.to(torch.float32), m), x, codes, utility)


def _unlearn_table(
    method: U2U | D2D, objective: Objective, x: FloatArray, codes: IntArray, utility: UtilityLoss | None
) -> FloatArray:
    """Minimize the mean of the attributes' losses plus the weighted retention loss, by Adam.

    An attribute whose loss has come down to zero pulls no more; the descent ends when none pulls.
    """
    check_table(x, codes, method.strength)
    utility = _select_retention(method, utility)
    where = resolve_device(method.device)
    attributes = _group_rows(codes, where)
    table = torch.tensor(x, dtype=torch.float64, device=where)
    known = torch.as_tensor((codes.reshape(len(x), -1) != UNDISCLOSED).any(1), device=where)
    spread = table[known].std(0, correction=0) if attributes else table.new_zeros(x.shape[1])
    unit = float(spread.square().sum()) ** 0.5
    if unit == 0 or method.strength == 0:
        return np.array(x, dtype=np.float32)
    start = table / unit  # its total variance is one
    # Adam takes full steps however small a gradient is: in constant columns rounding errors would set the direction.
    free = known[:, None] & (spread > 1e-6 * unit)
    users = start.clone().requires_grad_()
    adam = torch.optim.Adam([users], lr=method.learning_rate / x.shape[1] ** 0.5, eps=1e-8 / len(x))
    for _ in track_progress(range(method.steps), f"unlearning ({type(method).__name__})", method.steps):
        now = users.detach()
        pulls = [gradient for value, gradient in (objective(now, m) for m in attributes) if value > 0]
        if not pulls:
            break
        hold = 2 * (now - start) / known.sum() if utility is None else _compute_slope(utility, now, unit)
        pull = torch.stack(pulls).sum(0) / len(attributes)
        users.grad = torch.where(free, pull + method.weight * hold, 0.0)
        adam.step()
    moved = users.detach() * unit
    out: FloatArray = ((1 - method.strength) * table + method.strength * moved).to(torch.float32).cpu().numpy()
    return out


def _select_retention(method: U2U | D2D, utility: UtilityLoss | None) -> UtilityLoss | None:
    """Return the utility loss if it is the retention loss, and None for the distance to the start."""
    if method.retention not in RETENTION_LOSSES:
        raise unknown_name("retention", method.retention, RETENTION_LOSSES)
    if method.retention == "l2":
        return None
    if utility is None:
        raise UsageError("retention='utility' needs a utility loss, and none was given. Give utility, or use 'l2'.")
    return utility


def _group_rows(codes: IntArray, where: torch.device) -> list[list[torch.Tensor]]:
    """Group the rows of each class, for each attribute of two classes or more."""
    cells = [plan_cells(column, minimum=1)[0] for column in codes.reshape(len(codes), -1).T]
    rows = [[np.flatnonzero(c.codes == k) for k in range(c.n_classes)] for c in cells if c.n_classes > 1]
    return [[torch.as_tensor(m, device=where) for m in members] for members in rows]


def _compute_slope(utility: UtilityLoss, users: torch.Tensor, unit: float) -> torch.Tensor:
    """Compute the gradient of a loss of the unscaled table, with respect to the scaled one."""
    table = (users * unit).to(torch.float32).requires_grad_()
    return torch.autograd.grad(utility(table), table)[0].double() * unit
