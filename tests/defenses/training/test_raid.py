"""RAID: its gradient, its phases, what it refuses, and what attackers see of what it releases."""

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
from recveil.data.sources.catalog import load_dataset_or_demo
from recveil.data.splits import leave_one_out
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.training.alignment import Atoms
from recveil.defenses.training.raid import Raid, RaidPaper
from recveil.metrics.ranking import collect_seen_items, ndcg, rank
from recveil.models import MODELS
from recveil.models import training_loop as loop
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
    method = RaidPaper(atoms=30, phase_one=0.0, eta=0.7)
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


def test_ours_pulls_every_user_along_its_displacement() -> None:
    x, secret = world()
    penalty = made(Raid(alignment="gaussian", phase_one=0.0, eta=0.5, class_weighting="size", device="cpu"), secret)
    penalty.start_epoch(x)
    y = x.clone().requires_grad_()
    penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
    delta = Gaussian(device="cpu")(x.numpy(), secret.codes, rng=np.random.default_rng(0)) - x.numpy()
    torch.testing.assert_close(y.grad, torch.as_tensor(-2 * 0.5 * delta / 400 / compute_typical_distance(x)))


@pytest.mark.parametrize(("phase_one", "epochs", "wanted"), [(None, 20, 5), (None, 8, 2), (0.5, 8, 4), (0.0, 8, 0)])
def test_phase_one_has_no_penalty_and_phase_two_has(phase_one: float | None, epochs: int, wanted: int) -> None:
    x, secret = world()
    penalty = made(Raid(alignment="gaussian", phase_one=phase_one, device="cpu"), secret, epochs=epochs)
    losses = []
    for _ in range(epochs):
        penalty.start_epoch(x)
        losses.append(float(penalty(EVERYBODY, x)))
    assert losses[:wanted] == [0.0] * wanted
    assert min(losses[wanted:]) > 0


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        (Raid(alignment="gaussian", device="cpu"), [False, False, True, True]),
        (Raid(alignment="gaussian", strength=0.5, device="cpu"), [False] * 4),
        (Raid(alignment="gaussian", final_map=False, device="cpu"), [False] * 4),
        (RaidPaper(atoms=16, device="cpu"), [False] * 4),
    ],
)
def test_any_pass_of_phase_two_may_be_kept_where_a_whole_map_follows(method: Raid, wanted: list[bool]) -> None:
    x, secret = world()
    penalty, seen = made(method, secret, epochs=8), []
    for _ in wanted:
        penalty.start_epoch(x)
        seen.append(penalty.covers_any_epoch)
    assert seen == wanted
    assert penalty.waits_for_training == any(wanted)


def test_a_share_of_the_passes_that_was_asked_for_is_kept_to() -> None:
    _, secret = world()
    assert not made(Raid(phase_one=0.5, device="cpu"), secret).waits_for_training


def test_attributes_one_after_the_other_share_the_passes_that_are_left() -> None:
    x, secret = world()
    penalty = made(Raid(alignment="gaussian", several="sequential", device="cpu"), secret, secret, epochs=100)
    penalty.begin(4)  # type: ignore[attr-defined]
    turns = []
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
    penalty = made(RaidPaper(atoms=10, xi=3), secret, epochs=10)
    for _ in range(10):
        penalty.start_epoch(x)
    assert asked == [True, False, False, True, False, False, True, False]  # after two passes without


def test_eta_means_the_same_for_vectors_of_any_size() -> None:
    """Users s times as long, items 1/s times: the recommendation gradient is 1/s times as long, and so is ours."""
    x, secret = world()
    gradients = []
    for size in (1.0, 0.01):
        penalty = made(Raid(alignment="gaussian", phase_one=0.0, device="cpu"), secret)
        penalty.start_epoch(size * x)
        y = (size * x).requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        gradients.append(y.grad)
    torch.testing.assert_close(gradients[1], 100 * gradients[0], rtol=1e-3, atol=1e-5)


