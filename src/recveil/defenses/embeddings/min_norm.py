"""Two losses of one table: the weight of multiple-gradient descent (MGDA), and the descent of AttrCloak."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch

from recveil.core.progress import track_progress

__all__ = ["Task", "compute_task_weight", "descend_tasks"]

Task = Callable[[torch.Tensor], tuple[float, torch.Tensor]]
"""A loss of the table and its gradient."""

WINDOW_STEPS = 20
"""Steps over which the change of the loss decides whether to stop."""

MIN_RELATIVE_CHANGE = 1e-5
"""Change of the loss over the window, as a share of the loss, below which the descent stops."""


def compute_task_weight(g_u: torch.Tensor, g_r: torch.Tensor, *, floor: float = 0.0, ceiling: float = 1.0) -> float:
    """Compute the a for which a g_u + (1 - a) g_r is shortest: (g_r - g_u).g_r / |g_u - g_r|^2, clipped.

    Departs: the poster's numerator ends in g_u instead of g_r, which gives a - 1 and, clipped, always the floor; the
    formula here is that of the slides. Equal gradients do not determine a, and get 0.5.

    Args:
        g_u: gradient of the privacy loss.
        g_r: gradient of the retention loss.
        floor: smallest a.
        ceiling: largest a.
    """
    gap = g_r - g_u
    length = float(gap.square().sum())
    a = float((gap * g_r).sum()) / length if length > 0 else 0.5
    return max(min(a, ceiling), floor)


def descend_tasks(
    x: torch.Tensor,
    privacy: Task,
    retention: Task,
    choose_weight: Callable[[torch.Tensor, torch.Tensor], float],
    *,
    rate: float,
    steps: int,
) -> torch.Tensor:
    """Minimize a L_u + (1 - a) L_r by Adam until the loss has settled; a is chosen at every step.

    Args:
        x: start.
        privacy: L_u with its gradient.
        retention: L_r with its gradient.
        choose_weight: function of both gradients that returns a.
        rate: learning rate.
        steps: most steps.
    """
    x = x.clone()
    adam = torch.optim.Adam([x], lr=rate)
    recent: deque[float] = deque(maxlen=WINDOW_STEPS + 1)
    for _ in track_progress(range(steps), "AttrCloak", steps):
        (loss_u, g_u), (loss_r, g_r) = privacy(x), retention(x)
        a = choose_weight(g_u, g_r)
        recent.append(a * loss_u + (1 - a) * loss_r)
        if len(recent) > WINDOW_STEPS and max(recent) - min(recent) <= MIN_RELATIVE_CHANGE * abs(recent[0]):
            break
        x.grad = a * g_u + (1 - a) * g_r
        adam.step()
    x.grad = None
    return x
