"""What each surface shows, and that nothing but the release is used."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from recveil.attacks.attribute.surfaces import ITEM_WEIGHTS, VIEWS, ViewConfig, build_view, join_releases, list_surfaces
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset, Release

N, ITEMS, PLACES = 400, 600, 10


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def listed(codes: np.ndarray, *, taste: float, n_items: int = ITEMS, seed: int = 0) -> np.ndarray:
    """Lists of distinct items; those of a user's own half come first with an odds of `taste` (0: no class in them)."""
    noise = rng(seed).gumbel(size=(len(codes), n_items))
    own = np.arange(n_items) % 2 == codes[:, None]
    return np.argsort(-(noise + taste * own), axis=1)[:, :PLACES]


def world(taste: float, n_items: int = ITEMS) -> tuple[Release, np.ndarray, Dataset]:
    codes = rng(7).permutation(np.arange(N) % 2)
    items = listed(codes, taste=taste, n_items=n_items)
    item_vectors = rng(8).normal(size=(n_items, 6)) + (np.arange(n_items) % 2)[:, None]
    user_vectors = rng(9).normal(size=(N, 6)) + taste * codes[:, None]
    release = Release(user_vectors, item_vectors, items, lambda users: user_vectors[users] @ item_vectors.T)
    time = np.tile(np.arange(PLACES), N)
    user = np.repeat(np.arange(N), PLACES)
    return release, codes, Dataset("tiny", user, items.ravel(), time, np.arange(N), np.arange(n_items))


def found(x: np.ndarray, codes: np.ndarray) -> float:
    return float(cross_val_score(LogisticRegression(max_iter=2000), x, codes, cv=4).mean())


@pytest.mark.thorough
@pytest.mark.parametrize("n_items", [40, ITEMS], ids=["small catalog", "large catalog"])
@pytest.mark.parametrize("surface", VIEWS)
def test_a_view_finds_the_class_where_it_is_and_nowhere_else(surface: str, n_items: int) -> None:
    accuracies = []
    for taste in (2.0, 0.0):
        release, codes, history = world(taste, n_items)
        x = build_view(release, surface, columns=64, history=history, rng=rng())
        assert x.shape[0] == N
        assert x.shape[1] <= {"vectors_and_lists": 6 + 2 * 64, "vectors_and_heads": 6 + 64}.get(surface, 64)
        assert x.dtype == np.float32
        assert np.isfinite(x).all()
        accuracies.append(found(x, codes))
    assert accuracies[0] > 0.75
    assert abs(accuracies[1] - 0.5) < 0.12  # 4.8 standard errors


@pytest.mark.parametrize("surface", VIEWS)
def test_the_same_generator_gives_the_same_bytes_and_nothing_is_changed(surface: str) -> None:
    release, _, history = world(1.0)
    before = [np.copy(getattr(release, f.name)) for f in fields(release) if f.name != "score"]
    one, two = (build_view(release, surface, columns=20, weight="rare", history=history, rng=rng(3)) for _ in range(2))
    assert one.tobytes() == two.tobytes()
    for f, old in zip(fields(release), before, strict=False):
        np.testing.assert_array_equal(getattr(release, f.name), old)


def test_a_view_is_of_rows_not_of_their_order() -> None:
    # No label, and no neighbour in the table, may shape a row: users in another order get the same distances.
    release, _, _ = world(1.0)
    order = rng(1).permutation(N)
    shuffled = replace(release, lists=release.lists[order])
    x, y = (build_view(r, "lists", columns=600, rng=rng()) for r in (release, shuffled))
    np.testing.assert_array_equal(x[order], y)


def test_a_small_catalog_gives_zeros_and_ones() -> None:
    items = np.array([[2, 0, -1], [5, -1, -1], [-1, -1, -1], [0, 5, 2]])
    x = build_view(Release(lists=items), "lists", rng=rng())
    np.testing.assert_array_equal(x, [[1, 1, 0], [0, 0, 1], [0, 0, 0], [1, 1, 1]])  # of the items 0, 2 and 5


def test_weights_are_what_they_say() -> None:
    release = Release(lists=np.array([[2, 0], [2, -1], [2, -1], [1, 2]]))
    by_place = build_view(release, "lists", weight="rank", rng=rng())
    second = 1 / np.log2(3)
    np.testing.assert_allclose(by_place, [[second, 0, 1], [0, 0, 1], [0, 0, 1], [0, 1, second]], rtol=1e-6)
    rare = build_view(release, "lists", weight="rare", rng=rng())
    np.testing.assert_allclose(rare[0], [np.log(5), 0, np.log(2)], rtol=1e-6)


