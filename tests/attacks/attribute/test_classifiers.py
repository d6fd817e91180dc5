"""Any scikit-learn classifier as an attack."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from recveil.attacks.attribute.classifiers import BaggedAttack, ClassifierAttack, as_attack
from recveil.attacks.attribute.tasks import Task
from recveil.attacks.attribute.trees import Forest
from recveil.audits.attribute.audit import audit_attribute
from recveil.audits.attribute.folds import CrossValidation
from recveil.core.errors import UsageError
from recveil.testing.contracts import check_attack
from recveil.testing.worlds import make_planted_leak


def logistic(seed: int) -> LogisticRegression:
    return LogisticRegression(random_state=seed)


class Spy:
    """Notes what it is given."""

    seen: list[Spy] = []

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, x: np.ndarray, y: np.ndarray) -> Spy:
        self.x, self.y = x, y
        Spy.seen.append(self)
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        self.test = x
        return np.full((len(x), len(np.unique(self.y))), 1 / len(np.unique(self.y)))


@pytest.fixture
def spied() -> list[Spy]:
    Spy.seen = []
    return Spy.seen


def test_each_task_is_standardized_and_fitted_on_its_own_training_users() -> None:
    x, secret = make_planted_leak(90, 3, 3, 2.0, rng=np.random.default_rng(0))
    x = x * [1, 100, 1e-4] + [0, 5, 1]
    tasks = [Task(np.arange(60), np.arange(60, 90)), Task(np.arange(30, 90), np.arange(7))]
    guesses = ClassifierAttack(logistic).guess(x, secret.codes, 3, tasks, rng=np.random.default_rng(0))
    for task, guess in zip(tasks, guesses, strict=True):
        scaler = StandardScaler().fit(x[task.train])
        model = LogisticRegression().fit(scaler.transform(x[task.train]), secret.codes[task.train])
        np.testing.assert_allclose(guess, model.predict_proba(scaler.transform(x[task.test])), atol=1e-5)


def test_what_the_classifier_sees_is_the_training_users_and_nothing_else(spied: list[Spy]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(7, 3, (20, 2)), np.arange(20) % 2
    tasks = [Task(np.arange(12), np.arange(12, 20)), Task(np.arange(8, 20), np.arange(3))]
    ClassifierAttack(Spy).guess(x, y, 2, tasks, rng=rng)
    for task, spy in zip(tasks, spied, strict=True):
        np.testing.assert_array_equal(spy.y, y[task.train])
        np.testing.assert_allclose(spy.x.mean(0), 0, atol=1e-12)
        np.testing.assert_allclose(spy.x.std(0), 1)
        assert len(spy.test) == len(task.test)
    assert spied[0].seed != spied[1].seed


def test_a_class_that_was_not_met_in_training_gets_no_belief(spied: list[Spy]) -> None:
    y = np.array([0, 3, 0, 3, 1, 2])
    guess = ClassifierAttack(Spy).guess(
        np.eye(6), y, 4, [Task(np.arange(4), np.arange(4, 6))], rng=np.random.default_rng(0)
    )[0]
    np.testing.assert_allclose(guess, [[0.5, 0, 0, 0.5]] * 2)


def test_tiny_and_huge_numbers_are_as_good_as_others() -> None:
    x, secret = make_planted_leak(200, 3, 2, 2.0, rng=np.random.default_rng(0))
    task = [Task(np.arange(100), np.arange(100, 200))]
    plain, tiny, huge = (
        ClassifierAttack(logistic).guess(
            (x * scale).astype(np.float32), secret.codes, 2, task, rng=np.random.default_rng(0)
        )[0]
        for scale in (1.0, 2.0**-90, 2.0**90)
    )
    np.testing.assert_allclose(tiny, plain, atol=1e-5)
    np.testing.assert_allclose(huge, plain, atol=1e-5)


def test_a_bagged_attack_guesses_known_users_by_the_parts_that_did_not_learn_from_them() -> None:
    """On labels made of noise a forest remembers its own users; what it says of them must not know that."""
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(400, 5)), rng.integers(2, size=400)
    task = Task(np.arange(300), np.arange(300, 400))
    [(test, known)] = BaggedAttack(Forest).guess_both(x, y, 2, [task], rng=np.random.default_rng(3))
    assert (test.shape, known.shape) == ((100, 2), (300, 2))
    assert abs(np.mean(known.argmax(1) == y[:300]) - 0.5) < 0.12
    memory = BaggedAttack(Forest).guess(x, y, 2, [Task(task.train, task.train)], rng=np.random.default_rng(3))[0]
    assert np.mean(memory.argmax(1) == y[:300]) > 0.75


FORESTS = VotingClassifier([("a", RandomForestClassifier(3)), ("b", RandomForestClassifier(3))], voting="soft")
PLAIN = {
    "logistic": LogisticRegression(),
    "forest": RandomForestClassifier(12),
    "margins": LinearSVC(),
    "pipeline": make_pipeline(StandardScaler(), SVC()),
    "nested": FORESTS,
}


@pytest.mark.parametrize("name", PLAIN)
def test_a_scikit_learn_classifier_is_an_attack_as_it_is(name: str) -> None:
    check_attack(lambda: as_attack(PLAIN[name], name))


def test_the_classifier_itself_stays_untrained_and_every_random_state_comes_from_the_task() -> None:
    copy = as_attack(FORESTS, "nested").builder(seed=3)
    states = [copy.get_params()[f"{part}__random_state"] for part in "ab"]
    assert None not in states
    assert states[0] != states[1]
    assert FORESTS.get_params()["a__random_state"] is None
    assert not hasattr(FORESTS, "classes_")


def test_a_pipeline_gets_the_vectors_as_they_are() -> None:
    assert as_attack(LogisticRegression()).standardize
    assert not as_attack(make_pipeline(StandardScaler(), LogisticRegression())).standardize


class Votes:
    """A classifier that only predicts, without scikit-learn's base class."""

    def fit(self, x: np.ndarray, y: np.ndarray) -> Votes:
        self.means = np.stack([x[y == k].mean(0) for k in np.unique(y)])
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return ((x[:, None] - self.means) ** 2).sum(2).argmin(1)


