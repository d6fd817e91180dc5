"""AttrCloak (Wu et al., ICDE 2025): make the classes' Gaussians alike and keep the recommendations.

The privacy loss is the class divergence of `transport.divergence`, mean over the attributes, each over the users
labelled for it. Three forms: `attrcloak-df` and `attrcloak-dd` are the paper's, two losses weighed by MGDA; `attrcloak`
is the constrained form of the same two goals, because min-norm weighting stops at the first point where the losses
pull against each other, long before the attack is weak.

Users whose attributes are all unknown stay where they are. A class of one user has no spread to compare: all such users
form one class, the rest, with the smallest other class if there is but one of them. Equal moments within the sample
turn cross-validated attackers below chance, as with `gaussian`; nothing beyond the second moment is touched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from recveil.core import device as devices
from recveil.core.errors import UsageError
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.defenses.embeddings.cells import cells_of, check_table
from recveil.defenses.embeddings.gaussian import carry
from recveil.defenses.embeddings.min_norm import Task, descend, two_task_weight
from recveil.defenses.embeddings.transformers import EmbeddingTransformer
from recveil.transport.divergence import ClassRows, choose_ridge, compute_divergence, compute_gradient
from recveil.transport.moments import Moments
from recveil.transport.tradeoff import Tradeoff, TradeoffPoint

__all__ = ["AttrCloak", "AttrCloakDD", "AttrCloakDF", "with_rest"]

METHODS = (
    DefenseTraits(
        "attrcloak",
        builder="AttrCloak",
        blends=False,
        equalizes_covariances=True,
        undisclosed_users="stay where they are",
        search_space={"strength": Range(0.3, 1.0)},
        paper="Wu et al., AttrCloak (ICDE 2025), as one goal with a limit",
    ),
    DefenseTraits(
        "attrcloak-df",
        builder="AttrCloakDF",
        equalizes_covariances=True,
        undisclosed_users="stay where they are",
        search_space={"floor": Range(0.05, 0.95)},
        paper="Wu et al., AttrCloak (ICDE 2025)",
    ),
    DefenseTraits(
        "attrcloak-dd",
        builder="AttrCloakDD",
        needs_loss=True,
        equalizes_covariances=True,
        undisclosed_users="stay where they are",
        search_space={"rate": Range(1e-4, 3e-2, log=True), "floor": Range(0.0, 0.9)},
        paper="Wu et al., AttrCloak (ICDE 2025)",
    ),
)

Utility = Callable[[torch.Tensor], torch.Tensor]


def with_rest(codes: IntArray) -> tuple[IntArray, list[int]]:
    """One attribute's codes with classes of fewer than two users made one class, and which codes that class holds."""
    present, n = np.unique(codes[codes != UNDISCLOSED], return_counts=True)
    small_first = np.argsort(n, kind="stable")
    lonely = int((n < 2).sum())
    rest = present[small_first[: max(lonely, 2)]] if lonely else present[:0]
    merged = np.where(np.isin(codes, rest), rest.min() if lonely else UNDISCLOSED, codes)
    return merged, sorted(rest.tolist())


@dataclass(frozen=True, eq=False)
class _Table:
    """The labelled users in an order in which classes lie together, and their classes for each attribute."""

    x: torch.Tensor  # (n, d), float64
    codes: IntArray  # (n, attributes with two classes or more)
    rows: IntArray  # where they stand in the table

    @classmethod
    def of(cls, x: FloatArray, codes: IntArray, device: str | None) -> _Table:
        columns = [with_rest(column)[0] for column in (codes[:, None] if codes.ndim == 1 else codes).T]
        columns = [c for c in columns if len(np.unique(c[c != UNDISCLOSED])) > 1]
        kept = np.stack(columns, axis=1) if columns else np.empty((len(x), 0), dtype=np.int64)
        order = np.lexsort(kept.T[::-1]) if columns else np.arange(0)
        rows = order[(kept[order] != UNDISCLOSED).any(1)]
        return cls(torch.tensor(x[rows], dtype=torch.float64, device=devices.resolve_device(device)), kept[rows], rows)

    def attributes(self) -> list[ClassRows]:
        return [ClassRows.from_codes(torch.as_tensor(column, device=self.x.device)) for column in self.codes.T]

    def released(self, x: FloatArray, moved: torch.Tensor, strength: float) -> FloatArray:
        """The whole table with these users a share of the way to where they were carried."""
        out = x.astype(np.float32)
        out[self.rows] = (self.x + strength * (moved - self.x)).cpu().numpy()
        return out


