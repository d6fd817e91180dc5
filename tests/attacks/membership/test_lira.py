"""LiRA against the exact likelihood ratio and against fitted Gaussians; it finds members and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from recveil.attacks.membership.lira import LiRA, compute_likelihood_ratios, compute_standard_scores
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Watched


@pytest.mark.parametrize("spread", ["row", "pooled"])
def test_the_ratio_converges_to_the_exact_one(make_gaussian_rows, spread: str) -> None:
    gap, n_models = 1.5, 4000
    rows, _, exact = make_gaussian_rows(200, n_models, gap)
    ratios = compute_likelihood_ratios(rows, spread=spread)
    above = exact / gap + gap / 2  # in standard deviations over the models without; those with are `gap` nearer
    # The effect of estimated means and variances, of half of the models each, on a log density.
    error = np.sqrt(sum(((z**2 - 1) ** 2 / 2 + z**2) / (n_models / 2) for z in (above, above - gap)))
    assert (np.abs(ratios - exact) < 4.5 * error).all()
    assert np.corrcoef(ratios, exact)[0, 1] > 0.998


def test_the_ratio_is_that_of_two_fitted_gaussians(make_gaussian_rows) -> None:
    rows, _, _ = make_gaussian_rows(7, 12, 1.0)
    for row, ratio in enumerate(compute_likelihood_ratios(rows)):
        inside = rows.inside[row]
        with_row, without_row = (
            stats.norm(part.mean(), part.std(ddof=1)) for part in (rows.signal[row, inside], rows.signal[row, ~inside])
        )
        observed = rows.observed[row]
        assert ratio == pytest.approx(with_row.logpdf(observed) - without_row.logpdf(observed))


def test_references_separate_members_that_levels_hide(make_gaussian_rows) -> None:
    areas = {}
    for gap in (0.0, 2.0):
        rows, member, _ = make_gaussian_rows(2000, 32, gap)
        areas[gap] = roc_auc_score(member, compute_likelihood_ratios(rows))
    assert areas[0.0] == pytest.approx(0.5, abs=0.04)  # three standard errors
    assert areas[2.0] > 0.85
    assert roc_auc_score(member, rows.observed) < areas[2.0] - 0.1


def test_scores_of_pairs_are_averaged_by_user(make_reference_world) -> None:
    world = make_reference_world(1.0)
    signals, scores = world.signals, LiRA(level="pair", spread="row").score(world.watched)
    by_pair = LiRA(level="pair", spread="row")
    for user in (0, 7, 59):
        own = signals.user == user
        alone = replace(
            signals,
            user=np.flatnonzero(own) * 0 + user,
            reference=signals.reference[own],
            target=signals.target[own],
            scored_users=np.array([user]),
        )
        watched = replace(world.watched, reference_signals=alone)
        np.testing.assert_allclose(by_pair.score(watched), [scores[user]])  # with own variances, rows are independent


def test_too_few_models_and_missing_signals_are_refused(make_gaussian_rows) -> None:
    rows, _, _ = make_gaussian_rows(5, 8, 1.0)
    single = np.zeros_like(rows.inside)
    single[:, 0] = True
    with pytest.raises(DataError, match="fewer than 2 reference models with them"):
        compute_likelihood_ratios(replace(rows, inside=single))
    with pytest.raises(DataError, match="single reference model with it"):
        compute_likelihood_ratios(replace(rows, inside=single), spread="pooled")
    with pytest.raises(UsageError, match="Did you mean 'row'"):
        compute_likelihood_ratios(rows, spread="rows")
    with pytest.raises(UsageError, match="Did you mean 'pair'"):
        LiRA(level="pairs")
    with pytest.raises(UsageError, match="No spread is called 'rows'"):
        LiRA(spread="rows")
    with pytest.raises(UsageError, match="none were trained"):
        LiRA().score(Watched([np.array([0])], np.array([[0]])))


def test_the_offline_kind_uses_models_without_the_row_alone(make_gaussian_rows) -> None:
    rows, member, _ = make_gaussian_rows(2000, 32, 2.0)
    scores = compute_standard_scores(rows)
    changed = replace(rows, signal=np.where(rows.inside, 1e6, rows.signal))
    assert np.array_equal(compute_standard_scores(changed), scores)
    assert roc_auc_score(member, scores) > 0.85
    without = rows.signal[0, ~rows.inside[0]]
    assert scores[0] == pytest.approx((rows.observed[0] - without.mean()) / without.std(ddof=1))
    with pytest.raises(UsageError, match="kind"):
        LiRA(kind="on-line")
