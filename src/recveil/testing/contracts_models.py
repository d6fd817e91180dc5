"""Contract of recommenders.

`check_recommender(MyModel)` checks every promise. A broken promise raises `AssertionError` with a sentence that names
it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from recveil.core.protocols import Recommender
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.metrics.ranking import collect_seen_items, evaluate
from recveil.models.persistence import load_model, save_model
from recveil.models.scoring import make_release
from recveil.testing.worlds import make_checkerboard

__all__ = ["check_recommender"]

ModelBuilder = Callable[[], Recommender]


def check_recommender(builder: ModelBuilder, *, same_bytes: bool = True) -> None:
    """Check all promises of a recommender.

    Args:
        builder: makes a fresh, untrained model each time it is called.
        same_bytes: the same seed gives the same bytes; False for devices that sum in no fixed order, where vectors
            must agree closely.
    """
    split = make_checkerboard()
    model = builder().fit(split, rng=make_generator(0, "contract"))
    _check_same_seed(builder, model, split, same_bytes)
    _check_shapes(model, split)
    _check_checkerboard(model, split)
    _check_scores(model, split)
    _check_lists(model, split)
    _check_odd_users(builder)
    _check_round_trip(builder, model, split)


def _check_same_seed(builder: ModelBuilder, model: Recommender, split: Split, same_bytes: bool) -> None:
    """Check that the same seed gives the same vectors, even with other test items."""
    other = replace(split.test, item=(split.test.item + 1) % split.test.n_items)
    again = builder().fit(replace(split, test=other), rng=make_generator(0, "contract"))
    for name in ("user_vectors_", "item_vectors_"):
        first, second = getattr(model, name), getattr(again, name)
        agree = np.array_equal(first, second) if same_bytes else np.allclose(first, second, rtol=1e-2, atol=1e-3)
        assert agree, f"The same seed (and other test items) gave two different {name}."


def _check_shapes(model: Recommender, split: Split) -> None:
    for name, n in (("user_vectors_", split.train.n_users), ("item_vectors_", split.train.n_items)):
        table = getattr(model, name)
        assert isinstance(table, np.ndarray), f"{name} must be a NumPy array."
        assert table.dtype == np.float32, f"{name} must be float32, and is {table.dtype}."
        assert table.ndim == 2, f"{name} must have one row per id, and has shape {table.shape}."
        assert len(table) == n, f"{name} must have {n} rows, and has {len(table)}."
        assert np.isfinite(table).all(), f"{name} holds values that are not numbers."


def _check_checkerboard(model: Recommender, split: Split) -> None:
    hits = evaluate(model.score, split, ks=(2,))["hit_rate@2"].value
    assert hits > 0.9, f"The checkerboard is not solved: HR@2 is {hits:.2f}, and 1 is possible."


def _check_scores(model: Recommender, split: Split) -> None:
    users = np.arange(split.train.n_users)[::-3]
    plain, own = model.score(users), model.score(users, model.user_vectors_[users])
    assert plain.shape == (len(users), split.train.n_items), f"score gave shape {plain.shape}."
    assert np.allclose(plain, own, rtol=1e-5, atol=1e-6), "score with its own vectors differs from score without."
    if not np.array_equal(model.user_vectors_[users[0]], model.user_vectors_[users[-1]]):
        other = model.score(users[:1], model.user_vectors_[users[-1:]])
        assert np.allclose(other, model.score(users[-1:]), rtol=1e-4, atol=1e-5), (
            "score with another user's vectors is not that user's score: user_vectors_ lacks something."
        )


def _check_lists(model: Recommender, split: Split) -> None:
    n_items = split.train.n_items
    lists = make_release(model, split, n_items).lists
    assert lists is not None
    seen = collect_seen_items(split.train, split.valid).toarray() > 0
    listed = np.zeros_like(seen)
    user, place = np.nonzero(lists >= 0)
    listed[user, lists[user, place]] = True
    assert not (listed & seen).any(), "A list holds an item its user has seen."
    assert (listed | seen).all(), "A list as long as the catalog leaves out an item its user has not seen."
    assert len(user) == listed.sum(), "A list holds an item twice."


def _check_odd_users(builder: ModelBuilder) -> None:
    """Check a user with a single item, a user without any, and an item without users."""
    split = make_checkerboard()
    n_users, n_items = split.train.n_users, split.train.n_items

    def add_odd_ids(part: Dataset, *, new_rows: int) -> Dataset:
        user, item = np.append(part.user, np.full(new_rows, n_users)), np.append(part.item, np.full(new_rows, 0))
        time = None if part.time is None else np.append(part.time, np.full(new_rows, 0))
        return Dataset(part.name, user, item, time, np.arange(n_users + 2), np.arange(n_items + 1))

    held_out = (add_odd_ids(part, new_rows=0) for part in (split.valid, split.test))
    odd = Split(add_odd_ids(split.train, new_rows=1), *held_out)
    model = builder().fit(odd, rng=make_generator(0, "odd"))
    _check_shapes(model, odd)
    scores = model.score(np.array([n_users, n_users + 1]))
    assert np.isfinite(scores).all(), "A user with one item or none gets scores that are not numbers."
    lists = make_release(model, odd, 3).lists
    assert lists is not None
    assert (lists[[n_users, n_users + 1]] >= 0).all(), "A user with one item or none gets no list."
    no_valid = replace(odd, valid=odd.valid.take(np.zeros(len(odd.valid), dtype=bool)))
    _check_shapes(builder().fit(no_valid, rng=make_generator(0, "no validation")), odd)


def _check_round_trip(builder: ModelBuilder, model: Recommender, split: Split) -> None:
    users = np.arange(split.train.n_users)
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, folder, name="it")
        back = load_model(folder, builder=type(builder()))
    assert np.array_equal(model.score(users), back.score(users)), "A saved and loaded model scores differently."
    assert np.array_equal(model.user_vectors_, back.user_vectors_), "A saved and loaded model has other user vectors."
