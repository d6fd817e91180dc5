"""Defenses made for training, on a table that is trained: what they hide, what they leave alone, what they refuse."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from recveil.core.errors import DataError, TrainingError, UsageError
from recveil.core.progress import report_progress
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.penalized import AdversarialPoT, Penalized
from recveil.defenses.training.adversarial import Adversarial
from recveil.defenses.training.au_int import D2DInT, U2UInT
from recveil.defenses.training.penalties import PlainPenalty
from recveil.defenses.training.rap import RAP
from recveil.testing.worlds import make_planted_leak

SPARING = Adversarial(discriminators=4, steps=10, device="cpu")
QUICK = partial(AdversarialPoT, SPARING, epochs=8, steps=10, learning_rate=0.1, device="cpu")


def gap(x: np.ndarray, codes: np.ndarray) -> float:
    return float(np.linalg.norm(x[codes == 1].mean(0) - x[codes == 0].mean(0)))


def cloak(defense, x: np.ndarray, codes: np.ndarray, **given) -> np.ndarray:
    return defense(x, codes, rng=np.random.default_rng(0), **given)


def test_by_itself_it_is_adversarial_and_any_other_can_take_its_place() -> None:
    assert AdversarialPoT().defense == Adversarial()
    x, secret = make_planted_leak(300, 5, 2, 2.0, rng=np.random.default_rng(0))
    outs = [cloak(Penalized(d(device="cpu"), epochs=5, steps=10), x, secret.codes) for d in (U2UInT, D2DInT)]
    assert gap(outs[0], secret.codes) < gap(x, secret.codes)
    assert gap(outs[1], secret.codes) < gap(x, secret.codes)
    assert not np.allclose(outs[0], outs[1])


class Pulling(PlainPenalty):
    """A penalty of which all is known: it pulls the first column to 3, and in the end adds 1 to the second."""

    def __init__(self, factor: float = 1.0) -> None:
        self.factor, self.told = factor, []

    def start_epoch(self, user_vectors: torch.Tensor) -> None:
        assert not user_vectors.requires_grad
        self.told.append("epoch")

    def __call__(self, users: torch.Tensor, user_vectors: torch.Tensor, item_vectors=None) -> torch.Tensor:
        return self.factor * (user_vectors[:, 0] - 3).square().mean()

    def finish(self, user_vectors: torch.Tensor) -> torch.Tensor:
        return user_vectors + torch.tensor([0.0, 1.0])

    def defense(self, targets, *, epochs: int, rng: np.random.Generator):
        self.told += [[t.codes.tolist() for t in targets], epochs]
        return self


@pytest.mark.thorough
def test_the_penalty_is_stepped_on_and_finishes_the_table_in_units_of_its_spread() -> None:
    x = np.random.default_rng(1).standard_normal((40, 2)).astype(np.float32)
    codes = np.arange(40) % 2
    codes[5] = UNDISCLOSED
    unit = np.sqrt(x.var(0).sum())
    pulling = Pulling()
    out = cloak(Penalized(pulling.defense, epochs=10, steps=30, learning_rate=0.5, weight=0.0), x, codes)
    known = codes >= 0
    np.testing.assert_allclose(out[known, 0], 3 * unit, atol=0.05)
    assert out[5, 0] == pytest.approx(x[5, 0], abs=1e-6)
    np.testing.assert_allclose(out[:, 1], x[:, 1] + unit, atol=1e-5)
    assert pulling.told == [[codes.tolist()], 10, *["epoch"] * 10]
    wide = cloak(Penalized(Pulling().defense, epochs=10, steps=30, learning_rate=0.5, weight=0.0), 100 * x, codes)
    np.testing.assert_allclose(wide / 100, out, atol=1e-4)
    held = cloak(Penalized(Pulling().defense, epochs=10, steps=30, learning_rate=0.5, weight=1000.0), x, codes)
    np.testing.assert_allclose(held[:, 0], x[:, 0], atol=0.05)
    half = cloak(
        Penalized(Pulling().defense, epochs=10, steps=30, learning_rate=0.5, weight=0.0, strength=0.5), x, codes
    )
    np.testing.assert_allclose(half, (x + out) / 2, atol=1e-5)


def test_small_batches_reach_everybody() -> None:
    x = np.random.default_rng(2).standard_normal((40, 2)).astype(np.float32)
    out = cloak(
        Penalized(Pulling().defense, epochs=10, steps=30, batch_size=8, learning_rate=0.5, weight=0.0),
        x,
        np.arange(40) % 2,
    )
    np.testing.assert_allclose(out[:, 0], 3 * np.sqrt(x.var(0).sum()), atol=0.2)


def test_a_utility_loss_takes_the_place_of_the_distance_if_asked_for() -> None:
    x, secret = make_planted_leak(200, 4, 2, 2.0, rng=np.random.default_rng(3))
    seen = []

    def first_column(table: torch.Tensor) -> torch.Tensor:
        seen.append(table.detach().numpy().copy())
        return (table[:, 0] - torch.tensor(x[:, 0])).square().mean()

    cloaked = partial(QUICK, weight=100.0)
    ignored = cloak(cloaked(), x, secret.codes, utility=first_column)
    assert not seen
    kept = cloak(cloaked(retention="utility"), x, secret.codes, utility=first_column)
    np.testing.assert_allclose(seen[0], x, atol=1e-5)  # in the unit of the table
    assert np.abs(kept - x)[:, 0].max() < 0.3 * np.abs(kept - x)[:, 1:].max()
    assert np.abs(ignored - x).max() < np.abs(kept - x).max()
    with pytest.raises(UsageError, match="needs a utility loss"):
        cloak(cloaked(retention="utility"), x, secret.codes)


def test_several_attributes_are_all_hidden_and_the_unknown_stay() -> None:
    rng = np.random.default_rng(4)
    codes = rng.integers(2, size=(400, 2))
    x = rng.standard_normal((400, 3)).astype(np.float32)
    x[:, :2] += 2 * codes
    x[:, 2] = 7
    codes[350:] = UNDISCLOSED
    out = cloak(QUICK(), x, codes)
    np.testing.assert_allclose(out[350:], x[350:], atol=1e-6)
    np.testing.assert_allclose(out[:, 2], 7, atol=1e-5)
    for column in codes.T:
        assert gap(out, column) < 0.6 * gap(x, column)


def test_odd_tables_come_back_as_they_are() -> None:
    flat = np.full((6, 2), 3.0, dtype=np.float32)
    np.testing.assert_array_equal(cloak(QUICK(), flat, np.arange(6) % 2), flat)
    x = np.random.default_rng(5).standard_normal((6, 2)).astype(np.float32)
    for code in (UNDISCLOSED, 0):
        np.testing.assert_array_equal(cloak(QUICK(), x, np.full(6, code)), x)


@pytest.mark.parametrize(
    "wrong",
    [{"epochs": 0}, {"steps": 0}, {"batch_size": 1}, {"weight": -1}, {"learning_rate": 0.0}, {"strength": 1.5}],
)
def test_bad_options_are_refused_when_it_is_made(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        AdversarialPoT(**wrong)


def test_what_cannot_be_is_told() -> None:
    x, codes = np.random.default_rng(6).standard_normal((6, 2)).astype(np.float32), np.arange(6) % 2
    with pytest.raises(UsageError, match="No retention is called 'l1'. Known: l2, utility"):
        AdversarialPoT(retention="l1")
    with pytest.raises(UsageError, match="RAP reads item vectors"):
        cloak(Penalized(RAP(), device="cpu"), x, codes)
    with pytest.raises(DataError, match="NaN"):
        cloak(QUICK(), np.full_like(x, np.nan), codes)
    with pytest.raises(DataError, match="-1 for undisclosed"):
        cloak(QUICK(), x, codes - 3)
    with pytest.raises(TrainingError, match="not finite after epoch 1"):
        cloak(Penalized(Pulling(float("nan")).defense), x, codes)


def test_it_says_how_far_it_is() -> None:
    told = []

    def listening(items, label, total):
        told.append((label, total))
        return items

    x, secret = make_planted_leak(40, 3, 2, 2.0, rng=np.random.default_rng(7))
    with report_progress(listening):
        cloak(QUICK(epochs=2), x, secret.codes)
    assert told == [("cloaking (Adversarial)", 2)]
