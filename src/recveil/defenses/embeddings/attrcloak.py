"""AttrCloak (Wu et al., ICDE 2025): make the classes' Gaussians alike and keep the recommendations.

The privacy loss is the class divergence of `transport.divergence`, averaged over the attributes, each over the users
who disclose it. There are three forms: `attrcloak-df` and `attrcloak-dd` are the paper's, two losses weighed by MGDA;
`attrcloak` is the constrained form of the same two goals, because min-norm weighting stops at the first point where the
losses pull against each other, long before the attack is weak.

Users without any disclosed attribute stay where they are. A class of one user has no spread to compare, so all such
users form one class, together with the smallest other class if there is only one of them.

Limits: moments that are equal within the sample turn cross-validated attackers below chance, as with `gaussian`;
nothing beyond the second moment is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from recveil.core.device import resolve_device, use_one_thread
from recveil.core.errors import UsageError
from recveil.core.option_types import Count, NonNegativeFloat, PositiveFloat, Share
from recveil.core.protocols import UtilityLoss
from recveil.core.traits import DefenseTraits, Range
from recveil.core.types import UNDISCLOSED, FloatArray, IntArray
from recveil.defenses.embeddings.cells import check_table, plan_cells
from recveil.defenses.embeddings.gaussian import carry_gaussian
from recveil.defenses.embeddings.min_norm import Task, compute_task_weight, descend_tasks
from recveil.defenses.embeddings.transformers import EmbeddingTransformer
from recveil.transport.divergence import ClassRows, choose_ridge, compute_divergence, compute_gradient
from recveil.transport.moments import Moments
from recveil.transport.tradeoff import Tradeoff, TradeoffPoint

__all__ = ["AttrCloak", "AttrCloakDD", "AttrCloakDF", "merge_lonely_classes"]

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


def merge_lonely_classes(codes: IntArray) -> tuple[IntArray, list[int]]:
    """Merge the classes of one user into one class of at least two users.

    Args:
        codes: class of each user for one attribute.

    Returns:
        The merged codes, and the codes that were merged; the smallest of them stands for the new class.
    """
    present, n = np.unique(codes[codes != UNDISCLOSED], return_counts=True)
    small_first = np.argsort(n, kind="stable")
    lonely = int((n < 2).sum())
    rest = present[small_first[: max(lonely, 2)]] if lonely else present[:0]
    merged = np.where(np.isin(codes, rest), rest.min() if lonely else UNDISCLOSED, codes)
    return merged, sorted(rest.tolist())


@dataclass(frozen=True, eq=False)
class _LabeledTable:
    """Users who disclose an attribute, in an order in which classes lie together.

    Attributes:
        x: (n, d) vectors, in float64.
        codes: (n, attributes with two classes or more) classes.
        rows: rows of these users in the whole table.
    """

    x: torch.Tensor
    codes: IntArray
    rows: IntArray

    @classmethod
    def from_codes(cls, x: FloatArray, codes: IntArray, device: str | None) -> _LabeledTable:
        columns = [merge_lonely_classes(column)[0] for column in (codes[:, None] if codes.ndim == 1 else codes).T]
        columns = [column for column in columns if len(np.unique(column[column != UNDISCLOSED])) > 1]
        varying = np.stack(columns, axis=1) if columns else np.empty((len(x), 0), dtype=np.int64)
        order = np.lexsort(varying.T[::-1]) if columns else np.arange(0)
        rows = order[(varying[order] != UNDISCLOSED).any(1)]
        return cls(torch.tensor(x[rows], dtype=torch.float64, device=resolve_device(device)), varying[rows], rows)

    def group_attributes(self) -> list[ClassRows]:
        return [ClassRows.from_codes(torch.as_tensor(column, device=self.x.device)) for column in self.codes.T]

    def place_users(self, x: FloatArray, moved: torch.Tensor, strength: float) -> FloatArray:
        """Return the whole table with these users a share of the way to where they were carried."""
        out = x.astype(np.float32)
        out[self.rows] = (self.x + strength * (moved - self.x)).cpu().numpy()
        return out


def _make_privacy_task(attributes: list[ClassRows], eps: float) -> Task:
    def measure_divergence(x: torch.Tensor) -> tuple[float, torch.Tensor]:
        fits = [compute_divergence(classes.compute_moments(x), eps) for classes in attributes]
        slopes = [compute_gradient(x, classes, fit) for classes, fit in zip(attributes, fits, strict=True)]
        return sum(float(fit.value) for fit in fits) / len(fits), sum(slopes[1:], slopes[0]) / len(fits)

    return measure_divergence


@dataclass
class AttrCloakDF(EmbeddingTransformer):
    """The paper's form without data: privacy loss and squared displacement, weighed by MGDA.

    Departs: the squared displacement is divided by n tr(C_0), without which it would be a sum beside a mean. The weight
    is clipped to [0.1, 1] as in the formula; the text says [0, 0.1], where nothing would ever move, because the
    displacement has no gradient at the start.

    Args:
        strength: share of the straight way from the start to the result.
        weight: fixed weight of the privacy loss instead of MGDA's (the ablation of Figure 5).
        floor: smallest weight of the privacy loss.
        rate: learning rate of Adam.
        steps: most steps.
        ridge: share of the mean variance that is added to every covariance.
        raw_sum: use the paper's undivided sum of squares.
        device: where tensors are computed.
        random_state: not used; nothing is random.
    """

    halts: ClassVar[bool] = True
    """The method stops where its two losses first pull against each other."""

    strength: Share = 1.0
    weight: Share | None = None
    floor: Share = 0.1
    rate: PositiveFloat = 1e-3
    steps: Count = 2000
    ridge: PositiveFloat = 1e-3
    raw_sum: bool = False

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `rng` and `utility` are not used."""
        check_table(x, codes, self.strength)
        table = _LabeledTable.from_codes(x, codes, self.device)
        if not len(table.rows):
            return x.astype(np.float32)
        start = table.x
        spread = 1.0 if self.raw_sum else float((start - start.mean(0)).square().sum()) or 1.0

        def measure_retention(y: torch.Tensor) -> tuple[float, torch.Tensor]:
            return float((y - start).square().sum()) / spread, (y - start) * (2 / spread)

        return _balance_tasks(self, x, table, measure_retention)


