"""Embedding defenses as scikit-learn transformers: options, cloning, pipelines and data frames as anywhere else.

`fit_transform(X, y)` returns the table to publish. `y` holds class labels, one for each user or one column for each
attribute; None, NaN and, among whole numbers, -1 are undisclosed.

A defense that keeps a map (`MapTransformer`) carries later users by `transform(X, y)`, and gives users of the fit the
row that `fit_transform` gives them. A pipeline hands no `y` to `transform`: later users then take the part of the map
that needs no label. The other defenses move the users of one table together, so they offer `fit_transform` alone.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from recveil.core.device import resolve_device
from recveil.core.errors import DataError, UsageError
from recveil.core.option_types import SeedNumber
from recveil.core.protocols import UtilityLoss
from recveil.core.random import make_generator
from recveil.core.types import FloatArray, IntArray
from recveil.defenses import DEFENSES
from recveil.defenses.embeddings.class_labels import apply_classes, encode_classes
from recveil.defenses.embeddings.fitted_maps import FittedMap
from recveil.defenses.embeddings.map_files import Option, SavedMap
from recveil.defenses.embeddings.released_rows import ReleasedRows

__all__ = ["EmbeddingTransformer", "MapTransformer", "load_map", "restore_transformer"]


@dataclass
class EmbeddingTransformer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """An embedding defense that offers `fit_transform` alone, since it keeps nothing for later users.

    Results are computed in single precision and returned in the floating-point type of `X`.

    Args:
        device: where tensors are computed; CUDA if there is one, else the CPU.
        random_state: seed of everything random in `fit` and `fit_transform`.
    """

    device: str | None = field(default=None, kw_only=True)
    random_state: SeedNumber = field(default=0, kw_only=True)

    @abstractmethod
    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the table to release, as `core.protocols.EmbeddingDefense` says."""

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, *, utility: UtilityLoss | None = None) -> Any:
        """Return the table to publish of these users.

        Args:
            X: user vectors, one row for each user.
            y: class labels, one for each user or one column for each attribute.
            utility: a differentiable loss of the user vectors, for the defenses that weigh one.
        """
        x, codes = self._validate_table(X, y)
        return self(x, codes, rng=self._make_generator(), utility=utility).astype(x.dtype, copy=False)

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Refuse: there is nothing to learn for later users."""
        raise self._explain_missing_map()

    def transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Refuse: later users cannot be carried."""
        raise self._explain_missing_map()

    def _explain_missing_map(self) -> UsageError:
        return UsageError(
            f"{type(self).__name__} moves the users of one table together and keeps no map for later users. "
            "Call fit_transform(X, y) on the whole table, or use a defense that keeps a map."
        )

    def _validate_table(self, X: ArrayLike, y: ArrayLike | None) -> tuple[FloatArray, IntArray]:
        """Return the vectors as floats and the labels as codes; learn the classes and the number of dimensions."""
        x: FloatArray = validate_data(self, X, dtype=(np.float64, np.float32))
        if y is None:
            raise DataError(
                f"{type(self).__name__} requires y to be passed, but the target y is None. "
                "Give the class label of each user."
            )
        codes, self.classes_ = encode_classes(y, len(x))
        return x, codes

    def _make_generator(self) -> np.random.Generator:
        try:
            seed = operator.index(self.random_state)
        except TypeError:
            seed = -1
        if seed < 0:
            raise UsageError(f"random_state must be a whole number of 0 or more; got {self.random_state!r}.")
        return make_generator(seed, "cloak")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass
