from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.training.alignment import Alignment, Places
from recveil.defenses.training.attribute_pull import Pull

CODES = np.array([1, 0, 0, UNDISCLOSED, 1, 0, 0, 0])
X = torch.randn(8, 3, generator=torch.Generator().manual_seed(0))


class Fixed:
    """Everybody to the place (1, 2, 3), which stands for a cloud of spread 0.5."""

    def __call__(self, x: torch.Tensor, *, renew: bool) -> Places:
        return Places(torch.tensor([1.0, 2.0, 3.0]).expand_as(x), x.new_full((len(x),), 0.5))


def pull(weighting: str = "equal") -> Pull:
    def align(codes: torch.Tensor) -> Alignment:
        assert codes.tolist() == [1, 0, 0, 1, 0, 0, 0]  # of users whose class is known
        return Fixed()

    made = Pull(Attribute("a", CODES, ("x", "y")), align, unit="raw", tables=1, weighting=weighting)
    made.refresh_aim(X, renew=True)
    return made


def loss_of(made: Pull, users: list[int], x: torch.Tensor = X) -> torch.Tensor:
    once = 1 / torch.bincount(torch.tensor(users), minlength=8)[users].float()
    return made(torch.tensor(users), x[users], 8 * once / once.sum())


def way() -> torch.Tensor:
    return (X - torch.tensor([1.0, 2.0, 3.0])).square().sum(1) + 0.5


@pytest.mark.parametrize("weighting", ["equal", "size"])
def test_it_is_the_sum_of_class_means_or_the_mean_of_users(weighting: str) -> None:
    classes = [way()[k == CODES].mean() for k in (0, 1)]
    wanted = classes[0] + classes[1] if weighting == "equal" else (5 * classes[0] + 2 * classes[1]) / 7
    torch.testing.assert_close(loss_of(pull(weighting), list(range(8))), wanted)


def test_in_a_batch_each_user_stands_for_as_many_and_counts_once() -> None:
    each = (way()[1] + way()[5]) / 5 + way()[4] / 2  # what they count when everybody is there
    torch.testing.assert_close(loss_of(pull(), [1, 5, 4, 3]), 8 / 4 * each)
    torch.testing.assert_close(loss_of(pull(), [4, 1, 1, 5, 1, 4]), 8 / 3 * each)


@pytest.mark.parametrize("size", [1, 2, 5, 8])
@pytest.mark.parametrize("weighting", ["equal", "size"])
def test_the_mean_over_all_batches_of_a_size_is_the_whole_even_where_a_class_is_often_absent(
    size: int, weighting: str
) -> None:
    made = pull(weighting)
    every = [loss_of(made, list(users)) for users in itertools.combinations(range(8), size)]
    torch.testing.assert_close(torch.stack(every).mean(), loss_of(made, list(range(8))))


def test_users_of_unknown_class_take_no_part() -> None:
    x = X.clone().requires_grad_()
    loss_of(pull(), list(range(8)), x).backward()
    assert x.grad is not None
    assert x.grad.abs().sum(1).nonzero()[:, 0].tolist() == [0, 1, 2, 4, 5, 6, 7]
    assert float(loss_of(pull(), [3])) == 0
