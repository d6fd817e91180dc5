"""What items say of classes: found where it is, silent where it is not, and never learned from the user in question."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from recveil.core.types import UNDISCLOSED
from recveil.defenses.data.class_evidence import learn_evidence


def world(K: int = 2, n: int = 300, leak: float = 0.4) -> tuple[sparse.csr_array, np.ndarray]:
    """Item k is touched more often by class k; the last ten items by everybody alike."""
    rng = np.random.default_rng(K)
    codes = rng.permutation(np.arange(n) % K)
    chance = np.full((n, K + 10), 0.3)
    chance[np.arange(n), codes] += leak
    return sparse.csr_array((rng.random(chance.shape) < chance).astype(np.int32)), codes


def test_the_item_of_each_class_speaks_loudest_for_it() -> None:
    for K in (2, 3):
        seen, codes = world(K)
        found = learn_evidence(seen, codes, K, 4, np.random.default_rng(0))
        assert (found.weights[:, :, :K].argmax(2) == np.arange(K)).all()
        assert (found.weights.argmax(2) == np.arange(K)).all()
        np.testing.assert_allclose(found.weights.sum(1), 0, atol=1e-6)
        assert found.present.all()


def test_without_a_leak_the_items_say_little() -> None:
    loud, quiet = (learn_evidence(*world(2, leak=leak), 2, 4, np.random.default_rng(0)).weights for leak in (0.4, 0.0))
    assert np.abs(quiet).max() < 0.5 * np.abs(loud).max()


def test_a_fold_is_not_learned_from_its_own_users() -> None:
    seen, codes = world()
    found = learn_evidence(seen, codes, 2, 4, np.random.default_rng(0))
    other = seen.copy().tolil()
    other[found.fold == 2] = 0  # the profiles of one fold are rubbed out
    changed = learn_evidence(sparse.csr_array(other), codes, 2, 4, np.random.default_rng(0))
    np.testing.assert_array_equal(changed.fold, found.fold)
    np.testing.assert_array_equal(changed.weights[2], found.weights[2])
    assert all(np.abs(changed.weights[f] - found.weights[f]).max() > 1e-3 for f in (0, 1, 3))


def test_folds_share_every_class_and_leave_out_the_unknown() -> None:
    seen, codes = world(3)
    codes[::7] = UNDISCLOSED
    found = learn_evidence(seen, codes, 3, 5, np.random.default_rng(0))
    assert (found.fold[codes == UNDISCLOSED] == -1).all()
    counts = np.array([np.bincount(found.fold[codes == k], minlength=5) for k in range(3)])
    assert counts.max(1).tolist() == (counts.min(1) + (counts.max(1) > counts.min(1))).tolist()
    rubbed = seen.copy().tolil()
    rubbed[codes == UNDISCLOSED] = 0  # who is unknown teaches nothing
    again = learn_evidence(sparse.csr_array(rubbed), codes, 3, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(again.weights, found.weights)


def test_a_class_of_one_user_is_not_there_for_that_user() -> None:
    seen, codes = world()
    codes[17] = 2
    found = learn_evidence(seen, codes, 3, 4, np.random.default_rng(0))
    own = found.fold[17]
    assert not found.present[own, 2]
    assert not found.weights[own, 2].any()
    assert found.present[np.arange(4) != own, 2].all()


def test_one_class_alone_says_nothing() -> None:
    seen, codes = world()
    found = learn_evidence(seen, np.zeros_like(codes), 2, 4, np.random.default_rng(0))
    assert not found.present.any()
    assert not found.weights.any()
