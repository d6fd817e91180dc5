from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError
from recveil.data.io.formats.npy import FORMAT, load_npy


def test_the_array_keeps_its_type(tmp_path: Path) -> None:
    x = np.ones((2, 3), np.float16)
    np.save(tmp_path / "a.npy", x)
    assert FORMAT.list_arrays(tmp_path / "a.npy") == {"embedding": (2, 3)}
    FORMAT.write_arrays(tmp_path / "b", {"embedding": x.astype("f4")}, original=tmp_path / "a.npy", dropped=())
    assert load_npy(tmp_path / "b").dtype == np.float16
    with pytest.raises(DataError, match="no file"):
        load_npy(tmp_path / "none.npy")
