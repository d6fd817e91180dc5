"""Modules of torch: tables by name, biases, and scores of their own."""

from __future__ import annotations

import numpy as np
import torch

from integrations.torch_module import MODEL, USER_IDS, M, read_module


def test_tables_of_a_module_are_found_by_name_and_scores_add_the_bias() -> None:
    release = read_module()
    users, items = MODEL.user_table.weight.detach().numpy(), MODEL.item_table.weight.detach().numpy()
    np.testing.assert_array_equal(release.user_vectors, users)
    rows = np.array([3, 5])
    expected = users[rows] @ items.T + np.linspace(0, 1, M)
    np.testing.assert_allclose(release.score(rows, release.user_vectors[rows]), expected, atol=1e-5)
    assert not release.is_dot_product
    assert read_module(item_bias=None).is_dot_product
    table = release.to_arrow()
    assert table.column("user_id").to_pylist() == USER_IDS
    np.testing.assert_allclose(table.column("embedding")[7].as_py(), users[7])


def test_a_model_with_its_own_score_is_ranked_by_it() -> None:
    release = read_module(score=lambda users, x: -torch.as_tensor(x @ MODEL.item_table.weight.detach().numpy().T))
    plain = read_module(item_bias=None)
    rows = np.arange(3)
    np.testing.assert_allclose(
        release.score(rows, release.user_vectors[rows]), -plain.score(rows, plain.user_vectors[rows]), atol=1e-5
    )
