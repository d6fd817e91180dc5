"""Kernel ridge regression of the class, with Gaussian and Laplace kernels, class-balanced.

On tables with uneven activity it finds what trees and networks miss: classes that differ in small neighborhoods.
Kernels centered at a sample of the users (Nystroem) miss that, so the regression is exact, by conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
import torch

from recveil.attacks.attribute.classic import compute_balanced_weights
from recveil.core.device import resolve_device
from recveil.core.option_types import Count, SeedNumber
from recveil.core.traits import AttackTraits
from recveil.core.types import FloatArray, IntArray
from recveil.transport.kernel_regression import KernelSetting, choose_setting, compute_kernel, solve_ridge

__all__ = ["KernelRidge"]

METHODS = (AttackTraits("kernel-ridge", builder="KernelRidge", panels=("full", "strong"), rank=95),)

MAX_CLASSES_AT_FULL_SIZE = 8
"""Above this many classes fewer users are learned from, so that the cost stays the same."""

BLOCK_ROWS = 2_048
"""Users whose kernel values are held at once when guesses are made."""


@dataclass
class KernelRidge:
    """Kernel ridge regression of the class, class-balanced and exact.

    Kernel, bandwidth and ridge are chosen on an inner split of up to 5,000 training users. Above `max_users` training
    users it learns from a sample of them, since time and memory grow with their square.
    """

    max_users: Count = 12_000
    seed: SeedNumber = 0
    device: str | None = None
    _users: torch.Tensor = field(init=False, repr=False)
    _coefficients: torch.Tensor = field(init=False, repr=False)
    _mean: torch.Tensor = field(init=False, repr=False)
    _setting: KernelSetting = field(init=False, repr=False)

    def fit(self, x: FloatArray, y: IntArray) -> Self:
        """Choose the setting and solve for the class indicators."""
        rows = self._sample_users(y)
        classes, codes = np.unique(y[rows], return_inverse=True)
        device = resolve_device(self.device)
        self._users = torch.as_tensor(np.asarray(x[rows], dtype=np.float32), device=device)
        indicators = np.eye(len(classes), dtype=np.float32)[codes]
        # Of two classes one column is enough: the other is the rest.
        targets = torch.as_tensor(indicators[:, : 1 if len(classes) == 2 else None], device=device)
        weights = torch.as_tensor(compute_balanced_weights(codes).astype(np.float32), device=device)
        self._setting = choose_setting(self._users, targets, weights)
        gram = compute_kernel(self._users, self._users, self._setting)
        self._coefficients, self._mean = solve_ridge(gram, targets, weights[:, None] / self._setting.ridge)
        return self

    def _sample_users(self, y: IntArray) -> IntArray:
        """Draw the users to learn from, in random order: at most `max_users`, and one of every class."""
        order = np.random.default_rng(self.seed).permutation(len(y))
        n_classes = len(np.unique(y))
        most = int(self.max_users * min(1.0, MAX_CLASSES_AT_FULL_SIZE / n_classes) ** 0.5)
        first_of_class = order[np.unique(y[order], return_index=True)[1]]
        rest = order[~np.isin(order, first_of_class)]
        return np.asarray(np.concatenate([rest[: max(0, most - n_classes)], first_of_class]))

    def predict_proba(self, x: FloatArray) -> FloatArray:
        """Return the predicted class indicators, cut to probabilities."""
        rows = torch.as_tensor(np.asarray(x, dtype=np.float32), device=self._users.device)
        guesses = [
            compute_kernel(block, self._users, self._setting) @ self._coefficients + self._mean
            for block in torch.split(rows, BLOCK_ROWS)
        ]
        beliefs = torch.cat(guesses)
        beliefs = (torch.cat([beliefs, 1 - beliefs], 1) if beliefs.shape[1] == 1 else beliefs).clamp(min=1e-6)
        return np.asarray((beliefs / beliefs.sum(1, keepdim=True)).cpu().numpy(), dtype=np.float64)
