from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import sparse

from recveil.core.errors import DataError, UsageError
from recveil.core.types import Dataset
from recveil.metrics.gaussian_privacy import bound_attack_auc, calibrate_mu, compose_mu, compute_epsilon
from recveil.models.private_release import (
    NoisyCounts,
    PrivacyBudget,
    add_symmetric_noise,
    clip_histories,
    compute_item_threshold,
    count_items,
    make_noise_generator,
    release_counts,
    release_typical_length,
    resolve_budget,
    scale_rows,
    select_head_items,
)
from recveil.models.sampling import build_interaction_matrix


def make_data(histories: list[list[int]], n_items: int = 30) -> Dataset:
    user = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
    item = np.concatenate([np.array(h, dtype=np.int64) for h in histories])
    return Dataset("made", user, item, np.arange(len(item)), np.arange(len(histories)), np.arange(n_items))


def release(counts: np.ndarray, budget: PrivacyBudget) -> NoisyCounts:
    return release_counts(counts, budget, max_history=50, rng=np.random.default_rng(0))


def test_the_parts_of_a_budget_compose_to_it() -> None:
    for epsilon in (0.5, 2.0, 50.0):
        budget = resolve_budget(epsilon, None, 1e-5)
        for n_frequent in (0, 10, 10_000):
            noisy = release(np.full(n_frequent, 1e9), budget)
            spent = [release.sensitivity / release.noise for release in noisy.releases]
            assert compose_mu([*spent, noisy.model_mu]) == pytest.approx(budget.mu)
            assert 1 / noisy.noise == pytest.approx(compose_mu(spent))
            assert 0 < compose_mu(spent) <= noisy.model_mu
        assert compute_epsilon(budget.delta - budget.item_failure, budget.mu) == pytest.approx(epsilon)
        assert resolve_budget(None, 1 / budget.mu, 1e-5).epsilon == pytest.approx(epsilon)
    assert resolve_budget(None, None, 1e-5).epsilon == 2.0


def test_a_guarantee_says_what_it_means_and_whether_the_noise_is_secret() -> None:
    budget = resolve_budget(2.0, None, 1e-5)
    secret, seeded = (budget.build_guarantee("m", [], 3, seed) for seed in (None, 7))
    assert secret.max_auc == pytest.approx(bound_attack_auc(budget.mu), abs=1e-6)
    assert "AUC above 0.639" in secret.sentence
    assert "3.4% of them" in secret.sentence
    assert (secret.noise_is_secret, secret.noise_seeded_by) == (True, "operating system")
    assert (seeded.noise_is_secret, seeded.noise_seeded_by) == (False, "noise_seed")
    assert "NOT secret" in seeded.sentence
    assert any("metrics.json" in text for text in secret.not_covered)
    assert "NOT secret" not in secret.sentence
    without = resolve_budget(None, 0.0, 1e-5).build_guarantee("m", [], 3, None)
    assert (without.max_auc, without.noise_is_secret, math.isinf(without.epsilon)) == (1.0, False, True)
    assert "no guarantee" in without.sentence
    large = resolve_budget(1e6, None, 1e-5).build_guarantee("m", [], 3, None)
    assert "protects nobody" in large.sentence


def test_noise_repeats_with_a_seed_only_and_differs_between_the_models_of_a_run() -> None:
    def draw(seed: int | None, rng: np.random.Generator) -> float:
        return float(make_noise_generator(seed, rng).standard_normal())

    rng = np.random.default_rng(0)
    first, second = draw(1, rng), draw(1, rng)
    assert first != second
    assert draw(1, np.random.default_rng(0)) == first
    assert draw(None, np.random.default_rng(0)) != draw(None, np.random.default_rng(0))


def test_one_user_changes_the_counts_by_one_at_most() -> None:
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(200):
        histories = [list(rng.permutation(30)[: rng.integers(1, 30)]) for _ in range(5)]
        recency = float(rng.choice([0.0, 3.0]))
        change = np.subtract(
            *(
                count_items(scale_rows(build_interaction_matrix(make_data(h), recency)))
                for h in (histories, histories[:4])
            )
        )
        worst = max(worst, float(np.linalg.norm(change)))
    assert 0.99 < worst <= 1 + 1e-9


def test_items_of_a_single_user_pass_the_threshold_as_seldom_as_claimed() -> None:
    rng, noise, failure = np.random.default_rng(0), 2.0, 0.05
    threshold = compute_item_threshold(noise, failure, max_history=100)
    for weights in (np.ones(1), np.full(100, 0.1), np.append(0.9, np.full(99, math.sqrt((1 - 0.81) / 99)))):
        noisy = weights + noise * rng.standard_normal((20_000, len(weights)))
        assert (noisy > threshold).any(1).mean() <= failure
    noisy = np.full(100, 0.1) + noise * rng.standard_normal((20_000, 100))
    assert (noisy > threshold).any(1).mean() > failure / 3  # not far from what is needed
    assert compute_item_threshold(1e-6, failure, 100) == pytest.approx(1.0, abs=1e-4)