def test_users_of_unknown_class_take_no_penalty_and_others_do() -> None:
    x, secret = world()
    codes = secret.codes.copy()
    codes[:100] = UNDISCLOSED
    for method in (Raid(phase_one=0.0, device="cpu"), RaidPaper(atoms=50, phase_one=0.0)):
        penalty = made(method, Attribute("a", codes, secret.labels))
        penalty.start_epoch(x)
        y = x.clone().requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        assert y.grad is not None
        assert float(y.grad[:100].abs().max()) == 0
        assert float(y.grad[100:].abs().sum(1).min()) > 0


@pytest.mark.parametrize("method", [Raid(strength=0.0), RaidPaper(strength=0.0)])
def test_strength_zero_is_nothing_at_all(method: Raid) -> None:
    x, secret = world(600)
    penalty = made(method, secret)
    for _ in range(8):
        penalty.start_epoch(x)
        assert float(penalty(EVERYBODY, x)) == 0
    assert penalty.finish(x) is x


def test_strength_scales_the_pull() -> None:
    x, secret = world()
    losses = []
    for strength in (0.25, 1.0):
        penalty = made(Raid(strength=strength, phase_one=0.0, device="cpu"), secret)
        penalty.start_epoch(x)
        losses.append(float(penalty(EVERYBODY, x)))
    assert losses[1] == pytest.approx(4 * losses[0])
    assert losses[0] > 0


