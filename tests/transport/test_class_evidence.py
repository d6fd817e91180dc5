"""Evidence of classes: random labels give none beyond chance, and each kind of difference is found."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.transport import class_evidence
from recveil.transport.class_evidence import (
    MAX_CLASSES_OF_TREES,
    SIGNIFICANCE,
    ClassEvidence,
    _compute_p_value,
    weigh_evidence,
)


def shift_mean(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x, labels = rng.standard_normal((600, 6)), np.arange(600) % 2
    x[:, 0] += 0.6 * labels
    return x, labels


def split_atom(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Half of the users at zero in one column; those of one class lie a little beside it."""
    x, labels = rng.standard_normal((600, 6)), np.arange(600) % 2
    x[rng.random(600) < 0.5, 2] = 0.0
    x[(x[:, 2] == 0) & (labels == 1), 2] = 1e-3
    return x, labels


def widen_thin_direction(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two columns that are equal up to a thousandth, which is larger in one class."""
    x, labels = rng.standard_normal((600, 6)), np.arange(600) % 2
    x[:, 1] = x[:, 0] + 1e-3 * rng.standard_normal(600) * (1 + 2 * labels)
    return x, labels


def mix_clusters(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Twenty small neighborhoods, each with a share of the classes of its own."""
    cluster = rng.integers(0, 20, 600)
    x = 2 * rng.standard_normal((20, 6))[cluster] + 0.1 * rng.standard_normal((600, 6))
    return x, (rng.random(600) < np.where(cluster % 2, 0.75, 0.25)).astype(np.int64)


@pytest.mark.parametrize("make_world", [shift_mean, split_atom, widen_thin_direction, mix_clusters])
def test_every_kind_of_difference_is_found(make_world) -> None:
    x, labels = make_world(np.random.default_rng(0))
    evidence = weigh_evidence(x, labels, np.random.default_rng(1))
    assert evidence.is_beyond_chance
    np.testing.assert_allclose(evidence.shares.sum(1), 1)
    np.testing.assert_allclose(evidence.chance_shares.sum(1), 1)


def test_parts_of_a_large_table_find_together_what_is_there_and_nothing_where_nothing_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, labels = mix_clusters(np.random.default_rng(0))
    monkeypatch.setattr(class_evidence, "MAX_USERS_OF_KERNEL", 250)
    monkeypatch.setattr(class_evidence, "_score_by_trees", lambda x, labels, fold, K: np.zeros((len(x), K)))
    assert weigh_evidence(x, labels, np.random.default_rng(1)).is_beyond_chance  # by the kernels of three parts
    random = [np.random.default_rng(seed).permutation(labels) for seed in range(10)]
    found = [weigh_evidence(x, each, np.random.default_rng(1)).is_beyond_chance for each in random]
    assert sum(found) <= 2


def test_shares_by_chance_have_as_much_evidence_as_random_labels_may_have() -> None:
    x, labels = shift_mean(np.random.default_rng(0))
    evidence = weigh_evidence(x, labels, np.random.default_rng(1))
    p = evidence.chance_shares
    assert (p * np.log(p / p.mean(0))).sum() == pytest.approx(evidence.limit, rel=0.3)
    assert _compute_p_value(evidence.limit, 3) == pytest.approx(SIGNIFICANCE)
    weak = ClassEvidence(evidence.shares, evidence.limit / 2, evidence.limit)
    np.testing.assert_allclose(weak.chance_shares, weak.shares)


@pytest.mark.thorough
@pytest.mark.parametrize("more_is_seen", [False, True])
def test_random_labels_are_rarely_beyond_chance(more_is_seen: bool) -> None:
    """Also where many columns that follow from the rows are seen, as items that score high do, of any scale."""
    found = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, labels = rng.standard_normal((200, 5)), rng.permutation(np.arange(200) % 2)
        if seed % 2:
            x = np.maximum(x, 0) * rng.lognormal(0, 1, (200, 1))  # atoms and tails, as networks and activity make them
        exposed = np.column_stack([x, 1e3 * (x @ rng.standard_normal((5, 60)) > 2)]) if more_is_seen else None
        found += weigh_evidence(x, labels, rng, exposed=exposed).is_beyond_chance
    assert found <= 0.12 * 60


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_what_is_seen_beside_the_rows_is_found(scale: float) -> None:
    rng = np.random.default_rng(0)
    x, beside = rng.standard_normal((600, 6)), rng.standard_normal((600, 30))
    for K in (2, 3):
        labels = (beside[:, 0] > 0).astype(np.int64) + (K == 3) * (beside[:, 1] > 0)
        exposed = np.column_stack([x, scale * beside, np.ones(600)])
        assert not weigh_evidence(x, labels, np.random.default_rng(1)).is_beyond_chance
        assert weigh_evidence(x, labels, np.random.default_rng(1), exposed=exposed).is_beyond_chance


def test_the_same_draws_give_the_same_evidence() -> None:
    x, labels = shift_mean(np.random.default_rng(0))
    one, two = (weigh_evidence(x[:200], labels[:200], np.random.default_rng(3)) for _ in range(2))
    assert one.statistic == two.statistic
    np.testing.assert_array_equal(one.shares, two.shares)


@pytest.mark.parametrize("few", [1, 2])
@pytest.mark.parametrize("n", [3, 40])
def test_a_class_of_one_or_two_users_is_no_error(n: int, few: int) -> None:
    """Folds may hold one class only, so that trees have nothing to learn."""
    x = np.random.default_rng(0).standard_normal((n, 3))
    for seed in range(4):
        evidence = weigh_evidence(x, (np.arange(n) < few).astype(np.int64), np.random.default_rng(seed))
        assert np.isfinite(evidence.shares).all()
        assert evidence.statistic >= 0


def test_more_classes_than_trees_are_built_for_are_found_by_the_others() -> None:
    K = MAX_CLASSES_OF_TREES + 2
    rng = np.random.default_rng(0)
    labels = np.arange(600) % K
    x = rng.standard_normal((600, 4))
    assert not weigh_evidence(x, labels, np.random.default_rng(1)).is_beyond_chance
    x[:, 0] += 0.3 * labels
    assert weigh_evidence(x, labels, np.random.default_rng(1)).is_beyond_chance


def test_constant_and_repeated_columns_and_the_unit_do_not_matter_much() -> None:
    x, labels = shift_mean(np.random.default_rng(0))
    wide = 1e-20 * np.column_stack([x, np.full(600, 3.0), x[:, 0]])
    assert weigh_evidence(wide, labels, np.random.default_rng(1)).is_beyond_chance
    assert not weigh_evidence(np.ones((40, 3)), labels[:40], np.random.default_rng(1)).is_beyond_chance


def test_probabilities_of_chance_fall_with_the_evidence() -> None:
    found = [_compute_p_value(statistic, 3) for statistic in (0.0, 1.0, 3.0, 6.0, 20.0)]
    assert found[0] == pytest.approx(7 / 8)  # with one chance in eight all weights are 0
    assert (np.diff(found) < 0).all()
    assert found[-1] < 1e-3


def test_where_two_learners_find_enough_the_kernel_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(400) % 2
    x = rng.standard_normal((400, 3)) + labels[:, None]
    whole = weigh_evidence(x, labels, np.random.default_rng(0))
    assert weigh_evidence(x, labels, np.random.default_rng(0), enough=1e6).statistic == whole.statistic
    monkeypatch.setattr(class_evidence, "_score_by_kernel", lambda *_: pytest.fail("the kernel was asked"))
    quick = weigh_evidence(x, labels, np.random.default_rng(0), enough=5.0)
    assert max(5.0, quick.limit) < quick.statistic <= whole.statistic + 1e-6