@pytest.mark.parametrize("classifier", [Votes(), SVC(decision_function_shape="ovo")])
def test_without_a_margin_for_each_class_beliefs_are_certain(classifier: object) -> None:
    x, secret = make_planted_leak(200, 4, 5, 4.0, rng=np.random.default_rng(0))
    task = Task(np.flatnonzero(secret.codes[:120] != 2), np.arange(120, 200))
    [guess] = as_attack(classifier).guess(x, secret.codes, 5, [task], rng=np.random.default_rng(0))
    assert set(np.unique(guess)) == {0, 1}
    assert (guess.sum(1) == 1).all()
    assert (guess[:, 2] == 0).all()
    assert (guess.argmax(1) == secret.codes[task.test])[secret.codes[task.test] != 2].mean() > 0.7


def test_what_is_an_attack_already_is_returned() -> None:
    attack = ClassifierAttack(Spy)
    assert as_attack(attack, "spy") is attack


@pytest.mark.parametrize(
    ("candidate", "fact"), [(LogisticRegression, r"LogisticRegression\(\)"), (StandardScaler(), "predict")]
)
def test_what_cannot_guess_is_refused(candidate: object, fact: str) -> None:
    with pytest.raises(UsageError, match=fact):
        as_attack(candidate, "mine")


def test_an_audit_takes_classifiers() -> None:
    x, secret = make_planted_leak(200, 3, 2, 3.0, rng=np.random.default_rng(0))
    result = audit_attribute(x, secret, {"mine": LogisticRegression()}, rules=CrossValidation(folds=3, repeats=1))
    assert result.verdict == "leak"
