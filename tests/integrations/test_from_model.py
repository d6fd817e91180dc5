"""`from_model` with modules of torch, and what every library shares: ids, interactions, surfaces, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse

import recveil as rv
from recveil.core.errors import DataError, UsageError
from recveil.integrations.model_release import release_factors, release_neighbors

N, M, D = 160, 30, 4
QUICK: dict[str, Any] = {"panel": "logistic", "folds": 3, "repeats": 1, "max_repeats": 1}
RNG = np.random.default_rng(0)
CODES = np.arange(N) % 2
USER_IDS = [f"u{i}" for i in RNG.permutation(N)]
ITEM_IDS = [f"i{i}" for i in RNG.permutation(M)]
USERS = pd.DataFrame({"user_id": USER_IDS, "gender": np.array(["F", "M"])[CODES]}).sample(frac=1, random_state=0)
PAIRS = pd.DataFrame(
    {"user_id": np.repeat(USER_IDS, 6), "item_id": np.concatenate([RNG.choice(ITEM_IDS, 6, False) for _ in range(N)])}
)


class Recommender(torch.nn.Module):
    """Tables of users and items with biases, as people write them."""

    def __init__(self) -> None:
        super().__init__()
        self.user_table = torch.nn.Embedding(N, D)
        self.item_table = torch.nn.Embedding(M, D)
        self.item_bias = torch.nn.Parameter(torch.linspace(0, 1, M))
        with torch.no_grad():
            self.user_table.weight[:, 0] += torch.as_tensor(3.0 * CODES)


MODEL = Recommender()
TABLES = {"users": "user_table", "items": "item_table.weight", "item_bias": "item_bias"}


def read(**options: Any) -> rv.ModelRelease:
    return rv.from_model(MODEL, **{"user_ids": USER_IDS, "item_ids": ITEM_IDS, **TABLES, **options})


def test_tables_of_a_module_are_found_by_name_and_scores_add_the_bias() -> None:
    release = read()
    users, items = MODEL.user_table.weight.detach().numpy(), MODEL.item_table.weight.detach().numpy()
    np.testing.assert_array_equal(release.user_vectors, users)
    rows = np.array([3, 5])
    expected = users[rows] @ items.T + np.linspace(0, 1, M)
    np.testing.assert_allclose(release.score(rows, release.user_vectors[rows]), expected, atol=1e-5)
    assert not release.is_dot_product
    assert read(item_bias=None).is_dot_product
    table = release.to_arrow()
    assert table.column("user_id").to_pylist() == USER_IDS
    np.testing.assert_allclose(table.column("embedding")[7].as_py(), users[7])


@pytest.mark.thorough
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_attributes_are_matched_by_id_and_lists_and_utility_are_measured(frame: Any) -> None:
    users = frame({name: USERS[name].tolist() for name in USERS})
    release = read(interactions=frame({name: PAIRS[name].tolist() for name in PAIRS}))
    assert rv.audit(release, users, target="gender", details=False, **QUICK).verdict == "leak"
    in_order = rv.audit(release, {"gender": CODES}, details=False, **QUICK)
    assert in_order.headline.advantage.value > 0.7
    lists = rv.audit(release, users, target="gender", surface="lists", details=False, **QUICK)
    assert lists.protocol.surface == "lists"
    result = rv.cloak(release, users, target="gender", method="gaussian", **QUICK)
    assert result.input.name.endswith("Recommender")
    assert result.utility is not None
    assert set(result.lists.after) == {"gender"}
    assert result.targets["gender"].headline.advantage.value < 0.3
    assert isinstance(result.table, rv.ModelRelease)
    assert result.table.user_ids is release.user_ids
    assert not np.allclose(result.table.user_vectors, release.user_vectors)


def test_held_out_interactions_are_what_utility_is_measured_on() -> None:
    held = PAIRS.groupby("user_id").tail(1)
    release = read(interactions=PAIRS.drop(held.index), held_out=held)
    served = release.make_recommendations(seed=0)
    assert len(served.split.test) == N
    assert len(served.split.train) == 5 * N
    assert served.note == ""
    assert "too high" in read(interactions=PAIRS.assign(timestamp=1)).make_recommendations(seed=0).note
    with pytest.raises(UsageError, match="needs `interactions`"):
        read(held_out=held)


def test_a_model_with_its_own_score_is_ranked_by_it() -> None:
    release = read(score=lambda users, x: -torch.as_tensor(x @ MODEL.item_table.weight.detach().numpy().T))
    plain = read(item_bias=None)
    rows = np.arange(3)
    np.testing.assert_allclose(
        release.score(rows, release.user_vectors[rows]), -plain.score(rows, plain.user_vectors[rows]), atol=1e-5
    )


def test_constant_columns_of_users_move_into_the_score() -> None:
    users, items = RNG.normal(size=(5, 2)), RNG.normal(size=(4, 3))
    with_ones = np.column_stack([users, np.ones(5)])
    release = release_factors("x", with_ones, items, np.arange(5), np.arange(4), user_bias=np.arange(5.0))
    assert release.user_vectors.shape == (5, 3)
    expected = with_ones @ items.T + np.arange(5.0)[:, None]
    np.testing.assert_allclose(release.score(np.arange(5), release.user_vectors), expected, atol=1e-5)


@pytest.mark.parametrize("cosine", [True, False])
def test_neighbors_are_ranked_by_their_distance(cosine: bool) -> None:
    users, items = RNG.normal(size=(5, 3)).astype(np.float32), RNG.normal(size=(9, 3)).astype(np.float32)
    release = release_neighbors("x", users, items, np.arange(5), np.arange(9), cosine=cosine)
    order = np.argsort(-release.score(np.arange(5), users), axis=1)
    angles = (users @ items.T) / np.linalg.norm(users, axis=1)[:, None] / np.linalg.norm(items, axis=1)
    distances = np.linalg.norm(users[:, None] - items[None], axis=2)
    np.testing.assert_array_equal(order, np.argsort(-angles if cosine else distances, axis=1))


BAD: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "no table named": ({"users": None}, UsageError, r"user_table.weight \(160, 4\)"),
    "no such table": ({"users": "usr"}, UsageError, "no table 'usr'"),
    "no ids": ({"user_ids": None}, UsageError, "row-number"),
    "too few ids": ({"item_ids": ITEM_IDS[1:]}, DataError, "30 item vectors and 29 item ids"),
    "an id twice": ({"user_ids": [*USER_IDS[1:], USER_IDS[1]]}, DataError, "more than once"),
    "unknown option": ({"itms": "x"}, UsageError, "itms"),
    "ids of others": ({"interactions": PAIRS.assign(user_id="z")}, DataError, "only 0 of the 960 rows"),
    "a matrix of another shape": ({"interactions": sparse.eye(3)}, DataError, r"\(3, 3\)"),
    "a list": ({"interactions": [1]}, UsageError, "is a list"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name: str) -> None:
    options, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        read(**options)


def test_a_model_of_an_unknown_library_is_told_what_is_needed() -> None:
    with pytest.raises(UsageError, match="Give the vectors themselves") as error:
        rv.from_model(object())
    assert "builtins object" in str(error.value)
    with pytest.raises(DataError, match="ids do not match"):
        rv.audit(read(), USERS.assign(user_id=USERS["user_id"] + "?"), target="gender")
    with pytest.raises(DataError, match="no column 'gendr'"):
        rv.audit(read(), USERS, target="gendr")
    with pytest.raises(UsageError, match="by `from_model`"):
        rv.audit(np.zeros((4, 2)), np.arange(4) % 2, surface="lists")


def test_no_library_is_imported_to_find_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = type("AlternatingLeastSquares", (), {"__module__": "implicit.cpu.als"})()
    with pytest.raises(UsageError, match="was not trained"):
        rv.from_model(fake)
