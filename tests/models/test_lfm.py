from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.metrics.ranking import collect_seen_items, evaluate
from recveil.models.lfm import LFM, _LFMFactors
from recveil.models.sampling import make_positives
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK: dict[str, Any] = {"embedding_size": 8, "epochs": 20, "learning_rate": 0.05}


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"loss": "squared", "candidates": 2}, {"recency": 1.0}])
def test_the_contract(options: dict[str, Any]) -> None:
    check_recommender(lambda: LFM(**QUICK, **options, device="cpu"))


def test_the_defaults_solve_the_checkerboard_too() -> None:
    board = make_checkerboard()
    model = LFM(device="cpu").fit(board, rng=make_generator(1, "t"))
    assert evaluate(model.score, board, ks=(2,))["hit_rate@2"].value > 0.9


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: LFM(**QUICK, device="cuda"), same_bytes=False)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_the_loss_is_the_written_one(loss: str) -> None:
    seeded = torch.Generator().manual_seed(0)
    net = _LFMFactors(
        LFM(embedding_size=5, n_negatives=3, reg=0.2, loss=loss), make_positives(make_checkerboard().train), seeded
    )
    users, liked, others = (part[0] for part in net.draw_epoch(seeded))
    net.offset.data.fill_(-0.7)
    p, q = net.user.detach().double().numpy(), net.item.detach().double().numpy()
    items = np.concatenate([liked[:, None], others], axis=1)
    score = (p[users][:, None] * q[items]).sum(2)
    truth = np.zeros_like(score)
    truth[:, 0] = 1.0
    if loss == "logistic":
        chance = 1 / (1 + np.exp(-(score - 0.7)))
        miss = -(truth * np.log(chance) + (1 - truth) * np.log(1 - chance)).mean()
    else:
        miss = ((truth - score) ** 2).mean()
    size = ((p[users] ** 2).sum() + (q[items] ** 2).sum()) / len(users)
    assert net.loss(users, liked, others).item() == pytest.approx(miss + 0.2 * size, rel=1e-5)


def test_folded_in_users_are_ranked_like_those_of_training() -> None:
    board = make_checkerboard()
    model = LFM(**QUICK, device="cpu").fit(board, rng=make_generator(0, "t"))
    items = model.item_vectors_.copy()
    seen = collect_seen_items(board.train)
    histories = np.split(seen.indices.astype(np.int64), seen.indptr[1:-1])
    vectors = model.fold_in(histories, rng=make_generator(0, "fold"))
    assert np.array_equal(items, model.item_vectors_)
    assert evaluate(lambda users: model.score(users, vectors[users]), board, ks=(2,))["hit_rate@2"].value > 0.9


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"loss": "squarred"}, "Did you mean 'squared'"),
        ({"n_negatives": 0}, "'n_negatives' of LFM is 0"),
        ({"candidates": 0}, "0"),
    ],
)
def test_wrong_settings_are_errors(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        LFM(**wrong)
