"""MovieLens 100K for models of other libraries, and what must hold for each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import recveil as rv
from recveil.data.io.ids import as_numpy

QUICK = {"panel": "logistic", "folds": 3, "repeats": 1, "max_repeats": 1}
N_COMPARED_USERS = 8


@dataclass(frozen=True)
class MovieLens:
    """Interactions to train on, one held-out interaction of each user, and the users, with raw ids."""

    train: pd.DataFrame
    held_out: pd.DataFrame
    users: pd.DataFrame
    user_ids: list[str]
    item_ids: list[str]
    matrix: sparse.csr_matrix


@pytest.fixture(scope="session")
def movielens(shared_data: Any) -> MovieLens:
    """MovieLens 100K with ids that are text and not in the order of rows, so that a mistake is seen."""
    data = rv.load_dataset(shared_data / "ml-100k")
    split = rv.leave_one_out(data)
    user_ids = [f"u{9999 - int(raw)}" for raw in data.user_ids]
    item_ids = [f"i{9999 - int(raw)}" for raw in data.item_ids]

    def make_frame(part: rv.Dataset) -> pd.DataFrame:
        columns = {"user_id": np.array(user_ids)[part.user], "item_id": np.array(item_ids)[part.item]}
        return pd.DataFrame({**columns, "timestamp": part.time})

    train = pd.concat([make_frame(split.train), make_frame(split.valid)], ignore_index=True)
    rows = np.concatenate([split.train.user, split.valid.user]), np.concatenate([split.train.item, split.valid.item])
    matrix = sparse.csr_matrix((np.ones(len(rows[0]), dtype=np.float32), rows), shape=(data.n_users, data.n_items))
    gender = data.attributes["gender"]
    users = pd.DataFrame({"user_id": user_ids, "gender": np.array(gender.labels)[gender.codes]})
    users = users.sample(frac=1, random_state=0)  # ids decide, not the order of rows
    return MovieLens(train, make_frame(split.test), users, user_ids, item_ids, matrix)


def list_best(release: rv.ModelRelease, user: str, seen: Sequence[str], k: int = 10) -> list[str]:
    """The items that a release ranks first for a user, by raw id, without the seen ones."""
    row = as_numpy(release.user_ids).tolist().index(user)
    scores = np.array(release.score(np.array([row]), release.user_vectors[[row]])[0], dtype=np.float64)
    item_ids = as_numpy(release.item_ids)
    scores[np.isin(item_ids, list(seen))] = -np.inf
    return item_ids[np.argsort(-scores, kind="stable")[:k]].tolist()


@pytest.fixture
def check_lists(movielens: MovieLens) -> Callable[..., None]:
    """Check that a release lists what the library itself recommends: recommend(user, seen, k) -> raw item ids."""

    def check(release: rv.ModelRelease, recommend: Callable[[str, list[str], int], Sequence[str]]) -> None:
        for user in movielens.user_ids[:: len(movielens.user_ids) // N_COMPARED_USERS]:
            seen = movielens.train.loc[movielens.train["user_id"] == user, "item_id"].tolist()
            ours, theirs = list_best(release, user, seen), list(recommend(user, seen, 10))
            assert ours[0] == theirs[0]
            assert len(set(ours) & set(theirs)) >= 9  # the last place may be tied

    return check


@pytest.fixture
def check_privacy(movielens: MovieLens) -> Callable[..., rv.CloakResult]:
    """Check that gender is found in vectors and lists, and that a defense takes it away at a measured cost."""

    def check(release: rv.ModelRelease, *, leaks: bool = True) -> rv.CloakResult:
        result = rv.cloak(release, movielens.users, target="gender", method="gaussian", **QUICK)
        before, after = result.before["gender"], result.targets["gender"]
        assert before.headline.advantage.value > (0.2 if leaks else 0.0)
        assert after.headline.advantage.value < before.headline.advantage.value
        assert result.utility is not None
        assert result.utility.before["ndcg@10"].value > 0.002
        assert result.lists is not None
        assert set(result.lists.before) == {"gender"}
        assert result.table.user_vectors.shape == release.user_vectors.shape
        lists = rv.audit(release, movielens.users, target="gender", surface="lists", details=False, **QUICK)
        assert lists.protocol.surface == "lists"
        return result

    return check
