from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.models.dp_cov import PrivateCovariance
from recveil.models.private_release import clip_histories, scale_rows
from recveil.models.sampling import build_interaction_matrix
from recveil.models.scoring import make_release
from recveil.testing.worlds import make_checkerboard


def add_rows(split: Split, user: list[int], item: list[int], *, users: int = 0, items: int = 0) -> Split:
    """Add rows, users and items to the training part."""

    def extend(part: Dataset, *, with_rows: bool) -> Dataset:
        more = (user, item) if with_rows else ([], [])
        ids = (np.arange(part.n_users + users), np.arange(part.n_items + items))
        time = np.append(part.time, np.arange(len(more[0])))
        pairs = (np.append(old, new).astype(int) for old, new in zip((part.user, part.item), more, strict=True))
        return Dataset(part.name, *pairs, time, *ids)

    return Split(*(extend(part, with_rows=n == 0) for n, part in enumerate((split.train, split.valid, split.test))))


def fit(split: Split, **options: object) -> PrivateCovariance:
    settings = {"epsilon": 1_000.0, "noise_seed": 0, **options}
    return PrivateCovariance(**settings).fit(split, rng=make_generator(0, "t"))  # type: ignore[arg-type]


def test_members_are_served_as_if_they_were_new() -> None:
    split = make_checkerboard()
    for recency in (0.0, 2.0):
        model = fit(split, recency=recency)
        order = np.lexsort((split.train.time, split.train.user))
        sizes = np.bincount(split.train.user)
        histories = np.split(split.train.item[order], np.cumsum(sizes)[:-1])
        assert np.array_equal(model.fold_in(histories), model.user_vectors_)


def test_an_item_of_one_user_is_dropped_and_said_and_never_listed() -> None:
    split = make_checkerboard()
    named = add_rows(split, [0, 1], [24, 25], items=2)
    model = fit(named)
    assert model.released_items_.tolist() == list(range(24))
    assert any("give that user away: 2." in note for note in model.notes_)
    assert not model.item_vectors_[24:].any()
    scores = model.score(np.arange(5))
    assert (scores[:, 24:].max(1) < scores[:, :24].min(1)).all()
    lists = make_release(model, named, 26).lists  # longer than what may be named
    assert lists is not None
    assert set(np.unique(lists)) == {-1, *range(24)}
    assert not any("single user" in note for note in fit(split).notes_)
    without_noise = fit(named, epsilon=None, noise=0.0)
    assert 24 in without_noise.released_items_
    assert any("no threshold, so they are released" in note for note in without_noise.notes_)


def test_a_user_of_many_interactions_is_clipped_and_that_is_said() -> None:
    split = make_checkerboard()
    n = split.train.n_users
    busy = add_rows(split, [n] * 24, list(range(24)), users=1)
    assert any("Users with more than 20 interactions: 1." in note for note in fit(busy, max_history=20).notes_)
    assert not any("more than" in note for note in fit(busy, max_history=24).notes_)


def test_a_user_of_a_million_interactions_counts_as_one_row_of_norm_one() -> None:
    split = make_checkerboard()
    n = split.train.n_users
    busy = add_rows(split, [n] * 1_000_000, list(np.arange(1_000_000) % 24), users=1)
    model = fit(busy, epsilon=20.0)
    assert any("Users with more than 1,000 interactions: 1." in note for note in model.notes_)
    rows = scale_rows(build_interaction_matrix(clip_histories(busy.train, 1_000), 0.0))
    assert np.linalg.norm(rows[[n]].toarray()) == pytest.approx(1.0)


def test_delta_above_one_over_users_is_said() -> None:
    assert any("above 1 / users" in note for note in fit(make_checkerboard(), delta=0.1).notes_)
    assert not any("above 1 / users" in note for note in fit(make_checkerboard(), delta=1e-3).notes_)


def test_users_without_a_released_item_get_the_popular_ones() -> None:
    split = make_checkerboard()
    extra = add_rows(split, [], [], users=1)
    model = fit(extra)
    assert np.array_equal(
        model.user_vectors_[-1], model.fold_in([model.released_items_[model.popular_items_][::-1]])[0]
    )