class MapTransformer(EmbeddingTransformer):
    """An embedding defense that keeps a map for later users, in memory and on disk.

    In memory it also keeps the users of the fit and their released rows, and so does a pickle of it. A saved map holds
    no user.

    Attributes:
        map_: the fitted map.
        classes_: sorted class labels of each attribute.
        released_: the users of the fit; None if the map was loaded.
    """

    @abstractmethod
    def compute_release(self, x: FloatArray, codes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FittedMap]:
        """Return the table to publish, and the map for later users."""

    def __call__(
        self, x: FloatArray, codes: IntArray, *, rng: np.random.Generator, utility: UtilityLoss | None = None
    ) -> FloatArray:
        """Return the table to publish; `utility` is not used."""
        return self.compute_release(x, codes, rng)[0]

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the map of each class from user vectors and class labels."""
        self._fit_map(X, y)
        return self

    def fit_transform(self, X: ArrayLike, y: ArrayLike | None = None, *, utility: UtilityLoss | None = None) -> Any:
        """Learn the map, and return the table to publish of these same users; `utility` is not used."""
        return self._fit_map(X, y)

    def transform(self, X: ArrayLike, y: ArrayLike | None = None) -> Any:
        """Return the released rows of users of the fit, and carry later users by the map.

        A user of the fit is known by the vector, and by the class where one is given. What was drawn and traded for the
        users of the fit is in their released rows alone: carried by the map they would show more. So a map that was
        loaded from a file, which knows no user, is for later users only; give the others their rows of the released
        table (`recveil apply --released`).

        Later users of undisclosed class, and of a class that the fit did not meet, take the part of the map that needs
        no label; so do all later users without `y`.
        """
        check_is_fitted(self, "map_")
        x: FloatArray = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        codes = apply_classes(y, self.classes_, len(x))
        if self.released_ is None:
            return self._carry_later(x, codes)
        out, places = np.empty_like(x), self.released_.find_users(x, codes)
        is_later = places < 0
        out[~is_later] = self.released_.released[places[~is_later]]
        if is_later.any():
            out[is_later] = self._carry_later(x[is_later], codes[is_later])
        return out

    def _carry_later(self, x: FloatArray, codes: IntArray) -> FloatArray:
        return self.map_(x, codes, resolve_device(self.device)).astype(x.dtype, copy=False)

    def save(self, path: str | Path) -> None:
        """Write the fitted map to a file that only its owner can read (safetensors); `load_map` reads it."""
        check_is_fitted(self, "map_")
        options: dict[str, Option] = {
            name: value.item() if isinstance(value, np.generic) else value
            for name, value in self.get_params(deep=False).items()
            if name != "device"  # the machine that loads the map may have another
        }
        names: NDArray[Any] | None = self.__dict__.get("feature_names_in_")
        feature_names = None if names is None else names.tolist()
        SavedMap(_find_method_name(type(self)), options, self.classes_, feature_names, self.map_).write_file(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Return the fitted transformer of a file that `save` wrote; it must be of this class."""
        transformer = load_map(path)
        if not isinstance(transformer, cls):
            raise DataError(f"{path} holds a map of {type(transformer).__name__}, not of {cls.__name__}. Use load_map.")
        return transformer

    def _fit_map(self, X: ArrayLike, y: ArrayLike | None) -> FloatArray:
        x, codes = self._validate_table(X, y)
        out, self.map_ = self.compute_release(x, codes, self._make_generator())
        # Copies, since a caller may change either table.
        self.released_: ReleasedRows | None = ReleasedRows(x.copy(), codes, out.copy())
        return out.astype(x.dtype, copy=False)


def load_map(path: str | Path) -> MapTransformer:
    """Return the fitted transformer that wrote this file, ready to `transform` later users.

    The file holds none of the users of the fit. Their rows are those of the table that was released with the map
    (`recveil apply --released`); carried by the map they would show more.

    Raises:
        DataError: the file is no saved map, or one of a method that is not installed.

    Example:
        >>> import numpy as np, recveil as rv, tempfile
        >>> y = np.arange(100) % 2
        >>> X = np.random.default_rng(0).normal(size=(100, 3)) + y[:, None]
        >>> path = f"{tempfile.mkdtemp()}/gender.map"
        >>> rv.Leace().fit(X, y).save(path)
        >>> rv.load_map(path).transform(X).shape
        (100, 3)
    """
    return restore_transformer(SavedMap.read_file(path), path)


def restore_transformer(saved: SavedMap, path: str | Path) -> MapTransformer:
    """Return the fitted transformer of a map that was read from this file."""
    try:
        transformer = DEFENSES.make(saved.method, **saved.options)
    except UsageError as error:
        raise DataError(f"The map in {path} is of another version or package: {error}") from error
    if not isinstance(transformer, MapTransformer):
        raise DataError(f"{path} names '{saved.method}', which keeps no map. Fit and save the map again.")
    transformer.map_, transformer.classes_, transformer.released_ = saved.fitted, saved.classes, None
    transformer.n_features_in_ = saved.fitted.dimensions
    if saved.feature_names is not None:
        transformer.feature_names_in_ = np.array(saved.feature_names, dtype=object)
    return transformer


def _find_method_name(builder: type) -> str:
    names = [traits.name for traits in DEFENSES.all_traits() if traits.builder == builder.__name__]
    if not names:
        raise UsageError(f"{builder.__name__} is not registered as a defense, so no saved map could be loaded.")
    return names[0]
