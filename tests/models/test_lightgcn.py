from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import Split
from recveil.metrics.ranking import collect_seen_items, evaluate
from recveil.models.lightgcn import LightGCN, _Graph, _normalize_edges
from recveil.models.sampling import build_interaction_matrix, make_positives
from recveil.models.sparse_products import SparseMatrix
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK: dict[str, Any] = {"embedding_size": 8, "epochs": 15, "learning_rate": 0.05}


def graph(split: Split, recency: float = 0.0) -> sparse.csr_array:
    edges = build_interaction_matrix(split.train, recency)
    return _normalize_edges(edges, np.asarray(edges.sum(0)))


def network(**options: Any) -> _Graph:
    board, seeded = make_checkerboard(n_items=5, copies=2), torch.Generator().manual_seed(0)
    made = SparseMatrix(graph(board), torch.device("cpu"))
    return _Graph(LightGCN(embedding_size=4, **options), make_positives(board.train), made, seeded)


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"candidates": 1, "layers": 1, "recency": 1.0}])
def test_the_contract(options: dict[str, Any]) -> None:
    check_recommender(lambda: LightGCN(**QUICK, **options, device="cpu"))


@pytest.mark.thorough
def test_the_defaults_solve_the_checkerboard_too() -> None:
    board = make_checkerboard()
    model = LightGCN(epochs=30, device="cpu").fit(board, rng=make_generator(1, "t"))
    assert evaluate(model.score, board, ks=(2,))["hit_rate@2"].value > 0.9


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: LightGCN(**QUICK, device="cuda"), same_bytes=False)


def test_vectors_are_the_mean_of_powers_of_the_normalized_graph() -> None:
    net = network(layers=3)
    seen_pairs = collect_seen_items(make_checkerboard(n_items=5, copies=2).train).toarray().astype(float)
    n, m = seen_pairs.shape
    whole = np.block([[np.zeros((n, n)), seen_pairs], [seen_pairs.T, np.zeros((m, m))]])
    degree = whole.sum(1)
    whole /= np.sqrt(np.outer(degree, degree))
    start = np.concatenate([net.user.detach().numpy(), net.item.detach().numpy()])
    expected = sum(np.linalg.matrix_power(whole, k) @ start for k in range(4)) / 4
    found = torch.cat([net.compute_user_vectors(torch.arange(n)), net.compute_item_vectors()]).detach().numpy()
    assert np.allclose(found, expected, atol=1e-6)


def test_the_loss_is_the_one_of_the_paper() -> None:
    net = network(candidates=1, reg=0.3)
    users, liked, drawn = (part[0] for part in net.draw_epoch(torch.Generator().manual_seed(0)))
    with torch.no_grad():
        p, q = (part.numpy() for part in net.propagate())
    margin = (p[users] * (q[liked] - q[drawn[:, 0]])).sum(1)
    user, item = net.user.detach().numpy(), net.item.detach().numpy()
    size = (user[users] ** 2).sum(1) + (item[liked] ** 2).sum(1) + (item[drawn[:, 0]] ** 2).sum(1)
    expected = (np.log1p(np.exp(-margin)) + 0.3 * size).mean()
    assert net.loss(users, liked, drawn).item() == pytest.approx(expected, rel=1e-5)


def test_cached_vectors_are_dropped_when_learning_continues() -> None:
    net = network()
    net.train(False)
    with torch.no_grad():
        before = net.compute_item_vectors()
        assert net.compute_item_vectors() is before
        net.train(True)
        net.item += 1.0
        assert not torch.allclose(net.compute_item_vectors(), before)
    assert net.cached is None  # nothing is kept while learning


def test_loss_and_vectors_of_one_step_share_one_propagation() -> None:
    net = network()
    batch = [part[0] for part in net.draw_epoch(torch.Generator().manual_seed(0))]
    users = torch.arange(4)
    apart = []
    for work in (
        lambda: net.loss(*batch),
        lambda: net.compute_user_vectors(users).square().sum() + net.compute_item_vectors().sum(),
    ):
        apart.append(torch.autograd.grad(work(), [net.user, net.item]))
        assert net.cached is None  # the gradient was here
    loss = net.loss(*batch)
    flowed = net.cached
    loss = loss + net.compute_user_vectors(users).square().sum() + net.compute_item_vectors().sum()
    assert flowed is not None
    assert net.cached is flowed
    both = torch.autograd.grad(loss, [net.user, net.item])
    for one, two, sum_ in zip(*apart, both, strict=True):
        torch.testing.assert_close(one + two, sum_)
    assert net.cached is None
    with torch.no_grad():
        net.user += 1.0
        assert float(net.compute_user_vectors(users).sum() - flowed[0][users].sum()) > 1.0


def test_the_vectors_of_the_best_epoch_are_released() -> None:
    board = make_checkerboard()
    model = LightGCN(**QUICK, patience=3, device="cpu").fit(board, rng=make_generator(0, "t"))
    assert np.allclose(model.item_layers_.mean(0), model.item_vectors_, atol=1e-6)
    scores = evaluate(model.score, board, part="valid")["ndcg@10"].value
    assert scores == pytest.approx(max(model.history_.valid), abs=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("layers", [0, 2])
def test_folded_in_users_are_ranked_like_those_of_training(layers: int) -> None:
    board = make_checkerboard()
    model = LightGCN(**QUICK, layers=layers, device="cpu").fit(board, rng=make_generator(0, "t"))
    items = model.item_vectors_.copy()
    seen = collect_seen_items(board.train)
    histories = np.split(seen.indices.astype(np.int64), seen.indptr[1:-1])
    vectors = model.fold_in(histories, rng=make_generator(0, "fold"))
    assert vectors.shape == model.user_vectors_.shape
    assert np.array_equal(items, model.item_vectors_)
    assert evaluate(lambda users: model.score(users, vectors[users]), board, ks=(2,))["hit_rate@2"].value > 0.9


def test_a_user_without_interactions_gets_only_the_own_row() -> None:
    edges = sparse.csr_array(np.array([[1.0, 1.0], [0.0, 0.0]]))
    normalized = _normalize_edges(edges, np.asarray(edges.sum(0))).toarray()
    assert np.allclose(normalized, [[2**-0.5, 2**-0.5], [0, 0]])


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(UsageError, match="'layers' of LightGCN is -1"):
        LightGCN(layers=-1)
    with pytest.raises(UsageError, match="'candidates' of LightGCN is 0"):
        LightGCN(candidates=0)
