"""Two losses, one table: the weight of multiple-gradient descent (MGDA), and the descent of AttrCloak's Algorithm 1."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import torch

from recveil.core.progress import track_progress

__all__ = ["Task", "descend_tasks", "compute_task_weight"]

Task = Callable[[torch.Tensor], tuple[float, torch.Tensor]]
"""A loss of the table and its gradient."""

WINDOW_STEPS, MIN_RELATIVE_CHANGE = 20, 1e-5
"""Stop when the loss has changed by less than this share of itself over so many steps."""


def compute_task_weight(g_u: torch.Tensor, g_r: torch.Tensor, *, floor: float = 0.0, ceiling: float = 1.0) -> float:
    """The a in [floor, ceiling] for which a g_u + (1 - a) g_r is shortest: (g_r - g_u).g_r / |g_u - g_r|^2, clipped.

    Departs: the poster's numerator ends in g_u instead of g_r, which gives a - 1 and, clipped, the floor for ever; this
    is the slides'. Equal gradients leave a open, and get the middle.
    """
    gap = g_r - g_u
    length = float(gap.square().sum())
    a = float((gap * g_r).sum()) / length if length > 0 else 0.5
    return max(min(a, ceiling), floor)


def descend_tasks(
    x: torch.Tensor,
    privacy: Task,
    retention: Task,
    weigh: Callable[[torch.Tensor, torch.Tensor], float],
    *,
    rate: float,
    steps: int,
) -> torch.Tensor:
    """Adam on a L_u + (1 - a) L_r with `weigh` choosing a anew at every step, until the loss has settled."""
    x = x.clone()
    adam = torch.optim.Adam([x], lr=rate)
    recent: deque[float] = deque(maxlen=WINDOW_STEPS + 1)
    for _ in track_progress(range(steps), "AttrCloak", steps):
        (loss_u, g_u), (loss_r, g_r) = privacy(x), retention(x)
        a = weigh(g_u, g_r)
        recent.append(a * loss_u + (1 - a) * loss_r)
        if len(recent) > WINDOW_STEPS and max(recent) - min(recent) <= MIN_RELATIVE_CHANGE * abs(recent[0]):
            break
        x.grad = a * g_u + (1 - a) * g_r
        adam.step()
    x.grad = None
    return x
