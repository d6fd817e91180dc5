"""U2U and D2D: losses and gradients against brute force, and what each leaves to lines and to trees."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from recveil.attacks.attribute.panels import make_attack
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import DataError, UsageError
from recveil.core.progress import report_progress
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.defenses.embeddings import au_pot as unlearn
from recveil.defenses.embeddings.au_pot import D2D, U2U, compute_pair_distance, make_order_hinge, mmd
from recveil.testing.worlds import make_no_leak, make_planted_leak

METHODS = pytest.mark.parametrize("method", [U2U, D2D])


def cloak(method: type[U2U | D2D], x: np.ndarray, codes: np.ndarray, utility: unlearn.Loss | None = None, **options):
    return method(device="cpu", **options)(x, codes, rng=np.random.default_rng(0), utility=utility)


def world(seed: int, n: int, d: int, K: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """Users of K classes of different sizes, some of no class."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.concatenate([np.repeat(np.arange(K), 2), rng.integers(-1, K, size=n)]))
    x = torch.tensor(rng.standard_normal((len(codes), d)) + codes[:, None])
    return x, [torch.as_tensor(np.flatnonzero(codes == k)) for k in range(K)]


def every_pair(x: torch.Tensor, members: list[torch.Tensor]) -> torch.Tensor:
    """U2U as it is written: the mean over all pairs across classes."""
    squared = [torch.cdist(x[a], x[b]).square().ravel() for i, a in enumerate(members) for b in members[i + 1 :]]
    return torch.cat(squared).mean()


def dense_mmd(x: torch.Tensor, members: list[torch.Tensor]) -> torch.Tensor:
    """D2D as it is written: means of kernels over pairs of two users, class by class."""
    members = [m for m in members if len(m) > 1]
    rows = torch.cat(members)
    n, z = len(rows), x[rows]
    squared = (z[:, None] - z[None]).square().sum(-1)
    width = float(squared.detach().sum()) / (n * (n - 1)) / 4
    kernel = sum(torch.exp(-squared / (width * times)) for times in (1, 2, 4, 8, 16))
    edges = np.cumsum([0, *(len(m) for m in members)])
    total = torch.zeros((), dtype=x.dtype)
    for k, a in enumerate(members):
        for j, b in enumerate(members):
            part = kernel[edges[k] : edges[k + 1], edges[j] : edges[j + 1]]
            pairs = len(a) * (len(a) - 1) if k == j else len(a) * len(b)
            mean = (part.sum() - (part.diagonal().sum() if k == j else 0)) / pairs
            total = total - len(a) * len(b) / n**2 * mean + (len(a) / n * mean if k == j else 0)
    return total


def with_autograd(loss, x: torch.Tensor, members: list[torch.Tensor]) -> tuple[float, torch.Tensor]:
    leaf = x.clone().requires_grad_()
    value = loss(leaf, members)
    value.backward()
    return float(value.detach()), leaf.grad


SOME_WORLD = st.tuples(st.integers(0, 10**6), st.integers(0, 40), st.integers(1, 5), st.integers(2, 5))


@settings(deadline=None, max_examples=40)
@given(SOME_WORLD)
def test_u2u_is_the_mean_over_all_pairs_across_classes(sizes: tuple[int, int, int, int]) -> None:
    x, members = world(*sizes)
    value, gradient = with_autograd(every_pair, x, members)
    got, slope = compute_pair_distance(x, members)
    assert got == pytest.approx(value, rel=1e-10)
    torch.testing.assert_close(slope, gradient)


@settings(deadline=None, max_examples=40)
@given(SOME_WORLD, st.sampled_from([1, 3, 16, 1000]))
def test_d2d_is_the_dense_mmd_whatever_the_blocks(sizes: tuple[int, int, int, int], block: int) -> None:
    x, members = world(*sizes)
    value, gradient = with_autograd(dense_mmd, x, members)
    got, slope = mmd(x, members, block=block)
    assert got == pytest.approx(value, rel=1e-9, abs=1e-12)
    torch.testing.assert_close(slope, gradient)


def test_a_class_of_one_takes_no_part_in_the_mmd() -> None:
    x, members = world(0, 30, 3, 3)
    alone = [members[0], members[1], members[2][:1]]
    got, gradient = mmd(x, alone)
    assert got == mmd(x, members[:2])[0]
    assert not gradient[alone[2]].any()
    assert mmd(x, [members[0], members[1][:1]])[0] == 0


