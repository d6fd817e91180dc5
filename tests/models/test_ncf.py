from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.metrics.ranking import collect_seen_items, evaluate
from recveil.models import ncf
from recveil.models.ncf import NCF, _NeuMF
from recveil.models.persistence import load_model, save_model
from recveil.models.sampling import make_positives
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK: dict[str, Any] = {"embedding_size": 8, "epochs": 20, "learning_rate": 0.03}


@pytest.fixture(scope="module")
def model() -> NCF:
    return NCF(**QUICK, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"layers": (6,), "candidates": 3, "recency": 1.0}])
def test_the_contract(options: dict[str, Any]) -> None:
    check_recommender(lambda: NCF(**QUICK, **options, device="cpu"))


def test_the_defaults_solve_the_checkerboard_too() -> None:
    board = make_checkerboard()
    model = NCF(device="cpu").fit(board, rng=make_generator(1, "t"))
    assert evaluate(model.score, board, ks=(2,))["hit_rate@2"].value > 0.9


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: NCF(**QUICK, device="cuda"), same_bytes=False)


def by_hand(model: NCF, user: np.ndarray, item: np.ndarray) -> float:
    """NeuMF as in the paper: product and network on the joined vectors, joined again, one last layer."""
    w, d = model.weights_, model.embedding_size
    joined = np.concatenate([user[d:], item[d:]])
    hidden = np.maximum(np.hstack([w["of_user.weight"], w["of_item.weight"]]) @ joined + w["of_user.bias"], 0)
    hidden = np.maximum(w["deeper.0.weight"] @ hidden + w["deeper.0.bias"], 0)
    both = np.concatenate([user[:d] * item[:d], hidden])
    return float(np.concatenate([w["product"], w["last.weight"][0]]) @ both + w["last.bias"][0])


def test_the_score_is_that_of_the_paper(model: NCF) -> None:
    scores = model.score(np.array([5, 90]))
    for row, u in enumerate((5, 90)):
        for i in (0, 7, 23):
            expected = by_hand(model, model.user_vectors_[u], model.item_vectors_[i])
            assert scores[row, i] == pytest.approx(expected, abs=1e-4)


def test_pairs_and_whole_catalog_are_one_model() -> None:
    seeded = torch.Generator().manual_seed(0)
    net = _NeuMF(NCF(embedding_size=4), make_positives(make_checkerboard().train), seeded)
    items = torch.arange(24).expand(3, -1)
    every = net.score_items(net.compute_user_vectors(torch.arange(3)))
    assert torch.allclose(net.head.score_pairs(net.user[:3], net.item[items]), every, atol=1e-6)


def test_the_loss_is_cross_entropy_with_negatives() -> None:
    seeded = torch.Generator().manual_seed(0)
    net = _NeuMF(
        NCF(embedding_size=4, n_negatives=3, candidates=1, reg=0.1), make_positives(make_checkerboard().train), seeded
    )
    users, liked, others = (part[0] for part in net.draw_epoch(seeded))
    every = net.score_items(net.user).detach().double().numpy()
    chance = 1 / (1 + np.exp(-every))
    hit, miss = chance[users, liked], chance[users[:, None], others]
    size = (net.user[users] ** 2).sum() + (net.item[liked] ** 2).sum() + (net.item[others] ** 2).sum()
    expected = (-np.log(hit).sum() - np.log(1 - miss).sum()) / (4 * len(users)) + 0.1 * size.item() / len(users)
    assert net.loss(users, liked, others).item() == pytest.approx(expected, rel=1e-5)


def test_both_tables_are_released_and_both_are_needed(model: NCF) -> None:
    users = np.arange(10)
    own = model.user_vectors_[users]
    assert own.shape == (10, 16)
    for half in (slice(0, 8), slice(8, 16)):
        changed = own.copy()
        changed[:, half] = 0.0
        assert not np.allclose(model.score(users, changed), model.score(users), atol=1e-3)


def test_blocks_change_nothing(model: NCF, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = model.score(np.arange(20))
    monkeypatch.setitem(ncf._BLOCK_NUMBERS, "cpu", 1000)
    assert np.allclose(model.score(np.arange(20)), whole, atol=1e-6)
    assert model.score(np.arange(0)).shape == (0, 24)


def test_folded_in_users_are_ranked_like_those_of_training(model: NCF, tmp_path: Path) -> None:
    board = make_checkerboard()
    items, head = model.item_vectors_.copy(), {name: value.copy() for name, value in model.weights_.items()}
    seen = collect_seen_items(board.train)
    histories = np.split(seen.indices.astype(np.int64), seen.indptr[1:-1])
    vectors = model.fold_in(histories, rng=make_generator(0, "fold"))
    assert vectors.shape == model.user_vectors_.shape
    assert np.array_equal(items, model.item_vectors_)
    assert all(np.array_equal(head[name], value) for name, value in model.weights_.items())
    assert evaluate(lambda users: model.score(users, vectors[users]), board, ks=(2,))["hit_rate@2"].value > 0.9
    save_model(model, tmp_path, name="ncf")
    back = load_model(tmp_path)
    assert np.array_equal(vectors, back.fold_in(histories, rng=make_generator(0, "fold")))  # type: ignore[attr-defined]


def test_wrong_calls_are_errors(model: NCF) -> None:
    with pytest.raises(UsageError, match=r"shape \(2, 8\).*\(2, 16\).*GMF"):
        model.score(np.arange(2), np.zeros((2, 8), np.float32))
    for layers in ((), (8, 0)):
        with pytest.raises(UsageError, match="The option 'layers' of NCF"):
            NCF(layers=layers)
