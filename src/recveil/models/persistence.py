"""Trained models on disk: arrays as safetensors, options as JSON; nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, get_origin

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from recveil.core.errors import DataError, UsageError
from recveil.core.files import make_folder, write_atomically
from recveil.core.json_files import read_json_document
from recveil.core.option_types import parse_option_values, read_field_types
from recveil.core.protocols import Recommender
from recveil.core.types import FloatArray, IntArray
from recveil.models import MODELS

__all__ = ["load_model", "save_model"]

_ARRAYS_FILE, _OPTIONS_FILE = "model.safetensors", "model.json"
_FORMAT_VERSION = 1


_ADVICE = "Train and save the model again."


class _Description(BaseModel):
    """Content of the file that describes a saved model."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    format: Literal[1]
    model: str
    options: dict[str, Any]
    learned: dict[str, int | float]


def save_model(model: Recommender, folder: str | Path, *, name: str) -> None:
    """Write a trained model into the folder.

    Saved are the options and, of what was learned, the arrays, the dicts of arrays (a network's weights) and the plain
    numbers. The training history is not saved.

    Args:
        model: the trained model, a dataclass.
        folder: folder to write into; it is made if needed.
        name: name of the model in `MODELS`.
    """
    from safetensors.numpy import save_file

    folder = make_folder(folder)
    arrays = {key: np.ascontiguousarray(value) for key, value in _flatten_arrays(model).items()}
    with write_atomically(folder / _ARRAYS_FILE) as path:
        save_file(arrays, path)
    content = {
        "format": _FORMAT_VERSION,
        "model": name,
        "options": _collect_options(model),
        "learned": _collect_numbers(model),
    }
    with write_atomically(folder / _OPTIONS_FILE) as path:
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load_model(folder: str | Path, *, builder: Callable[..., Recommender] | None = None) -> Recommender:
    """Load the model that `save_model` wrote into the folder.

    Args:
        folder: where the model was saved.
        builder: class of the model; by default the one that `MODELS` holds under the saved name.

    Raises:
        UsageError: no model has the saved name.
        DataError: the folder holds no whole model, or the model does not take the saved options.
    """
    folder = Path(folder)
    if not (folder / _OPTIONS_FILE).is_file():
        raise DataError(
            f"There is no saved model in {folder}: {_OPTIONS_FILE} is missing. Name a folder that a model was saved to."
        )
    path = folder / _OPTIONS_FILE
    content = read_json_document(path, _Description, name=str(path), advice=_ADVICE)
    builder = builder or MODELS.load(content.model)
    try:
        model = builder(**parse_option_values(f"model '{content.model}'", builder, content.options))
    except (TypeError, UsageError) as error:
        raise DataError(
            f"{path} has options that '{content.model}' does not take ({error}). "
            f"Another version of recveil may have written it. {_ADVICE}"
        ) from error
    arrays = _nest_arrays(_read_arrays(folder / _ARRAYS_FILE))
    learned = [*content.learned.items(), *arrays.items()]
    _check_learned(type(model), learned, folder)
    for key, value in learned:
        setattr(model, key, value)
    device = content.options.get("device")
    if device is None or device == "cpu":  # the device that a model was trained on may be missing here
        _check_scores(model, folder)
    return model


def _check_learned(model_type: type, learned: Sequence[tuple[str, object]], folder: Path) -> None:
    """Refuse anything but the learned fields that the model declares, each of its declared type."""
    names = {each.name for each in fields(model_type) if not each.init}
    declared = {name: hint for name, hint in read_field_types(model_type).items() if name in names}
    needed = {name for name in names if name in declared and not hasattr(model_type, name)}
    for name, value in learned:
        if name not in declared or not _has_type(value, declared[name]):
            raise DataError(f"The model in {folder} holds '{name}', which is no learned part of it. {_ADVICE}")
    for name in sorted(needed - dict(learned).keys()):
        raise DataError(f"The model in {folder} lacks its learned part '{name}'. {_ADVICE}")


def _has_type(value: object, declared: Any) -> bool:
    """Return whether a value is a finite number, a finite array or a dict of arrays, as it was declared."""
    if declared in (int, float):
        return type(value) is declared
    if isinstance(value, dict):
        return get_origin(declared) is dict and all(_has_type(array, FloatArray) for array in value.values())
    if not isinstance(value, np.ndarray) or not _is_array_type(declared):
        return False
    kind = np.integer if declared == IntArray else np.floating
    return np.issubdtype(value.dtype, kind) and bool(np.isfinite(value).all())


def _is_array_type(declared: Any) -> bool:
    origin = get_origin(declared) or declared
    value = getattr(origin, "__value__", origin)  # since NumPy 2.5 NDArray is an alias, and this is what it stands for
    return (get_origin(value) or value) is np.ndarray


def _check_scores(model: Recommender, folder: Path) -> None:
    """Score the items for one user, so that parts that do not fit together are found before the work."""
    try:
        n_users, n_items = len(model.user_vectors_), len(model.item_vectors_)
        scores = model.score(np.arange(n_users)[-1:])
        fits = model.user_vectors_.ndim == 2 and scores.shape == (min(n_users, 1), n_items)
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError):
        fits = False
    if not fits:
        raise DataError(f"The learned parts of the model in {folder} do not fit together. {_ADVICE}")


def _collect_options(model: Any) -> dict[str, object]:
    return {f.name: getattr(model, f.name) for f in fields(model) if f.init}


def _collect_numbers(model: Any) -> dict[str, float]:
    learned = {f.name: getattr(model, f.name, None) for f in fields(model) if not f.init}
    return {name: value for name, value in learned.items() if isinstance(value, int | float)}


def _flatten_arrays(model: Any) -> dict[str, NDArray[Any]]:
    """Collect the learned arrays; array `k` of a dict `f` is called `f.k`."""
    learned = {f.name: getattr(model, f.name, None) for f in fields(model) if not f.init}
    flat = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
    dicts = {name: value for name, value in learned.items() if isinstance(value, dict)}
    return flat | {f"{name}.{key}": array for name, inside in dicts.items() for key, array in inside.items()}


def _nest_arrays(flat: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any] | dict[str, NDArray[Any]]]:
    """Undo `_flatten_arrays`."""
    single: dict[str, NDArray[Any]] = {}
    dicts: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in flat.items():
        field, dot, key = name.partition(".")
        if dot:
            dicts.setdefault(field, {})[key] = array
        else:
            single[name] = array
    return {**single, **dicts}


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError, LookupError, TypeError, ValueError) as error:  # the last three: number formats
        raise DataError(f"{path} cannot be read as safetensors ({error}). {_ADVICE}") from error