@pytest.mark.parametrize("loss", [compute_pair_distance, mmd])
def test_users_far_from_the_origin_lose_nothing_to_rounding(loss) -> None:
    x, members = world(1, 60, 3, 2)
    value, gradient = loss(x, members)
    far, slope = loss((x + 300).to(torch.float32), members)
    assert far == pytest.approx(value, rel=1e-3)
    torch.testing.assert_close(slope.double(), gradient, rtol=1e-2, atol=1e-5)


def test_users_all_alike_have_nothing_to_be_told_by() -> None:
    x = torch.full((10, 3), 2.0)
    for loss in (compute_pair_distance, mmd):
        value, gradient = loss(x, [torch.arange(5), torch.arange(5, 10)])
        assert value == 0
        assert not gradient.any()


@pytest.mark.thorough
def test_the_mmd_is_zero_on_average_where_the_classes_are_alike_and_not_where_they_differ() -> None:
    def values(size: float) -> np.ndarray:
        worlds = [make_planted_leak(120, 4, 3, size, rng=np.random.default_rng(seed)) for seed in range(150)]
        classes = [[torch.as_tensor(np.flatnonzero(a.codes == k)) for k in range(3)] for _, a in worlds]
        return np.array([mmd(torch.tensor(x), m)[0] for (x, _), m in zip(worlds, classes, strict=True)])

    null, leak = values(0.0), values(0.5)
    error = null.std() / len(null) ** 0.5
    assert abs(null.mean()) < 4 * error
    assert leak.mean() > 20 * error
    assert (null < 0).mean() > 0.3  # a biased estimate is never below zero


def test_no_block_is_larger_than_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shapes = []
    kernels = unlearn._sum_kernels

    def watched(a: torch.Tensor, b: torch.Tensor, width: float) -> tuple[float, torch.Tensor]:
        shapes.append((len(a), len(b)))
        return kernels(a, b, width)

    monkeypatch.setattr(unlearn, "_sum_kernels", watched)
    mmd(*world(2, 300, 2, 2), block=50)
    assert max(max(s) for s in shapes) == 50


