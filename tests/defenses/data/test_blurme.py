"""BlurMe: what is added to whom, and what an attacker makes of it who knows and who does not."""

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
from recveil.defenses.data import blurme
from recveil.defenses.data.blurme import BlurMe
from recveil.defenses.data.class_evidence import learn_evidence
from recveil.metrics.leakage import balanced_accuracy, compute_confusion
from recveil.metrics.ranking import collect_seen_items
from recveil.testing.contracts_data import check_data_defense


def blur(train: Dataset, targets: tuple[str, ...] = ("gender",), seed: int = 0, **options: object) -> Dataset:
    return BlurMe(**options)(train, list(targets), rng=np.random.default_rng(seed))


def small() -> Dataset:
    leaks = {"gender": 2.0, "age": 2.0}
    return make_world(n_users=300, n_items=120, n_interactions=6_000, leaks=leaks, rng=make_generator(0, "t")).dataset


def added(out: Dataset, train: Dataset) -> np.ndarray:
    """(n_users, n_items): what is new."""
    new = (collect_seen_items(out) - collect_seen_items(train)).toarray()
    assert new.min() == 0
    return new > 0


def guessed(learned: Dataset, judged: Dataset, target: str) -> float:
    """Balanced accuracy of logistic regression from the profiles, on users other than those learned from."""
    codes, labels = learned.attributes[target].codes, learned.attributes[target].labels
    half = np.random.default_rng(7).permutation(len(codes)) % 2 == 0
    x, z = (collect_seen_items(d).astype(np.float64) for d in (learned, judged))
    model = LogisticRegression(C=0.03, class_weight="balanced", max_iter=500).fit(x[half], codes[half])
    return balanced_accuracy(compute_confusion(codes[~half], model.predict(z[~half]), len(labels)))


@pytest.fixture(scope="module")
def demo() -> Dataset:
    return make_demo_world().dataset


@pytest.fixture(scope="module")
def blurred(demo: Dataset) -> dict[str, Dataset]:
    return {mode: blur(demo, mode=mode) for mode in blurme.MODES}


@pytest.mark.thorough
@pytest.mark.parametrize("mode", ["greedy", "random"])  # test_methods.py holds the default, sampled
def test_it_keeps_the_contract(mode: str) -> None:
    check_data_defense(partial(BlurMe, mode=mode))


@pytest.mark.thorough
def test_who_learned_before_is_misled_most_by_the_strongest_items(demo: Dataset, blurred: dict[str, Dataset]) -> None:
    plain = guessed(demo, demo, "gender")
    greedy, sampled, random = (guessed(demo, blurred[mode], "gender") for mode in blurme.MODES)
    assert plain > 0.7
    assert greedy < sampled < random < plain - 0.04
    assert greedy < 0.5  # below chance: the guess is turned round
    assert sampled < plain - 0.1


def test_who_learns_from_blurred_profiles_reads_the_class_off_greedy_additions(
    demo: Dataset, blurred: dict[str, Dataset]
) -> None:
    plain = guessed(demo, demo, "gender")
    assert guessed(blurred["greedy"], blurred["greedy"], "gender") > 0.95
    assert guessed(blurred["sampled"], blurred["sampled"], "gender") < plain - 0.08


def test_what_does_not_depend_on_the_target_stays(demo: Dataset, blurred: dict[str, Dataset]) -> None:
    """Blurring gender hides gender: of age nearly as much is found as before, of handedness nothing either way."""
    assert guessed(blurred["sampled"], blurred["sampled"], "age") > guessed(demo, demo, "age") - 0.06
    assert abs(guessed(blurred["sampled"], blurred["sampled"], "handedness") - 0.5) < 0.06


def test_the_share_holds_and_grows_with_strength() -> None:
    train = small()
    size = np.bincount(train.user, minlength=train.n_users)
    for share, strength in ((0.1, 1.0), (0.1, 0.5), (0.01, 1.0)):
        new = added(blur(train, share=share, strength=strength), train).sum(1)
        wanted = share * strength * size
        assert (np.abs(new - wanted) < 1).all()
        assert new.sum() == pytest.approx(wanted.sum(), abs=4 * np.sqrt(len(size)) / 2)


