"""What every recommender promises, as one call: `check_recommender(lambda: MyModel(...))`.

Each check raises `AssertionError` with a sentence that says which promise was broken.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from recveil.core.protocols import Recommender
from recveil.core.random import make_generator
from recveil.core.types import Dataset, Split
from recveil.metrics.ranking import evaluate, seen_items
from recveil.models.persistence import load_model, save_model
from recveil.models.scoring import make_release
from recveil.testing.worlds import checkerboard

__all__ = ["check_recommender"]

Make = Callable[[], Recommender]


def check_recommender(make: Make, *, same_bytes: bool = True) -> None:
    """Check all promises; `make` gives a fresh, untrained model each time it is called.

    `same_bytes=False` is for devices whose sums come in no fixed order: vectors must then agree closely, not exactly.
    """
    split = checkerboard()
    model = make().fit(split, rng=make_generator(0, "contract"))
    _same_seed(make, model, split, same_bytes)
    _shapes(model, split)
    _solves(model, split)
    _own_vectors(model, split)
    _seen_never_listed(model, split)
    _survives_the_odd(make)
    _round_trip(make, model, split)


def _same_seed(make: Make, model: Recommender, split: Split, same_bytes: bool) -> None:
    """Twice the same, though the second time the test items are others: training has no business with them."""
    other = replace(split.test, item=(split.test.item + 1) % split.test.n_items)
    again = make().fit(replace(split, test=other), rng=make_generator(0, "contract"))
    for name in ("user_vectors_", "item_vectors_"):
        one, two = getattr(model, name), getattr(again, name)
        agree = np.array_equal(one, two) if same_bytes else np.allclose(one, two, rtol=1e-2, atol=1e-3)
        assert agree, f"The same seed (and other test items) gave two different {name}."


def _shapes(model: Recommender, split: Split) -> None:
    for name, n in (("user_vectors_", split.train.n_users), ("item_vectors_", split.train.n_items)):
        table = getattr(model, name)
        assert isinstance(table, np.ndarray), f"{name} must be a NumPy array."
        assert table.dtype == np.float32, f"{name} must be float32, and is {table.dtype}."
        assert table.ndim == 2, f"{name} must have one row per id, and has shape {table.shape}."
        assert len(table) == n, f"{name} must have {n} rows, and has {len(table)}."
        assert np.isfinite(table).all(), f"{name} holds values that are not numbers."


def _solves(model: Recommender, split: Split) -> None:
    hits = evaluate(model.score, split, ks=(2,))["hr@2"].value
    assert hits > 0.9, f"The checkerboard is not solved: HR@2 is {hits:.2f}, and a model that understood it has 1."


def _own_vectors(model: Recommender, split: Split) -> None:
    users = np.arange(split.train.n_users)[::-3]
    plain, own = model.score(users), model.score(users, model.user_vectors_[users])
    assert plain.shape == (len(users), split.train.n_items), f"score gave shape {plain.shape}."
    assert np.allclose(plain, own, rtol=1e-5, atol=1e-6), "score with its own vectors differs from score without."
    if not np.array_equal(model.user_vectors_[users[0]], model.user_vectors_[users[-1]]):
        other = model.score(users[:1], model.user_vectors_[users[-1:]])
        assert np.allclose(other, model.score(users[-1:]), rtol=1e-4, atol=1e-5), (
            "score with another user's vectors is not that user's score: user_vectors_ lacks something."
        )


def _seen_never_listed(model: Recommender, split: Split) -> None:
    n_items = split.train.n_items
    lists = make_release(model, split, n_items).lists
    assert lists is not None
    seen = seen_items(split.train, split.valid).toarray() > 0
    listed = np.zeros_like(seen)
    user, place = np.nonzero(lists >= 0)
    listed[user, lists[user, place]] = True
    assert not (listed & seen).any(), "A list holds an item its user has seen."
    assert (listed | seen).all(), "A list as long as the catalog leaves out an item its user has not seen."
    assert len(user) == listed.sum(), "A list holds an item twice."


def _survives_the_odd(make: Make) -> None:
    """One user has a single item, another has none; one item was touched by nobody."""
    split = checkerboard()
    n_users, n_items = split.train.n_users, split.train.n_items

    def grown(part: Dataset, *, lonely: bool) -> Dataset:
        user, item = (np.append(part.user, n_users), np.append(part.item, 0)) if lonely else (part.user, part.item)
        time = None if part.time is None else np.append(part.time, 0) if lonely else part.time
        return Dataset(part.name, user, item, time, np.arange(n_users + 2), np.arange(n_items + 1))

    odd = Split(grown(split.train, lonely=True), grown(split.valid, lonely=False), grown(split.test, lonely=False))
    model = make().fit(odd, rng=make_generator(0, "odd"))
    _shapes(model, odd)
    scores = model.score(np.array([n_users, n_users + 1]))
    assert np.isfinite(scores).all(), "A user with one item or none gets scores that are not numbers."
    lists = make_release(model, odd, 3).lists
    assert lists is not None
    assert (lists[[n_users, n_users + 1]] >= 0).all(), "A user with one item or none gets no list."
    no_valid = replace(odd, valid=odd.valid.take(np.zeros(len(odd.valid), dtype=bool)))
    _shapes(make().fit(no_valid, rng=make_generator(0, "no validation")), odd)


def _round_trip(make: Make, model: Recommender, split: Split) -> None:
    users = np.arange(split.train.n_users)
    with tempfile.TemporaryDirectory() as folder:
        save_model(model, folder, name="it")
        back = load_model(folder, builder=type(make()))
    assert np.array_equal(model.score(users), back.score(users)), "A saved and loaded model scores differently."
    assert np.array_equal(model.user_vectors_, back.user_vectors_), "A saved and loaded model has other user vectors."
