"""The attackers by name; that each keeps its promises is in test_catalog."""

from __future__ import annotations

import pytest

from recveil.attacks.attribute.battery import ATTACKS, PANELS
from recveil.errors import UsageError


def test_the_fast_panel_has_one_of_each_kind() -> None:
    """A line, a quadric, distances, cuts and a network: each sees something that another does not."""
    assert PANELS["fast"] == ("logistic", "qda", "knn", "trees", "mlp")
    assert set(ATTACKS) >= {name for members in PANELS.values() for name in members}


@pytest.mark.parametrize("name", ["logistic", "mlp"])
def test_the_device_is_handed_on(name: str) -> None:
    assert ATTACKS[name]("cpu").device == "cpu"
    with pytest.raises(UsageError, match="No device is called 'gpu7'"):
        ATTACKS[name]("gpu7").guess(None, None, 2, [], rng=None)
