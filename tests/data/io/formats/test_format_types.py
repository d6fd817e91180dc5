from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.data.io.formats.format_types import cast_vectors


def test_vectors_fit_their_type_or_are_refused() -> None:
    x = np.array([[1.5, 70000.0]], np.float32)
    assert cast_vectors(x, np.dtype(np.float64)).dtype == np.float64
    assert cast_vectors(x, np.dtype(np.int32)).dtype == np.float32
    with pytest.raises(UsageError, match="do not fit into float16"):
        cast_vectors(x, np.dtype(np.float16))