def fit_model(model, split, targets=None) -> None:
    penalty = None
    if targets:
        penalty = Raid(device="cpu")(targets, epochs=model.epochs, rng=make_generator(3, "cloak"))
    model.fit(split, penalty=penalty, rng=make_generator(3, "train"))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    ["bprmf", pytest.param("dmf", marks=pytest.mark.slow), pytest.param("ncf", marks=pytest.mark.slow), "lightgcn"],
)
def test_phase_two_has_to_beat_the_pass_that_was_kept_not_the_last_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rivals: list[np.ndarray] = []

    def watched(found: np.ndarray, rival: np.ndarray) -> bool:
        rivals.append(rival)
        return False

    monkeypatch.setattr(loop, "_is_clearly_better", watched)
    split = leave_one_out(load_dataset_or_demo("demo", seed=0))
    model = MODELS.make(name, epochs=30, embedding_size=8, learning_rate=0.1, patience=2, device="cpu")
    fit_model(model, split, [split.train.attributes["gender"]])
    assert rivals  # there was a Phase II
    kept = rank(
        model.score, split.valid, collect_seen_items(split.train)
    )  # of the released model, which is what was kept
    np.testing.assert_allclose(rivals[0].mean(), ndcg(kept, 10).mean(), rtol=1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bprmf", "dmf", "ncf", "lightgcn"])
def test_where_phase_two_is_no_better_it_is_the_undefended_model_cloaked_with_sliced(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "_is_clearly_better", lambda *_: False)
    split = make_checkerboard()
    targets = [split.train.attributes["group"]]
    options = {"epochs": 30, "embedding_size": 8, "learning_rate": 0.05, "patience": 2, "device": "cpu"}
    plain, ours = (MODELS.make(name, **options) for _ in range(2))
    fit_model(plain, split)
    fit_model(ours, split, targets)
    assert len(ours.history_.loss) > len(plain.history_.loss)  # there was a Phase II
    wanted = Sliced(device="cpu")(plain.user_vectors_, targets[0].codes, rng=make_generator(3, "cloak"))
    np.testing.assert_array_equal(ours.user_vectors_, wanted)
    np.testing.assert_array_equal(ours.item_vectors_, plain.item_vectors_)


@pytest.mark.thorough
def test_the_literal_one_takes_the_leak_from_lines() -> None:
    x, secret = world(600)
    before, after = (attacked(trained(m, x, secret), secret, "logistic") for m in (None, RaidPaper(atoms=100)))
    assert before["logistic"] > 0.85
    assert abs(after["logistic"] - 0.5) < 0.12


@pytest.mark.thorough
def test_ours_leaves_chance_to_lines_quadrics_and_trees() -> None:
    x, secret = world(1000)
    names = ("logistic", "qda", "trees")
    before, after = (attacked(trained(m, x, secret, steps=5), secret, *names) for m in (None, Raid(device="cpu")))
    assert min(before.values()) > 0.85
    assert max(abs(reached - 0.5) for reached in after.values()) < 0.07, after


def test_training_with_the_pull_leaves_the_final_map_less_to_do() -> None:
    x, secret = world(600)
    plain, pulled = (trained(Raid(eta=eta, final_map=False, device="cpu"), x, secret) for eta in (0.0, 1.0))
    gap = [np.linalg.norm(t[secret.codes == 0].mean(0) - t[secret.codes == 1].mean(0)) for t in (plain, pulled)]
    assert gap[1] < 0.5 * gap[0]


@pytest.mark.parametrize(
    "method", [Raid(device="cpu"), RaidPaper(atoms=50), RaidPaper(atoms=20, free_support=True, seeding="k-means++")]
)
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
        penalty = made(Raid(alignment="gaussian", phase_one=0.0, device="cpu"), secret.take(rows.numpy()))
        penalty.start_epoch(x[rows])
        y = x[rows].requires_grad_()
        penalty(EVERYBODY, y).backward()  # type: ignore[no-untyped-call]
        gradients.append(y.grad)
    torch.testing.assert_close(gradients[1], gradients[0][mixed])


def test_several_attributes_are_summed_or_taken_in_turn() -> None:
    x, secret = world()
    other = Attribute("other", (x[:, 0] > 0).numpy().astype(np.int64), ("low", "high"))

    def losses(several: str, *targets: Attribute) -> list[float]:
        penalty = made(Raid(alignment="gaussian", phase_one=0.0, several=several, device="cpu"), *targets, epochs=4)
        found = []
        for _ in range(4):
            penalty.start_epoch(x)
            found.append(float(penalty(EVERYBODY, x)))
        return found

    one, two = (losses("sum", target)[0] for target in (secret, other))
    assert losses("sum", secret, other) == pytest.approx([one + two] * 4)
    assert losses("sequential", secret, other) == pytest.approx([one, one, two, two])
    both = made(Raid(device="cpu"), secret, other).finish(x).numpy()
    assert max(attacked(both, t, "logistic")["logistic"] for t in (secret, other)) < 0.6


def test_one_class_alone_has_nothing_to_hide() -> None:
    x, _ = world()
    penalty = made(Raid(phase_one=0.0), Attribute("a", np.zeros(400, dtype=np.int64), ("x", "y")))
    penalty.start_epoch(x)
    assert float(penalty(EVERYBODY, x)) == 0
    assert penalty.finish(x) is x


@pytest.mark.thorough
def test_a_model_trained_with_it_does_not_tell_its_groups() -> None:
    board = make_checkerboard(copies=8)
    group = board.train.attributes["group"]
    options = {"embedding_size": 8, "epochs": 8, "learning_rate": 0.05, "device": "cpu"}
    plain = BPRMF(**options).fit(board, rng=make_generator(0, "t"))
    penalty = made(Raid(device="cpu"), group, epochs=8)
    defended = BPRMF(**options).fit(board, penalty=penalty, rng=make_generator(0, "t"))
    assert attacked(plain.user_vectors_, group, "logistic")["logistic"] > 0.95
    assert abs(attacked(defended.user_vectors_, group, "logistic")["logistic"] - 0.5) < 0.15


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
        ({"alignment": "atom"}, "alignment must be one of atoms, gaussian, sliced; got 'atom'"),
        ({"pull": "both"}, "pull must be one of"),
        ({"class_weighting": "none"}, "class_weighting must be one of"),
        ({"several": "both"}, "several must be one of"),
        ({"seeding": "random"}, r"seeding must be one of stratified, k-means\+\+; got 'random'"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    for kind in (Raid, RaidPaper):
        with pytest.raises(UsageError, match=message):
            kind(**options)


def test_what_it_cannot_protect_is_said() -> None:
    x, secret = world()
    with pytest.raises(UsageError, match="atoms is 512, and only 400 users disclose"):
        made(RaidPaper(), secret)
    with pytest.raises(UsageError, match="Give at least one target"):
        made(Raid())
    with pytest.raises(UsageError, match="epochs is 0"):
        made(Raid(), secret, epochs=0)
    with pytest.raises(DataError, match="is a number, and RAID aligns classes"):
        made(Raid(), Attribute("age", np.full(400, UNDISCLOSED), (), np.zeros(400)))
    with pytest.raises(DataError, match="The table has 399 users, and the attributes are of 400"):
        made(Raid(), secret).start_epoch(x[1:])
