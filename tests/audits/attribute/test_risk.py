"""The risk of single users: planted users are recognized, and nobody is called exposed where nothing leaks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recveil.attacks.attribute.classic import Quadratic
from recveil.attacks.attribute.classifiers import ClassifierAttack
from recveil.attacks.attribute.neighbors import Neighbors
from recveil.audits.attribute.folds import CrossValidation, FoldTrial, run_attacks_on_folds
from recveil.audits.attribute.risk import UserRisk, measure_user_risk, write_user_risk
from recveil.core.errors import DataError, UsageError
from recveil.core.types import Scores
from recveil.testing.worlds import make_no_leak, make_planted_leak

ATTACKS = {"qda": ClassifierAttack(Quadratic), "knn": Neighbors()}


def measure_risk(x: np.ndarray, codes: np.ndarray, K: int) -> UserRisk:
    return measure_user_risk(
        run_attacks_on_folds(x, codes, K, ATTACKS, rules=CrossValidation(repeats=2), seed=0), len(codes)
    )


def make_trial(beliefs: np.ndarray, truth: np.ndarray, seed: int = 0, attack: str = "a") -> FoldTrial:
    """A trial in which inner users and attacked users get predictions of the same kind."""
    order = np.random.default_rng(seed).permutation(len(truth))
    test, inner = order[: len(order) // 2], order[len(order) // 2 :]
    return FoldTrial(attack, Scores(inner, truth[inner], beliefs[inner]), Scores(test, truth[test], beliefs[test]))


@pytest.mark.parametrize("K", [2, 4])
def test_users_deep_in_their_class_are_exposed_and_users_deep_in_another_are_not(K: int) -> None:
    x, secret = make_planted_leak(400, 4, K, 3.0, rng=np.random.default_rng(0))
    middle = np.stack([x[secret.codes == k].mean(0) for k in range(K)])
    # Few, or the hidden ones would be a cluster that makes the clear ones beside them unclear.
    clear, hidden = np.arange(4), np.arange(4, 8)
    x[clear] = middle[secret.codes[clear]] * 1.5
    x[hidden] = middle[(secret.codes[hidden] + 1) % K] * 1.5
    risk = measure_risk(x, secret.codes, K)
    assert risk.confidence[clear].min() > 0.75
    assert risk.consistency[clear].min() == 1
    assert risk.percentile[clear].mean() > 50
    assert risk.confidence[hidden].max() < 0.25
    assert risk.consistency[hidden].max() == 0
    assert risk.percentile[hidden].max() < 25
    assert risk.confidence.mean() > risk.chance + 0.15
    np.testing.assert_array_equal(risk.guesses, 2 * 2)  # two attackers, two seeds


@pytest.mark.parametrize("K", [2, 5])
def test_without_a_leak_confidence_stays_at_chance(K: int) -> None:
    x, secret = make_no_leak(600, 8, K, rng=np.random.default_rng(1))
    risk = measure_risk(x, secret.codes, K)
    assert risk.chance == 1 / K
    assert risk.confidence.mean() == pytest.approx(1 / K, abs=0.02)
    assert risk.consistency.mean() == pytest.approx(1 / K, abs=0.06)
    # Nobody is called exposed by attackers that are sure of themselves without reason, as QDA is.
    assert np.quantile(risk.confidence, 0.99) < 2 / K


def test_a_large_class_is_no_more_exposed_for_its_size() -> None:
    codes = np.repeat([0, 1], [500, 100])
    x = np.random.default_rng(0).normal(size=(600, 4))
    risk = measure_risk(x, codes, 2)
    assert [risk.confidence[codes == k].mean() for k in (0, 1)] == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.mark.parametrize("K", [2, 3, 6])
def test_calling_the_classes_by_other_names_hides_nobody(K: int) -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(600) % K
    right = rng.dirichlet(np.ones(K), 600) * 0.2 + 0.8 * np.eye(K)[truth]
    honest = measure_user_risk({"a": [make_trial(right, truth)]}, 600)
    wrong = measure_user_risk({"a": [make_trial(np.roll(right, 1, axis=1), truth)]}, 600)
    assert np.nanmean(honest.confidence) > 0.9
    np.testing.assert_allclose(wrong.confidence, honest.confidence, rtol=1e-5)
    np.testing.assert_allclose(wrong.consistency, honest.consistency)


def test_an_attacker_with_one_prediction_for_all_exposes_nobody() -> None:
    truth = np.arange(300) % 3
    risk = measure_user_risk({"majority": [make_trial(np.tile([1.0, 0.0, 0.0], (300, 1)), truth)]}, 300)
    attacked = risk.guesses > 0
    np.testing.assert_allclose(risk.confidence[attacked], 1 / 3, atol=1e-6)
    np.testing.assert_allclose(risk.consistency[attacked], 1 / 3)  # not 1 for the first class


def test_surer_beliefs_are_more_confidence() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(2, size=4000)
    odds = rng.normal(2 * truth - 1, 1)
    p = 1 / (1 + np.exp(-2 * odds))  # the true posterior
    risk = measure_user_risk({"a": [make_trial(np.stack([1 - p, p], 1), truth)]}, 4000)
    attacked = risk.guesses > 0
    own = np.where(truth == 1, p, 1 - p)
    np.testing.assert_allclose(
        risk.confidence[attacked], own[attacked], atol=0.06
    )  # beliefs that are right are left alone


def test_risk_is_the_mean_over_attackers_and_repeats() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(200) % 2
    beliefs = [rng.dirichlet([1, 1], 200) * 0.5 + 0.5 * np.eye(2)[truth] for _ in range(2)]
    trials = {
        "a": [make_trial(beliefs[0], truth, 0), make_trial(beliefs[0], truth, 1)],
        "b": [make_trial(beliefs[1], truth, 2)],
    }
    whole = measure_user_risk(trials, 200)
    parts = [measure_user_risk({"x": [trial]}, 200) for each in trials.values() for trial in each]
    np.testing.assert_array_equal(whole.guesses, sum(p.guesses for p in parts))
    for name in ("confidence", "consistency"):
        total = sum(np.nan_to_num(getattr(p, name)) for p in parts)
        attacked = whole.guesses > 0
        np.testing.assert_allclose(getattr(whole, name)[attacked], total[attacked] / whole.guesses[attacked])
        assert np.isnan(getattr(whole, name)[~attacked]).all()


def test_ranks_and_percentiles_follow_the_confidence() -> None:
    x, secret = make_planted_leak(100, 3, 2, 2.0, rng=np.random.default_rng(0))
    risk = measure_risk(x, secret.codes, 2)
    order = np.argsort(risk.rank)
    assert (np.diff(risk.confidence[order]) <= 0).all()
    assert (np.diff(risk.percentile[order]) <= 0).all()
    assert risk.percentile.mean() == pytest.approx(50)
    assert 0 < risk.percentile.min() < risk.percentile.max() < 100


def test_bad_calls_are_refused() -> None:
    with pytest.raises(UsageError, match="No attack was run"):
        measure_user_risk({}, 3)
    truth = np.arange(20) % 2
    with pytest.raises(UsageError, match="2 rows are named for 20 users"):
        measure_user_risk({"a": [make_trial(np.full((20, 2), 0.5), truth)]}, 20, users=np.array([1, 2]))


@pytest.mark.parametrize(
    "ids", [np.array([f"u{i}" for i in range(50)]), pa.array(range(100, 150))], ids=["text", "int"]
)
def test_the_file_holds_one_row_for_each_user_and_target_under_their_own_id(tmp_path: Path, ids: object) -> None:
    truth = np.arange(40) % 2
    beliefs = np.random.default_rng(0).dirichlet([1, 1], 40)
    half = measure_user_risk({"a": [make_trial(beliefs, truth)]}, 40, users=np.arange(40) + 10)
    path = tmp_path / "risk.parquet"
    write_user_risk(path, ids, {"gender": half, "age": half})
    assert path.stat().st_mode & 0o777 == 0o600
    table = pq.read_table(path)
    assert table.num_rows == 80
    gender = table.slice(0, 40).to_pydict()
    assert set(gender["target"]) == {"gender"}
    of = dict(zip(gender["user_id"], gender["confidence"], strict=True))
    known = [
        str(i) if isinstance(i, str) else i for i in (ids.tolist() if isinstance(ids, np.ndarray) else ids.to_pylist())
    ]
    for row, value in zip(half.users, half.confidence, strict=True):
        assert of[known[row]] == (None if np.isnan(value) else value)
    ordered = [v for v in gender["confidence"] if v is not None]
    assert ordered == sorted(ordered, reverse=True)
    assert gender["confidence"][len(ordered) :] == [None] * (40 - len(ordered))
    assert "truth" not in gender


def test_a_file_that_cannot_be_written_right_is_not_written(tmp_path: Path) -> None:
    truth = np.arange(20) % 2
    risk = measure_user_risk({"a": [make_trial(np.full((20, 2), 0.5), truth)]}, 20)
    with pytest.raises(UsageError, match=r"ends in '\.csv'. Use \.parquet"):
        write_user_risk(tmp_path / "risk.csv", np.arange(20), {"gender": risk})
    with pytest.raises(DataError, match="names row 19, and there are 5 ids"):
        write_user_risk(tmp_path / "risk.parquet", np.arange(5), {"gender": risk})
    with pytest.raises(UsageError, match="no target was audited"):
        write_user_risk(tmp_path / "risk.parquet", np.arange(5), {})
    assert not list(tmp_path.iterdir())
