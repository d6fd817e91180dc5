from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, IntArray
from recveil.metrics.ranking import collect_seen_items, evaluate, ndcg, rank
from recveil.models.gru4rec import GRU4Rec, _Reader
from recveil.models.persistence import load_model, save_model
from recveil.models.sequences import Windows, make_histories
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK = {"hidden_size": 12, "epochs": 12, "learning_rate": 0.03, "max_length": 6, "dropout": 0.1}


def read(*parts: Dataset) -> list[IntArray]:
    """Each user's history over these parts, oldest first."""
    line = make_histories(*parts)
    return [part.numpy() for part in line.item[:-1].split(line.sizes.tolist())]


@pytest.fixture(scope="module")
def model() -> GRU4Rec:
    return GRU4Rec(**QUICK, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_the_contract() -> None:
    check_recommender(lambda: GRU4Rec(**QUICK, device="cpu"))  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: GRU4Rec(**QUICK, device="cuda"), same_bytes=False)  # type: ignore[arg-type]


def test_the_next_item_is_known_not_only_the_group(model: GRU4Rec) -> None:
    assert evaluate(model.score, make_checkerboard(), ks=(1,))["hit_rate@1"].value > 0.9


def test_the_released_state_has_read_the_validation_item(model: GRU4Rec) -> None:
    board = make_checkerboard()
    assert np.allclose(model.fold_in(read(board.train, board.valid)), model.user_vectors_, atol=1e-5)
    assert not np.allclose(model.fold_in(read(board.train)), model.user_vectors_, atol=1e-2)


def test_validation_is_judged_without_the_validation_item(model: GRU4Rec) -> None:
    board = make_checkerboard()
    rows = model.fold_in(read(board.train))
    ranks = rank(lambda users: rows[users] @ model.item_vectors_.T, board.valid, collect_seen_items(board.train))
    assert ndcg(ranks, 10).mean() == pytest.approx(model.history_.valid[model.history_.best], abs=1e-3)


def test_the_test_items_are_never_looked_at(model: GRU4Rec) -> None:
    board = make_checkerboard()
    other = replace(board, test=replace(board.test, item=board.test.item[::-1].copy()))
    again = GRU4Rec(**QUICK, device="cpu").fit(other, rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert np.array_equal(model.user_vectors_, again.user_vectors_)


def test_the_global_generator_is_not_used() -> None:
    before = torch.get_rng_state()
    GRU4Rec(**{**QUICK, "epochs": 1}, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())


def test_only_the_latest_items_count_and_company_does_not(model: GRU4Rec) -> None:
    long, short = np.arange(12), np.arange(6, 12)
    alone, with_others = model.fold_in([short]), model.fold_in([long, np.array([3]), short, np.array([], np.int64)])
    assert np.allclose(with_others[0], alone[0], atol=1e-6)
    assert np.allclose(with_others[2], alone[0], atol=1e-6)
    assert not np.allclose(with_others[1], with_others[3], atol=1e-2)
    assert not np.allclose(model.fold_in([short[::-1]]), alone, atol=1e-2)


def test_the_loss_is_the_cross_entropy_of_each_next_item() -> None:
    board = make_checkerboard(n_items=4, copies=2)
    seeded = torch.Generator().manual_seed(0)
    net = _Reader(GRU4Rec(hidden_size=5, dropout=0.0, max_length=9), make_histories(board.train), seeded)
    net.windows = Windows(net.histories, 9)
    batches = net.draw_epoch(seeded)
    losses, counts = [], []
    for history in read(board.train):
        state, start = torch.zeros(1, 1, 5), net.item[-1]
        for item, before in zip(history, [start, *net.item[history[:-1]]], strict=True):
            _, state = net.gru(before[None, None], state)
            losses.append(-torch.log_softmax(net.item[:-1] @ state[0, 0], 0)[item].item())
    ours = [net.loss(*(part[step] for part in batches)).item() for step in range(len(batches[0]))]
    counts = (batches[2] >= 0).sum(1).tolist()
    assert np.average(ours, weights=counts) == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_loaded_model_folds_in_alike(model: GRU4Rec, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m", name="gru4rec")
    back = load_model(tmp_path / "m")
    history = [np.array([5, 6, 7])]
    assert np.array_equal(back.fold_in(history), model.fold_in(history))  # type: ignore[attr-defined]


def test_wrong_options_are_errors() -> None:
    with pytest.raises(UsageError, match="'max_length' of GRU4Rec is 0"):
        GRU4Rec(max_length=0)
