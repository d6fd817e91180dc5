"""LiRA against the exact likelihood ratio, RMIA against its definition, signals against plain loops."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from recveil.attacks.membership.likelihood import SIGNALS, lira, pair_signals, rmia, user_means
from recveil.core.errors import DataError, UsageError


def gaussian_world(n: int, R: int, gap: float, seed: int = 0) -> tuple[np.ndarray, ...]:
    """Each user has a level of its own; a model that had the user is `gap` higher. Half of all models had it."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 3, n)
    inside = rng.permuted(np.arange(R) < R // 2, axis=None) & np.ones((n, 1), bool)
    inside = rng.permuted(inside, axis=1)
    signal = level[:, None] + gap * inside + rng.standard_normal((n, R))
    member = np.arange(n) % 2 == 0
    observed = level + gap * member + rng.standard_normal(n)
    exact = gap * (observed - level) - gap**2 / 2
    return signal, inside, observed, member, exact


def auc(score: np.ndarray, member: np.ndarray) -> float:
    return float(stats.mannwhitneyu(score[member], score[~member]).statistic / member.sum() / (~member).sum())


@pytest.mark.parametrize("spread", ["row", "pooled"])
def test_lira_comes_to_the_exact_ratio(spread: str) -> None:
    gap, models = 1.5, 4000
    signal, inside, observed, _, exact = gaussian_world(200, models, gap)
    score = lira(signal, inside, observed, spread=spread)
    above = exact / gap + gap / 2  # the models without, in standard deviations; those with are `gap` nearer
    # What estimated means and variances of half of the models each do to a log density.
    error = np.sqrt(sum(((z**2 - 1) ** 2 / 2 + z**2) / (models / 2) for z in (above, above - gap)))
    assert (np.abs(score - exact) < 4.5 * error).all()
    assert np.corrcoef(score, exact)[0, 1] > 0.998


def test_lira_is_the_ratio_of_two_fitted_gaussians() -> None:
    signal, inside, observed, _, _ = gaussian_world(7, 12, 1.0)
    for u, score in enumerate(lira(signal, inside, observed)):
        with_it, without = signal[u, inside[u]], signal[u, ~inside[u]]
        fits = [stats.norm(part.mean(), part.std(ddof=1)) for part in (with_it, without)]
        assert score == pytest.approx(fits[0].logpdf(observed[u]) - fits[1].logpdf(observed[u]))


def test_offline_lira_asks_how_far_above_the_models_without() -> None:
    signal, _, observed, _, _ = gaussian_world(7, 12, 1.0)
    score = lira(signal, np.zeros_like(signal, bool), observed)
    expected = stats.norm(signal.mean(1), signal.std(1, ddof=1)).logcdf(observed)
    np.testing.assert_allclose(score, expected)


@pytest.mark.parametrize("attack", [lira, rmia])
def test_members_are_found_and_nobody_where_there_is_no_difference(attack: object) -> None:
    scores = {}
    for gap in (0.0, 2.0):
        signal, inside, observed, member, exact = gaussian_world(2000, 32, gap)
        shift = 20.0 if attack is rmia else 0.0  # log probabilities are below zero
        scores[gap] = auc(attack(signal - shift, inside, observed - shift), member)  # type: ignore[operator]
    assert scores[0.0] == pytest.approx(0.5, abs=0.04)  # three standard errors
    assert scores[2.0] > 0.85
    assert auc(observed, member) < scores[2.0] - 0.1  # what the references are good for


def test_rmia_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    signal, observed = np.log(rng.random((9, 6))), np.log(rng.random(9))
    inside = rng.permuted(np.broadcast_to(np.arange(6) < 3, (9, 6)), axis=1)
    others = np.array([True] * 6 + [False] * 3)
    for gamma in (0.8, 1.0, 2.0):
        p, target = np.exp(signal), np.exp(observed)
        prior = [(p[u, inside[u]].mean() + p[u, ~inside[u]].mean()) / 2 for u in range(9)]
        ratio = target / np.array(prior)
        rivals = [[z for z in range(6) if z != u] for u in range(9)]
        expected = [np.mean([ratio[u] / ratio[z] >= gamma for z in rivals[u]]) for u in range(9)]
        np.testing.assert_allclose(rmia(signal, inside, observed, others=others, gamma=gamma), expected)


def test_offline_rmia_mends_the_prior() -> None:
    rng = np.random.default_rng(1)
    signal, observed = np.log(rng.random((5, 4))), np.log(rng.random(5))
    outside = np.zeros((5, 4), bool)
    ratio = np.exp(observed) / (0.5 * (1.3 * np.exp(signal).mean(1) + 0.7))
    expected = [(ratio[u] >= np.delete(ratio, u)).mean() for u in range(5)]
    np.testing.assert_allclose(rmia(signal, outside, observed, offline=0.3), expected)
    assert np.isfinite(rmia(signal, outside, observed, offline=1.0)).all()


HISTORIES = [np.array([0, 2]), np.array([3]), np.array([1, 4, 0])]
TABLE = np.array([[3.0, 1.0, 2.0, 2.0, 0.0], [0.0, 1.0, 5.0, 1.0, -1.0], [1.0, 1.0, 2.0, 1.0, 9.0]])


@pytest.mark.parametrize("kind", SIGNALS)
@pytest.mark.parametrize("block", [1, 10, 1 << 24])
def test_signals_are_what_they_say(kind: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("recveil.attacks.membership.likelihood.BLOCK", block)
    got = pair_signals(lambda users: TABLE[users], HISTORIES, kind)
    expected = []
    for u, history in enumerate(HISTORIES):
        rest = np.delete(TABLE[u], history)
        for i in history:
            s = TABLE[u, i]
            percentile = ((rest < s).sum() + 0.5 * (rest == s).sum() + 0.5) / (len(rest) + 1)
            expected.append({"log-odds": s, "bpr-margin": s - rest.mean(), "rank-percentile": percentile}[kind])
    np.testing.assert_allclose(got.value, expected)
    assert got.user.tolist() == [0, 0, 1, 2, 2, 2]
    assert got.item.tolist() == [0, 2, 3, 1, 4, 0]


def test_users_are_the_means_of_their_pairs() -> None:
    assert user_means(np.array([0, 0, 1, 2, 2]), np.array([1.0, 3.0, 5.0, 0.0, 1.0])).tolist() == [2.0, 5.0, 0.5]


def test_bad_input_is_said() -> None:
    signal, inside, observed, _, _ = gaussian_world(5, 8, 1.0)
    with pytest.raises(DataError, match=r"shape \(5, 8\).*need \(n, R\)"):
        lira(signal, inside[:, :3], observed)
    with pytest.raises(DataError, match="finite"):
        lira(np.where(inside, np.nan, signal), inside, observed)
    with pytest.raises(UsageError, match="No spread is called 'rows'. Did you mean 'row'"):
        lira(signal, inside, observed, spread="rows")
    single = np.zeros_like(inside)
    single[:, 0] = True
    with pytest.raises(DataError, match="fewer than 2 reference models with them"):
        lira(signal, single, observed)
    with pytest.raises(DataError, match="single reference model with it"):
        lira(signal, single, observed, spread="pooled")
    with pytest.raises(DataError, match="5 of 5 rows have no reference model with them"):
        rmia(signal, np.zeros_like(inside), observed)
    with pytest.raises(UsageError, match="gamma must be a positive number; got 0"):
        rmia(signal, inside, observed, gamma=0.0)
    with pytest.raises(UsageError, match="offline must be between 0 and 1; got 2"):
        rmia(signal, inside, observed, offline=2.0)
    with pytest.raises(UsageError, match="no other row"):
        rmia(signal, inside, observed, others=np.arange(5) == 2)
    with pytest.raises(UsageError, match="No signal is called 'margin'"):
        pair_signals(lambda users: TABLE[users], HISTORIES, "margin")
    with pytest.raises(DataError, match="1 of 2 users have an empty history"):
        pair_signals(lambda users: TABLE[users], [HISTORIES[0], HISTORIES[0][:0]], "log-odds")
    with pytest.raises(DataError, match="items from 0 to 7; the model scores 0 to 4"):
        pair_signals(lambda users: TABLE[users], [np.array([0, 7])], "log-odds")
    with pytest.raises(DataError, match="touched every item"):
        pair_signals(lambda users: TABLE[users], [np.arange(5)], "bpr-margin")
