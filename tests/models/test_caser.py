from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, IntArray
from recveil.metrics.ranking import evaluate
from recveil.models.caser import Caser, _Filters
from recveil.models.persistence import load_model, save_model
from recveil.models.sequences import make_histories
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK = {
    "embedding_size": 8,
    "max_length": 3,
    "horizontal_filters": 4,
    "vertical_filters": 2,
    "epochs": 10,
    "learning_rate": 0.02,
    "batch_size": 128,
    "dropout": 0.1,
}


def read(*parts: Dataset) -> list[IntArray]:
    """Each user's history over these parts, oldest first."""
    line = make_histories(*parts)
    return [part.numpy() for part in line.item[:-1].split(line.sizes.tolist())]


def network(**options: float) -> _Filters:
    model = Caser(**{**QUICK, "dropout": 0.0, **options})  # type: ignore[arg-type]
    return _Filters(
        model, make_histories(make_checkerboard(n_items=5, copies=2).train), torch.Generator().manual_seed(0)
    )


@pytest.fixture(scope="module")
def model() -> Caser:
    return Caser(**QUICK, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_the_contract() -> None:
    check_recommender(lambda: Caser(**QUICK, device="cpu"))  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: Caser(**QUICK, device="cuda"), same_bytes=False)  # type: ignore[arg-type]


def test_the_filters_are_those_of_the_paper() -> None:
    net = network()
    window = torch.tensor([[4, 0, 7]])
    picture = net.item[window[0]].detach().numpy()  # (L, d)
    wide = []
    for height, layer in enumerate(net.horizontal, start=1):
        filters, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        for f, b in zip(filters, bias, strict=True):
            slides = [(picture[at : at + height].T * f).sum() + b for at in range(4 - height)]
            wide.append(max(0.0, *slides))
    down = net.vertical.weight.detach().numpy() @ picture + net.vertical.bias.detach().numpy()[:, None]
    found = np.concatenate([wide, down.T.ravel()])
    expected = np.maximum(net.join.weight.detach().numpy() @ found + net.join.bias.detach().numpy(), 0)
    assert net._apply_filters(window, 0.0).detach().numpy()[0] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("targets", [1, 3])
def test_the_loss_is_the_cross_entropy_of_the_next_items(targets: int) -> None:
    net = network(targets=targets)
    batches = net.draw_epoch(torch.Generator().manual_seed(1))
    users, places = (part[0] for part in batches)
    total, count = 0.0, 0
    for u, at in zip(users.tolist(), places.tolist(), strict=True):
        history = net.histories.item[net.histories.start[u] : net.histories.start[u + 1]].tolist()
        now = at - int(net.histories.start[u])
        window = ([10, 10, 10] + history[:now])[-3:]
        row = torch.cat([net._apply_filters(torch.tensor([window]), 0.0)[0], net.user[u]])
        likely = torch.log_softmax(net.out @ row, 0)
        total -= sum(likely[item].item() for item in history[now : now + targets])
        count += len(history[now : now + targets])
    assert net.loss(users, places).item() == pytest.approx(total / count, rel=1e-4)


def test_an_epoch_covers_every_place_of_every_history() -> None:
    net = network()
    users, places = (part.flatten() for part in net.draw_epoch(torch.Generator().manual_seed(1)))
    assert set(places.tolist()) == set(range(len(net.histories.item) - 1))
    assert (net.histories.start[users] <= places).all()
    assert (places < net.histories.start[users + 1]).all()


def test_user_vectors_hold_the_state_and_the_users_own_vector(model: Caser) -> None:
    assert model.user_vectors_.shape == (96, 16)
    assert np.array_equal(model.user_vectors_[:, 8:], model.weights_["user"])
    alike = np.flatnonzero(np.arange(96) % 12 == 0)[:4]  # the same history, four users
    assert np.allclose(model.user_vectors_[alike, :8], model.user_vectors_[alike[0], :8], atol=1e-6)
    assert not np.allclose(model.user_vectors_[alike[0], 8:], model.user_vectors_[alike[1], 8:], atol=1e-3)


@pytest.mark.thorough
def test_the_released_state_has_read_the_validation_item_and_not_the_test_item(model: Caser) -> None:
    board = make_checkerboard()
    rows = model.fold_in(read(board.train, board.valid), rng=make_generator(0, "f"))
    assert np.allclose(rows[:, :8], model.user_vectors_[:, :8], atol=1e-5)
    other = replace(board, test=replace(board.test, item=board.test.item[::-1].copy()))
    again = Caser(**QUICK, device="cpu").fit(other, rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert np.array_equal(model.user_vectors_, again.user_vectors_)


def test_folded_in_users_are_ranked_like_those_of_training(model: Caser) -> None:
    board = make_checkerboard()
    before = {name: value.copy() for name, value in model.weights_.items()}
    rows = model.fold_in(read(board.train, board.valid), rng=make_generator(0, "f"))
    assert evaluate(lambda users: rows[users] @ model.item_vectors_.T, board, ks=(2,))["hit_rate@2"].value > 0.9
    assert all(np.array_equal(before[name], value) for name, value in model.weights_.items())
    assert model.fold_in([np.array([], np.int64)], rng=make_generator(0, "f")).shape == (1, 16)


def test_a_loaded_model_folds_in_alike(model: Caser, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m", name="caser")
    back = load_model(tmp_path / "m")
    history = [np.array([5, 6, 7])]
    one, two = (m.fold_in(history, rng=make_generator(0, "f")) for m in (model, back))  # type: ignore[attr-defined]
    assert np.array_equal(one, two)


def test_the_global_generator_is_not_used() -> None:
    before = torch.get_rng_state()
    Caser(**{**QUICK, "epochs": 1}, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())


def test_wrong_options_and_empty_data_are_errors() -> None:
    board = make_checkerboard()
    with pytest.raises(UsageError, match="'dropout' of Caser is -1"):
        Caser(dropout=-1)
    with pytest.raises(UsageError, match="'targets' of Caser is 0"):
        Caser(targets=0)
    empty = replace(board, train=board.train.take(np.zeros(len(board.train), bool)))
    with pytest.raises(DataError, match="no interactions"):
        Caser().fit(empty, rng=make_generator(0, "t"))
