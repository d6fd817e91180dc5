"""Signals of user-item pairs against plain loops, in blocks of any size."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.attacks.membership.score_signals import SIGNALS, compute_pair_signals
from recveil.core.errors import DataError, UsageError

HISTORIES = [np.array([0, 2]), np.array([3]), np.array([1, 4, 0])]
TABLE = np.array([[3.0, 1.0, 2.0, 2.0, 0.0], [0.0, 1.0, 5.0, 1.0, -1.0], [1.0, 1.0, 2.0, 1.0, 9.0]])


def score(users: np.ndarray) -> np.ndarray:
    return TABLE[users]


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("block", [1, 10, 1 << 24])
def test_signals_follow_their_definition(kind: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recveil.attacks.membership.score_signals.BLOCK_SCORES", block)
    signals = compute_pair_signals(score, HISTORIES, kind)
    expected = []
    for user, history in enumerate(HISTORIES):
        unseen = np.delete(TABLE[user], history)
        for item in history:
            s = TABLE[user, item]
            percentile = ((unseen < s).sum() + 0.5 * (unseen == s).sum() + 0.5) / (len(unseen) + 1)
            values = {"log-odds": s, "self-score": s, "bpr-margin": s - unseen.mean(), "rank-percentile": percentile}
            expected.append(values[kind])
    np.testing.assert_allclose(signals.value, expected)
    assert signals.user.tolist() == [0, 0, 1, 2, 2, 2]
    assert signals.item.tolist() == [0, 2, 3, 1, 4, 0]


@pytest.mark.parametrize(
    ("histories", "kind", "error", "message"),
    [
        (HISTORIES, "margin", UsageError, "No signal is called 'margin'"),
        ([HISTORIES[0], HISTORIES[0][:0]], "log-odds", DataError, "1 of 2 users have an empty history"),
        ([np.array([0, 7])], "log-odds", DataError, "items from 0 to 7; the model scores 0 to 4"),
        ([np.arange(5)], "bpr-margin", DataError, "have every item in their history"),
    ],
)
def test_bad_histories_and_kinds_are_refused(histories: list, kind: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compute_pair_signals(score, histories, kind)
