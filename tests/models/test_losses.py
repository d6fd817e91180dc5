"""The loss of user vectors: lower where they recommend better, and its slope shows the way."""

from __future__ import annotations

import numpy as np
import torch

from recveil.core.random import make_generator
from recveil.metrics.ranking import collect_seen_items, make_dot_scorer, ndcg, rank
from recveil.models.bprmf import BPRMF
from recveil.models.losses import make_bpr_loss
from recveil.testing.worlds import make_checkerboard

SPLIT = make_checkerboard()
MODEL = BPRMF(embedding_size=4, epochs=30, device="cpu").fit(SPLIT, rng=make_generator(0, "train"))


def loss_of(x: np.ndarray, rows: np.ndarray | None = None) -> float:
    read = make_bpr_loss(SPLIT.train, MODEL.item_vectors_, rows=rows, device="cpu", rng=make_generator(0, "loss"))
    return float(read(torch.tensor(x)))


def test_the_trained_vectors_are_worth_more_than_others() -> None:
    trained = loss_of(MODEL.user_vectors_)
    assert trained < 0.5 * loss_of(np.zeros_like(MODEL.user_vectors_))
    assert trained < 0.5 * loss_of(MODEL.user_vectors_[::-1].copy())  # the other group's vectors


def test_rows_say_where_a_user_stands() -> None:
    order = np.random.default_rng(0).permutation(SPLIT.train.n_users)
    table = np.empty_like(MODEL.user_vectors_)
    table[order] = MODEL.user_vectors_
    assert loss_of(table, rows=order) == loss_of(MODEL.user_vectors_)


def test_gradient_descent_on_the_loss_improves_recommendations() -> None:
    read = make_bpr_loss(SPLIT.train, MODEL.item_vectors_, device="cpu", rng=make_generator(0, "loss"))
    x = torch.tensor(np.random.default_rng(1).normal(size=MODEL.user_vectors_.shape) * 0.1, dtype=torch.float32)
    seen = collect_seen_items(SPLIT.train, SPLIT.valid)

    def quality(table: torch.Tensor) -> float:
        return float(ndcg(rank(make_dot_scorer(table.numpy(), MODEL.item_vectors_), SPLIT.test, seen), 2).mean())

    before = quality(x)
    for _ in range(200):
        x = x.requires_grad_()
        (slope,) = torch.autograd.grad(read(x), x)
        x = (x - 20 * slope).detach()
    assert quality(x) > before + 0.3
