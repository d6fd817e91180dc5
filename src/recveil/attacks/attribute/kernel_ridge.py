"""Kernel ridge regression of the class, with Gaussian and Laplace kernels, class-balanced.

On tables with uneven activity it finds what trees and networks miss: classes that differ in small neighborhoods.
Kernels centered at a sample of the users (Nystroem) miss that, so the regression is exact, by conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np

from recveil.attacks.attribute.classic import compute_balanced_weights
from recveil.core.device import resolve_device
from recveil.core.option_types import Count, SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    import torch

__all__ = ["KernelRidge"]

METHODS = (AttackTraits("kernel-ridge", builder="KernelRidge", panels=("full", "strong"), rank=95),)

KERNELS = ("rbf", "laplace")
BANDWIDTHS = (0.2, 0.45, 1.0)
"""Bandwidths to choose from, relative to the median distance of two users."""

RIDGES = (0.3, 3.0, 30.0)
"""Ridges to choose from: the variance of the noise over that of the signal, which does not depend on the users."""

MAX_USERS_TO_CHOOSE = 8_000
"""Users on whom the setting is chosen. With few, a weak leak in small neighborhoods is not seen, and a setting is
chosen that misses it."""

MAX_CLASSES_AT_FULL_SIZE = 8
"""Above this many classes fewer users are learned from, so that the cost stays the same."""

MAX_STEPS = 40
"""Steps of conjugate gradients. The ridge keeps the system well conditioned, so that few are needed."""

BLOCK_ROWS = 2_048
"""Users whose kernel values are held at once when guesses are made."""


class _Setting(NamedTuple):
    """A kernel, its bandwidth in units of distance, and the ridge."""

    kernel: str
    bandwidth: float
    ridge: float


@dataclass
class KernelRidge:
    """Kernel ridge regression of the class, class-balanced and exact.

    Kernel, bandwidth and ridge are chosen on an inner split of up to 8,000 training users. Above `max_users` training
    users it learns from a sample of them, since time and memory grow with their square.
    """

    max_users: Count = 12_000
    seed: SeedNumber = 0
    device: str | None = None
    _users: torch.Tensor = field(init=False, repr=False)
    _coefficients: torch.Tensor = field(init=False, repr=False)
    _mean: torch.Tensor = field(init=False, repr=False)
    _setting: _Setting = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Choose the setting and solve for the class indicators."""
        import torch

        rows = self._sample_users(y)
        classes, codes = np.unique(y[rows], return_inverse=True)
        device = resolve_device(self.device)
        self._users = torch.as_tensor(np.asarray(x[rows], dtype=np.float32), device=device)
        targets = torch.as_tensor(np.eye(len(classes), dtype=np.float32)[codes], device=device)
        weights = torch.as_tensor(compute_balanced_weights(codes).astype(np.float32), device=device)
        self._setting = _choose_setting(self._users, targets, weights)
        gram = _compute_kernel(self._users, self._users, self._setting)
        self._coefficients, self._mean = _solve(gram, targets, weights, self._setting.ridge)
        return self

    def _sample_users(self, y: IntArray) -> IntArray:
        """Draw an order of the users, of whom at most `max_users` are learned from, and every class among them."""
        order = np.random.default_rng(self.seed).permutation(len(y))
        n_classes = len(np.unique(y))
        most = int(self.max_users * min(1.0, MAX_CLASSES_AT_FULL_SIZE / n_classes) ** 0.5)
        first_of_class = order[np.unique(y[order], return_index=True)[1]]
        rest = order[~np.isin(order, first_of_class)]
        return np.asarray(np.concatenate([rest[: max(0, most - n_classes)], first_of_class]))

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the predicted class indicators, cut to probabilities."""
        import torch

        rows = torch.as_tensor(np.asarray(x, dtype=np.float32), device=self._users.device)
        guesses = [
            _compute_kernel(block, self._users, self._setting) @ self._coefficients + self._mean
            for block in torch.split(rows, BLOCK_ROWS)
        ]
        beliefs = torch.cat(guesses).clamp(min=1e-6)
        return np.asarray((beliefs / beliefs.sum(1, keepdim=True)).cpu().numpy(), dtype=np.float64)


def _choose_setting(users: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor) -> _Setting:
    """Choose the setting with the least weighted squared error on a quarter of the users, who are in random order."""
    most = min(len(users), MAX_USERS_TO_CHOOSE)
    cut = max(1, 3 * most // 4)
    train, test = slice(0, cut), slice(cut, most) if cut < most else slice(0, 1)
    errors = {}
    for setting, gram, cross in _list_kernels(users[train], users[test]):
        for ridge in RIDGES:
            coefficients, mean = _solve(gram, targets[train], weights[train], ridge)
            off = (cross @ coefficients + mean - targets[test]).square().sum(1)
            errors[setting._replace(ridge=ridge)] = float((off * weights[test]).sum())
    return min(errors, key=lambda setting: errors[setting])


def _list_kernels(train: torch.Tensor, test: torch.Tensor) -> Iterator[tuple[_Setting, torch.Tensor, torch.Tensor]]:
    """Yield each kernel with its values between the training users, and between test and training users."""
    import torch

    few = train[:1_000]
    unit = float(torch.cdist(few, few).median()) or 1.0
    for kernel, width in product(KERNELS, BANDWIDTHS):
        setting = _Setting(kernel, width * unit, RIDGES[0])
        yield setting, _compute_kernel(train, train, setting), _compute_kernel(test, train, setting)


def _compute_kernel(a: torch.Tensor, b: torch.Tensor, setting: _Setting) -> torch.Tensor:
    import torch

    distances = torch.cdist(a, b, compute_mode="use_mm_for_euclid_dist").div_(setting.bandwidth)
    return (distances.square_().mul_(-0.5) if setting.kernel == "rbf" else distances.neg_()).exp_()


def _solve(
    gram: torch.Tensor, targets: torch.Tensor, weights: torch.Tensor, ridge: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Solve (gram + ridge / weights) a = targets - mean by conjugate gradients; return a and the mean.

    With s = sqrt(weights / ridge) it is (s gram s + 1) z = s (targets - mean), a = s z, whose eigenvalues are at
    least 1.
    """
    import torch

    mean = (targets * weights[:, None]).sum(0) / weights.sum()
    scale = (weights / ridge).sqrt()[:, None]
    residual = scale * (targets - mean)
    z, direction = torch.zeros_like(residual), residual.clone()
    squared = residual.square().sum(0)
    enough = 1e-6 * squared
    for _ in range(MAX_STEPS):
        image = scale * (gram @ (scale * direction)) + direction
        step = squared / (direction * image).sum(0).clamp(min=1e-30)
        z += step * direction
        residual -= step * image
        previous, squared = squared, residual.square().sum(0)
        if bool((squared <= enough).all()):
            break
        direction = residual + squared / previous.clamp(min=1e-30) * direction
    return scale * z, mean
