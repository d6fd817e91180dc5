"""Embedding defenses as scikit-learn transformers: its own checks, pipelines, labels of any kind, later users."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from recveil.core.errors import DataError, UsageError
from recveil.core.random import make_generator
from recveil.core.types import UNDISCLOSED
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.gaussian import Gaussian
from recveil.defenses.embeddings.leace import Leace
from recveil.defenses.embeddings.noise import Noise
from recveil.defenses.embeddings.sliced import Sliced
from recveil.defenses.embeddings.transformers import EmbeddingTransformer, MapTransformer, load_map
from recveil.testing.worlds import make_planted_leak

NAMES = [traits.name for traits in DEFENSES.all_traits() if traits.place == "embeddings"]
WITH_MAP = ["gaussian", "labelfree", "leace", "sliced"]

BY_ROW = "noise is drawn for the rows in their order, so a row's noise depends on the rows before it"
EXPECTED_FAILURES = {
    Noise: dict.fromkeys(("check_methods_sample_order_invariance", "check_methods_subset_invariance"), BY_ROW),
}

QUICK_SLICED = Sliced(rounds=3, coordinates="columns", trade=False, device="cpu")
"""Without its learners, which the contract of all defenses and test_sliced.py hold."""


@pytest.mark.filterwarnings("default")
@parametrize_with_checks(
    [Gaussian(device="cpu"), Leace(device="cpu"), Noise(device="cpu"), QUICK_SLICED],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES.get(type(estimator), {}),
    xfail_strict=True,
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    assert check(estimator) is None  # it raises what it finds


def make_table(n: int = 650) -> tuple[np.ndarray, np.ndarray]:
    x, attribute = make_planted_leak(n, 4, 3, 2.0, rng=np.random.default_rng(0))
    return x, np.where(np.arange(n) % 11 == 0, UNDISCLOSED, attribute.codes)


def compute_loss(users: torch.Tensor) -> torch.Tensor:
    return users.square().mean()


def make_quick(name: str, **options: Any) -> EmbeddingTransformer:
    """Make a method with options with which it is quick; what it reaches is tested elsewhere."""
    method = DEFENSES.make(name, device="cpu", **options)
    return method.set_params(**{k: v for k, v in (("steps", 3), ("epochs", 1), ("rounds", 4)) if hasattr(method, k)})


@pytest.mark.thorough
@pytest.mark.usefixtures("no_trees")
@pytest.mark.parametrize("name", NAMES)
def test_fit_transform_is_the_call_with_the_generator_of_the_random_state(name: str) -> None:
    x, codes = make_table()
    utility = {"utility": compute_loss} if DEFENSES.traits(name).needs_loss else {}
    for seed, y in ((0, codes), (3, np.stack([codes, np.arange(len(x)) % 2], axis=1))):
        expected = make_quick(name)(x, y, rng=make_generator(seed, "cloak"), **utility)
        method = clone(make_quick(name)).set_params(random_state=seed)
        np.testing.assert_array_equal(method.fit_transform(x, y, **utility), expected)
        assert np.abs(expected - x).max() > 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_options_are_read_changed_and_cloned_like_those_of_any_estimator(name: str) -> None:
    method = DEFENSES.make(name, strength=0.5, random_state=7)
    assert method.get_params()["strength"] == 0.5
    copy = clone(method)
    assert copy.get_params(deep=False) == method.get_params(deep=False)
    assert copy.set_params(strength=0.25).strength == 0.25
    assert method.strength == 0.5
    assert not [attribute for attribute in vars(method) if attribute.endswith("_")]


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*WITH_MAP, "noise")])
def test_a_defense_without_a_map_says_so_to_later_users(name: str) -> None:
    x, codes = make_table(60)
    for call in (make_quick(name).transform, make_quick(name).fit):
        with pytest.raises(UsageError, match=r"keeps no map for later users.*fit_transform"):
            call(x, codes)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_trees")
@pytest.mark.parametrize("name", WITH_MAP)
def test_labels_of_any_kind_give_the_table_of_their_codes(name: str) -> None:
    x, codes = make_table()
    words = np.array(["female", "male", "other", ""], dtype=object)[codes]
    expected = make_quick(name).fit_transform(x, codes)
    for y in (
        np.where(codes < 0, None, words),
        np.where(codes < 0, np.nan, words).tolist(),
        np.where(codes < 0, np.nan, codes),
        np.where(codes < 0, UNDISCLOSED, codes * 10 + 5),
        codes[:, None].tolist(),
    ):
        np.testing.assert_array_equal(make_quick(name).fit_transform(x, y), expected)


def test_later_users_are_carried_by_their_labels_and_without_one_by_the_label_free_map() -> None:
    x, codes = make_table()
    words = np.array(["female", "male", "other", None], dtype=object)[codes]
    by_code, by_word = Gaussian(device="cpu").fit(x, codes), Gaussian(device="cpu").fit(x, words)
    x = 1.01 * x
    np.testing.assert_array_equal(by_word.transform(x, words), by_code.transform(x, codes))
    assert [labels.tolist() for labels in by_word.classes_] == [["female", "male", "other"]]
    label_free = by_word.transform(x)
    for y in (np.full(len(x), None), np.full(len(x), "never met"), [None] * len(x)):
        np.testing.assert_array_equal(by_word.transform(x, y), label_free)
    assert np.abs(by_word.transform(x, words) - label_free)[codes >= 0].max() > 0.1
    with pytest.raises(DataError, match="whole numbers, and the map was fitted with text"):
        by_word.transform(x, codes)
    with pytest.raises(DataError, match="2 attributes, and the map was fitted with 1"):
        by_word.transform(x, np.stack([words, words], axis=1))


def test_behind_leace_a_line_in_the_same_pipeline_is_left_with_the_largest_class() -> None:
    x, attribute = make_planted_leak(800, 4, 2, 2.0, rng=np.random.default_rng(0))
    y = np.where(np.arange(len(x)) < 60, 0, attribute.codes)
    line = LogisticRegression(C=1e3, max_iter=1000)
    seeing = make_pipeline(StandardScaler(), clone(line)).fit(x, y)
    blind = make_pipeline(StandardScaler(), Leace(device="cpu"), line).fit(x, y)
    assert len(np.unique(seeing.predict(x))) == 2
    assert (blind.predict(x) == np.bincount(y).argmax()).all()  # which sends them through the map once more


def test_names_of_columns_pass_through() -> None:
    x, codes = make_table(60)
    method = make_pipeline(StandardScaler(), Gaussian(device="cpu")).fit(x, codes)
    assert method.get_feature_names_out(list("abcd")).tolist() == list("abcd")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(x, columns=list("abcd"))
    out = Gaussian(device="cpu").set_output(transform="pandas").fit_transform(frame, codes)
    assert list(out.columns) == list("abcd")


def test_what_cannot_be_used_is_refused() -> None:
    x, codes = make_table(60)
    with pytest.raises(DataError, match="requires y to be passed"):
        Gaussian().fit_transform(x)
    with pytest.raises(NotFittedError, match="not fitted yet"):
        Sliced().transform(x, codes)
    with pytest.raises(NotFittedError):
        Noise().transform(x)
    with pytest.raises(UsageError, match="random_state must be a whole number"):
        Gaussian(random_state=None, device="cpu").fit(x, codes)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="strength must lie"):
        Gaussian(strength=2.0, device="cpu").fit(x, codes)


@pytest.mark.thorough
@pytest.mark.usefixtures("no_trees")
@pytest.mark.parametrize("name", WITH_MAP)
def test_a_saved_map_is_loaded_as_the_transformer_that_wrote_it(name: str, tmp_path: Path) -> None:
    x, codes = make_table()
    words = np.array(["female", "male", "other", None], dtype=object)[codes]
    for y in (codes, words, np.stack([words, np.arange(len(x)) % 61], axis=1)):
        method = make_quick(name, strength=0.7, random_state=5).fit(x, y)
        assert isinstance(method, MapTransformer)
        method.save(tmp_path / "map.safetensors")
        loaded = load_map(tmp_path / "map.safetensors")
        assert type(loaded) is type(method)
        assert loaded.get_params() == {**method.get_params(), "device": None}
        assert loaded.n_features_in_ == 4
        loaded.set_params(device="cpu")
        for labels in (None, y):
            np.testing.assert_array_equal(loaded.transform(1.01 * x, labels), method.transform(1.01 * x, labels))
    assert (tmp_path / "map.safetensors").stat().st_mode & 0o777 == 0o600
    assert type(type(method).load(tmp_path / "map.safetensors")) is type(method)
    other = Gaussian if name != "gaussian" else Sliced
    with pytest.raises(DataError, match=f"holds a map of .*, not of {other.__name__}"):
        other.load(tmp_path / "map.safetensors")


def test_a_map_can_be_saved_only_where_it_can_be_loaded(tmp_path: Path) -> None:
    class Homemade(Gaussian):
        """A defense that is in no registry."""

    x, codes = make_table(60)
    with pytest.raises(NotFittedError):
        Gaussian().save(tmp_path / "map")
    with pytest.raises(UsageError, match="not registered"):
        Homemade(device="cpu").fit(x, codes).save(tmp_path / "map")
    assert not list(tmp_path.iterdir())
