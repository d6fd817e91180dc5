"""Every embedding defense as a scikit-learn transformer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from recveil.audits.catalog import EMBEDDING_DEFENSES, make
from recveil.core.errors import DataError, UsageError
from recveil.core.random import generator
from recveil.defenses.embeddings.fitted_maps import Keeps
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.integrations.transformers import Transformer, as_transformer
from recveil.testing.worlds import planted_leak

KEEPING = ("gaussian", "leace", "sliced")


def world(n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    x, secret = planted_leak(n, 4, 2, 2.0, rng=np.random.default_rng(0))
    return x, secret.codes


def shorter(name: str) -> dict[str, Any]:
    """Options with which a method is quick; what it reaches is tested elsewhere."""
    known = set(make("defense", name, EMBEDDING_DEFENSES).__dict__)
    return {"device": "cpu", **{k: v for k, v in (("steps", 3), ("epochs", 1)) if k in known}}


def loss(users: torch.Tensor) -> torch.Tensor:
    return users.square().mean()


def of(name: str) -> Transformer:
    return as_transformer(name, utility=loss, **shorter(name))


@pytest.mark.parametrize("name", EMBEDDING_DEFENSES)
def test_in_a_pipeline_every_defense_gives_the_table_that_it_gives_by_itself(name: str) -> None:
    x, codes = world()
    scaled = StandardScaler().fit_transform(x).astype(np.float32)
    method = of(name)
    out = make_pipeline(StandardScaler(), clone(method)).fit_transform(x, codes)
    alone = make("defense", name, EMBEDDING_DEFENSES, **shorter(name))
    wanted = alone(scaled, codes, rng=generator(0, "cloak"), utility=loss)
    np.testing.assert_allclose(out, wanted, atol=1e-5)
    assert np.abs(out - scaled).max() > 1e-4


@pytest.mark.parametrize("name", EMBEDDING_DEFENSES)
def test_who_comes_later_goes_by_the_map_or_is_told_why_not(name: str) -> None:
    x, codes = world()
    method = of(name)
    method.fit_transform(x[:600], codes[:600])
    assert isinstance(method.defense, Keeps) == (name in KEEPING)
    if name in KEEPING:
        for y in (None, codes[600:]):
            np.testing.assert_array_equal(method.transform(x[600:], y), method.defense.transform(x[600:], y))
    else:
        with pytest.raises(UsageError, match="keeps no map that later users could be sent through"):
            method.transform(x[600:])
        with pytest.raises(UsageError, match="keeps no map"):
            method.fit(x, codes)


def test_behind_leace_a_line_in_the_same_pipeline_is_left_with_the_largest_class() -> None:
    x, codes = world()
    codes = np.where(np.arange(len(codes)) < 60, 0, codes)
    line = LogisticRegression(C=1e3, max_iter=1000)
    seeing = make_pipeline(StandardScaler(), clone(line)).fit(x, codes)
    blind = make_pipeline(StandardScaler(), as_transformer("leace", device="cpu"), line).fit(x, codes)
    assert len(np.unique(seeing.predict(x))) == 2
    assert (blind.predict(x) == np.bincount(codes).argmax()).all()  # which sends them through the map once more


def test_the_seed_decides_what_is_random() -> None:
    x, codes = world(100)
    one, same, other = (as_transformer("noise", seed=s, device="cpu").fit_transform(x, codes) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_what_cannot_be_used_is_refused() -> None:
    x, codes = world(50)
    with pytest.raises(DataError, match="Give y"):
        as_transformer("gaussian").fit_transform(x)
    with pytest.raises(DataError, match="whole numbers"):
        as_transformer("gaussian").fit_transform(x, np.where(codes, "m", "f"))
    with pytest.raises(UsageError, match="Did you mean 'gaussian'"):
        as_transformer("gausian")
    with pytest.raises(UsageError, match="made already"):
        as_transformer(Gaussian(), strength=0.5)
    assert as_transformer(Gaussian(0.5)).get_params()["defense"].strength == 0.5