@pytest.mark.parametrize("weight", ITEM_WEIGHTS)
def test_list_means_are_means(weight: str) -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 4.0], [3.0, 2.0]])
    items = np.array([[2, 0, -1], [1, -1, -1], [-1, -1, -1]])
    x = build_view(Release(item_vectors=vectors, lists=items), "list_means", weight=weight, rng=rng())
    share = {"equal": 1 / 2, "rank": 1 / (1 + 1 / np.log2(3)), "rare": 1 / 2}[weight]
    np.testing.assert_allclose(x[0], share * vectors[2] + (1 - share) * vectors[0], rtol=1e-6)
    np.testing.assert_allclose(x[1:], [[0, 4], [0, 0]], rtol=1e-6)


def distances(x: np.ndarray) -> np.ndarray:
    product = x.astype(np.float64) @ x.T
    square = np.diag(product)[:, None] + np.diag(product) - 2 * product
    return np.sqrt(np.maximum(square[np.triu_indices(len(x), 1)], 0))


def test_reduced_lists_keep_what_differs_most() -> None:
    release, _, _ = world(3.0)
    exact = build_view(release, "lists", columns=ITEMS, rng=rng())
    kept = []
    for columns in (20, 100, 300):
        x = build_view(release, "lists", columns=columns, rng=rng())
        assert x.shape == (N, columns)
        assert (distances(x) <= distances(exact) * (1 + 1e-4)).all()  # a projection lengthens nothing
        best = np.linalg.svd(exact - exact.mean(0), compute_uv=False)[:columns]
        assert np.square(x).sum() > 0.93 * np.square(best).sum()
        kept.append(np.square(x).sum() / np.square(exact - exact.mean(0)).sum())
    assert kept == sorted(kept)
    assert kept[-1] > 0.9


def test_lists_of_few_kinds_lose_nothing() -> None:
    kinds = rng(1).permuted(np.tile(np.arange(ITEMS), (5, 1)), axis=1)[:, :30]
    release = Release(lists=kinds[rng(2).integers(5, size=N)])
    full = build_view(release, "lists", columns=ITEMS, rng=rng())
    x = build_view(release, "lists", columns=16, rng=rng())
    assert x.shape[1] == 4  # five points span four directions; the rest would be rounding error
    np.testing.assert_allclose(distances(x), distances(full), atol=1e-3)


def test_reduced_scores_keep_distances_and_the_rank_of_the_model() -> None:
    release, _, _ = world(1.0, 3000)
    full = release.score(np.arange(N))
    x = build_view(release, "scores", columns=100, rng=rng())  # a projection to 400 of 3,000, then principal axes
    assert x.shape == (N, 6)
    ratio = distances(x) / distances(full)
    assert abs(ratio - 1).max() < 0.35
    assert abs(ratio.mean() - 1) < 0.1


