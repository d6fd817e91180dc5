"""RMIA against its definition; it finds members and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership.reference_rows import EvidenceRows
from recveil.attacks.membership.rmia import RMIA, compute_beaten_shares
from recveil.core.errors import DataError, UsageError


def test_the_share_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    p, target = rng.random((9, 6)), rng.random(9)
    inside = rng.permuted(np.broadcast_to(np.arange(6) < 3, (9, 6)), axis=1)
    rows = EvidenceRows(np.log(p), inside, np.log(target))
    prior = [(p[x, inside[x]].mean() + p[x, ~inside[x]].mean()) / 2 for x in range(9)]
    ratio = target / np.array(prior)
    for gamma in (0.8, 1.0, 2.0):
        expected = [np.mean([ratio[x] / ratio[z] >= gamma for z in range(9) if z != x]) for x in range(9)]
        np.testing.assert_allclose(compute_beaten_shares(rows, gamma=gamma), expected)


def test_references_separate_members_that_levels_hide(make_gaussian_rows) -> None:
    areas = {}
    for gap in (0.0, 2.0):
        rows, member, _ = make_gaussian_rows(2000, 32, gap, shift=-20.0)  # log probabilities are below zero
        areas[gap] = roc_auc_score(member, compute_beaten_shares(rows))
    assert areas[0.0] == pytest.approx(0.5, abs=0.04)  # three standard errors
    assert areas[2.0] > 0.85
    assert roc_auc_score(member, rows.observed) < areas[2.0] - 0.1


def test_log_odds_are_compared_as_probabilities(make_reference_world) -> None:
    world = make_reference_world(1.0)
    signals = world.signals
    reference, target = (np.log(1 / (1 + np.exp(-x))) for x in (signals.reference, signals.target))
    of_pairs = compute_beaten_shares(EvidenceRows(reference, signals.trained_on[signals.user], target))
    expected = [of_pairs[signals.user == user].mean() for user in range(60)]
    np.testing.assert_allclose(RMIA(level="pair").score(world.watched), expected, atol=1e-9)


def test_missing_models_rows_and_bad_options_are_refused(make_gaussian_rows) -> None:
    rows, _, _ = make_gaussian_rows(5, 8, 1.0)
    with pytest.raises(DataError, match="5 of 5 rows have no reference model with them"):
        compute_beaten_shares(replace(rows, inside=np.zeros_like(rows.inside)))
    with pytest.raises(UsageError, match="no other row"):
        compute_beaten_shares(EvidenceRows(rows.signal[:1], rows.inside[:1], rows.observed[:1]))
    for make in (lambda: compute_beaten_shares(rows, gamma=0.0), lambda: RMIA(gamma=0.0)):
        with pytest.raises(UsageError, match="gamma.*0"):
            make()
    with pytest.raises(UsageError, match="No level is called 'item'"):
        RMIA(level="item")
