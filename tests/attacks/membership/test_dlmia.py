"""DL-MIA finds a planted difference, nothing where there is none, and never reads the labels of the target."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership import cuda_graph as replay
from recveil.attacks.membership import dlmia
from recveil.attacks.membership.dlmia import DLMIA
from recveil.core.errors import DataError, TrainingError, UsageError
from recveil.core.types import Shadow, Watched

ITEMS, D = 60, 8
QUICK: dict[str, Any] = {
    **{"pretrain": 40, "alternate": 12, "every": 4, "batch_size": 1000, "invariant": 6, "specific": 6, "hidden": 16},
    **{"encoder_rate": 0.01, "attack_rate": 0.2, "device": "cpu"},
}


def vectors(seed: int = 0) -> np.ndarray:
    """The first ten items, the popular ones, lie to one side."""
    table = np.random.default_rng(seed).standard_normal((ITEMS, D))
    table[:10, 0] += 2
    return table.astype(np.float32)


def world(n: int, leak: float, seed: int) -> Shadow:
    """Users of random taste and lists; for non-members the share `leak` of the list is popular items."""
    rng = np.random.default_rng(seed)
    member = rng.permuted(np.arange(n) % 2 == 0)
    histories, lists = (rng.random((n, ITEMS)).argsort(1)[:, :10] for _ in range(2))
    popular = ~member[:, None] & (rng.random((n, 10)) < leak)
    return Shadow(Watched(list(histories), np.where(popular, np.arange(10), lists), vectors()), member)


def fitted(leak: float = 0.7, seed: int = 0, n: int = 300, **options: Any) -> tuple[DLMIA, Shadow]:
    target = world(n, leak, seed + 1)
    attack = DLMIA(**{**QUICK, **options})
    known = [world(n, leak, seed)]
    return attack.fit(known, reference=target.watched, rng=np.random.default_rng(seed)), target


@pytest.mark.thorough
@pytest.mark.parametrize(
    "options",
    [{}, {"reweight": False}, {"encoder": "beta-vae"}, {"encoder": "factor-vae"}, {"rank_weights": True}],
    ids=str,
)
def test_a_planted_difference_is_found(options: dict[str, Any]) -> None:
    attack, target = fitted(**options)
    assert roc_auc_score(target.member, attack.score(target.watched)) > 0.85


@pytest.mark.thorough
def test_nothing_is_found_without_a_difference() -> None:
    """Six worlds: the mean AUC within three standard errors of one half, and not all on one side."""
    results = []
    for seed in range(0, 60, 10):
        attack, target = fitted(leak=0.0, seed=seed, n=200)
        results.append(roc_auc_score(target.member, attack.score(target.watched)))
    error = np.sqrt((200 + 1) / (12 * 100 * 100))  # of one AUC of 100 against 100
    assert abs(np.mean(results) - 0.5) < 3 * error / np.sqrt(len(results))
    assert np.std(results) < 2 * error
    assert min(results) < 0.5 < max(results)


@pytest.fixture(scope="module")
def one() -> tuple[DLMIA, Shadow]:
    return fitted()


def test_permuted_users_get_permuted_scores(one: tuple[DLMIA, Shadow]) -> None:
    attack, target = one
    order = np.random.default_rng(5).permutation(300)
    seen = target.watched
    shuffled = replace(seen, histories=[seen.histories[u] for u in order], lists=seen.lists[order])
    np.testing.assert_allclose(attack.score(shuffled), attack.score(seen)[order], atol=1e-4)


def test_scores_depend_on_the_user_alone_and_nothing_is_drawn(one: tuple[DLMIA, Shadow]) -> None:
    attack, target = one
    seen = target.watched
    whole = attack.score(seen)
    np.testing.assert_array_equal(attack.score(seen), whole)
    few = replace(seen, histories=seen.histories[:7], lists=seen.lists[:7])
    np.testing.assert_allclose(attack.score(few), whole[:7], atol=1e-4)


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_scores_and_global_generators_are_not_used(one: tuple[DLMIA, Shadow]) -> None:
    attack, target = one
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    np.testing.assert_array_equal(fitted()[0].score(target.watched), attack.score(target.watched))
    assert torch.equal(torch.get_rng_state(), torch_state)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    known = [world(300, 0.7, 0)]
    other = DLMIA(**QUICK).fit(known, reference=target.watched, rng=np.random.default_rng(9))
    assert not np.array_equal(other.score(target.watched), attack.score(target.watched))


def test_labels_of_the_target_do_not_enter(one: tuple[DLMIA, Shadow]) -> None:
    assert "member" not in {field.name for field in fields(Watched)}
    attack, target = one
    stranger = replace(target, member=~target.member)
    again = DLMIA(**QUICK).fit([world(300, 0.7, 0)], reference=stranger.watched, rng=np.random.default_rng(0))
    np.testing.assert_array_equal(again.score(stranger.watched), attack.score(target.watched))


def test_the_padded_labels_of_the_target_are_never_read() -> None:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    member = torch.arange(40) % 2 == 0
    outcomes = []
    for filled in (0, 1):
        training = dlmia.DLMIATraining(DLMIA(**QUICK), x, member, torch.Generator().manual_seed(1))
        training.y[40:] = filled
        training.run_epoch()
        training.alternate_weights(4, 2)
        outcomes.append((training.compute_logits(), training.weights))
    for left, right in zip(*outcomes, strict=True):
        assert torch.equal(left, right)


@pytest.mark.thorough
def test_the_reference_matters_and_can_be_another_part_or_none() -> None:
    target, other, known = world(300, 0.9, 1).watched, world(300, 0.9, 2).watched, [world(300, 0.9, 0)]
    member = world(300, 0.9, 1).member
    scores = [
        DLMIA(**QUICK).fit(known, reference=reference, rng=np.random.default_rng(0)).score(target)
        for reference in (target, other, None)
    ]
    assert not np.array_equal(scores[0], scores[1])
    assert not np.array_equal(scores[0], scores[2])
    assert min(roc_auc_score(member, score) for score in scores) > 0.7


def test_weights_have_mean_one_and_vary(one: tuple[DLMIA, Shadow]) -> None:
    weights = one[0].fitted_.weights
    assert weights.shape == (600,)
    assert weights[:300].mean() == pytest.approx(1, abs=1e-5)
    assert weights[300:].mean() == pytest.approx(1, abs=1e-5)
    assert weights.std() > 0.01
    plain, _ = fitted(reweight=False)
    assert (plain.fitted_.weights == 1).all()


def test_features_have_the_sizes_of_the_latents(one: tuple[DLMIA, Shadow]) -> None:
    attack, target = one
    features = attack.compute_features(target.watched)
    assert features.invariant.shape == features.specific.shape == (300, 6)
    assert (np.linalg.norm(features.specific, axis=1) < 1).all()
    single, _ = fitted(encoder="beta-vae", pretrain=1, alternate=0)
    assert single.compute_features(target.watched).invariant.shape == (300, 12)
    assert single.compute_features(target.watched).specific.shape == (300, 0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA here")
@pytest.mark.parametrize("encoder", dlmia.ENCODERS)
def test_recorded_steps_on_cuda_equal_the_steps(encoder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, recorded = [], []
    for first in (replay.WARMUP_STEPS, 10**9):
        monkeypatch.setattr(replay, "WARMUP_STEPS", first)
        attack, target = fitted(encoder=encoder, device="cuda", batch_size=200)
        scores.append(attack.score(target.watched))
        training = dlmia.DLMIATraining(
            DLMIA(**{**QUICK, "encoder": encoder, "batch_size": 50}),
            torch.randn(400, 5, device="cuda"),
            torch.arange(200, device="cuda") % 2 == 0,
            torch.Generator("cuda").manual_seed(0),
        )
        training.run_epoch()
        recorded.append(training.step._graph is not None)
    assert recorded == [True, False]
    assert np.corrcoef(*scores)[0, 1] > 0.99
    np.testing.assert_allclose(scores[0], scores[1], atol=0.05 * scores[1].std())


def test_several_shadow_worlds_are_used_together() -> None:
    known = [world(100, 0.9, seed) for seed in (3, 4)]
    attack = DLMIA(**{**QUICK, "pretrain": 2, "alternate": 2}).fit(known, rng=np.random.default_rng(0))
    assert attack.fitted_.weights.shape == (200,)
    assert attack.score(world(20, 0.9, 5).watched).shape == (20,)


def test_the_unit_of_item_vectors_and_a_constant_column_do_not_matter() -> None:
    known, target = world(100, 0.9, 0), world(100, 0.9, 1).watched

    def run(table: np.ndarray) -> np.ndarray:
        seen = [Shadow(replace(known.watched, item_vectors=table), known.member)]
        attack = DLMIA(**{**QUICK, "pretrain": 3, "alternate": 0})
        return attack.fit(seen, rng=np.random.default_rng(0)).score(replace(target, item_vectors=table))

    np.testing.assert_allclose(run(vectors() * 1000), run(vectors()), atol=1e-3)
    flat = vectors()
    flat[:, 2] = 1.0
    assert np.isfinite(run(flat)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoder": "beta"}, "No encoder is called 'beta'. Did you mean 'beta-vae'"),
        ({"specific": 1}, "'specific' of DLMIA is 1. It should be greater than or equal to 2"),
        ({"alternate": -1}, "'alternate' of DLMIA is -1"),
        ({"attack_rate": np.inf}, "'attack_rate' of DLMIA is inf"),
        ({"momentum": 1.0}, "'momentum' of DLMIA is 1.0. It should be less than 1"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DLMIA(**options)


def test_bad_worlds_are_refused(one: tuple[DLMIA, Shadow]) -> None:
    rng, known = np.random.default_rng(0), world(20, 0.5, 0)
    with pytest.raises(UsageError, match="No shadow world"):
        DLMIA(**QUICK).fit([], rng=rng)
    with pytest.raises(UsageError, match="has not been trained"):
        DLMIA(**QUICK).score(known.watched)
    with pytest.raises(DataError, match="All 20 shadow users are members"):
        DLMIA(**QUICK).fit([replace(known, member=np.ones(20, bool))], rng=rng)
    with pytest.raises(DataError, match="All 20 shadow users are non-members"):
        DLMIA(**QUICK).fit([replace(known, member=np.zeros(20, bool))], rng=rng)
    narrow = replace(known.watched, item_vectors=vectors()[:, :3])
    with pytest.raises(DataError, match=r"\[3, 8\] dimensions"):
        DLMIA(**QUICK).fit([known], reference=narrow, rng=rng)
    with pytest.raises(DataError, match="3 dimensions were given, but the fit had 8"):
        one[0].score(narrow)
    with pytest.raises(DataError, match="known of 19 shadow users, but 20 are seen"):
        DLMIA(**QUICK).fit([replace(known, member=known.member[:19])], rng=rng)
    with pytest.raises(TrainingError, match="diverged"):
        DLMIA(**{**QUICK, "attack_rate": 1e30}).fit([known], rng=rng)
