"""Print a hash of what methods compute, as JSON; test_same_bytes.py runs it with one thread and with two."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import numpy as np

N_USERS, N_DIMENSIONS = 6_000, 32
"""Large enough that torch and BLAS share the work among threads."""
N_USERS_OF_SLOW = 300
SLOW = ("exchange", "sliced", "adversarial-pot", "labelfree", "d2d")
"""Defenses that take minutes on the large table."""
OPTIONS = {"epochs": 1, "steps": 5, "rounds": 10, "noise_seed": 0, "epsilon": 50.0}
"""Options that make a method short, or take away the secret of its noise, where it has them."""


def hash_defense(name: str) -> str:
    """Return a hash of a table that the defense made."""
    from recveil.core.types import Attribute
    from recveil.defenses import DEFENSES
    from recveil.workflows.defended_release import defend_vectors

    rng = np.random.default_rng(0)
    codes = rng.integers(3, size=N_USERS_OF_SLOW if name in SLOW else N_USERS)
    vectors = (rng.standard_normal((len(codes), N_DIMENSIONS)) + codes[:, None] / 2).astype(np.float32)
    target = Attribute("group", codes, ("a", "b", "c"))
    defense = make_short(DEFENSES, name)
    return hash_arrays(defend_vectors(defense, vectors, [target], seed=0, utility=lambda users: users.square().mean()))


def hash_model(name: str) -> str:
    """Return a hash of the vectors and lists of a model that was trained here."""
    from recveil.core.random import make_generator
    from recveil.core.timing import Clock
    from recveil.data.splits import leave_one_out
    from recveil.data.synthetic import make_world
    from recveil.models import MODELS
    from recveil.workflows.defended_release import ReleaseRecipe, train_and_defend

    world = make_world(
        n_users=400, n_items=300, n_interactions=8_000, leaks={"gender": 1.0}, rng=make_generator(0, "w")
    )
    recipe = ReleaseRecipe(name, lambda defense: make_short(MODELS, name), k=10, seed=0, device="cpu")
    release = train_and_defend(recipe, leave_one_out(world.dataset), [], None, clock=Clock()).release
    return hash_arrays(release.user_vectors, release.item_vectors, release.lists)


def make_short(registry: Any, name: str) -> Any:
    """Make a method with the options that shorten it."""
    from inspect import signature

    taken = signature(registry.load(name)).parameters
    options = {option: value for option, value in OPTIONS.items() if option in taken}
    return registry.make(name, **options, **({"device": "cpu"} if "device" in taken else {}))


def hash_arrays(*arrays: np.ndarray | None) -> str:
    """Return a short hash of the bytes of arrays."""
    parts = [b"none" if array is None else np.ascontiguousarray(array).tobytes() for array in arrays]
    return hashlib.sha256(b"".join(parts)).hexdigest()[:16]


def main() -> None:
    """Print the hashes of the methods that are named, or of all."""
    from recveil.defenses import DEFENSES
    from recveil.models import MODELS

    defenses = [traits.name for traits in DEFENSES.all_traits() if traits.place == "embeddings"]
    methods = {**dict.fromkeys(defenses, hash_defense), **dict.fromkeys(MODELS, hash_model)}
    chosen = sys.argv[1:] or methods
    json.dump({name: methods[name](name) for name in chosen}, sys.stdout)


if __name__ == "__main__":
    main()
