"""The audit in worlds with known answers, and against attackers made to deceive it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy import stats

from recveil.attacks.attribute.panels import make_attack
from recveil.attacks.attribute.tasks import Attack, Task
from recveil.audits.attribute.audit import audit_attribute, list_records, select_users
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import DataError, UsageError
from recveil.core.result_parts import ClassTarget
from recveil.core.types import UNDISCLOSED, Attribute
from recveil.metrics.leakage import compute_advantage
from recveil.testing.worlds import (
    compute_bayes_accuracy,
    make_injected_label,
    make_inverted_leak,
    make_no_leak,
    make_planted_leak,
)

LINE_AND_QUADRIC = ("logistic", "qda")
ONE_REPEAT = CrossValidation(repeats=1)


def panel(*names: str) -> dict[str, Attack]:
    return {name: make_attack(name, "cpu") for name in names}


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@dataclass(frozen=True)
class Fake:
    """An attacker with a rule of its own: (true classes of the test users, is this an inner task) -> guesses."""

    rule: Callable[[np.ndarray, bool, np.random.Generator], np.ndarray]

    def guess(
        self, x: np.ndarray, y: np.ndarray, n_classes: int, tasks: Sequence[Task], *, rng: np.random.Generator
    ) -> list[np.ndarray]:
        largest = max(len(t.train) for t in tasks)
        return [np.eye(n_classes)[self.rule(y[t.test], len(t.train) < 0.9 * largest, rng)] for t in tasks]


def right(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    return truth


def constant(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    return np.zeros_like(truth)


def random_guess(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    return rng.integers(truth.max() + 1, size=len(truth))


def right_on_inner_folds_only(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    return truth if inner else random_guess(truth, inner, rng)


def right_on_test_folds_only(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    return random_guess(truth, inner, rng) if inner else truth


def cyclically_wrong(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    return (truth + 1) % (truth.max() + 1)


def wrong_where_it_counts(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
    """On the inner folds a little better than chance, on the test folds always wrong: the relabelling does not help."""
    return np.where(rng.random(len(truth)) < 0.1, truth, random_guess(truth, inner, rng)) if inner else 1 - truth


def labelled(n: int, K: int = 2, seed: int = 0) -> tuple[np.ndarray, Attribute]:
    return make_no_leak(n, 2, K, rng=rng(seed))


@pytest.mark.thorough
@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_a_planted_leak_is_found_and_not_overstated(K: int) -> None:
    x, secret = make_planted_leak(500, 6, K, 2.5, rng=rng(K))
    found = audit_attribute(x, secret, panel(*LINE_AND_QUADRIC))
    best = compute_bayes_accuracy(K, 2.5)
    assert found.verdict == "leak"
    assert found.chance == pytest.approx(1 / K)
    assert found.p_value < 1e-3
    assert not found.headline.inverted
    reached = found.headline.balanced_accuracy
    assert best - 0.12 < reached.value < best + 0.05
    assert found.headline.advantage.value == pytest.approx(compute_advantage(reached.value, K), abs=0.03)
    assert f"secret: balanced accuracy {reached.value:.1%}" in found.sentence


@pytest.mark.parametrize("K", [2, 5])
def test_where_there_is_no_leak_none_is_reported(K: int) -> None:
    verdicts = Counter()
    for seed in range(6):
        x, secret = make_no_leak(240, 5, K, rng=rng(seed))
        found = audit_attribute(x, secret, panel(*LINE_AND_QUADRIC), seed=seed)
        verdicts[found.verdict] += 1
        assert found.headline.advantage.low == 0 or found.verdict == "leak"
    assert verdicts["leak"] <= 1
    assert verdicts["none"] == 0  # out of reach with so few users


def test_with_many_users_and_no_leak_the_verdict_is_none() -> None:
    x, secret = make_no_leak(12_000, 3, 2, rng=rng())
    found = audit_attribute(x, secret, panel("logistic"))
    assert found.detectable < 0.1
    assert found.verdict == "none"
    assert "secret" in found.sentence


@pytest.mark.slow
@pytest.mark.parametrize(("n", "K"), [(300, 2), (300, 4), (60, 2)])
def test_false_alarms_are_rare_and_intervals_cover(n: int, K: int) -> None:
    runs, alarms, inside = 200, 0, 0
    for seed in range(runs):
        x, secret = make_no_leak(n, 8, K, rng=rng(10_000 + seed))
        found = audit_attribute(x, secret, panel(*LINE_AND_QUADRIC), seed=seed)
        alarms += found.verdict == "leak"
        reached = found.headline.balanced_accuracy
        inside += reached.low <= 1 / K <= reached.high
    assert alarms <= 17  # an exact 5 % audit has more than that once in fifty
    assert inside >= 0.92 * runs


@pytest.mark.parametrize("K", [2, 3])
def test_an_inverted_leak_is_a_leak(K: int) -> None:
    x, secret = make_inverted_leak(360, 12, K, rng=rng())
    found = audit_attribute(x, secret, panel(*LINE_AND_QUADRIC))
    assert found.headline.balanced_accuracy.high < 1 / K
    assert found.verdict == "leak"
    assert found.headline.inverted
    assert "wrong more often than chance" in found.sentence


@pytest.mark.parametrize("K", [2, 3, 4, 5])
def test_an_attacker_who_is_always_wrong_knows_everything(K: int) -> None:
    x, secret = labelled(200, K)
    found = audit_attribute(x, secret, {"wrong": Fake(cyclically_wrong)})
    assert found.headline.balanced_accuracy.value == 0
    assert found.headline.advantage.value == 1
    assert found.headline.inverted
    assert found.verdict == "leak"


@pytest.mark.parametrize("kind", ["scale", "parity", "low-bits"])
def test_a_label_hidden_from_lines_is_found_by_the_panel(kind: str) -> None:
    x, secret = make_injected_label(kind, n=1000, d=4, size=1.0, step=0.5, rng=rng())
    names = ("logistic", "trees") if kind == "low-bits" else LINE_AND_QUADRIC
    found = audit_attribute(x, secret, panel(*names), rules=ONE_REPEAT)
    assert found.attacks["logistic"].advantage.value < 0.15
    assert found.headline_attack == names[1]
    assert found.verdict == "leak"


@pytest.mark.parametrize("K", [2, 7])
def test_degenerate_attackers_are_flagged_and_never_count_as_privacy(K: int) -> None:
    x, secret = labelled(20_000, K)
    found = audit_attribute(x, secret, {"constant": Fake(constant)})
    assert found.headline.degenerate
    assert not found.headline.inverted
    assert found.verdict == "inconclusive"
    assert found.p_value == 1
    # Almost constant is no better, and a sound attacker beside it counts.
    rarely = Fake(lambda truth, inner, rng: (rng.random(len(truth)) < 0.002).astype(int))
    assert audit_attribute(x, secret, {"rarely": rarely}).verdict == "inconclusive"
    both = audit_attribute(x, secret, {"constant": Fake(constant), "right": Fake(right)})
    assert both.attacks["constant"].degenerate
    assert both.headline_attack == "right"
    assert both.verdict == "leak"


def test_an_attacker_that_finds_a_rare_class_without_error_is_not_degenerate() -> None:
    secret = Attribute("rare", np.repeat([0, 1], [4990, 10]), ("many", "few"))
    found = audit_attribute(np.zeros((5000, 1)), secret, {"right": Fake(right)})
    assert not found.headline.degenerate
    assert found.verdict == "leak"


def test_luck_that_varies_little_is_not_called_privacy() -> None:
    """Half of each class right in every fold: no variance at all, and yet 40 users prove nothing."""
    x, secret = labelled(40)
    even = Fake(lambda truth, inner, rng: np.argsort(np.argsort(truth, kind="stable"), kind="stable") % 2)
    found = audit_attribute(x, secret, {"even": even})
    assert found.headline.advantage.high < 0.01
    assert found.verdict == "inconclusive"
    assert f"advantage of {found.detectable:.2f} or more with 95 % power" in found.sentence
    assert "no leak of any size" in audit_attribute(*labelled(12), panel("logistic")).sentence


def test_below_chance_even_when_relabelled_is_never_called_privacy() -> None:
    x, secret = labelled(20_000)
    found = audit_attribute(x, secret, {"turned": Fake(wrong_where_it_counts)})
    assert found.headline.balanced_accuracy.value == 0
    assert found.headline.advantage.value == 0
    assert found.headline.advantage.high == pytest.approx(1)
    assert found.headline.inverted
    assert found.verdict == "inconclusive"


def test_the_headline_attack_is_chosen_on_inner_folds_alone() -> None:
    x, secret = labelled(400)
    fakes = {
        "flash": Fake(right_on_inner_folds_only),
        "late": Fake(right_on_test_folds_only),
        "random": Fake(random_guess),
    }
    found = audit_attribute(x, secret, fakes)
    assert found.fold_shares == {"flash": 1.0}
    assert found.headline_attack == "flash"
    assert found.headline.advantage.value < 0.2  # what it showed on the inner folds does not count
    assert found.verdict != "leak"
    # The maximum over attackers on the test folds would have said otherwise.
    assert found.attacks["late"].balanced_accuracy.value == 1


def test_the_relabelling_is_learned_on_inner_folds_alone() -> None:
    x, secret = labelled(400)
    half = Fake(lambda truth, inner, rng: truth if inner else 1 - truth)
    found = audit_attribute(x, secret, {"turning": half})
    assert found.headline.advantage.value == 0  # a relabelling learned on the test folds would make this 1


def test_numbers_are_those_of_the_guesses() -> None:
    x, secret = labelled(300, 3)
    found = audit_attribute(x, secret, {"right": Fake(right)}).attacks["right"]
    for metric in (found.balanced_accuracy, found.advantage, found.accuracy, found.macro_f1, found.auc):
        assert (metric.value, metric.low, metric.high, metric.n) == (1, 1, 1, 300)
    assert set(found.recall) == set(secret.labels)
    assert all(e.value == 1 for e in found.recall.values())
    np.testing.assert_allclose(audit_attribute(x, secret, {"right": Fake(right)}).confusion, np.eye(3))


def test_an_inconclusive_audit_adds_repeats_where_they_resolve_it_and_says_so() -> None:
    x = rng(3).standard_normal((3000, 2))
    secret = Attribute("group", rng(503).integers(2, size=3000), ("a", "b"))
    attacks = {"luck": Fake(random_guess)}
    once = audit_attribute(x, secret, attacks, rules=CrossValidation(repeats=1), seed=3)
    assert (once.verdict, once.repeats_used) == ("inconclusive", 1)
    assert "after 1 repeat" in once.sentence
    assert "More repeats may resolve it" in once.sentence
    more = audit_attribute(x, secret, attacks, rules=CrossValidation(repeats=1, max_repeats=10), seed=3)
    assert more.verdict == "none"
    assert 1 < more.repeats_used <= 10
    pinned = audit_attribute(x, secret, attacks, rules=CrossValidation(repeats=more.repeats_used), seed=3)
    assert pinned.to_result() == more.to_result()
    late = CrossValidation(repeats=1, max_repeats=10, max_seconds=0.0)
    assert audit_attribute(x, secret, attacks, rules=late, seed=3).repeats_used == 1
    few = audit_attribute(*labelled(100), attacks, rules=CrossValidation(repeats=1, max_repeats=10))
    assert few.repeats_used == 1
    assert "more users are needed" in few.sentence


def test_a_clear_leak_is_not_repeated_unless_repeats_are_fixed() -> None:
    attacks, adaptive = panel("logistic"), CrossValidation(repeats=2, max_repeats=4)
    clear = make_planted_leak(1_000, 8, 2, 2.0, rng=rng())
    assert audit_attribute(*clear, attacks, rules=adaptive).repeats_used == 1
    assert audit_attribute(*clear, attacks, rules=CrossValidation(repeats=2, max_repeats=2)).repeats_used == 2
    weak = make_planted_leak(1_000, 8, 2, 0.4, rng=rng())
    found = audit_attribute(*weak, attacks, rules=adaptive)
    assert found.headline.advantage.low > 0  # a leak, but not beyond doubt
    assert found.repeats_used == 2


def test_a_leak_among_many_classes_that_the_advantage_does_not_show_is_found() -> None:
    generator, K = rng(0), 30
    codes = generator.permutation(np.arange(1500) % K)
    x = generator.standard_normal((1500, 4)) + 0.35 * generator.standard_normal((K, 4))[codes]
    found = audit_attribute(
        x, Attribute("group", codes, tuple(map(str, range(K)))), panel("logistic"), rules=ONE_REPEAT
    )
    assert found.headline.advantage.value < found.margin
    assert found.verdict == "leak"
    assert "mean AUC" in found.sentence


def test_a_class_of_one_user_is_left_out() -> None:
    codes = np.concatenate([np.arange(60) % 2, [2]])
    found = audit_attribute(
        rng().standard_normal((61, 2)), Attribute("group", codes, ("a", "b", "c")), panel("logistic")
    )
    assert found.labels == ("a", "b")
    assert "its 1 user is too few" in found.notes[0]


def test_small_classes_and_undisclosed_users_are_left_out_with_a_note() -> None:
    codes = np.concatenate([np.arange(100) % 2, [2, 2, 2], [UNDISCLOSED] * 7])
    secret = Attribute("group", codes, ("a", "b", "tiny"))
    found = audit_attribute(rng().standard_normal((110, 2)), secret, panel("logistic"))
    assert found.labels == ("a", "b")
    assert found.counts == (50, 50)
    assert found.n == 100
    assert found.headline.balanced_accuracy.n == 100
    assert "class 'tiny' was left out, its 3 users are too few for 5 folds" in found.notes[0]
    assert "7 users are undisclosed" in found.notes[1]
    assert found.n_undisclosed == 7


def test_labels_and_codes_stay_together_where_a_class_in_the_middle_is_left_out() -> None:
    codes = np.array([0, 2] * 30 + [1, 1])
    users, labels, _ = select_users(Attribute("group", codes, ("first", "tiny", "last")), 5)
    assert labels == ("first", "last")
    np.testing.assert_array_equal(users, np.arange(60))


@pytest.mark.thorough
@pytest.mark.parametrize(("folds", "least"), [(2, 4), (3, 3), (5, 5)])
def test_a_class_needs_a_user_in_every_fold_and_inner_fold(folds: int, least: int) -> None:
    rules = CrossValidation(folds=folds, repeats=1)
    for size in range(2, 7):
        secret = Attribute("group", np.repeat([0, 1, 2], [20, 20, size]), ("a", "b", "c"))
        found = audit_attribute(
            rng().standard_normal((len(secret.codes), 2)), secret, panel(*LINE_AND_QUADRIC), rules=rules
        )
        assert len(found.labels) == (3 if size >= least else 2)
        assert math.isfinite(found.headline.advantage.high)


@pytest.mark.parametrize(
    ("codes", "labels", "message"),
    [
        ([0] * 20, ("a",), "nothing to guess"),
        ([UNDISCLOSED] * 20, ("a", "b"), "No user disclosed 'group'"),
        ([0] * 19 + [1], ("a", "b"), "fewer than two classes"),
        ([0] * 18 + [1] * 2, ("a", "b"), "fewer than two classes of at least 5 users. Use fewer folds"),
    ],
)
def test_attributes_that_cannot_be_attacked_are_refused(
    codes: list[int], labels: tuple[str, ...], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        audit_attribute(np.zeros((20, 2)), Attribute("group", np.array(codes), labels), panel("logistic"))


def test_tables_that_do_not_fit_are_refused() -> None:
    x, secret = labelled(40)
    with pytest.raises(DataError, match=r"shape \(39, 2\) and 'secret' is given for 40 users"):
        audit_attribute(x[1:], secret, panel("logistic"))
    holed = np.where(np.arange(40)[:, None] == 3, np.nan, x)
    with pytest.raises(DataError, match="NaN or infinite"):
        audit_attribute(holed, secret, panel("logistic"))
    with pytest.raises(DataError, match="is a number, not a class"):
        audit_attribute(x, replace(secret, values=x[:, 0]), panel("logistic"))
    for rules in ({"folds": 1}, {"repeats": 0}):
        with pytest.raises(UsageError, match="equal to [12]"):
            CrossValidation(**rules)


def test_the_same_seed_gives_the_same_document() -> None:
    x, secret = make_planted_leak(150, 4, 3, 1.0, rng=rng())
    one, two, other = (
        audit_attribute(x, secret, panel("logistic", "knn"), rules=ONE_REPEAT, seed=s).to_result() for s in (0, 0, 1)
    )
    assert one == two != other


def test_the_result_holds_the_audit() -> None:
    x, secret = make_planted_leak(150, 4, 3, 1.0, rng=rng())
    found = audit_attribute(x, secret, panel(*LINE_AND_QUADRIC), rules=ONE_REPEAT)
    result = found.to_result()
    assert (result.verdict, result.headline.attack) == (found.verdict, found.headline_attack)
    assert (result.chance, result.majority) == pytest.approx((1 / 3, 1 / 3))
    assert result.counts == {"class 0": 50, "class 1": 50, "class 2": 50}
    assert result.attacks == found.attacks
    np.testing.assert_allclose(np.sum(result.confusion, axis=1), 1, atol=1e-3)
    assert ClassTarget.model_validate_json(result.model_dump_json()) == result


def test_records_are_one_for_each_attacker_and_metric() -> None:
    x, secret = make_planted_leak(100, 3, 2, 1.0, rng=rng())
    found = audit_attribute(x, secret, panel(*LINE_AND_QUADRIC), rules=ONE_REPEAT)
    rows = list_records([found], dataset="made", model="none", defense="none", seed=3)
    assert len(rows) == 3 * 5
    assert {(r.attack, r.metric) for r in rows} >= {("headline", "advantage"), ("qda", "auc")}
    (row,) = (r for r in rows if (r.attack, r.metric) == ("qda", "macro_f1"))
    assert row.estimate == found.attacks["qda"].macro_f1
    assert (row.dataset, row.target, row.seed) == ("made", "secret", 3)


@pytest.mark.slow
@pytest.mark.parametrize("K", [2, 4])
def test_a_leak_of_the_resolution_is_detected_with_95_percent_power(K: int) -> None:
    """Attackers who know the class exactly so often that their advantage is what the audit can resolve."""
    x, secret = labelled(400, K)
    size = audit_attribute(x, secret, panel("logistic")).resolution

    def knows_some(truth: np.ndarray, inner: bool, rng: np.random.Generator) -> np.ndarray:
        return np.where(rng.random(len(truth)) < size, truth, rng.integers(K, size=len(truth)))

    seen = sum(audit_attribute(x, secret, {"skilled": Fake(knows_some)}, seed=s).verdict == "leak" for s in range(200))
    assert seen >= 0.92 * 200


@pytest.mark.slow
def test_a_planted_leak_of_the_detectable_size_is_found() -> None:
    """A smaller count of what benchmarks/calibration.py shows: attackers must learn it first."""
    rules = CrossValidation(5, 1)
    size = audit_attribute(*make_planted_leak(600, 4, 2, 1.0, rng=rng(7)), rules=rules).detectable
    distance = 2 * float(stats.norm.ppf((1 + size) / 2))
    found = [
        audit_attribute(*make_planted_leak(600, 4, 2, distance, rng=rng(1000 + s)), rules=rules, seed=s).verdict
        for s in range(40)
    ]
    assert found.count("leak") >= 35  # 38 expected at 95 %; fewer than 35 has probability 0.02 then
    assert found.count("none") == 0


def test_more_users_and_more_repeats_detect_smaller_leaks() -> None:
    def detectable(n: int, margin: float = 0.05, **rules: int) -> float:
        x, secret = labelled(n)
        return audit_attribute(
            x, secret, {"guesser": Fake(random_guess)}, rules=CrossValidation(**rules), margin=margin
        ).detectable

    assert detectable(100) > detectable(1000) > detectable(10_000) > 0.05
    assert detectable(1000, repeats=1) > detectable(1000, repeats=4)
    assert detectable(10_000, margin=0.2) > 0.2


def test_permutations_find_a_leak_and_none_where_there_is_none() -> None:
    """The smallest p-value that B permutations can give is 1 / (B + 1)."""
    one = {"rules": CrossValidation(3, 1, permutations=19)}
    x, secret = make_planted_leak(150, 3, 2, 2.0, rng=rng())
    assert audit_attribute(x, secret, panel("logistic"), **one).p_value == 1 / 20
    x, secret = make_no_leak(150, 3, 2, rng=rng())
    assert audit_attribute(x, secret, panel("logistic"), **one).p_value > 1 / 20


@pytest.mark.slow
def test_the_permutation_p_value_is_uniform_where_nothing_leaks() -> None:
    one = {"rules": CrossValidation(3, 1, permutations=19)}
    p = [audit_attribute(*make_no_leak(80, 3, 2, rng=rng(s)), panel("logistic"), **one).p_value for s in range(100)]
    assert sum(v <= 0.1 for v in p) <= 18  # binomial(100, 0.1): above 18 once in three hundred
    assert abs(np.mean(p) - 0.525) < 0.1


def test_blind_attackers_are_never_the_headline() -> None:
    """On inverted vectors the majority has the best plain balanced accuracy of all, and would hide the leak."""
    x, secret = make_inverted_leak(400, 16, 2, rng=rng())
    found = audit_attribute(x, secret, panel("majority", "random", "qda"))
    assert set(found.fold_shares) == {"qda"}
    assert found.verdict == "leak"
    assert found.attacks["majority"].balanced_accuracy.value == 0.5
    assert found.attacks["majority"].degenerate
    with pytest.raises(UsageError, match="looks at the user vectors"):
        audit_attribute(x, secret, panel("majority"))
