"""The class divergence by the formula of AttrCloak's slides, term by term: slow, for automatic differentiation."""

from __future__ import annotations

import torch

from recveil.transport.divergence import ClassRows


def compute_long_divergence(x: torch.Tensor, classes: ClassRows, eps: float) -> torch.Tensor:
    """Compute sum_k p_k KL(N(m_k, C_k) || N(m, C)), with eps added to every variance."""
    parts = [x[rows] for rows in classes.rows]
    m, C = _fit_gaussian(torch.cat(parts), eps)
    total = x.new_zeros(())
    for p, part in zip(classes.n / classes.n.sum(), parts, strict=True):
        m_k, C_k = _fit_gaussian(part, eps)
        trace = torch.trace(torch.linalg.solve(C, C_k))
        quadratic = (m - m_k) @ torch.linalg.solve(C, m - m_k)
        total = total + p * (torch.logdet(C) - torch.logdet(C_k) - x.shape[1] + trace + quadratic) / 2
    return total


def _fit_gaussian(x: torch.Tensor, eps: float) -> tuple[torch.Tensor, torch.Tensor]:
    mean = x.mean(0)
    return mean, (x - mean).mT @ (x - mean) / len(x) + eps * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