def test_u2u_needs_no_table_of_pairs() -> None:
    n = 300_000  # squared, that would be 720 GB
    x = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    value, _ = compute_pair_distance(x, [torch.arange(n // 2), torch.arange(n // 2, n)])
    assert value == pytest.approx(4, rel=0.02)  # twice the variance in each of two dimensions


def reached(x: np.ndarray, secret: Attribute, *names: str) -> dict[str, float]:
    found = audit_attribute(
        x, secret, {name: make_attack(name, "cpu") for name in names}, rules=CrossValidation(repeats=1), seed=0
    )
    return {name: result.balanced_accuracy.value for name, result in found.attacks.items()}


@pytest.mark.thorough
def test_u2u_writes_the_label_where_trees_read_it_and_the_audit_says_so() -> None:
    assert U2U.injects
    x, secret = make_planted_leak(600, 6, 2, 1.5, rng=np.random.default_rng(0))
    out = cloak(U2U, x, secret.codes)
    panel = {name: make_attack(name, "cpu") for name in ("logistic", "trees")}
    found = audit_attribute(out, secret, panel, rules=CrossValidation(repeats=1), seed=0)
    before = reached(x, secret, *panel)
    after = {name: result.balanced_accuracy.value for name, result in found.attacks.items()}
    assert after["logistic"] < before["logistic"] - 0.1
    assert after["trees"] > before["trees"] + 0.1
    assert after["trees"] > 0.95
    assert found.verdict == "leak"
    assert found.headline_attack == "trees"


@pytest.mark.thorough
def test_d2d_hides_from_all_kinds_what_u2u_shows_to_trees() -> None:
    x, secret = make_planted_leak(600, 6, 2, 1.5, rng=np.random.default_rng(0))
    names = ("logistic", "qda", "knn", "trees")
    before, after = (reached(t, secret, *names) for t in (x, cloak(D2D, x, secret.codes)))
    for name in names:
        assert before[name] > 0.65
        assert abs(after[name] - 0.5) < (before[name] - 0.5) / 2, name


def test_d2d_stops_where_the_mmd_is_zero() -> None:
    x, secret = make_planted_leak(400, 4, 2, 2.0, rng=np.random.default_rng(1))
    members = [torch.as_tensor(np.flatnonzero(secret.codes == k)) for k in range(2)]
    before, after = (mmd(torch.tensor(t), members)[0] for t in (x, cloak(D2D, x, secret.codes, learning_rate=0.01)))
    assert before > 0.1
    assert abs(after) < 0.02 * before
    worlds = (make_no_leak(200, 4, 2, rng=np.random.default_rng(seed)) for seed in range(10))
    for quiet, other in worlds:
        below = mmd(torch.tensor(quiet), [torch.as_tensor(np.flatnonzero(other.codes == k)) for k in range(2)])[0] <= 0
        assert np.array_equal(cloak(D2D, quiet, other.codes, steps=3), quiet) == below


@METHODS
def test_strength_walks_straight(method: type[U2U | D2D]) -> None:
    x, secret = make_planted_leak(100, 4, 3, 2.0, rng=np.random.default_rng(2))
    whole, part = (cloak(method, x, secret.codes, steps=30, strength=t) for t in (1.0, 0.3))
    assert np.abs(whole - x).max() > 0.05
    np.testing.assert_allclose(part, 0.7 * x + 0.3 * whole, atol=1e-6)


@METHODS
def test_the_unit_and_the_origin_of_the_table_do_not_matter(method: type[U2U | D2D]) -> None:
    x, secret = make_planted_leak(100, 4, 3, 2.0, rng=np.random.default_rng(3))
    out = cloak(method, x, secret.codes, steps=30)
    np.testing.assert_allclose(cloak(method, 1000 * x, secret.codes, steps=30) / 1000, out, atol=1e-3)
    np.testing.assert_allclose(cloak(method, x + 5, secret.codes, steps=30) - 5, out, atol=1e-3)


@METHODS
def test_the_unknown_stay_and_have_no_say(method: type[U2U | D2D]) -> None:
    x, secret = make_planted_leak(100, 4, 2, 2.0, rng=np.random.default_rng(4))
    more = np.vstack([x, 50 + x[:20]]).astype(np.float32)
    out = cloak(method, more, np.concatenate([secret.codes, np.full(20, UNDISCLOSED)]), steps=30)
    np.testing.assert_array_equal(out[100:], more[100:])
    np.testing.assert_allclose(out[:100], cloak(method, x, secret.codes, steps=30), atol=1e-4)


@pytest.mark.thorough
@METHODS
def test_several_attributes_all_pull_and_each_only_on_those_who_disclosed_it(method: type[U2U | D2D]) -> None:
    rng = np.random.default_rng(5)
    codes = rng.integers(2, size=(300, 2))
    x = rng.standard_normal((300, 3)).astype(np.float32)
    x[:, 0] += 2 * codes[:, 0]
    x[:, 1] += 2 * codes[:, 1]
    codes[:50, 1] = UNDISCLOSED
    codes[250:] = UNDISCLOSED
    out = cloak(method, x, codes)
    np.testing.assert_array_equal(out[250:], x[250:])
    for j, column in enumerate(codes.T):
        gaps = [abs(t[column == 1, j].mean() - t[column == 0, j].mean()) for t in (x, out)]
        assert gaps[1] < 0.5 * gaps[0]
    alone = np.column_stack([codes[:, 0], np.zeros(300, dtype=np.int64)])  # one class pulls nobody
    np.testing.assert_array_equal(cloak(method, x, alone, steps=5)[codes[:, 0] < 0], x[codes[:, 0] < 0])


@pytest.mark.thorough
@METHODS
def test_more_retention_moves_less(method: type[U2U | D2D]) -> None:
    x, secret = make_planted_leak(200, 4, 2, 2.0, rng=np.random.default_rng(6))
    moved = [np.square(cloak(method, x, secret.codes, weight=w) - x).sum() for w in (0.0, 1.0, 100.0)]
    assert moved[0] > moved[1] > 5 * moved[2]


@METHODS
def test_a_utility_loss_takes_the_place_of_the_distance_if_asked_for(method: type[U2U | D2D]) -> None:
    x, secret = make_planted_leak(200, 4, 2, 2.0, rng=np.random.default_rng(7))
    codes = np.where(np.arange(200) % 10 == 0, UNDISCLOSED, secret.codes)
    seen = []

    def first_column(table: torch.Tensor) -> torch.Tensor:
        seen.append(tuple(table.shape))
        return (table[:, 0] - torch.tensor(x[:, 0])).square().mean()

    cloaked = partial(cloak, method, x, codes, first_column, weight=1000.0, steps=100)
    ignored, kept = cloaked(), cloaked(retention="utility")
    assert set(seen) == {(200, 4)}
    assert np.abs(kept - x)[:, 0].max() < 0.2 * np.abs(kept - x)[:, 1:].max()
    assert not np.allclose(ignored, kept)
    np.testing.assert_array_equal(kept[codes < 0], x[codes < 0])


def test_retention_says_what_it_needs() -> None:
    x, secret = make_planted_leak(20, 4, 2, 2.0, rng=np.random.default_rng(8))
    with pytest.raises(UsageError, match="needs a utility loss"):
        cloak(U2U, x, secret.codes, retention="utility")
    with pytest.raises(UsageError, match="No retention is called 'l1'. Known: l2, utility"):
        cloak(D2D, x, secret.codes, retention="l1")


def test_the_hinge_counts_what_is_missing_between_neighbors_of_the_frozen_list() -> None:
    items = np.diag([3.0, 2.0, 1.9, 0.0]).astype(np.float32)
    users = np.ones((2, 4), dtype=np.float32)
    loss = make_order_hinge(users, items, k=3, margin=0.5)  # 3 > 2 > 1.9: of two steps one is too small by 0.4
    assert float(loss(torch.tensor(users))) == pytest.approx(0.4 / 2)
    swapped = users.copy()
    swapped[0] = [0.5, 1, 1, 1]  # 1.5 < 2 where the list says the other way round
    assert float(loss(torch.tensor(swapped))) == pytest.approx((1.0 + 0.4 + 0.4) / 4)


@pytest.mark.thorough
def test_the_hinge_keeps_more_of_the_order_than_nothing_does() -> None:
    rng = np.random.default_rng(9)
    x, secret = make_planted_leak(150, 6, 2, 2.0, rng=rng)
    items = rng.standard_normal((100, 6)).astype(np.float32)
    hinge = make_order_hinge(x, items)

    def overlap(t: np.ndarray) -> float:
        tops = [np.argsort(-(table @ items.T), axis=1)[:, :20] for table in (x, t)]
        return float(np.mean([len(np.intersect1d(a, b)) / 20 for a, b in zip(*tops, strict=True)]))

    free = cloak(U2U, x, secret.codes, weight=0.0)
    kept = cloak(U2U, x, secret.codes, hinge, retention="utility", weight=100.0)
    assert overlap(kept) > overlap(free) + 0.1


def test_item_vectors_of_another_dimension_are_refused() -> None:
    with pytest.raises(UsageError, match="User vectors have 4 dimensions"):
        make_order_hinge(np.zeros((5, 4)), np.zeros((7, 3)))


@METHODS
def test_bad_input_is_refused(method: type[U2U | D2D]) -> None:
    x, codes = np.zeros((4, 2), dtype=np.float32), np.array([0, 1, 0, 1])
    with pytest.raises(DataError, match="NaN"):
        cloak(method, np.full_like(x, np.nan), codes)
    with pytest.raises(UsageError, match="strength must lie"):
        cloak(method, x, codes, strength=1.5)
    with pytest.raises(DataError, match="codes for 3 users"):
        cloak(method, x, codes[:3])


@METHODS
def test_odd_tables_stay_finite(method: type[U2U | D2D]) -> None:
    rng = np.random.default_rng(10)
    x = rng.standard_normal((12, 20)).astype(np.float32)  # fewer users than dimensions
    x[:, 3] = 7
    codes = np.array([0] * 6 + [1] * 5 + [2])  # a class of one
    out = cloak(method, x, codes, steps=50)
    assert np.isfinite(out).all()
    assert not np.array_equal(out, x)
    np.testing.assert_array_equal(out[:, 3], x[:, 3])
    flat = np.full((6, 2), 3.0, dtype=np.float32)
    np.testing.assert_array_equal(cloak(method, flat, np.arange(6) % 2), flat)
    np.testing.assert_array_equal(cloak(method, x, np.full(12, UNDISCLOSED)), x)


@METHODS
def test_it_says_how_far_it_is(method: type[U2U | D2D]) -> None:
    told = []

    def listening(items, label, total):
        told.append((label, total))
        return items

    x, secret = make_planted_leak(40, 3, 2, 2.0, rng=np.random.default_rng(11))
    with report_progress(listening):
        cloak(method, x, secret.codes, steps=4)
    assert told == [(f"unlearning ({method.__name__})", 4)]