def test_greedy_takes_the_strongest_unseen_items_of_the_other_class() -> None:
    """By brute force, user by user, from the same lists."""
    train, options = small(), BlurMe(mode="greedy", share=0.2)
    rng = np.random.default_rng(0)
    count = np.floor(0.2 * np.bincount(train.user, minlength=train.n_users) + rng.random(train.n_users)).astype(int)
    codes, seen = train.attributes["gender"].codes, collect_seen_items(train)
    found = learn_evidence(seen, codes, 2, 5, rng)
    new, had = added(options(train, ["gender"], rng=np.random.default_rng(0)), train), seen.toarray() > 0
    for u in range(train.n_users):
        weight = found.weights[found.fold[u], 1 - codes[u]]
        order = [i for i in np.argsort(-weight) if not had[u, i] and weight[i] > 0]
        assert set(np.flatnonzero(new[u])) == set(order[: count[u]])


@pytest.mark.parametrize("mode", blurme.MODES)
def test_only_items_of_the_list_are_added_and_blocks_do_not_matter(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    train = small()
    codes = train.attributes["gender"].codes
    rng = np.random.default_rng(0)
    rng.random(train.n_users)  # spent on the counts
    found = learn_evidence(collect_seen_items(train), codes, 2, 5, rng)
    out = blur(train, mode=mode, share=0.3)
    listed = found.weights[found.fold, 1 - codes] > 0
    assert not (added(out, train) & ~listed).any()
    monkeypatch.setattr(blurme, "BLOCK_SCORES", 7 * train.n_items)
    np.testing.assert_array_equal(added(blur(train, mode=mode, share=0.3), train), added(out, train))


def test_sampled_prefers_what_speaks_louder_and_random_does_not() -> None:
    weights = np.tile([4.0, 2.0, 1.0, 1.0, -3.0], (20_000, 1))
    one = np.ones(len(weights), dtype=np.int64)
    for mode, shares in (("sampled", [0.5, 0.25, 0.125, 0.125, 0]), ("random", [0.25] * 4 + [0])):
        keys = BlurMe(mode=mode)._compute_keys(weights, np.random.default_rng(0))
        row, item = blurme._select_top_items(keys, one)
        assert row.tolist() == list(range(len(weights)))
        np.testing.assert_allclose(np.bincount(item, minlength=5) / len(weights), shares, atol=0.02)


def test_of_many_classes_every_other_one_has_its_turn() -> None:
    codes = np.repeat([0, 1, 2], 3_000)
    aim = blurme._choose_other_class(codes, np.array([True, True, True, False]), np.random.default_rng(0))
    assert (aim != codes).all()
    for k in range(3):
        share = np.bincount(aim[codes == k], minlength=4) / 3_000
        np.testing.assert_allclose(share, [0 if c in (k, 3) else 0.5 for c in range(4)], atol=0.05)


def test_users_of_unknown_class_stay_as_they_are() -> None:
    train = small()
    gender = train.attributes["gender"]
    codes = gender.codes.copy()
    codes[::3] = UNDISCLOSED
    partly = replace(train, attributes={"gender": replace(gender, codes=codes)})
    new = added(blur(partly, share=0.3), partly).any(1)
    assert not new[codes == UNDISCLOSED].any()
    assert new[codes != UNDISCLOSED].mean() > 0.9
    nobody = replace(train, attributes={"gender": replace(gender, codes=np.full_like(codes, UNDISCLOSED))})
    assert not added(blur(nobody, share=0.3), nobody).any()


def test_several_attributes_add_their_share_each() -> None:
    train = small()
    one, both = (added(blur(train, names, share=0.2), train).sum() for names in (("gender",), ("gender", "age")))
    assert both == pytest.approx(2 * one, rel=0.05)


def test_who_has_touched_the_whole_list_gets_less() -> None:
    train = small()
    pairs = np.setdiff1d(np.arange(train.n_items), train.item[train.user == 0])[:-1]
    eager = replace(
        train,
        user=np.concatenate([train.user, np.zeros(len(pairs), dtype=np.int64)]),
        item=np.concatenate([train.item, pairs]),
        time=None,
    )
    assert added(blur(eager, share=0.5), eager)[0].sum() <= 1


def test_bad_options_and_targets_are_refused() -> None:
    for options, message in (
        ({"share": 1.5}, "'share' of BlurMe is 1.5"),
        ({"strength": -1.0}, "'strength' of BlurMe is -1.0"),
        ({"mode": "greed"}, "Did you mean 'greedy'"),
        ({"folds": 1}, "'folds' of BlurMe is 1"),
    ):
        with pytest.raises(UsageError, match=message):
            BlurMe(**options)
    train = small()
    with pytest.raises(UsageError, match="No target was named. Attributes in synthetic: gender, age"):
        blur(train, ())
    number = replace(train.attributes["age"], values=np.arange(300.0))
    with pytest.raises(DataError, match="is a number"):
        blur(replace(train, attributes={"age": number}), ("age",))
