from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.option_types import Width
from recveil.models.vector_model import VectorModel


@dataclass
class _Model(VectorModel):
    embedding_size: Width = 2


def test_scores_are_products_and_other_vectors_can_replace_those_of_users() -> None:
    model, rng = _Model(), np.random.default_rng(0)
    model.user_vectors_, model.item_vectors_ = rng.standard_normal((4, 2)), rng.standard_normal((3, 2))
    assert np.allclose(model.score(np.array([2, 0])), model.user_vectors_[[2, 0]] @ model.item_vectors_.T)
    others = np.ones((1, 2), dtype=np.float32)
    assert np.allclose(model.score(np.array([2]), others), others @ model.item_vectors_.T)
    with pytest.raises(UsageError, match="user_vectors has shape"):
        model.score(np.array([2]), np.ones((1, 3)))


def test_options_are_checked_and_what_is_learned_is_no_option() -> None:
    with pytest.raises(UsageError, match="embedding_size"):
        _Model(embedding_size=0)
    assert [each.name for each in fields(_Model) if each.init] == ["embedding_size"]
    assert _Model().history_ is None
