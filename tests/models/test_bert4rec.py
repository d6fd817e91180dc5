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
from recveil.models.bert4rec import BERT4Rec, _Transformer
from recveil.models.persistence import load_model, save_model
from recveil.models.sequences import Windows, make_histories
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK = {"hidden_size": 16, "epochs": 8, "learning_rate": 0.01, "max_length": 8, "copies": 2}


def read(*parts: Dataset) -> list[IntArray]:
    """Each user's history over these parts, oldest first."""
    line = make_histories(*parts)
    return [part.numpy() for part in line.item[:-1].split(line.sizes.tolist())]


def network(**options: float) -> _Transformer:
    seeded = torch.Generator().manual_seed(0)
    net = _Transformer(BERT4Rec(**{**QUICK, **options}), make_histories(make_checkerboard().train), seeded)  # type: ignore[arg-type]
    net.windows = Windows(net.histories, net.options.max_length)
    return net


@pytest.fixture(scope="module")
def model() -> BERT4Rec:
    return BERT4Rec(**QUICK, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]


@pytest.mark.thorough
def test_the_contract() -> None:
    check_recommender(lambda: BERT4Rec(**QUICK, device="cpu"))  # type: ignore[arg-type]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: BERT4Rec(**QUICK, device="cuda"), same_bytes=False)  # type: ignore[arg-type]


@pytest.mark.slow
def test_the_next_item_is_known_not_only_the_group() -> None:
    options = {"hidden_size": 64, "epochs": 30, "learning_rate": 0.002, "max_length": 12, "patience": 30}
    model = BERT4Rec(**options, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert evaluate(model.score, make_checkerboard(), ks=(1,))["hit_rate@1"].value > 0.9


@pytest.mark.thorough
def test_the_released_state_has_read_the_validation_item_and_not_the_test_item(model: BERT4Rec) -> None:
    board = make_checkerboard()
    assert np.allclose(model.fold_in(read(board.train, board.valid)), model.user_vectors_, atol=1e-5)
    assert not np.allclose(model.fold_in(read(board.train)), model.user_vectors_, atol=1e-2)
    other = replace(board, test=replace(board.test, item=board.test.item[::-1].copy()))
    again = BERT4Rec(**QUICK, device="cpu").fit(other, rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert np.array_equal(model.user_vectors_, again.user_vectors_)


def test_validation_is_judged_without_the_validation_item(model: BERT4Rec) -> None:
    board = make_checkerboard()
    rows = model.fold_in(read(board.train))
    ranks = rank(lambda users: rows[users] @ model.item_vectors_.T, board.valid, collect_seen_items(board.train))
    assert ndcg(ranks, 10).mean() == pytest.approx(model.history_.valid[model.history_.best], abs=1e-3)


@pytest.mark.parametrize("length", [4, 8, 15])
def test_an_epoch_masks_the_right_items(length: int) -> None:
    net = network(max_length=length, mask=0.3, copies=40, batch_size=64)
    shown, index, target = net.draw_epoch(torch.Generator().manual_seed(0))
    assert len(shown) * shown.shape[1] >= 41 * len(net.windows)
    flat, real = shown.flatten(1), target >= 0
    assert (flat.gather(1, index)[real] == net.mask).all()
    assert real.sum() == (flat == net.mask).sum()
    whole = flat.scatter(1, torch.where(real, index, index[:, :1]), torch.where(real, target, target[:, :1]))
    whole = whole.view(-1, length)
    assert (whole[:, -1] < net.padding).all()  # padded on the left
    group, turn = whole // 12, whole % 12
    both = (whole[:, 1:] < net.padding) & (whole[:, :-1] < net.padding)
    assert (((turn[:, 1:] - turn[:, :-1]) % 12 == 1) & (group[:, 1:] == group[:, :-1]))[both].all()
    gone = shown.view(-1, length) == net.mask
    assert gone.any(1).all()
    share = gone.sum() / (whole < net.padding).sum()
    mostly = 0.3 if length > 4 else 0.36  # with few items to choose from, the last one steps in more often
    assert share.item() == pytest.approx(mostly, abs=0.04)


def test_only_the_last_item_is_missing_in_the_last_copy() -> None:
    net = network()
    read_, gone = net._draw_masks(torch.Generator().manual_seed(0), 0.0)
    assert gone[:, -1].all()
    assert not gone[:, :-1].any()
    assert (read_[:, -1] < net.padding).all()


def test_padding_does_not_change_the_states() -> None:
    net = network()
    users = torch.tensor([0, 30])
    train = make_checkerboard().train
    assert train.time is not None
    net.histories = make_histories(train.take(train.time < 3))  # three items, so four places of the eight are padding
    before = net.compute_user_vectors(users).detach()
    noise = torch.randn(16, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        net.item[net.padding] += noise
        net.place[:4] += noise
    assert torch.allclose(net.compute_user_vectors(users), before, atol=1e-5)
    with torch.no_grad():
        net.place[4] += noise
    assert not torch.allclose(net.compute_user_vectors(users), before, atol=1e-3)


def test_the_loss_is_the_cross_entropy_of_the_masked_items() -> None:
    net = network(dropout=0.0)
    shown, index, target = (part[0] for part in net.draw_epoch(torch.Generator().manual_seed(0)))
    states = net._project_states(net._encode_items(shown, 0.0)).flatten(0, 1)
    likely = torch.log_softmax(net.score_items(states), 1)
    losses = [-likely[at, item].item() for at, item in zip(index.tolist(), target.tolist(), strict=True) if item >= 0]
    assert net.loss(shown, index, target).item() == pytest.approx(np.mean(losses), rel=1e-4)


def test_a_loaded_model_folds_in_alike(model: BERT4Rec, tmp_path: Path) -> None:
    save_model(model, tmp_path / "m", name="bert4rec")
    back = load_model(tmp_path / "m")
    history = [np.array([5, 6, 7]), np.array([], np.int64)]
    assert np.array_equal(back.fold_in(history), model.fold_in(history))  # type: ignore[attr-defined]


def test_the_global_generator_is_not_used() -> None:
    before = torch.get_rng_state()
    quick = {**QUICK, "epochs": 1}
    BERT4Rec(**quick, device="cpu").fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"mask": 1.0}, "'mask' of BERT4Rec is 1.0"),
        ({"heads": 3}, "hidden_size is 16 and heads is 3"),
        ({"max_length": 1}, "'max_length' of BERT4Rec is 1.*equal to 2"),
    ],
)
def test_wrong_options_are_errors(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        BERT4Rec(**{**QUICK, **wrong}).fit(make_checkerboard(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
