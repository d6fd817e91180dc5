"""Users cut to classes of equal size, as attackers in some papers have them.

A classifier that does not weigh classes calls everybody the majority where one class is large, and then looks harmless.
With equal classes it does not, at the price of the users who are left out: with K classes at most K times the smallest.
"""

from __future__ import annotations

import numpy as np

from recveil.core.types import Attribute, IntArray

__all__ = ["draw_equal_classes"]


def draw_equal_classes(attribute: Attribute, *, rng: np.random.Generator) -> IntArray:
    """Draw as many users of each class as the smallest class has; undisclosed users are left out.

    Args:
        attribute: the attribute, with classes.
        rng: source of the draws.

    Returns:
        The users that remain, in ascending order; classes without a user are not counted.
    """
    present, sizes = np.unique(attribute.codes[attribute.known], return_counts=True)
    if not len(present):
        return np.empty(0, dtype=np.int64)
    shuffled = rng.permutation(len(attribute.codes))
    chosen = [shuffled[attribute.codes[shuffled] == code][: sizes.min()] for code in present]
    return np.sort(np.concatenate(chosen))
