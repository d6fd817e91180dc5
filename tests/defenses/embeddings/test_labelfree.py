"""labelfree: undisclosed and later users are protected, by a map of the vector alone that can be stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED
from recveil.defenses.embeddings.labelfree import LabelFree
from recveil.defenses.embeddings.transformers import load_map
from recveil.metrics.leakage import balanced_accuracy, compute_confusion


def make_world(n: int = 1_600, d: int = 6, K: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors whose mean and spread depend on the class, the classes, and those that half of the users disclose."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(K, size=n)
    x = rng.standard_normal((n, d)) * (1 + 0.5 * codes[:, None]) + 1.5 * np.eye(K, d)[codes] + 2
    shown = np.where(rng.random(n) < 0.5, codes, UNDISCLOSED)
    return x.astype(np.float32), codes, shown


def attack(x: np.ndarray, codes: np.ndarray, learned: np.ndarray) -> float:
    """Balanced accuracy of a quadratic attacker on the users that it did not learn from."""
    from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

    guess = QuadraticDiscriminantAnalysis(reg_param=0.01).fit(x[learned], codes[learned]).predict(x[~learned])
    return balanced_accuracy(compute_confusion(codes[~learned], guess, codes.max() + 1))


@pytest.mark.parametrize("K", [2, 3])
def test_undisclosed_users_are_protected_from_attackers_who_know_some_of_them(K: int) -> None:
    x, codes, shown = make_world(n=1_600, K=K)
    out = LabelFree().fit_transform(x, shown)
    from_disclosed = shown >= 0
    some_more = from_disclosed | (np.arange(len(x)) % 2 == 0)
    assert attack(x, codes, from_disclosed) > 1 / K + 0.2
    for learned in (from_disclosed, some_more):
        assert attack(out, codes, learned) < 1 / K + 0.06


def test_later_users_are_protected_without_their_class(tmp_path: Path) -> None:
    x, codes, shown = make_world(n=2_400)
    early = np.arange(len(x)) < 1_600
    fitted = LabelFree().fit(x[early], shown[early])
    fitted.save(tmp_path / "map.safetensors")
    later = load_map(tmp_path / "map.safetensors").transform(x[~early])
    np.testing.assert_array_equal(later, fitted.transform(x[~early]))
    both = np.concatenate([fitted.transform(x[early]), later])
    assert attack(both, codes, early) < 0.56 < attack(x, codes, early)


def test_the_map_does_not_look_at_labels_when_it_is_applied() -> None:
    x, codes, shown = make_world(n=400)
    fitted = LabelFree().fit(x, shown)
    np.testing.assert_allclose(fitted.transform(x, codes), fitted.transform(x), atol=1e-5)  # users of the fit
    x = 1.01 * x
    np.testing.assert_array_equal(fitted.transform(x, codes), fitted.transform(x))
    np.testing.assert_allclose(fitted.transform(x[:1]), fitted.transform(x)[:1], rtol=1e-5)


def test_two_attributes_are_hidden_together() -> None:
    x, codes, shown = make_world(n=2_400)
    second = np.random.default_rng(1).integers(2, size=len(x))
    x[:, 4] += 2 * second
    out = LabelFree().fit_transform(x, np.stack([shown, second], 1))
    half = np.arange(len(x)) % 2 == 0
    assert max(attack(out, codes, half), attack(out, second, half)) < 0.56
    assert min(attack(x, codes, half), attack(x, second, half)) > 0.7


def test_disclosed_users_are_protected_where_the_signal_is_weak() -> None:
    """Posteriors without a user's own class would tell it: logistic regression then reads .57 to .61 here, not .50."""
    rng = np.random.default_rng(0)
    codes, disclosed = rng.integers(2, size=4_000), rng.random(4_000) < 0.5
    x = rng.standard_normal((4_000, 64))
    x[:, :2] += 0.5 * codes[:, None]
    out = LabelFree().fit_transform(x, np.where(disclosed, codes, UNDISCLOSED))

    def attack_disclosed(table: np.ndarray) -> float:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_score

        attacker = LogisticRegression(class_weight="balanced")
        return float(cross_val_score(attacker, table[disclosed], codes[disclosed], scoring="balanced_accuracy").mean())

    assert abs(attack_disclosed(out) - 0.5) < 0.04 < 0.08 < attack_disclosed(x) - 0.5
    learned = np.arange(len(x)) % 2 == 0
    assert abs(attack(out, disclosed.astype(int), learned) - 0.5) < 0.04  # nobody can tell who disclosed


