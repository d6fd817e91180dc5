from __future__ import annotations

import numpy as np

from recveil.audits.attribute.equal_classes import draw_equal_classes
from recveil.core.types import Attribute


def test_every_class_has_as_many_users_as_the_smallest_and_undisclosed_users_are_left_out() -> None:
    codes = np.repeat([0, 1, 3, -1], [50, 20, 30, 40])
    attribute = Attribute("a", codes, ("x", "y", "nobody", "z"))
    rows = draw_equal_classes(attribute, rng=np.random.default_rng(0))
    assert np.bincount(codes[rows]).tolist() == [20, 20, 0, 20]
    assert (np.diff(rows) > 0).all()
    assert not np.array_equal(rows, draw_equal_classes(attribute, rng=np.random.default_rng(1)))
    nobody = Attribute("a", np.full(5, -1), ("x", "y"))
    assert len(draw_equal_classes(nobody, rng=np.random.default_rng(0))) == 0
