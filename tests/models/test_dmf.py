from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.metrics.ranking import collect_seen_items, evaluate
from recveil.models.dmf import DMF, _remove_entries, _Towers
from recveil.models.persistence import load_model, save_model
from recveil.testing.contracts_models import check_recommender
from recveil.testing.worlds import make_checkerboard

QUICK: dict[str, Any] = {"embedding_size": 8, "hidden_size": 32, "epochs": 15, "learning_rate": 0.01}


def by_time(split: Split) -> list[np.ndarray]:
    train = split.train
    order = np.lexsort((np.asarray(train.time), train.user))
    return np.split(train.item[order], np.cumsum(np.bincount(train.user, minlength=train.n_users))[:-1])


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"similarity": "cosine", "recency": 1.0, "candidates": 3}])
def test_the_contract(options: dict[str, Any]) -> None:
    check_recommender(lambda: DMF(**QUICK, **options, device="cpu"))


def test_the_defaults_solve_the_checkerboard_too() -> None:
    board = make_checkerboard()
    model = DMF(device="cpu").fit(board, rng=make_generator(1, "t"))
    assert evaluate(model.score, board, ks=(2,))["hit_rate@2"].value > 0.9


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
def test_the_contract_on_cuda() -> None:
    check_recommender(lambda: DMF(**QUICK, device="cuda"), same_bytes=False)


@pytest.mark.thorough
@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_user_vectors_are_the_tower_on_the_row(similarity: str) -> None:
    board = make_checkerboard()
    model = DMF(**QUICK, similarity=similarity, device="cpu").fit(board, rng=make_generator(0, "t"))
    w = model.weights_
    row = (collect_seen_items(board.train).toarray() > 0).astype(np.float64)
    row /= np.linalg.norm(row, axis=1, keepdims=True)
    out = np.maximum(row @ w["first"] + w["shift"], 0) @ w["second.weight"].T + w["second.bias"]
    if similarity == "cosine":
        out /= np.linalg.norm(out, axis=1, keepdims=True)
    assert np.allclose(model.user_vectors_, out, atol=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("recency", [0.0, 1.5])
def test_folding_a_training_history_in_gives_back_its_vector(recency: float, tmp_path: Path) -> None:
    board = make_checkerboard()
    model = DMF(**QUICK, recency=recency, device="cpu").fit(board, rng=make_generator(0, "t"))
    assert np.allclose(model.fold_in(by_time(board)), model.user_vectors_, atol=1e-5)
    save_model(model, tmp_path, name="dmf")
    back = load_model(tmp_path)
    some = [by_time(board)[u] for u in (40, 3)]
    assert np.allclose(back.fold_in(some), model.user_vectors_[[40, 3]], atol=1e-5)  # type: ignore[attr-defined]
    turned = [history[::-1] for history in by_time(board)]
    assert np.allclose(model.fold_in(turned), model.user_vectors_, atol=1e-5) == (recency == 0.0)


@pytest.mark.parametrize("recency", [0.0, 1.0])
def test_a_pair_is_learned_as_if_it_had_not_been_there(recency: float) -> None:
    """Leaving one entry out of the sums gives what a table without that pair would have given."""
    board = make_checkerboard(n_items=5, copies=2)
    net = _Towers(DMF(embedding_size=3, hidden_size=6, recency=recency), board.train, torch.Generator().manual_seed(0))
    users, liked, _, share = (part[0] for part in net.draw_epoch(torch.Generator().manual_seed(1)))
    by_user, by_item, _ = net._sum_layers()
    rows = _remove_entries(by_user, users, net.user_tower.first, liked, share[:, 0])
    columns = _remove_entries(by_item, liked, net.item_tower.first, users, share[:, 1])
    table = net.rows.multiply(torch.eye(board.train.n_items)).numpy().astype(float)
    other = net.columns.multiply(torch.eye(board.train.n_users)).numpy().astype(float)
    for n, (u, i) in enumerate(zip(users.tolist(), liked.tolist(), strict=True)):
        for found, matrix, at, out, tower in (
            (rows[n], table, u, i, net.user_tower),
            (columns[n], other, i, u, net.item_tower),
        ):
            left = matrix[at].copy()
            assert left[out] > 0
            left[out] = 0.0
            left /= np.linalg.norm(left)
            assert np.allclose(found.detach().numpy(), left @ tower.first.detach().numpy(), atol=1e-5)


def test_the_only_entry_of_a_row_leaves_nothing() -> None:
    first = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    left = _remove_entries(first[[2]], torch.tensor([0]), first, torch.tensor([2]), torch.tensor([1.0]))
    assert torch.equal(left, torch.zeros(1, 3))


def test_the_gradient_reaches_every_parameter() -> None:
    net = _Towers(DMF(embedding_size=3, hidden_size=6), make_checkerboard().train, torch.Generator().manual_seed(0))
    net.loss(*(part[0] for part in net.draw_epoch(torch.Generator().manual_seed(1)))).backward()
    for name, value in net.named_parameters():
        assert value.grad is not None, name
        assert value.grad.abs().sum() > 0, name


def test_a_user_who_has_seen_every_item_gets_a_vector() -> None:
    board = make_checkerboard(n_items=4, copies=1)
    n, m = board.train.n_users, board.train.n_items
    user, item = np.append(board.train.user, np.full(m, n)), np.append(board.train.item, np.arange(m))
    time = np.append(np.asarray(board.train.time), np.arange(m))
    train = Dataset("all", user, item, time, np.arange(n + 1), np.arange(m))
    held = replace(board.valid, user_ids=np.arange(n + 1))
    model = DMF(**QUICK, device="cpu").fit(Split(train, held, held), rng=make_generator(0, "t"))
    assert np.isfinite(model.user_vectors_[n]).all()
    assert np.allclose(model.fold_in([np.arange(m)]), model.user_vectors_[[n]], atol=1e-5)


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(UsageError, match="Did you mean 'cosine'"):
        DMF(similarity="cosin")
    with pytest.raises(UsageError, match="'hidden_size' of DMF is 0"):
        DMF(hidden_size=0)
    with pytest.raises(UsageError, match="'n_negatives' of DMF is 0"):
        DMF(n_negatives=0)


def test_loss_and_vectors_of_one_step_share_the_first_layers() -> None:
    board = make_checkerboard(n_items=5, copies=2)
    net = _Towers(DMF(embedding_size=3, hidden_size=6), board.train, torch.Generator().manual_seed(0))
    batch = [part[0] for part in net.draw_epoch(torch.Generator().manual_seed(1))]
    users, learned = torch.arange(4), [net.user_tower.first, net.item_tower.first, net.user_tower.shift]
    apart = []
    for work in (
        lambda: net.loss(*batch),
        lambda: net.compute_user_vectors(users).square().sum() + net.compute_item_vectors().sum(),
    ):
        apart.append(torch.autograd.grad(work(), learned))
        assert net.cached is None  # the gradient was here
    loss = net.loss(*batch)
    summed = net.cached
    loss = loss + net.compute_user_vectors(users).square().sum() + net.compute_item_vectors().sum()
    assert summed is not None
    assert net.cached is summed
    for one, two, both in zip(*apart, torch.autograd.grad(loss, learned), strict=True):
        torch.testing.assert_close(one + two, both)
    assert net.cached is None
    with torch.no_grad():
        net.user_tower.first += 1.0
        assert not torch.allclose(net._sum_layers()[0], summed[0])
