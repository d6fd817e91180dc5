"""The training loss of NCF as a function of the user vectors alone."""

from __future__ import annotations

import numpy as np
import torch

from recveil.core.protocols import OwnLossRecommender
from recveil.core.random import make_generator
from recveil.models.bprmf import BPRMF
from recveil.models.ncf import NCF
from recveil.testing.worlds import make_checkerboard


def test_the_own_loss_is_lower_for_trained_users_and_moves_them_alone() -> None:
    board = make_checkerboard()
    model = NCF(embedding_size=8, epochs=8, learning_rate=0.05, device="cpu").fit(board, rng=make_generator(0, "t"))
    assert isinstance(model, OwnLossRecommender)
    assert not isinstance(BPRMF(), OwnLossRecommender)
    loss = model.make_user_loss(board.train, rng=make_generator(0, "loss"))
    trained = torch.as_tensor(model.user_vectors_).requires_grad_()
    shuffled = torch.as_tensor(model.user_vectors_[np.random.default_rng(0).permutation(len(model.user_vectors_))])
    value = loss(trained)
    value.backward()  # type: ignore[no-untyped-call]
    assert float(value.detach()) < 0.8 * float(loss(shuffled))
    assert trained.grad is not None
    assert float(trained.grad.abs().sum()) > 0