@dataclass
class AttrCloakDD(EmbeddingTransformer):
    """The paper's form with data: privacy loss and recommendation loss, weighed by MGDA.

    The recommendation loss is the `utility` of the call, a differentiable loss of the whole table of user vectors.

    Departs: only user vectors move; Algorithm 1 (line 19) also updates the model that makes them.

    Args:
        strength: share of the straight way from the start to the result.
        weight: fixed weight of the privacy loss instead of MGDA's.
        floor: smallest weight of the privacy loss.
        rate: learning rate of Adam.
        steps: most steps.
        ridge: share of the mean variance that is added to every covariance.
        device: where tensors are computed.
        random_state: not used; nothing is random.
    """

    halts: ClassVar[bool] = True
    """The method stops where its two losses first pull against each other."""

    strength: Share = 1.0
    weight: Share | None = None
    floor: Share = 0.0
    rate: PositiveFloat = 1e-3
    steps: Count = 2000
    ridge: PositiveFloat = 1e-3

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `rng` is not used."""
        if utility is None:
            raise UsageError(
                "attrcloak-dd weighs privacy against a recommendation loss, and got none. Give utility, which is made "
                "from interactions and item vectors, or use attrcloak-df, which needs none."
            )
        check_table(x, codes, self.strength)
        table = _LabeledTable.from_codes(x, codes, self.device)
        if not len(table.rows):
            return x.astype(np.float32)
        whole = torch.tensor(x, dtype=torch.float32, device=table.x.device)
        rows = torch.as_tensor(table.rows, device=whole.device)

        def measure_retention(y: torch.Tensor) -> tuple[float, torch.Tensor]:
            with torch.enable_grad():
                users = whole.index_copy(0, rows, y.float()).requires_grad_()
                loss = utility(users)
                (slope,) = torch.autograd.grad(loss, users)
            return float(loss.detach()), slope[rows].double()

        return _balance_tasks(self, x, table, measure_retention)


def _balance_tasks(
    method: AttrCloakDF | AttrCloakDD, x: FloatArray, table: _LabeledTable, retention: Task
) -> FloatArray:
    """Descend on both losses, and return the table that a share `strength` of the way leads to."""
    if method.weight is not None and not 0 <= method.weight <= 1:
        raise UsageError(f"weight must lie between 0 and 1, as the share of the privacy loss; got {method.weight:g}.")

    def choose_weight(g_u: torch.Tensor, g_r: torch.Tensor) -> float:
        return compute_task_weight(g_u, g_r, floor=method.floor) if method.weight is None else method.weight

    privacy = _make_privacy_task(table.group_attributes(), choose_ridge(table.x, method.ridge))
    moved = descend_tasks(table.x, privacy, retention, choose_weight, rate=method.rate, steps=method.steps)
    return table.place_users(x, moved, method.strength)


@dataclass
class AttrCloak(EmbeddingTransformer):
    """AttrCloak as one goal with a limit: least displacement for a divergence, or least divergence for a budget.

    By default the target is the divergence that Gaussian transport reaches, which is zero if every class has more users
    than dimensions. A divergence below a millionth of the undefended one counts as zero.

    Departs: the paper adds the two losses. `transport.tradeoff` says how the optimum is found and what is proven of it.

    Args:
        strength: share of the way from the undefended divergence to the target, or share of the budget.
        target_kl: class divergence to stay below.
        budget: displacement to stay below, as a share of the users' distance from their mean; not with `target_kl`.
        ridge: share of the mean variance that is added to every covariance.
        device: where tensors are computed.
        random_state: not used; nothing is random.
    """

    strength: Share = 1.0
    target_kl: NonNegativeFloat | None = None
    budget: NonNegativeFloat | None = None
    ridge: PositiveFloat = 1e-3

    @use_one_thread()
    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the defended table; `rng` and `utility` are not used."""
        self._check_options()
        check_table(x, codes, self.strength)
        table = _LabeledTable.from_codes(x, codes, self.device)
        if not len(table.rows) or self.strength == 0:
            return x.astype(np.float32)
        eps = choose_ridge(table.x, self.ridge)
        kinds, cell_of_row = np.unique(table.codes, axis=0, return_inverse=True)
        row_cells = torch.as_tensor(cell_of_row.reshape(-1), device=table.x.device)
        cells = Moments.from_rows(table.x, row_cells, len(kinds))
        on_cpu = Moments(cells.n.cpu(), cells.mean.cpu(), cells.scatter.cpu())
        tradeoff = Tradeoff(on_cpu, torch.as_tensor(kinds), eps)
        A, b = (t.to(table.x.device) for t in tradeoff.compute_maps(self._find_aim(tradeoff, table, eps, x)))
        moved = torch.empty_like(table.x)
        for rows, mean, A_k, b_k in zip(ClassRows.from_codes(row_cells).rows, cells.mean, A, b, strict=True):
            moved[rows] = (table.x[rows] - mean) @ A_k + b_k
        return table.place_users(x, moved, 1.0)

    def _find_aim(self, tradeoff: Tradeoff, table: _LabeledTable, eps: float, x: FloatArray) -> TradeoffPoint:
        """Find the point of the tradeoff that the options ask for."""
        if self.budget is not None:
            allowed = self.strength * self.budget * float(np.linalg.norm(x - x.mean(0)))
            return tradeoff.minimize_divergence(allowed**2 / (len(table.rows) * tradeoff.scale))
        now, aim = tradeoff.start.divergence, self.target_kl
        if aim is None:
            carried = carry_gaussian(table.x, plan_cells(table.codes, minimum=2 * x.shape[1]))
            aim = _make_privacy_task(table.group_attributes(), eps)(carried)[0]
        return tradeoff.minimize_displacement(now + self.strength * (aim - now))

    def _check_options(self) -> None:
        if self.target_kl is not None and self.budget is not None:
            raise UsageError("Give target_kl (a divergence) or budget (a displacement), not both.")
        for name, value in (("target_kl", self.target_kl), ("budget", self.budget)):
            if value is not None and not value >= 0:
                raise UsageError(f"{name} must be 0 or more; got {value:g}.")
