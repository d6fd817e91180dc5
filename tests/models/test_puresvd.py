from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.metrics.ranking import collect_seen_items
from recveil.models.puresvd import PureSVD
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard


def fitted(d: int = 6) -> PureSVD:
    return PureSVD(embedding_size=d).fit(make_checkerboard(), rng=make_generator(0, "t"))


def test_the_contract() -> None:
    check_recommender(lambda: PureSVD(embedding_size=6))


def test_no_table_of_that_rank_is_nearer_to_the_data() -> None:
    seen_pairs = collect_seen_items(make_checkerboard().train).toarray()
    model = fitted()
    gap = seen_pairs - model.user_vectors_ @ model.item_vectors_.T
    values = np.linalg.svd(seen_pairs.astype(np.float64), compute_uv=False)
    assert np.isclose((gap**2).sum(), (values[6:] ** 2).sum(), rtol=1e-4)  # Eckart and Young


def test_a_training_history_folded_in_is_that_users_vector() -> None:
    seen = collect_seen_items(make_checkerboard().train)
    histories = np.split(seen.indices.astype(np.int64), seen.indptr[1:-1])
    model = fitted()
    assert np.allclose(model.fold_in(histories), model.user_vectors_, atol=1e-5)
    assert not np.allclose(model.fold_in(histories[::-1]), model.user_vectors_, atol=1e-5)


def test_a_rank_that_the_data_do_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="between 1 and"):
        fitted(4_000)


def test_it_takes_no_penalty() -> None:
    with pytest.raises(UsageError, match="no in-training defense"):
        PureSVD().fit(make_checkerboard(), penalty=object(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
