"""Predictions as a user of each class: linear ones are found, and nobody is part of her own prediction."""

from __future__ import annotations

import numpy as np

from recveil.core.types import ServedVectors
from recveil.defenses.lists.counterfactuals import compute_features, predict_by_class


def make_classes(n: int = 3_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, and a displacement that each class has in a direction of its own."""
    rng = np.random.default_rng(0)
    cloaked, cells = rng.standard_normal((n, 3)), np.arange(n) % 2
    return cloaked, np.where(cells == 0, cloaked[:, 0], -2 * cloaked[:, 1])[:, None], cells


def test_each_class_has_its_own_prediction() -> None:
    cloaked, displacement, cells = make_classes()
    as_first, as_second = predict_by_class(cloaked, displacement, cells)[..., 0]
    np.testing.assert_allclose(as_first, cloaked[:, 0], atol=0.4)  # shrunk by a fifteenth
    np.testing.assert_allclose(as_second, -2 * cloaked[:, 1], atol=0.8)


def test_nobody_is_part_of_her_own_prediction() -> None:
    cloaked, displacement, cells = make_classes(60)
    displacement[10] += 1_000
    changed = predict_by_class(cloaked, displacement, cells)
    displacement[10] -= 1_000
    kept = predict_by_class(cloaked, displacement, cells)
    np.testing.assert_allclose(changed[cells[10], 10], kept[cells[10], 10], atol=1e-6)
    assert np.abs(changed[cells[10], 12] - kept[cells[10], 12]).max() > 1


def test_undisclosed_users_are_predicted_and_change_nothing() -> None:
    cloaked, displacement, cells = make_classes(200)
    cells[:20] = -1
    other = displacement.copy()
    other[:20] = 7.0
    predicted = predict_by_class(cloaked, displacement, cells)
    assert (predicted[:, :20] != 0).all()
    np.testing.assert_array_equal(predicted, predict_by_class(cloaked, other, cells))
    alone = np.where(np.arange(200) == 3, 1, 0)
    assert not predict_by_class(cloaked, displacement, alone)[1].any()  # one user is no class to learn from


def test_features_follow_from_what_is_known() -> None:
    cloaked, displacement, cells = make_classes(200)
    head = np.tile(np.arange(5), (200, 1))
    head[:50, 4] = -1  # these rankings end early
    items = np.random.default_rng(1).standard_normal((5, 3))
    is_seen = cloaked @ items.T > 0

    def count(vectors: ServedVectors | None) -> int:
        features = compute_features(vectors, cells, head, is_seen, k=1)
        taken = features.take(np.arange(2)[:, None], np.arange(200), np.array(1))
        assert taken.shape == (2, 200, features.count)
        assert np.isfinite(taken).all()
        np.testing.assert_array_equal(features.take(cells, np.arange(200), np.array(1)), taken[cells, np.arange(200)])
        return features.count

    def score(x: np.ndarray) -> np.ndarray:
        return np.where(head < 0, 0, x @ items.T)

    assert count(None) == 0
    assert count(ServedVectors(cloaked, score)) == 2
    assert count(ServedVectors(cloaked, score, cloaked + displacement)) == 3
