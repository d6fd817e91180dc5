"""Train, defend, release: vectors, lists and scores agree, and the same model is trained without the defense."""

from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.timing import Clock
from recveil.core.types import Attribute, Split
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.models.bprmf import BPRMF
from recveil.workflows.defended_release import (
    ChosenDefense,
    DefendedRelease,
    ReleaseRecipe,
    defend_vectors,
    measure_displacement,
    select_targets,
    stack_codes,
    train_and_defend,
)
from recveil.workflows.ranking_protocol import DEFAULT_PROTOCOL, find_protocol

GENDER = Attribute("gender", np.array([0, 1, -1]), ("F", "M"))
AGE = Attribute("age", np.array([2, 0, 1]), ("a", "b", "c"))


@pytest.fixture(scope="module")
def split() -> Split:
    world = make_world(n_users=200, n_items=50, n_interactions=3_000, leaks={"gender": 2.0}, rng=make_generator(0, "w"))
    return leave_one_out(world.dataset)


def release(split: Split, defense: ChosenDefense | None) -> DefendedRelease:
    recipe = ReleaseRecipe("bprmf", lambda _: BPRMF(embedding_size=8, epochs=3, device="cpu"), 5, 0, "cpu")
    clock = Clock()
    released = train_and_defend(recipe, split, [split.train.attributes["gender"]], defense, clock=clock)
    assert ("train" in clock.seconds) == (released.place in ("data", "training"))
    return released


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "place"), [("gaussian", "embeddings"), ("blurme", "data"), ("u2u-int", "training")])
def test_the_release_is_defended_in_all_its_parts(split: Split, name: str, place: str) -> None:
    plain, defended = release(split, None), release(split, ChosenDefense(name))
    assert (plain.place, defended.place) == ("", place)
    assert plain.model is plain.undefended
    assert np.array_equal(plain.user_vectors, plain.model.user_vectors_)
    assert np.array_equal(defended.undefended.user_vectors_, plain.user_vectors)  # the same model without the defense
    users = np.arange(200)
    items = defended.release.item_vectors
    assert np.allclose(defended.release.score(users), defended.user_vectors @ items.T, atol=1e-5)
    assert (plain.release.lists != defended.release.lists).any()
    seen = set(zip(defended.platform.train.user.tolist(), defended.platform.train.item.tolist(), strict=True))
    assert not seen & {(u, i) for u, row in enumerate(defended.release.lists.tolist()) for i in row}
    assert (defended.platform.train is split.train) == (place != "data")


def test_items_that_a_defense_wrote_into_the_profile_are_misses(split: Split) -> None:
    defended = release(split, ChosenDefense("blurme", {"share": 0.5}))
    ranks = find_protocol(DEFAULT_PROTOCOL).rank_test_items(defended.release.score, split, defended.platform)
    pairs = set(zip(defended.platform.train.user.tolist(), defended.platform.train.item.tolist(), strict=True))
    written = np.array([(u, i) in pairs for u, i in zip(split.test.user, split.test.item, strict=True)])
    assert written.any()
    missed = ranks.better[np.isin(ranks.users, split.test.user[written])]
    assert missed.min() > ranks.better[~np.isin(ranks.users, split.test.user[written])].min()


def test_a_table_without_columns_cannot_be_defended() -> None:
    with pytest.raises(UsageError, match="no user vectors"):
        defend_vectors(Gaussian(device="cpu"), np.empty((3, 0), np.float32), [AGE], seed=0)


def test_a_defense_is_chosen_by_name() -> None:
    assert ChosenDefense("sliced", {"rounds": 3}).make("cpu").rounds == 3
    assert ChosenDefense("popularity").place == "lists"
    with pytest.raises(UsageError, match="Did you mean 'sliced'"):
        _ = ChosenDefense("slced").place


def test_codes_are_stacked_by_attribute() -> None:
    assert stack_codes([GENDER, AGE]).tolist() == [[0, 2], [1, 0], [-1, 1]]


def test_displacement_is_relative_to_the_spread() -> None:
    x = np.array([[0.0], [2.0]])
    assert measure_displacement(x, x + 1) == pytest.approx(1.0)
    assert measure_displacement(x, x) == 0.0
    assert measure_displacement(np.ones((3, 2)), np.ones((3, 2))) == 0.0


def test_targets_are_found_or_named() -> None:
    number = Attribute("height", np.full(3, -1), (), values=np.ones(3))
    known = {"gender": GENDER, "height": number}
    assert select_targets(known, ["gender"], "A") == [GENDER]
    assert select_targets(known, ["height"], "A", numbers=True) == [number]
    with pytest.raises(UsageError, match="Attributes in A: gender, height"):
        select_targets(known, [], "A")
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        select_targets(known, ["gendr"], "A")
    with pytest.raises(DataError, match="'height' is a number"):
        select_targets(known, ["height"], "A")


def test_a_table_that_is_too_large_for_a_method_is_refused_with_methods_that_can() -> None:
    ChosenDefense("sliced").check_size(10**6, 64)
    ChosenDefense("d2d").check_size(20_000, 64)
    for name, n_users, d in (("sliced", 100, 5_000), ("gaussian", 100, 5_000), ("d2d", 100_000, 64)):
        with pytest.raises(UsageError, match=f"^{name} cannot defend this table.*noise"):
            ChosenDefense(name).check_size(n_users, d)
