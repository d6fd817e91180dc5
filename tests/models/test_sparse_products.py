from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from recveil.models.sparse_products import SparseMatrix, multiply_sparse


@pytest.mark.parametrize("transposed", [False, True])
def test_value_and_gradient_agree_with_the_dense_product(transposed: bool) -> None:
    rng = np.random.default_rng(0)
    dense = (rng.random((7, 5)) < 0.4) * rng.standard_normal((7, 5))
    dense[2], dense[6] = 0.0, 0.0
    matrix = SparseMatrix(sparse.csr_array(dense), torch.device("cpu"))
    plain = torch.as_tensor((dense.T if transposed else dense).astype(np.float32))
    x = torch.randn(plain.shape[1], 3, generator=torch.Generator().manual_seed(0), requires_grad=True)
    weight = torch.randn(plain.shape[0], 3, generator=torch.Generator().manual_seed(1))
    (one,) = torch.autograd.grad((multiply_sparse(matrix, x, transposed=transposed) * weight).sum(), x)
    (two,) = torch.autograd.grad(((plain @ x) * weight).sum(), x)
    assert torch.allclose(multiply_sparse(matrix, x, transposed=transposed), plain @ x, atol=1e-6)
    assert torch.allclose(one, two, atol=1e-6)
