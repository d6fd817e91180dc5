from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.metrics.ranking import collect_seen_items
from recveil.models import als
from recveil.models.als import ALS
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard


def uneven(seed: int = 0) -> Split:
    """Histories of very different lengths, one user without any, one item without users."""
    rng = np.random.default_rng(seed)
    seen_pairs = rng.random((50, 40)) < rng.beta(0.5, 2, (50, 1))
    seen_pairs[7], seen_pairs[:, 11] = False, False
    user, item = np.nonzero(seen_pairs)
    whole = Dataset("uneven", user, item, None, np.arange(50), np.arange(40))
    nothing = whole.take(np.zeros(len(user), bool))
    return Split(whole, nothing, nothing)


def histories(split: Split) -> list[np.ndarray]:
    seen = collect_seen_items(split.train)
    return np.split(seen.indices.astype(np.int64), seen.indptr[1:-1])


def objective(model: ALS, seen_pairs: np.ndarray) -> float:
    p, q = model.user_vectors_.astype(float), model.item_vectors_.astype(float)
    scores = p @ q.T
    fit = (seen_pairs * (1 - scores) ** 2).sum() + model.weight * (scores**2).sum()
    users = (seen_pairs.sum(1) + model.weight * seen_pairs.shape[1]) * (p**2).sum(1)
    items = (seen_pairs.sum(0) + model.weight * seen_pairs.shape[0]) * (q**2).sum(1)
    return float(fit + model.reg * (users.sum() + items.sum()))


@pytest.mark.parametrize("recency", [0.0, 1.0])
def test_the_contract(recency: float) -> None:
    check_recommender(lambda: ALS(embedding_size=6, epochs=10, recency=recency, device="cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: ALS(embedding_size=6, epochs=10, device="cuda"), same_bytes=False)


def test_user_vectors_are_the_textbook_solution() -> None:
    split = uneven()
    model = ALS(embedding_size=4, epochs=2).fit(split, rng=make_generator(0, "t"))
    q = model.item_vectors_.astype(float)
    for u, items in enumerate(histories(split)):
        evidence = len(items) + model.weight * len(q)
        left = q[items].T @ q[items] + model.weight * q.T @ q + model.reg * evidence * np.eye(4)
        assert np.allclose(model.user_vectors_[u], np.linalg.solve(left, q[items].sum(0)), atol=1e-4)


def test_each_round_lowers_the_objective() -> None:
    split = uneven()
    seen_pairs = collect_seen_items(split.train).toarray() > 0
    values = [
        objective(ALS(embedding_size=4, epochs=n).fit(split, rng=make_generator(0, "t")), seen_pairs)
        for n in (1, 2, 4, 8)
    ]
    assert all(after < before for before, after in zip(values, values[1:], strict=False))


def test_folding_a_training_history_in_gives_back_its_vector() -> None:
    split = uneven()
    model = ALS(embedding_size=4, epochs=3).fit(split, rng=make_generator(0, "t"))
    assert np.allclose(model.fold_in(histories(split)), model.user_vectors_, atol=1e-6)
    some = [histories(split)[u][::-1] for u in (3, 30)]
    assert np.allclose(model.fold_in(some), model.user_vectors_[[3, 30]], atol=1e-6)
    assert np.allclose(model.fold_in([np.array([], np.int64)]), 0.0)


def test_with_recency_folding_in_needs_the_order_of_time_and_is_exact_too() -> None:
    board = make_checkerboard()
    model = ALS(embedding_size=4, epochs=3, recency=2.0).fit(board, rng=make_generator(0, "t"))
    order = np.lexsort((board.train.time, board.train.user))
    in_time = list(board.train.item[order].reshape(96, 10))
    assert np.allclose(model.fold_in(in_time), model.user_vectors_, atol=1e-5)
    assert not np.allclose(model.fold_in([h[::-1] for h in in_time]), model.user_vectors_, atol=1e-2)


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    split = uneven()
    whole = ALS(embedding_size=4, epochs=3).fit(split, rng=make_generator(0, "t"))
    monkeypatch.setattr(als, "_BLOCK_NUMBERS", 200)
    pieces = ALS(embedding_size=4, epochs=3).fit(split, rng=make_generator(0, "t"))
    assert np.allclose(whole.user_vectors_, pieces.user_vectors_, atol=1e-5)


def test_wrong_calls_are_errors() -> None:
    board = make_checkerboard()
    with pytest.raises(UsageError, match="no in-training defense"):
        ALS().fit(board, penalty=object(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'reg' of ALS is 0"):
        ALS(reg=0)
    with pytest.raises(DataError, match="names item 99"):
        ALS(epochs=1).fit(board, rng=make_generator(0, "t")).fold_in([np.array([99])])
