from __future__ import annotations

import numpy as np
import pytest

from recveil.core.errors import UsageError
from recveil.core.random import make_generator
from recveil.models.construction import list_profiles, make_model
from recveil.testing.worlds import make_checkerboard


def test_a_profile_replaces_the_tuned_options_and_own_options_replace_both() -> None:
    tuned, paper, own = (
        make_model("ncf", "ml-1m", options, "cpu", profile=profile)
        for options, profile in (({}, ""), ({}, "raid2025"), ({"epochs": 3}, "raid2025"))
    )
    assert tuned.recency == 3.0
    assert (paper.embedding_size, paper.recency, paper.candidates, paper.epochs) == (32, 0.0, 1, 20)
    assert (own.epochs, own.start_std) == (3, 0.01)


def test_the_profile_of_raid_has_its_models_and_their_epochs() -> None:
    assert set(list_profiles()["raid2025"]) == {"bprmf", "dmf", "lightgcn", "ncf"}
    epochs = {
        name: make_model(name, "ml-1m", {}, "cpu", profile="raid2025").epochs for name in ("dmf", "ncf", "lightgcn")
    }
    assert epochs == {"dmf": 10, "ncf": 20, "lightgcn": 200}
    for name, length in epochs.items():  # the paper trains all of them
        assert make_model(name, "ml-1m", {}, "cpu", profile="raid2025").patience >= length


def test_a_profile_that_a_model_does_not_have_is_named() -> None:
    with pytest.raises(UsageError, match="has no options for als. It has: bprmf, dmf, lightgcn, ncf"):
        make_model("als", "ml-1m", {}, "cpu", profile="raid2025")
    with pytest.raises(UsageError, match="Did you mean 'raid2025'"):
        make_model("ncf", "ml-1m", {}, "cpu", profile="raid2024")


@pytest.mark.parametrize("name", ["bprmf", "dmf", "lightgcn", "ncf"])
def test_the_start_has_the_standard_deviation_that_was_asked_for(name: str) -> None:
    spreads = {}
    for std in (1e-6, 1e-2):
        model = make_model(name, "x", {"start_std": std, "epochs": 1, "learning_rate": 1e-12}, "cpu")
        model.fit(make_checkerboard(), rng=make_generator(0, "t"))
        spreads[std] = np.abs(model.user_vectors_).max()
    assert spreads[1e-6] < 1e-3 * spreads[1e-2]
