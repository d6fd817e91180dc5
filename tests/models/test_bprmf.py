from __future__ import annotations

import numpy as np
import pytest
import torch

from recveil.core.random import make_generator
from recveil.metrics.ranking import collect_seen_items, evaluate, rank
from recveil.models import bprmf
from recveil.models.bprmf import BPRMF, _BPRFactors
from recveil.models.sampling import make_positives
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK = {"embedding_size": 8, "epochs": 20, "learning_rate": 0.05}


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{"candidates": 1}, {"candidates": 4, "recency": 1.0}], ids=["plain", "all"])
def test_the_contract(options: dict[str, float]) -> None:
    check_recommender(lambda: BPRMF(**QUICK, **options, device="cpu"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: BPRMF(**QUICK, device="cuda"), same_bytes=False)


def test_the_defaults_solve_the_checkerboard_too() -> None:
    board = make_checkerboard()
    model = BPRMF().fit(board, rng=make_generator(1, "t"))
    assert evaluate(model.score, board, ks=(2,))["hit_rate@2"].value > 0.9


def network(**options: float) -> tuple[_BPRFactors, tuple[torch.Tensor, ...]]:
    seeded = torch.Generator().manual_seed(0)
    model = BPRMF(embedding_size=5, **options)  # type: ignore[arg-type]
    net = _BPRFactors(model, make_positives(make_checkerboard().train), seeded)
    return net, tuple(part[0] for part in net.draw_epoch(seeded))


def test_the_loss_is_the_one_of_the_paper() -> None:
    net, (users, liked, others) = network(candidates=1, reg=0.3)
    p, q = net.user.detach().numpy(), net.item.detach().numpy()
    u, i, j = p[users], q[liked], q[others[:, 0]]
    margin = (u * i).sum(1) - (u * j).sum(1)
    expected = -np.log(1 / (1 + np.exp(-margin))) + 0.3 * ((u**2).sum(1) + (i**2).sum(1) + (j**2).sum(1))
    assert net.loss(users, liked, others).item() == pytest.approx(expected.mean(), rel=1e-5)


def test_the_gradient_is_the_one_autograd_finds() -> None:
    net, (users, liked, others) = network(candidates=1, reg=0.3)
    with torch.no_grad():  # far from the start, where margins differ
        net.user.mul_(20.0)
        net.item.mul_(20.0)
    (2.5 * net.loss(users, liked, others)).backward()
    found = [net.user.grad, net.item.grad]
    p, q = (table.detach().clone().requires_grad_() for table in (net.user, net.item))
    u, i, j = p[users], q[liked], q[others[:, 0]]
    size = u.square().sum(1) + i.square().sum(1) + j.square().sum(1)
    loss = (torch.nn.functional.softplus(-(u * (i - j)).sum(1)) + 0.3 * size).mean()
    (2.5 * loss).backward()
    assert torch.allclose(found[0], p.grad, atol=1e-6)
    assert torch.allclose(found[1], q.grad, atol=1e-6)


@pytest.mark.parametrize("piece", [1, 70, 2**17])
def test_of_several_candidates_the_highest_scored_is_used(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bprmf, "_PIECE_NUMBERS", piece)
    net, (users, _, others) = network(candidates=6)
    chosen = net._select_hardest(users, others)
    scores = (net.user[users] @ net.item.T).gather(1, others)
    assert torch.equal(chosen, others.gather(1, scores.argmax(1, keepdim=True))[:, 0])


def test_the_released_tables_rank_as_the_model_does() -> None:
    board = make_checkerboard()
    model = BPRMF(**QUICK).fit(board, rng=make_generator(0, "t"))
    seen = collect_seen_items(board.train, board.valid)
    own = rank(model.score, board.test, seen)
    consumer = rank(lambda users: model.user_vectors_[users] @ model.item_vectors_.T, board.test, seen)
    longer = rank(lambda users: model.score(users, 7.5 * model.user_vectors_[users]), board.test, seen)
    assert np.array_equal(own.better, consumer.better)
    assert np.array_equal(own.better, longer.better)


def test_folded_in_users_are_ranked_like_those_of_training() -> None:
    board = make_checkerboard()
    model = BPRMF(**QUICK).fit(board, rng=make_generator(0, "t"))
    items = model.item_vectors_.copy()
    seen = collect_seen_items(board.train)
    histories = np.split(seen.indices.astype(np.int64), seen.indptr[1:-1])
    vectors = model.fold_in(histories, rng=make_generator(0, "fold"))
    assert vectors.shape == model.user_vectors_.shape
    assert np.array_equal(items, model.item_vectors_)
    assert evaluate(lambda users: vectors[users] @ items.T, board, ks=(2,))["hit_rate@2"].value > 0.9
    assert np.array_equal(vectors, model.fold_in(histories, rng=make_generator(0, "fold")))
