from __future__ import annotations

import math

import pytest

from recveil.core.errors import MissingExtra
from recveil.core.extras import import_extra


def test_a_missing_package_names_its_extra() -> None:
    assert import_extra("math", "none", "count") is math
    with pytest.raises(MissingExtra, match=r"read x.h5, the package no_such_package .* 'recveil\[hdf5\]'"):
        import_extra("no_such_package.part", "hdf5", "read x.h5")
