"""Input unlearning: so much is left out, and who somebody is can be guessed from the rest."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED, Dataset
from recveil.data.synthetic import make_demo_world, make_world
from recveil.defenses.data.retrain import Retrain
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.metrics.ranking import collect_seen_items
from recveil.testing.contracts_data import check_data_defense


def forget(train: Dataset, targets: tuple[str, ...] = ("gender",), seed: int = 0, **options: object) -> Dataset:
    return Retrain(**options)(train, list(targets), rng=np.random.default_rng(seed))


def small() -> Dataset:
    leaks = {"gender": 2.0, "age": 2.0}
    return make_world(n_users=300, n_items=120, n_interactions=6_000, leaks=leaks, rng=make_generator(0, "t")).dataset


def guessed(train: Dataset, target: str) -> float:
    codes = train.attributes[target].codes
    half = np.random.default_rng(7).permutation(len(codes)) % 2 == 0
    x = collect_seen_items(train).astype(np.float64)
    model = LogisticRegression(C=0.03, class_weight="balanced", max_iter=500).fit(x[half], codes[half])
    return balanced_accuracy(compute_confusion(codes[~half], model.predict(x[~half]), int(codes.max()) + 1))


def gone(out: Dataset, train: Dataset) -> np.ndarray:
    """(n_users, n_items): what was left out."""
    return (collect_seen_items(train) - collect_seen_items(out)).toarray() > 0


@pytest.mark.parametrize("which", ["random", "telling"])
def test_it_keeps_the_contract(which: str) -> None:
    check_data_defense(partial(Retrain, which=which))


def test_attributes_can_be_guessed_from_what_is_left() -> None:
    """Found where it is and not where it is not, before and after: forgetting data is not forgetting who."""
    demo = make_demo_world().dataset
    for which in ("random", "telling"):
        out = forget(demo, which=which)
        assert len(out) == pytest.approx(0.9 * len(demo), rel=0.005)
        assert guessed(out, "gender") > guessed(demo, "gender") - 0.03 > 0.65
        assert guessed(out, "age") > guessed(demo, "age") - 0.04 > 0.45
        assert abs(guessed(out, "handedness") - 0.5) < 0.06


def test_leaving_out_what_is_typical_marks_the_class() -> None:
    demo = make_demo_world().dataset
    assert guessed(forget(demo, which="telling"), "gender") > guessed(demo, "gender") + 0.02


@pytest.mark.parametrize("which", ["random", "telling"])
def test_everybody_loses_the_share_and_keeps_something(which: str) -> None:
    train = small()
    size = np.bincount(train.user, minlength=train.n_users)
    for share, strength in ((0.1, 1.0), (0.5, 0.4), (1.0, 1.0)):
        lost = gone(forget(train, which=which, share=share, strength=strength), train).sum(1)
        assert (np.abs(lost - np.minimum(share * strength * size, size - 1)) < 1).all()
        assert (lost < size).all()


def test_a_random_share_falls_on_all_interactions_alike() -> None:
    train = small()
    times = sum(gone(forget(train, seed=s, share=0.3), train) for s in range(40))[
        collect_seen_items(train).toarray() > 0
    ]
    assert times.mean() == pytest.approx(12, abs=0.3)
    assert times.max() < 29
    assert times.min() > 0


def test_what_speaks_most_for_the_own_class_goes_first() -> None:
    """An item that only one class touches: it goes from that class, and hardly by chance."""
    rng = np.random.default_rng(0)
    train = small()
    codes = train.attributes["gender"].codes
    mark = train.item == 0
    train = train.take(~mark)
    users = np.flatnonzero(codes == 1)
    train = replace(
        train,
        user=np.concatenate([train.user, users]),
        item=np.concatenate([train.item, np.zeros(len(users), dtype=np.int64)]),
        time=rng.integers(0, 9, len(train) + len(users)),
    )
    telling, random = (gone(forget(train, which=w, share=0.2), train)[users, 0].mean() for w in ("telling", "random"))
    assert telling > 0.95
    assert random < 0.4


def test_users_of_unknown_class_keep_everything_only_where_classes_matter() -> None:
    train = small()
    gender = train.attributes["gender"]
    codes = gender.codes.copy()
    codes[::3] = UNDISCLOSED
    partly = replace(train, attributes={**train.attributes, "gender": replace(gender, codes=codes)})
    unknown = codes == UNDISCLOSED
    assert not gone(forget(partly, which="telling"), partly)[unknown].any()
    assert gone(forget(partly, which="telling"), partly)[~unknown].any(1).mean() > 0.8
    assert gone(forget(partly), partly)[unknown].any(1).mean() > 0.8
    both = gone(forget(partly, ("gender", "age"), which="telling"), partly)
    assert both[unknown].any(1).mean() > 0.8  # their age is known


def test_bad_options_and_targets_are_refused() -> None:
    for options, message in (
        ({"share": -0.5}, "'share' of Retrain is -0.5"),
        ({"strength": 1.5}, "'strength' of Retrain is 1.5"),
        ({"which": "teling"}, "Did you mean 'telling'"),
        ({"folds": 0}, "'folds' of Retrain is 0"),
    ):
        with pytest.raises(UsageError, match=message):
            Retrain(**options)
    train = small()
    with pytest.raises(UsageError, match="needs a target"):
        forget(train, (), which="telling")
    assert len(forget(train, ())) < len(train)
    number = replace(train.attributes["age"], values=np.arange(300.0))
    numbered = replace(train, attributes={"age": number})
    assert len(forget(numbered, ("age",))) < len(train)
    with pytest.raises(DataError, match="is a number"):
        forget(numbered, ("age",), which="telling")
