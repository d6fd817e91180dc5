"""RAID: its gradient, its phases, what it refuses, and what a linear attacker sees of what it releases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from recveil.attacks.attribute.panels import make_attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import Penalty
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.training.alignment import Atoms
from recveil.defenses.training.raid import Raid
from recveil.models.bprmf import BPRMF
from recveil.testing.worlds import make_checkerboard, make_planted_leak
from recveil.transport.distances import compute_typical_distance

EVERYBODY = torch.arange(400)


def world(n: int = 400, d: int = 4, size: float = 3.0) -> tuple[torch.Tensor, Attribute]:
    x, secret = make_planted_leak(n, d, 2, size, rng=np.random.default_rng(0))
    return torch.as_tensor(x), secret


def made(method: Raid, *targets: Attribute, epochs: int = 8, seed: int = 0) -> Penalty:
    return method(targets, epochs=epochs, rng=np.random.default_rng(seed))


def trained(
    method: Raid | None, x: torch.Tensor, secret: Attribute, *, epochs: int = 16, steps: int = 20
) -> np.ndarray:
    """Users who want to stay where they are, with a defense that may not want them to."""
    penalty = None if method is None else made(method, secret, epochs=epochs)
    y = x.clone().requires_grad_()
    optimizer = torch.optim.Adam([y], lr=0.03)
    users = torch.arange(len(x))
    for _ in range(epochs):
        if penalty is not None:
            penalty.start_epoch(y.detach())
        for _ in range(steps):
            loss = 0.1 * (y - x).square().sum(1).mean()
            if penalty is not None:
                loss = loss + penalty(users, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return (y if penalty is None else penalty.finish(y)).detach().numpy()


def attacked(x: np.ndarray, secret: Attribute, *names: str) -> dict[str, float]:
    found = audit_attribute(
        x, secret, {name: make_attack(name, "cpu") for name in names}, rules=CrossValidation(repeats=1)
    )
    return {name: result.balanced_accuracy.value for name, result in found.attacks.items()}


def test_the_gradient_is_that_of_lemma_2() -> None:
    x, secret = world()
    method = Raid(atoms=30, phase_one=0.0, eta=0.7)
    penalty = made(method, secret)
    penalty.start_epoch(x)
    y = x.clone().requires_grad_()
    value = penalty(EVERYBODY, y)
    value.backward()  # type: ignore[no-untyped-call]
    codes = torch.as_tensor(secret.codes)
    # The same draws, and couplings in full.
    alignment = Atoms(codes, np.random.default_rng(0).spawn(1)[0], 30, method.tau, method.epsilon, False)
    places = alignment(x, renew=True)
    assert alignment.center is not None
    assert alignment.potentials is not None
    atoms, s = alignment.center.atoms, compute_typical_distance(x)
    cost = torch.cdist(x, atoms).square()
    T = (
        torch.softmax((alignment.potentials[codes] - cost) / (method.epsilon * s), 1)
        / torch.bincount(codes)[codes, None]
    )
    wanted = 0.7 / s * 2 * (T[:, :, None] * (x[:, None] - atoms)).sum(1)
    torch.testing.assert_close(y.grad, wanted, atol=1e-6, rtol=1e-3)
    torch.testing.assert_close(value.detach(), 0.7 / s * (T * cost).sum(), rtol=1e-3, atol=1e-6)
    assert places.toward.shape == x.shape


@pytest.mark.parametrize(("phase_one", "epochs", "wanted"), [(None, 20, 5), (None, 8, 2), (0.5, 8, 4), (0.0, 8, 0)])
def test_phase_one_has_no_penalty_and_phase_two_has(phase_one: float | None, epochs: int, wanted: int) -> None:
    x, secret = world()
    penalty = made(Raid(atoms=50, phase_one=phase_one), secret, epochs=epochs)
    losses = []
    for _ in range(epochs):
        penalty.start_epoch(x)
        losses.append(float(penalty(EVERYBODY, x)))
    assert losses[:wanted] == [0.0] * wanted
    assert min(losses[wanted:]) > 0


def test_attributes_one_after_the_other_share_the_passes_that_are_left() -> None:
    x, secret = world()
    penalty = made(Raid(atoms=50, several="sequential", phase_one=0.5), secret, secret, epochs=8)
    turns = []
    for _ in range(4):
        penalty.start_epoch(x)
    for _ in range(4):
        penalty.start_epoch(x)
        turns.append(penalty.pulls.index(penalty.active[0]))  # type: ignore[attr-defined]
    assert turns == [0, 0, 1, 1]


def test_a_barycenter_at_the_first_pass_of_phase_two_and_every_xi_passes_after(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    real = Atoms.__call__

    def watched(self: Atoms, x: torch.Tensor, *, renew: bool) -> Any:
        asked.append(renew)
        return real(self, x, renew=renew)

    monkeypatch.setattr(Atoms, "__call__", watched)
    x, secret = world()
    penalty = made(Raid(atoms=10, xi=3), secret, epochs=10)
    for _ in range(10):
        penalty.start_epoch(x)
    assert asked == [True, False, False, True, False, False, True, False]  # after two passes without


def test_eta_means_the_same_for_vectors_of_any_size() -> None:
    """Users s times as long, items 1/s times: the recommendation gradient is 1/s times as long, and so is ours."""
    x, secret = world()
    gradients = []
    for size in (1.0, 0.01):
        penalty = made(Raid(atoms=50, phase_one=0.0), secret)
        penalty.start_epoch(size * x)
        y = (size * x).requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        gradients.append(y.grad)
    torch.testing.assert_close(gradients[1], 100 * gradients[0], rtol=1e-3, atol=1e-5)


def test_users_of_unknown_class_take_no_penalty_and_others_do() -> None:
    x, secret = world()
    codes = secret.codes.copy()
    codes[:100] = UNDISCLOSED
    for unit in ("relative", "raw", "whitened"):
        penalty = made(Raid(atoms=50, phase_one=0.0, unit=unit), Attribute("a", codes, secret.labels))
        penalty.start_epoch(x)
        y = x.clone().requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        assert y.grad is not None
        assert float(y.grad[:100].abs().max()) == 0
        pulled = int((y.grad[100:].abs().sum(1) > 0).sum())
        assert pulled >= len(x) - 100 - 50  # users who are atoms themselves may stay


def test_strength_zero_is_nothing_at_all() -> None:
    x, secret = world(600)
    penalty = made(Raid(strength=0.0), secret)
    for _ in range(8):
        penalty.start_epoch(x)
        assert float(penalty(EVERYBODY, x)) == 0
    assert penalty.finish(x) is x


def test_strength_scales_the_pull() -> None:
    x, secret = world()
    losses = []
    for strength in (0.25, 1.0):
        penalty = made(Raid(strength=strength, phase_one=0.0), secret)
        penalty.start_epoch(x)
        losses.append(float(penalty(EVERYBODY, x)))
    assert losses[1] == pytest.approx(4 * losses[0])
    assert losses[0] > 0


@pytest.mark.thorough
def test_it_takes_the_leak_from_lines() -> None:
    x, secret = world(600)
    before, after = (attacked(trained(m, x, secret), secret, "logistic") for m in (None, Raid(atoms=100, eta=3.0)))
    assert before["logistic"] > 0.85
    assert abs(after["logistic"] - 0.5) < 0.12


@pytest.mark.parametrize("method", [Raid(atoms=50), Raid(atoms=20, free_support=True, seeding="k-means++")])
def test_the_same_seed_gives_the_same_bytes_and_another_does_not(method: Raid) -> None:
    x, secret = world()

    def once(seed: int) -> torch.Tensor:
        penalty = made(method, secret, seed=seed)
        for _ in range(3):
            penalty.start_epoch(x)
        y = x.clone().requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        assert y.grad is not None
        return torch.cat([y.grad, penalty.finish(x)])

    assert torch.equal(once(0), once(0))
    assert not torch.equal(once(0), once(1))


def test_the_order_of_the_users_does_not_matter() -> None:
    x, secret = world()
    mixed = torch.as_tensor(np.random.default_rng(1).permutation(400))
    gradients = []
    for rows in (EVERYBODY, mixed):
        penalty = made(Raid(atoms=400, phase_one=0.0), secret.take(rows.numpy()))
        penalty.start_epoch(x[rows])
        y = x[rows].requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        gradients.append(y.grad)
    torch.testing.assert_close(gradients[1], gradients[0][mixed], atol=1e-4, rtol=0.01)


def test_several_attributes_are_summed_or_taken_in_turn() -> None:
    x, secret = world()
    other = Attribute("other", (x[:, 0] > 0).numpy().astype(np.int64), ("low", "high"))

    def losses(several: str, *targets: Attribute) -> list[float]:
        penalty = made(Raid(atoms=400, phase_one=0.0, several=several), *targets, epochs=4)
        found = []
        for _ in range(4):
            penalty.start_epoch(x)
            found.append(float(penalty(EVERYBODY, x)))
        return found

    one, two = (losses("sum", target)[0] for target in (secret, other))
    assert losses("sum", secret, other) == pytest.approx([one + two] * 4, rel=1e-3)
    assert losses("sequential", secret, other) == pytest.approx([one, one, two, two], rel=1e-3)


def test_one_class_alone_has_nothing_to_hide() -> None:
    x, _ = world()
    penalty = made(Raid(phase_one=0.0), Attribute("a", np.zeros(400, dtype=np.int64), ("x", "y")))
    penalty.start_epoch(x)
    assert float(penalty(EVERYBODY, x)) == 0
    assert penalty.finish(x) is x


def test_the_raw_unit_is_the_formula_of_the_paper_and_the_relative_one_divides_by_the_median_distance() -> None:
    x, secret = world()
    losses = {}
    for unit in ("relative", "raw"):
        penalty = made(Raid(atoms=30, phase_one=0.0, unit=unit), secret)
        penalty.start_epoch(x)
        losses[unit] = float(penalty(EVERYBODY, x))
    assert losses["raw"] == pytest.approx(losses["relative"] * compute_typical_distance(x), rel=1e-3)


def test_the_whitened_pull_does_not_depend_on_the_scale_of_a_column() -> None:
    x, secret = world()
    shrunk = x * torch.tensor([1.0, 1.0, 1.0, 0.1])
    losses = {}
    for unit in ("relative", "whitened"):
        for name, table in (("as it is", x), ("shrunk", shrunk)):
            penalty = made(Raid(atoms=30, phase_one=0.0, unit=unit), secret)
            penalty.start_epoch(table)
            losses[unit, name] = float(penalty(EVERYBODY, table))
    assert losses["whitened", "shrunk"] == pytest.approx(losses["whitened", "as it is"], rel=0.05)
    assert losses["relative", "shrunk"] != pytest.approx(losses["relative", "as it is"], rel=0.05)


def test_each_table_is_pulled_by_its_own_scale() -> None:
    x, secret = world()
    both = torch.cat([x, 0.01 * x.flip(0)], 1)
    gradients = {}
    for tables in (1, 2):
        penalty = made(Raid(atoms=50, phase_one=0.0, tables=tables), secret)
        penalty.start_epoch(both)
        y = both.clone().requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        gradients[tables] = [
            float((part * size).norm()) for part, size in zip(y.grad.split(4, 1), (1, 0.01), strict=True)
        ]
    assert gradients[1][1] < 0.001 * gradients[1][0]  # the short table is hardly pulled
    assert gradients[2][1] == pytest.approx(gradients[2][0], rel=0.5)


def test_atoms_are_all_users_where_there_are_fewer() -> None:
    x, secret = world()
    penalty = made(Raid(atoms=4096, phase_one=0.0), secret)
    penalty.start_epoch(x)
    assert len(penalty.pulls[0].alignment.center.atoms) == 400  # type: ignore[attr-defined]


def test_a_dynamic_xi_renews_when_users_no_longer_come_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    real = Atoms.__call__

    def watched(self: Atoms, x: torch.Tensor, *, renew: bool) -> Any:
        asked.append(renew)
        return real(self, x, renew=renew)

    monkeypatch.setattr(Atoms, "__call__", watched)
    x, secret = world()
    penalty = made(Raid(atoms=40, xi=100, phase_one=0.0, dynamic_xi=True), secret)
    for factor in (1.0, 0.9, 0.9, 0.9, 0.9):  # the way left stays the same from the second epoch on
        penalty.start_epoch(factor * x)
    assert asked[:2] == [True, False]
    assert any(asked[2:])


def test_an_epoch_may_be_kept_once_the_class_means_are_together_and_with_keep_last_never() -> None:
    x, secret = world()
    codes = torch.as_tensor(secret.codes)
    means = torch.stack([x[codes == k].mean(0) for k in range(2)])
    for keep in ("best", "last"):
        penalty = made(Raid(atoms=40, keep=keep, phase_one=0.5), secret, epochs=2)
        penalty.start_epoch(x)
        assert penalty.measure_shortfall(x - means[codes]) == np.inf  # Phase I
        penalty.start_epoch(x)
        assert penalty.measure_shortfall(x) > 0
        assert (penalty.measure_shortfall(x - means[codes]) == 0) == (keep == "best")


def test_the_class_counts_in_directions_that_hardly_vary_too() -> None:
    x, secret = world()
    codes = torch.as_tensor(secret.codes)
    flat = x - torch.stack([x[codes == k].mean(0) for k in range(2)])[codes]
    flat[:, -1] = 1e-3 * (codes + 0.5 * torch.randn(len(x), generator=torch.Generator().manual_seed(0)))
    penalty = made(Raid(atoms=40, keep="best", phase_one=0.0), secret, epochs=2)
    penalty.start_epoch(x)
    assert penalty.measure_shortfall(flat) > 1  # the whole squared distance of the means is a millionth of the variance


@pytest.mark.thorough
def test_a_model_trained_with_it_brings_its_groups_together() -> None:
    board = make_checkerboard(copies=8)
    group = board.train.attributes["group"]
    options = {"embedding_size": 8, "epochs": 8, "learning_rate": 0.05, "device": "cpu"}
    plain = BPRMF(**options).fit(board, rng=make_generator(0, "t"))
    penalty = made(Raid(eta=10.0), group, epochs=8)
    defended = BPRMF(**options).fit(board, penalty=penalty, rng=make_generator(0, "t"))

    def measure_gap(table: np.ndarray) -> float:
        first, second = (table[group.codes == code] for code in (0, 1))
        return float(np.linalg.norm(first.mean(0) - second.mean(0)) / table.std())

    assert measure_gap(defended.user_vectors_) < 0.5 * measure_gap(plain.user_vectors_)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eta": -0.1}, "'eta' of .* is -0.1. It should be greater than or equal to 0"),
        ({"eta": float("nan")}, "'eta' of .* is nan"),
        ({"tau": -1.0}, "'tau' of"),
        ({"epsilon": 0.0}, "'epsilon' of .* is 0.0. It should be greater than 0"),
        ({"strength": 1.5}, "'strength' of"),
        ({"phase_one": 1.1}, "'phase_one' of"),
        ({"xi": 0}, "'xi' of"),
        ({"atoms": 0}, "'atoms' of"),
        ({"unit": "both"}, "unit must be one of relative, raw, whitened; got 'both'"),
        ({"keep": "first"}, "keep must be one of last, best"),
        ({"tables": 0}, "'tables' of"),
        ({"class_weighting": "none"}, "class_weighting must be one of"),
        ({"several": "both"}, "several must be one of"),
        ({"seeding": "random"}, r"seeding must be one of stratified, k-means\+\+; got 'random'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Raid(**options)


def test_what_it_cannot_protect_is_said() -> None:
    x, secret = world()
    with pytest.raises(UsageError, match="Give at least one target"):
        made(Raid())
    with pytest.raises(UsageError, match="epochs is 0"):
        made(Raid(), secret, epochs=0)
    with pytest.raises(DataError, match="is a number, and this defense protects classes only"):
        made(Raid(), Attribute("age", np.full(400, UNDISCLOSED), (), np.zeros(400)))
    with pytest.raises(DataError, match="The attributes are of 400 users, and the table has shape"):
        made(Raid(), secret).start_epoch(x[1:])