def test_a_guarantee_names_each_release_and_the_noise_is_fresh_without_a_seed() -> None:
    split = make_checkerboard()
    first, second = fit(split, noise_seed=None), fit(split, noise_seed=None)
    assert not np.array_equal(first.item_vectors_, second.item_vectors_)
    assert first.guarantee_ is not None
    assert first.guarantee_.noise_is_secret
    assert [release.name for release in first.guarantee_.releases] == [
        "first item counts",
        "item counts",
        "typical length",
        "item-by-item matrix",
    ]
    assert first.guarantee_.n_released_items == len(first.released_items_)
    assert np.array_equal(fit(split).item_vectors_, fit(split).item_vectors_)


@pytest.mark.parametrize(
    "options", [{"epsilon": 0.0}, {"epsilon": -1.0}, {"epsilon": 1.0, "noise": 1.0}, {"delta": 2.0}]
)
def test_options_that_mean_nothing_are_refused_when_the_model_is_made(options: dict[str, float]) -> None:
    with pytest.raises(UsageError, match="epsilon|delta"):
        PrivateCovariance(**options)  # type: ignore[arg-type]


def test_more_head_items_than_items_and_penalties_are_refused() -> None:
    with pytest.raises(UsageError, match="25, but the data have 24 items"):
        fit(make_checkerboard(), head_items=25)
    with pytest.raises(UsageError, match="no in-training defense"):
        PrivateCovariance().fit(make_checkerboard(), penalty=object(), rng=make_generator(0, "t"))  # type: ignore[arg-type]
    without_times = replace(make_checkerboard().train, time=None)
    with pytest.raises(UsageError, match="no times"):
        fit(replace(make_checkerboard(), train=without_times), recency=1.0)
    with pytest.raises(UsageError, match="no times"):
        fit(replace(make_checkerboard(), train=without_times), span=4.0)


def test_times_are_used_where_there_are_any_and_unless_recency_is_zero() -> None:
    split = make_checkerboard()
    with_times, even = fit(split), fit(split, recency=0.0)
    without = fit(replace(split, train=replace(split.train, time=None)))
    assert (with_times.recency_, with_times.span_) == (3.0, 8.0)
    assert (even.recency_, even.span_, without.recency_, without.span_) == (0.0, 0.0, 0.0, 0.0)
    assert (even.full_weight_items_, without.full_weight_items_) == (15.0, 15.0)
    assert fit(split, recency=2.0, span=0.0).span_ == 0.0
    lengths = np.bincount(split.train.user)
    assert fit(split, noise=0.0, epsilon=None, max_history=max(lengths)).full_weight_items_ == pytest.approx(
        max(15.0, 1.25 * np.sqrt(lengths).mean() ** 2)
    )
    assert fit(split, full_weight_items=7).full_weight_items_ == 7.0


def test_a_simulation_releases_the_given_items_follows_its_generator_and_guarantees_nothing() -> None:
    split, items = make_checkerboard(), np.array([0, 3, 14])
    models = [
        PrivateCovariance(epsilon=5.0).simulate_release(items).fit(split, rng=np.random.default_rng(seed))
        for seed in (1, 1, 2)
    ]
    assert models[0].released_items_.tolist() == items.tolist()
    assert models[0].guarantee_ is None
    assert np.array_equal(models[0].item_vectors_, models[1].item_vectors_)
    assert not np.array_equal(models[0].item_vectors_, models[2].item_vectors_)


def test_a_history_weighs_as_in_its_row() -> None:
    train = make_checkerboard().train
    model = fit(make_checkerboard(), recency=2.0)
    weights = model.weigh_histories(train)
    assert np.bincount(train.user, weights**2) == pytest.approx(1.0)
    newest = np.lexsort((train.time, train.user))[np.cumsum(np.bincount(train.user)) - 1]
    assert (weights[newest] == [weights[train.user == user].max() for user in train.user[newest]]).all()