def test_head_items_are_the_frequent_ones() -> None:
    budget = resolve_budget(2.0, None, 1e-5)
    noisy = release(np.append(np.full(10, 500.0), np.ones(90)), budget)
    head = select_head_items(noisy, budget, None)
    assert head.items.tolist() == list(range(10))
    assert np.array_equal(head.counts, noisy.values[:10])
    assert len(select_head_items(noisy, budget, 4).items) == 4
    with pytest.raises(UsageError, match="101, but the data have 100 items"):
        select_head_items(noisy, budget, 101)
    with pytest.raises(DataError, match="No item has enough users"):
        select_head_items(release(np.ones(100), budget), budget, None)


def test_the_two_counts_are_averaged_with_the_noise_that_is_stated() -> None:
    noisy = release(np.full(100_000, 1e6), resolve_budget(2.0, None, 1e-5))
    assert np.std(noisy.values) == pytest.approx(noisy.noise, rel=0.02)
    assert np.mean(noisy.values) == pytest.approx(1e6, abs=0.1)


def test_where_few_items_are_frequent_more_is_spent_on_finding_them() -> None:
    budget = resolve_budget(2.0, None, 1e-5)
    few, many = (release(np.full(n, 1e6), budget) for n in (5, 500))
    assert few.noise < many.noise / 3
    assert many.model_mu > few.model_mu


def test_an_item_of_a_single_user_is_released_as_seldom_as_claimed() -> None:
    budget = PrivacyBudget(2.0, 5.0, calibrate_mu(2.0, 1e-5))  # item_failure is 0.05: often enough to be counted
    rng, trials = np.random.default_rng(0), 4_000
    passed = np.zeros(trials, dtype=bool)
    for trial in range(trials):
        noisy = release_counts(np.append(np.full(40, 500.0), np.full(50, 50**-0.5)), budget, max_history=50, rng=rng)
        passed[trial] = (noisy.values[40:] > noisy.threshold).any()
    assert 0 < passed.mean() <= budget.item_failure / 2 * 1.2


def test_the_typical_length_is_noisy_and_one_user_changes_it_by_no_more_than_claimed() -> None:
    data = make_data([list(range(9))] * 400)
    exact, free = release_typical_length(data, math.inf, max_history=30, rng=np.random.default_rng(0))
    assert (exact, free.noise) == (pytest.approx(9.0), 0.0)
    noisy, stated = release_typical_length(data, 0.1, max_history=30, rng=np.random.default_rng(0))
    assert noisy != exact
    assert (stated.sensitivity, stated.noise) == (pytest.approx(math.sqrt(2)), pytest.approx(math.sqrt(2) / 0.1))
    roots = [math.sqrt(min(length, 30) / 30) for length in range(1, 60)]
    assert max(math.hypot(1, root) for root in roots) <= stated.sensitivity
    hopeless, _ = release_typical_length(data, 1e-6, max_history=30, rng=np.random.default_rng(0))
    assert 0 <= hopeless <= 30


def test_symmetric_noise_has_its_spread_in_every_direction() -> None:
    draws = add_symmetric_noise(np.zeros((20_000, 3, 3)), 2.0, np.random.default_rng(0))
    assert np.array_equal(draws, draws.swapaxes(1, 2))
    for direction in (np.diag([1.0, 0, 0]), np.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]) / math.sqrt(2)):
        assert np.std((draws * direction).sum((1, 2))) == pytest.approx(2.0, rel=0.03)


def test_long_histories_keep_their_newest_items() -> None:
    data = make_data([list(range(8)), [3, 4]])
    assert clip_histories(data, 3).item.tolist() == [5, 6, 7, 3, 4]
    assert clip_histories(data, 8) is data


def test_rows_have_norm_one_or_zero() -> None:
    rows = scale_rows(sparse.csr_array(np.array([[3.0, 4.0], [0.0, 0.0]])))
    assert np.allclose(rows.toarray(), [[0.6, 0.8], [0.0, 0.0]])


@pytest.mark.parametrize(("epsilon", "noise", "delta"), [(2.0, 1.0, 1e-5), (0.0, None, 1e-5), (None, -1.0, 1e-5)])
def test_budgets_that_mean_nothing_are_refused(epsilon: float | None, noise: float | None, delta: float) -> None:
    with pytest.raises(UsageError, match="epsilon|noise"):
        resolve_budget(epsilon, noise, delta)
