from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.tensors import cast_like, convert_tensor


def test_types_that_numpy_does_not_know_become_floats() -> None:
    array = convert_tensor(torch.ones(2, 2).bfloat16(), "x", Path("f"))
    assert array.dtype == np.float32
    assert convert_tensor(torch.ones(2, 2).half(), "x", Path("f")).dtype == np.float16
    with pytest.raises(DataError, match="as a whole number or as text"):
        convert_tensor(torch.ones(2).bfloat16(), "ids", Path("f"))
    with pytest.raises(DataError, match="holds bool, not numbers"):
        convert_tensor(torch.ones(2, 2) > 0, "x", Path("f"))


def test_vectors_are_cast_to_the_type_of_the_original() -> None:
    x = np.array([[1.5, 70000.0]], np.float32)
    assert cast_like(x, torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64
    assert cast_like(x, torch.ones(1, 2, dtype=torch.int64)).dtype == torch.float32
    with pytest.raises(UsageError, match=r"up to 7.0e\+04, which do not fit into torch.float16"):
        cast_like(x, torch.ones(1, 2, dtype=torch.float16))