def test_scores_without_a_projection_lose_nothing_of_a_model_of_low_rank() -> None:
    release, _, _ = world(1.0)  # at most four times the columns: no projection, the principal axes alone
    x = build_view(release, "scores", columns=ITEMS // 4, rng=rng())
    assert x.shape == (N, 6)
    np.testing.assert_allclose(distances(x), distances(release.score(np.arange(N))), rtol=1e-3)


def test_scores_are_computed_in_blocks_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recveil.attacks.attribute.surfaces.MAX_SCORES_HELD", 70 * 30)
    asked: list[np.ndarray] = []
    table = rng().normal(size=(N, 30)).astype(np.float32)

    def score(users: np.ndarray) -> np.ndarray:
        asked.append(users)
        return table[users]

    np.testing.assert_array_equal(build_view(Release(score=score), "scores", n_users=N, rng=rng()), table)
    assert max(map(len, asked)) == 70
    np.testing.assert_array_equal(np.concatenate(asked[1:]), np.arange(N))  # after one row that tells the width


def test_a_score_that_is_not_finite_counts_as_the_lowest() -> None:
    raw = np.array([[3.0, -np.inf, 1.0], [np.nan, 2.0, 5.0], [-np.inf] * 3])
    x = build_view(Release(score=lambda users: raw[users]), "scores", n_users=3, rng=rng())
    np.testing.assert_array_equal(x, [[3, 1, 1], [2, 2, 5], [0, 0, 0]])


def test_interactions_are_a_bag_of_items() -> None:
    user, item = np.array([0, 0, 0, 2]), np.array([1, 3, 3, 0])
    history = Dataset("tiny", user, item, None, np.arange(3), np.arange(4))
    x = build_view(Release(), "interactions", history=history, rng=rng())
    np.testing.assert_array_equal(x, [[0, 1, 1], [0, 0, 0], [1, 0, 0]])  # of the items 0, 1 and 3
    with pytest.raises(UsageError, match="no ranks"):
        build_view(Release(), "interactions", history=history, weight="rank", rng=rng())
    with pytest.raises(DataError, match="has 5 users and the history 3"):
        build_view(Release(user_vectors=np.zeros((5, 2))), "interactions", history=history, rng=rng())


def test_an_attacker_of_both_releases_sees_the_displacement() -> None:
    codes = rng(1).permutation(np.arange(N) % 2)
    before = rng(2).normal(size=(N, 4)).astype(np.float32) * 5
    after = before + np.float32(0.2) * (2 * codes[:, None] - 1).astype(np.float32)
    both = join_releases(before, after)
    assert both.shape == (N, 12)
    np.testing.assert_array_equal(both[:, 8:], after - before)
    assert found(after, codes) < 0.65
    assert found(both / both.std(0), codes) > 0.99
    with pytest.raises(DataError, match=r"before has the shape \(400, 4\) and the one after \(399, 4\)"):
        join_releases(before, after[1:])


def test_heads_tell_what_vectors_hide_from_a_linear_attacker() -> None:
    """Users far from the middle along one axis, on either side, have one of two opposite items in their heads."""
    user_vectors, items = rng(3).normal(size=(N, 6)), rng(4).normal(size=(60, 6))
    items = np.concatenate([items, 4 * np.eye(6)[:1], -4 * np.eye(6)[:1]])
    release, codes = Release(user_vectors, items), (np.abs(user_vectors[:, 0]) > 0.7).astype(int)
    assert found(build_view(release, "user_vectors", rng=rng()), codes) < 0.6
    assert found(build_view(release, "vectors_and_heads", rng=rng()), codes) > 0.65


def test_missing_parts_are_named() -> None:
    vectors = Release(user_vectors=np.zeros((3, 2)))
    with pytest.raises(DataError, match=r"lists of recommendations\..*: user_vectors\."):
        build_view(vectors, "lists", rng=rng())
    with pytest.raises(DataError, match="lists of recommendations and item vectors"):
        build_view(vectors, "list_means", rng=rng())
    with pytest.raises(DataError, match="scores"):
        build_view(vectors, "scores", rng=rng())
    with pytest.raises(DataError, match="interactions"):
        build_view(vectors, "interactions", rng=rng())
    with pytest.raises(DataError, match="user vectors.*: none"):
        build_view(Release(), rng=rng())
    with pytest.raises(UsageError, match="n_users"):
        build_view(Release(score=lambda users: np.zeros((len(users), 2))), "scores", rng=rng())
    with pytest.raises(DataError, match="Every list of this release is empty"):
        build_view(Release(lists=np.full((3, 2), -1)), "lists", rng=rng())
    with pytest.raises(DataError, match="name item 7.* 3 items only"):
        build_view(Release(item_vectors=np.zeros((3, 2)), lists=np.array([[7]])), "lists", rng=rng())


def test_an_unknown_surface_or_weight_is_an_error_with_a_guess() -> None:
    release, _, _ = world(0.0)
    with pytest.raises(UsageError, match="No surface is called 'list'. Did you mean 'lists'"):
        build_view(release, "list", rng=rng())
    with pytest.raises(UsageError, match="No weight of items is called 'ranks'. Did you mean 'rank'"):
        build_view(release, "lists", weight="ranks", rng=rng())
    with pytest.raises(UsageError, match="at least one column"):
        build_view(release, "lists", columns=0, rng=rng())


def test_surfaces_are_those_that_can_be_viewed() -> None:
    release, _, history = world(0.0)
    assert list_surfaces(release, history=history) == tuple(VIEWS)
    bare = ("user_vectors", "lists", "omissions", "vectors_and_lists")
    assert list_surfaces(replace(release, item_vectors=None, score=None)) == bare
    for name in list_surfaces(release):
        np.testing.assert_array_equal(build_view(release, name, rng=rng()), VIEWS[name](release, ViewConfig(), rng()))