def _privacy(attributes: list[ClassRows], eps: float) -> Task:
    def task(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        fits = [compute_divergence(classes.compute_moments(x), eps) for classes in attributes]
        slopes = [compute_gradient(x, classes, fit) for classes, fit in zip(attributes, fits, strict=True)]
        return sum(float(fit.value) for fit in fits) / len(fits), sum(slopes[1:], slopes[0]) / len(fits)

    return task


@dataclass
class AttrCloakDF(EmbeddingTransformer):
    """The paper's form without data: the privacy loss against the squared distance from the start, weighed by MGDA.

    `weight` fixes the weight of the privacy loss instead (the ablation of Figure 5). `strength` walks straight from the
    start to the result. `raw_sum` takes the paper's undivided sum of squares.

    Departs: the distance is divided by n tr(C_0), without which it would be a sum beside a mean; the weight is clipped
    to [0.1, 1], as the formula says and not the text, which says [0, 0.1]: there nothing would ever move, because the
    distance has no gradient at the start.
    """

    halts: ClassVar[bool] = True

    strength: float = 1.0
    weight: float | None = None
    floor: float = 0.1
    rate: float = 1e-3
    steps: int = 2000
    ridge: float = 1e-3
    raw_sum: bool = False

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: Utility | None = None
    ) -> FloatArray:
        """The cloaked table; `rng` and `utility` are not used."""
        check_table(x, codes, self.strength)
        table = _Table.of(x, codes, self.device)
        if not len(table.rows):
            return x.astype(np.float32)
        start = table.x
        spread = 1.0 if self.raw_sum else float((start - start.mean(0)).square().sum()) or 1.0

        def retention(y: torch.Tensor) -> tuple[float, torch.Tensor]:
            return float((y - start).square().sum()) / spread, (y - start) * (2 / spread)

        return _weighed(self, x, table, retention)


@dataclass
class AttrCloakDD(EmbeddingTransformer):
    """The paper's form with data: the privacy loss against the recommendation loss, weighed by MGDA.

    The recommendation loss is the `utility` of the call, a differentiable loss of the whole table of user vectors.
    `weight` fixes the weight of the privacy loss; `strength` walks straight from the start to the result.

    Departs: only user vectors move; Algorithm 1 (line 19) also updates what makes them.
    """

    halts: ClassVar[bool] = True

    strength: float = 1.0
    weight: float | None = None
    floor: float = 0.0
    rate: float = 1e-3
    steps: int = 2000
    ridge: float = 1e-3

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: Utility | None = None
    ) -> FloatArray:
        """The cloaked table; `rng` is not used."""
        if utility is None:
            raise UsageError(
                "attrcloak-dd weighs privacy against a recommendation loss, and got none. Give the interactions and "
                "the item vectors (utility=... in Python), or use attrcloak-df, which needs neither."
            )
        check_table(x, codes, self.strength)
        table = _Table.of(x, codes, self.device)
        if not len(table.rows):
            return x.astype(np.float32)
        whole = torch.tensor(x, dtype=torch.float32, device=table.x.device)
        rows = torch.as_tensor(table.rows, device=whole.device)

        def retention(y: torch.Tensor) -> tuple[float, torch.Tensor]:
            with torch.enable_grad():
                users = whole.index_copy(0, rows, y.float()).requires_grad_()
                loss = utility(users)
                (slope,) = torch.autograd.grad(loss, users)
            return float(loss.detach()), slope[rows].double()

        return _weighed(self, x, table, retention)


