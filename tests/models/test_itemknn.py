from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.metrics.ranking import collect_seen_items
from recveil.models import itemknn
from recveil.models.itemknn import ItemKNN
from recveil.models.persistence import load_model, save_model
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard


def world(seed: int = 0) -> Split:
    rng = np.random.default_rng(seed)
    seen_pairs = rng.random((60, 25)) < rng.random(25) * 0.5
    seen_pairs[:, 3] = False
    user, item = np.nonzero(seen_pairs)
    user, item = np.append(user, user[0]), np.append(item, item[0])  # one pair twice
    whole = Dataset("random", user, item, None, np.arange(60), np.arange(25))
    nothing = whole.take(np.zeros(len(user), bool))
    return Split(whole, nothing, nothing)


def fitted(split: Split, neighbors: int = 20) -> ItemKNN:
    return ItemKNN(neighbors=neighbors).fit(split, rng=make_generator(0, "t"))


def test_the_contract() -> None:
    check_recommender(lambda: ItemKNN(neighbors=8))


@pytest.mark.parametrize("neighbors", [3, 24, 1000])
def test_scores_are_sums_of_cosines_over_the_nearest(neighbors: int) -> None:
    split = world()
    x = (collect_seen_items(split.train).toarray() > 0).astype(float)
    length = np.sqrt((x**2).sum(0))
    cosine = (x.T @ x) / np.maximum(np.outer(length, length), 1e-12)
    np.fill_diagonal(cosine, -1.0)
    near = np.argsort(-cosine, axis=1, kind="stable")[:, :neighbors]
    weight = np.zeros_like(cosine)
    rows = np.arange(25)[:, None]
    weight[rows, near] = np.maximum(cosine[rows, near], 0.0)
    model = fitted(split, neighbors)
    assert np.allclose(model.score(np.arange(60)), x @ weight.T, atol=1e-5)
    assert (model.score(np.arange(60))[:, 3] == 0).all()  # it has no users


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = fitted(world(), 5)
    monkeypatch.setattr(itemknn, "_BLOCK_SIMILARITIES", 60)
    assert np.array_equal(whole.score(np.arange(60)), fitted(world(), 5).score(np.arange(60)))


def test_a_folded_in_history_scores_exactly_as_the_user_of_training(tmp_path: Path) -> None:
    split = world()
    model = fitted(split)
    seen = collect_seen_items(split.train)
    users = np.array([7, 0, 33])
    rows = model.fold_in([seen.indices[seen.indptr[u] : seen.indptr[u + 1]].astype(np.int64)[::-1] for u in users])
    assert np.array_equal(model.score(np.zeros(3, np.int64), rows), model.score(users))
    save_model(model, tmp_path, name="itemknn")
    assert np.array_equal(load_model(tmp_path).score(users, rows), model.score(users))
    with pytest.raises(DataError, match="names item 25"):
        model.fold_in([np.array([25])])


def test_it_has_no_vectors() -> None:
    model = fitted(world())
    assert model.user_vectors_.shape == (60, 0)
    assert model.item_vectors_.shape == (25, 0)


def test_wrong_calls_are_errors() -> None:
    board = make_checkerboard()
    with pytest.raises(UsageError, match="no in-training defense"):
        ItemKNN().fit(board, penalty=object(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'neighbors' of ItemKNN is 0"):
        ItemKNN(neighbors=0)
    with pytest.raises(UsageError, match=r"shape \(2, 7\).*\(2, 25\).*\(2, 0\)"):
        fitted(world()).score(np.arange(2), np.zeros((2, 7), np.float32))