def guess_numbers(x: np.ndarray, numbers: np.ndarray, learned: np.ndarray) -> float:
    """Correlation of a kernel regression's guesses with the numbers of users that it did not learn from."""
    from sklearn.kernel_ridge import KernelRidge

    z = (x - x.mean(0)) / x.std(0)
    attacker = KernelRidge(alpha=10.0, kernel="rbf", gamma=0.05).fit(z[learned], numbers[learned] - numbers.mean())
    return float(np.corrcoef(attacker.predict(z[~learned]), numbers[~learned])[0, 1])


def make_ages(n: int = 2_000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors whose mean and spread depend on age, the ages, and those that half of the users disclose."""
    rng = np.random.default_rng(0)
    ages = rng.uniform(18, 70, n)
    x = rng.standard_normal((n, 6))
    x[:, 0] += (ages - 44) / 12
    x[:, 1] *= ages / 44
    return x.astype(np.float32), ages, np.where(rng.random(n) < 0.5, ages, np.nan)


def test_numbers_are_hidden_as_numbers(tmp_path: Path) -> None:
    x, ages, shown = make_ages()
    fitted = LabelFree(numbers=True).fit(x[:1_600], shown[:1_600])
    out = fitted.transform(x)
    disclosed = ~np.isnan(shown)
    some_more = disclosed | (np.arange(len(x)) % 2 == 0)
    assert guess_numbers(x, ages, disclosed) > 0.6
    # 500 to 1,000 users are guessed, so chance alone has 0.09 and 0.06; who knows more users finds a little more.
    for learned, most in ((disclosed, 0.15), (some_more, 0.25)):
        assert abs(guess_numbers(out, ages, learned)) < most
    fitted.save(tmp_path / "age.map")
    np.testing.assert_array_equal(load_map(tmp_path / "age.map").transform(x[1_600:]), out[1_600:])


def test_minus_one_is_a_number_and_text_is_none() -> None:
    x, ages, shown = make_ages(200)
    np.testing.assert_array_equal(
        LabelFree(numbers=True).fit_transform(x, np.where(ages < 30, -1.0, shown)),
        LabelFree(numbers=True).fit_transform(x, np.where(ages < 30, 0.0, shown)),
    )
    with pytest.raises(DataError, match="must hold numbers"):
        LabelFree(numbers=True).fit(x, ["young"] * 200)
    with pytest.raises(DataError, match="finite number"):
        LabelFree(numbers=True).fit(x, np.full(200, np.inf))
    with pytest.raises(UsageError, match="in Python"):
        LabelFree(numbers=True)(x, np.arange(200) % 2, rng=np.random.default_rng(0))


@pytest.mark.parametrize("shown", [[UNDISCLOSED] * 40, [0] * 40, [0] * 39 + [1]], ids=["none", "one class", "one user"])
def test_nothing_is_moved_where_nothing_can_be_learned(shown: list[int]) -> None:
    x = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    np.testing.assert_array_equal(LabelFree().fit_transform(x, np.array(shown)), x)


def test_a_damaged_map_file_is_refused(tmp_path: Path) -> None:
    x, _, shown = make_world(n=200)
    path = tmp_path / "map.safetensors"
    LabelFree().fit(x, shown).save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="cannot be read as a saved map"):
        load_map(path)