def _weighed(method: AttrCloakDF | AttrCloakDD, x: FloatArray, table: _Table, retention: Task) -> FloatArray:
    if method.weight is not None and not 0 <= method.weight <= 1:
        raise UsageError(f"weight is the share of the privacy loss, between 0 and 1; got {method.weight:g}.")

    def weigh(g_u: torch.Tensor, g_r: torch.Tensor) -> float:
        return two_task_weight(g_u, g_r, floor=method.floor) if method.weight is None else method.weight

    privacy = _privacy(table.attributes(), choose_ridge(table.x, method.ridge))
    moved = descend(table.x, privacy, retention, weigh, rate=method.rate, steps=method.steps)
    return table.released(x, moved, method.strength)


@dataclass
class AttrCloak(EmbeddingTransformer):
    """The two goals as one with a limit: the least displacement that makes the classes alike, or what a budget buys.

    `target_kl` is the class divergence to stay under; `budget` instead is the displacement to stay under, as a share of
    how far the users lie from their mean. With neither, the aim is what Gaussian transport reaches: none at all where
    every class has more users than dimensions. `strength` takes a share: of the way from today's divergence to the
    aimed one, or of the budget. A divergence under a millionth of today's counts as none.

    Departs: the paper adds the two losses. How the optimum is found, and what is proven of it: `transport.tradeoff`.
    """

    strength: float = 1.0
    target_kl: float | None = None
    budget: float | None = None
    ridge: float = 1e-3

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: Utility | None = None
    ) -> FloatArray:
        """The cloaked table; `rng` and `utility` are not used."""
        self._check()
        check_table(x, codes, self.strength)
        table = _Table.of(x, codes, self.device)
        if not len(table.rows) or self.strength == 0:
            return x.astype(np.float32)
        eps = choose_ridge(table.x, self.ridge)
        kinds, cell = np.unique(table.codes, axis=0, return_inverse=True)
        codes_of_rows = torch.as_tensor(cell.reshape(-1), device=table.x.device)
        cells = Moments.from_rows(table.x, codes_of_rows, len(kinds))
        on_cpu = Moments(cells.n.cpu(), cells.mean.cpu(), cells.scatter.cpu())
        tradeoff = Tradeoff(on_cpu, torch.as_tensor(kinds), eps)
        A, b = (t.to(table.x.device) for t in tradeoff.compute_maps(self._aim(tradeoff, table, eps, x)))
        moved = torch.empty_like(table.x)
        for rows, mean, turn, to in zip(ClassRows.from_codes(codes_of_rows).rows, cells.mean, A, b, strict=True):
            moved[rows] = (table.x[rows] - mean) @ turn + to
        return table.released(x, moved, 1.0)

    def _aim(self, tradeoff: Tradeoff, table: _Table, eps: float, x: FloatArray) -> TradeoffPoint:
        if self.budget is not None:
            allowed = self.strength * self.budget * float(np.linalg.norm(x - x.mean(0)))
            return tradeoff.minimize_divergence(allowed**2 / (len(table.rows) * tradeoff.scale))
        now, aim = tradeoff.start.divergence, self.target_kl
        if aim is None:
            carried = carry(table.x, cells_of(table.codes, minimum=2 * x.shape[1]))
            aim = _privacy(table.attributes(), eps)(carried)[0]
        return tradeoff.minimize_displacement(now + self.strength * (aim - now))

    def _check(self) -> None:
        if self.target_kl is not None and self.budget is not None:
            raise UsageError("Give target_kl (how alike) or budget (how far), not both.")
        for name, value in (("target_kl", self.target_kl), ("budget", self.budget)):
            if value is not None and not value >= 0:
                raise UsageError(f"{name} must be 0 or more; got {value:g}.")
