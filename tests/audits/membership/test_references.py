"""Reference models: each user in half of them, membership never read, and a leak that they find."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import cast

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership import MEMBERSHIP_ATTACKS
from recveil.attacks.membership.reference_rows import build_rows
from recveil.audits.membership.platforms import ServingPolicy, TrainedPlatform, train_platform
from recveil.audits.membership.references import ReferenceModels, draw_halves, find_shared_items
from recveil.core.errors import DataError, UsageError
from recveil.core.protocols import Recommender
from recveil.core.types import ReferenceSignals
from recveil.data.member_split import MemberPart, MemberSplit, split_three_ways
from recveil.data.synthetic import make_world
from recveil.models import MODELS
from recveil.models.als import ALS
from recveil.models.dp_cov import PrivateCovariance

ATTACKS = [traits.name for traits in MEMBERSHIP_ATTACKS.all_traits() if traits.needs_references]


@pytest.fixture(scope="module")
def split() -> MemberSplit:
    world = make_world(n_users=360, n_items=100, n_interactions=9_000, leaks={}, rng=np.random.default_rng(0))
    return split_three_ways(world.dataset, user_minimum=10, rng=np.random.default_rng(1))


def make_small_model() -> ALS:
    return ALS(embedding_size=16, epochs=4, device="cpu")


def train(part: MemberPart, k: int = 10) -> TrainedPlatform:
    return train_platform(part, make_small_model(), ServingPolicy(k=k), rng=np.random.default_rng(2))


def collect(
    part: MemberPart, target: TrainedPlatform, models: ReferenceModels | None = None, seed: int = 3
) -> ReferenceSignals:
    models = models or ReferenceModels(4)
    return models.collect_signals(part, target, make_small_model, rng=np.random.default_rng(seed))


def score_users(target: TrainedPlatform, signals: ReferenceSignals) -> list[np.ndarray]:
    watched = target.serve_lists(None, signals).watched
    return [MEMBERSHIP_ATTACKS.make(name).score(watched) for name in ATTACKS]


def three_standard_errors(n: int) -> float:
    """Three standard errors of an AUC of n users without a difference."""
    return float(3 * np.sqrt((n + 1) / (3 * n**2)))


def test_every_user_is_in_half_of_the_models_and_models_differ() -> None:
    inside = draw_halves(200, 8, np.random.default_rng(0))
    assert (inside.sum(1) == 4).all()
    assert len(np.unique(inside, axis=1).T) == 8
    assert 70 < inside.sum(0).min() < inside.sum(0).max() < 130


@pytest.mark.parametrize("signal", ["rank-percentile", "log-odds", "bpr-margin"])
def test_members_are_found_and_a_random_half_is_not(split: MemberSplit, signal: str) -> None:
    target, member = train(split.target), split.target.member
    random = np.random.default_rng(4).permuted(member)
    for scores in score_users(target, collect(split.target, target, ReferenceModels(8, signal))):
        assert roc_auc_score(member, scores) > 0.8
        assert abs(roc_auc_score(random, scores) - 0.5) < three_standard_errors(len(member))


def test_nothing_is_found_when_the_target_was_trained_on_everybody(split: MemberSplit) -> None:
    member = split.target.member
    target = train(MemberPart(split.target.data, np.ones_like(member)))
    for scores in score_users(target, collect(split.target, target, ReferenceModels(8))):
        assert abs(roc_auc_score(member, scores) - 0.5) < three_standard_errors(len(member))


def test_membership_is_not_read(split: MemberSplit) -> None:
    target = train(split.target)
    inverted = MemberPart(split.target.data, ~split.target.member)
    signals, others = (collect(part, target) for part in (split.target, inverted))
    np.testing.assert_array_equal(signals.reference, others.reference)
    np.testing.assert_array_equal(signals.target, others.target)


def test_the_number_of_models_at_once_decides_nothing(split: MemberSplit, monkeypatch: pytest.MonkeyPatch) -> None:
    target = train(split.target)
    signals = []
    for cores in (1, 4):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        signals.append(collect(split.target, target).reference)
    np.testing.assert_array_equal(*signals)


def test_only_items_that_every_model_knows_are_used(split: MemberSplit) -> None:
    data, last = split.target.data, split.target.data.n_items - 1
    rare = replace(data, item=np.where(data.user == 0, last, data.item))  # user 0 alone has the last item, and no other
    rare = rare.take((rare.user == 0) | (rare.item != last))
    part = MemberPart(rare, np.arange(data.n_users) % 2 == 0)
    target = train(part)
    assert not find_shared_items(target, draw_halves(data.n_users, 4, np.random.default_rng(0)))[-1]
    signals = collect(part, target, seed=0)
    assert 0 not in signals.user
    assert signals.trained_on.shape == (data.n_users, 4)
    assert np.isfinite(signals.reference).all()
    disjoint = replace(data, user=np.arange(6).repeat(3), item=np.arange(18), time=None, user_ids=np.arange(6))
    part = MemberPart(disjoint, np.arange(6) % 2 == 0)
    with pytest.raises(DataError, match="No item is known to the target and to all reference models"):
        collect(part, train(part, k=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 3}, "3 reference models were asked for. An even number of 4 or more"),
        ({"n": 2}, "An even number of 4 or more"),
        ({"signal": "rank"}, "No signal is called 'rank'"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ReferenceModels(**options)  # type: ignore[arg-type]


def test_popular_lists_have_no_scores_to_compare() -> None:
    with pytest.raises(UsageError, match="by fold-in"):
        ReferenceModels().check_policy(ServingPolicy("popular"))


def make_private_model() -> PrivateCovariance:
    return PrivateCovariance(epsilon=100.0, noise_seed=0, recency=1.0, head_items=40)


@pytest.fixture(scope="module")
def private_part() -> MemberPart:
    world = make_world(n_users=400, n_items=60, n_interactions=8_000, leaks={}, rng=np.random.default_rng(0)).dataset
    return MemberPart(world, np.random.default_rng(1).random(world.n_users) < 0.5)


@pytest.fixture(scope="module")
def private_target(private_part: MemberPart) -> TrainedPlatform:
    return train_platform(private_part, make_private_model(), ServingPolicy(k=5), rng=np.random.default_rng(2))


def test_an_attacker_simulates_a_private_target_for_the_items_that_it_released(
    private_part: MemberPart, private_target: TrainedPlatform
) -> None:
    half = MemberPart(private_part.data, draw_halves(len(private_part.member), 4, np.random.default_rng(4))[:, 0])
    reference = train_platform(
        half,
        make_private_model(),
        private_target.policy,
        rng=np.random.default_rng(5),
        known_items=private_target.is_known,
    )
    assert 0 < private_target.is_known.sum() < private_part.data.n_items
    assert np.array_equal(reference.is_known, private_target.is_known)


def test_the_self_score_of_a_private_target_is_the_energy_of_its_user_vectors_and_finds_members(
    private_part: MemberPart, private_target: TrainedPlatform
) -> None:
    models = ReferenceModels(8)
    assert models.choose_signal(private_target.model) == "self-score"
    assert models.choose_signal(make_small_model()) == "rank-percentile"
    rng = np.random.default_rng(3)
    signals = models.collect_signals(private_part, private_target, make_private_model, rng=rng)
    rows, users = build_rows(signals, "user"), np.unique(signals.user)
    members = np.flatnonzero(private_part.member)
    energy = np.square(private_target.model.user_vectors_).sum(1)[np.isin(members, users)]
    assert rows.observed[np.isin(users, members)] == pytest.approx(energy, rel=1e-4)
    assert (rows.signal > 0).all()  # no item that a model hides
    watched = private_target.serve_lists(None, signals).watched
    for kind in ("offline", "online"):
        scores = MEMBERSHIP_ATTACKS.make("lira", kind=kind).score(watched)
        assert roc_auc_score(private_part.member, scores) > 0.7  # this budget allows it


def test_users_who_have_every_shared_item_are_scored_as_without_evidence(split: MemberSplit) -> None:
    target = train(split.target)
    history = target.history
    everything = replace(
        history,
        user=np.append(np.zeros(history.n_items, int), history.user),
        time=None,
        item=np.append(np.arange(history.n_items), history.item),
    )
    signals = collect(split.target, replace(target, history=everything))
    assert 0 not in signals.user
    assert 1 in signals.user


SMALL_OPTIONS = {"embedding_size": 8, "epochs": 1, "epsilon": 2_000.0, "noise_seed": 0}


@pytest.fixture(scope="module")
def small_part() -> MemberPart:
    world = make_world(n_users=120, n_items=40, n_interactions=1_500, leaks={}, rng=np.random.default_rng(0)).dataset
    return MemberPart(world, np.random.default_rng(1).random(world.n_users) < 0.5)


@pytest.mark.thorough
@pytest.mark.parametrize("name", [traits.name for traits in MODELS.all_traits()])
def test_every_model_that_folds_in_is_attacked_by_references_like_it(name: str, small_part: MemberPart) -> None:
    known = {field.name for field in fields(type(MODELS.make(name)))}

    def make() -> Recommender:
        options = {key: value for key, value in SMALL_OPTIONS.items() if key in known}
        return cast(Recommender, MODELS.make(name, device="cpu", **options))

    target = train_platform(small_part, make(), ServingPolicy(k=5), rng=np.random.default_rng(2))
    signals = ReferenceModels(4).collect_signals(small_part, target, make, rng=np.random.default_rng(3))
    assert len(np.unique(signals.user)) > 0.9 * len(small_part.member)
    assert np.ptp(signals.reference, axis=1).max() > 0  # reference models differ
    for scores in score_users(target, signals):
        assert np.isfinite(scores).all()
        assert len(np.unique(scores)) > 10
