import numpy as np
import pytest

from recveil.core.errors import DataError, UsageError
from recveil.core.random import generator
from recveil.core.types import Attribute
from recveil.data.splits import leave_one_out
from recveil.data.synthetic import make_world
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.models.bprmf import BPRMF
from recveil.workflows.defended_release import codes_of, displacement, protect, targets_of

GENDER = Attribute("gender", np.array([0, 1, -1]), ("F", "M"))
AGE = Attribute("age", np.array([2, 0, 1]), ("a", "b", "c"))


def test_the_release_is_defended_in_all_its_parts() -> None:
    world = make_world(n_users=200, n_items=50, n_interactions=3_000, leaks={"gender": 2.0}, rng=generator(0, "w"))
    split = leave_one_out(world.dataset)
    model = BPRMF(embedding_size=8, epochs=3, device="cpu").fit(split, rng=generator(0, "t"))
    targets = [world.dataset.attributes["gender"]]
    plain = protect(model, split, None, targets, k=5, rng=generator(0, "c"))
    cloaked = protect(model, split, Gaussian(device="cpu"), targets, k=5, rng=generator(0, "c"))
    assert np.array_equal(plain.user_vectors, model.user_vectors_)
    users = np.arange(200)
    assert np.allclose(cloaked.score(users), cloaked.user_vectors @ model.item_vectors_.T, atol=1e-5)
    assert (plain.lists != cloaked.lists).any()
    seen = set(zip(split.train.user.tolist(), split.train.item.tolist(), strict=True))
    assert not seen & {(u, i) for u, row in enumerate(cloaked.lists.tolist()) for i in row}


def test_codes_stand_side_by_side() -> None:
    assert codes_of([GENDER, AGE]).tolist() == [[0, 2], [1, 0], [-1, 1]]


def test_displacement_is_relative_to_the_spread() -> None:
    x = np.array([[0.0], [2.0]])
    assert displacement(x, x + 1) == pytest.approx(1.0)
    assert displacement(x, x) == 0.0
    assert displacement(np.ones((3, 2)), np.ones((3, 2))) == 0.0


def test_targets_are_found_or_named() -> None:
    number = Attribute("height", np.full(3, -1), (), values=np.ones(3))
    known = {"gender": GENDER, "height": number}
    assert targets_of(known, ["gender"], "A") == [GENDER]
    with pytest.raises(UsageError, match="No target was named. Attributes in A: gender, height"):
        targets_of(known, [], "A")
    with pytest.raises(UsageError, match="Did you mean 'gender'"):
        targets_of(known, ["gendr"], "A")
    with pytest.raises(DataError, match="--bins height=35,45"):
        targets_of(known, ["height"], "A")
