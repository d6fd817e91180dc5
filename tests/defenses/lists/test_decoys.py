"""What lists omit tells the class before decoys and not after; seen items stay omitted; any number of classes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

from recveil.core.errors import DataError, UsageError
from recveil.core.random import PairDraws
from recveil.core.types import ServedVectors
from recveil.defenses.lists.decoys import Decoys

DEPTH, K = 40, 5


def make_heads(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, sparse.csr_array, np.ndarray]:
    """Rankings without a class in them; each class has seen other items more often."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    head = np.argsort(np.arange(60) + 8 * rng.standard_normal((n, 60)), axis=1)[:, :DEPTH]
    chance = 0.3 + 0.4 * (np.arange(60) % n_classes == np.arange(n_classes)[:, None])
    return head, sparse.csr_array((rng.random((n, 60)) < chance[codes]).astype(np.int32)), codes


def find_omitted(head: np.ndarray, omitted: sparse.csr_array, k: int = K) -> np.ndarray:
    """Return what is missing above the end of each list, as an attacker sees it."""
    flags = np.take_along_axis(omitted.toarray() > 0, head, axis=1)
    in_reach = np.cumsum(~flags, axis=1) - ~flags < k
    bag = np.zeros(omitted.shape)
    user, rank = np.nonzero(flags & in_reach)
    bag[user, head[user, rank]] = 1
    return bag


def attack(x: np.ndarray, codes: np.ndarray) -> float:
    model = LogisticRegression(C=0.05, max_iter=500)
    return float(cross_val_score(model, x, codes, cv=4, scoring="balanced_accuracy").mean())


@pytest.mark.thorough
@pytest.mark.parametrize("n_classes", [2, 3])
def test_what_is_missing_tells_the_class_before_and_not_after(n_classes: int) -> None:
    head, seen, codes = make_heads(1800, n_classes)
    omitted = Decoys()(head, seen, codes, k=K, rng=np.random.default_rng(1))
    before, after = (attack(find_omitted(head, each), codes) for each in (seen, omitted))
    assert before > 1 / n_classes + 0.25
    assert abs(after - 1 / n_classes) < 0.06  # five standard errors


def make_cloaked_world(
    n: int, gap: float
) -> tuple[np.ndarray, sparse.csr_array, np.ndarray, ServedVectors, np.ndarray]:
    """Cloaked vectors that tell nothing, and undefended ones on one side of them or the other, by class and place.

    No item is seen more often by one class. What was seen follows from the undefended vectors.
    """
    rng = np.random.default_rng(4)
    codes, cloaked, items = rng.permutation(np.arange(n) % 2), rng.standard_normal((n, 3)), rng.standard_normal((60, 3))
    undefended = cloaked.copy()
    undefended[:, 0] += gap * (2 * codes - 1) * cloaked[:, 1]
    seen = rng.random((n, 60)) < 1 / (1 + np.exp(-undefended @ items.T))
    head = np.argsort(-cloaked @ items.T, axis=1)[:, :DEPTH]

    def score_head(x: np.ndarray) -> np.ndarray:
        return np.take_along_axis(x @ items.T, head, axis=1)

    vectors = ServedVectors(cloaked, score_head, undefended)
    return head, sparse.csr_array(seen.astype(np.int32)), codes, vectors, items


def attack_with_vectors(head: np.ndarray, omitted: sparse.csr_array, codes: np.ndarray, cloaked: np.ndarray) -> float:
    """Attack by where omitted items lie, for the side of the plane that the vector is on."""
    bag = find_omitted(head, omitted)
    return attack(np.concatenate([cloaked, bag, bag * cloaked[:, 1:2]], axis=1), codes)


@pytest.mark.thorough
def test_vectors_and_omissions_together_tell_unless_the_vectors_are_known() -> None:
    head, seen, codes, vectors, _ = make_cloaked_world(3000, gap=1.0)
    rng = np.random.default_rng(1)
    blind = Decoys()(head, seen, codes, k=K, rng=rng)
    omitted = Decoys()(head, seen, codes, k=K, rng=rng, vectors=vectors)
    assert attack_with_vectors(head, blind, codes, vectors.cloaked) > 0.6
    assert abs(attack_with_vectors(head, omitted, codes, vectors.cloaked) - 0.5) < 0.046  # five standard errors


@pytest.mark.thorough
def test_where_omissions_tell_nothing_few_decoys_are_drawn() -> None:
    head, seen, codes, vectors, _ = make_cloaked_world(3000, gap=0.0)
    omitted = Decoys()(head, seen, codes, k=K, rng=np.random.default_rng(1), vectors=vectors)
    assert abs(attack_with_vectors(head, omitted, codes, vectors.cloaked) - 0.5) < 0.046
    assert omitted.nnz - seen.nnz < 0.5 * len(head)  # of five places in a list


def test_rankings_may_end_early() -> None:
    head, seen, codes = make_heads(600, 2)
    head[:100, 10:] = -1
    omitted = Decoys()(head, seen, codes, k=K, rng=np.random.default_rng(1))
    added = omitted.toarray() > seen.toarray()
    listed = np.zeros(added.shape, dtype=np.bool_)
    np.put_along_axis(listed[:100], head[:100, :10], True, axis=1)
    assert added[:100].any()
    assert not (added[:100] & ~listed[:100]).any()


def test_seen_items_stay_omitted_and_strength_adds_decoys() -> None:
    head, seen, codes = make_heads(600, 2)
    counts = []
    for strength in (0.0, 0.5, 1.0):
        omitted = Decoys(strength=strength)(head, seen, codes, k=K, rng=np.random.default_rng(1))
        assert (omitted.toarray() >= seen.toarray()).all()
        assert set(omitted.data.tolist()) == {1}
        counts.append(omitted.nnz)
    assert counts[0] == seen.nnz
    assert counts[0] < counts[1] < counts[2]


def test_one_class_needs_no_decoys_and_undisclosed_users_get_some() -> None:
    head, seen, codes = make_heads(600, 2)
    alone = Decoys()(head, seen, np.zeros(600, dtype=np.int64), k=K, rng=np.random.default_rng(1))
    assert alone.nnz == seen.nnz
    hidden = codes.copy()
    hidden[:100] = -1
    omitted = Decoys()(head, seen, hidden[:, None], k=K, rng=np.random.default_rng(1))
    assert omitted[:100].nnz > seen[:100].nnz


def test_fixed_draws_give_the_same_decoys_in_any_order_of_the_users() -> None:
    head, seen, codes, vectors, items = make_cloaked_world(600, gap=1.0)
    assert vectors.undefended is not None
    before = vectors.undefended
    order = np.random.default_rng(3).permutation(600)

    def omit(rows: np.ndarray) -> np.ndarray:
        def score_head(x: np.ndarray) -> np.ndarray:
            return np.take_along_axis(x @ items.T, head[rows], axis=1)

        draws = PairDraws.from_ids(5, rows.tolist(), range(60))
        rng, served = np.random.default_rng(1), ServedVectors(vectors.cloaked[rows], score_head, before[rows])
        defense = Decoys()
        return defense(head[rows], seen[rows], codes[rows], k=K, rng=rng, draw_pairs=draws, vectors=served).toarray()

    np.testing.assert_array_equal(omit(np.arange(600))[order], omit(order))


def test_bad_input_is_said() -> None:
    head, seen, codes = make_heads(60, 2)
    with pytest.raises(DataError, match="Give the same users in all three"):
        Decoys()(head[:50], seen, codes, k=K, rng=np.random.default_rng(0))
    with pytest.raises(UsageError, match="strength"):
        Decoys(strength=1.5)
