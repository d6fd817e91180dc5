"""Trained models on disk: arrays as safetensors, options as JSON; nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.files import make_folder, write_atomically
from recveil.core.protocols import Recommender
from recveil.models import MODELS

__all__ = ["load_model", "save_model"]

_ARRAYS_FILE, _OPTIONS_FILE = "model.safetensors", "model.json"
_FORMAT_VERSION = 1


class _Description(TypedDict):
    """Content of the file that describes a saved model."""

    format: int
    model: str
    options: dict[str, object]
    learned: dict[str, float]


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
    content: _Description = {
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
    content = _read_options(folder / _OPTIONS_FILE)
    name, options = content["model"], content["options"]
    builder = builder or MODELS.load(str(name))
    try:
        model = builder(**options)
    except TypeError as error:
        raise DataError(
            f"{folder / _OPTIONS_FILE} has options that '{name}' does not take ({error}). "
            "Another version of recveil may have written it: train the model again."
        ) from error
    for key, number in content["learned"].items():
        setattr(model, key, number)
    for key, arrays in _nest_arrays(_read_arrays(folder / _ARRAYS_FILE)).items():
        setattr(model, key, arrays)
    return model


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


def _read_options(path: Path) -> _Description:
    if not path.is_file():
        raise DataError(
            f"There is no saved model in {path.parent}: {path.name} is missing. "
            "Name a folder that a model was saved to."
        )
    try:
        content: _Description = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}). Save the model again.") from error
    whole = isinstance(content, dict) and all(isinstance(content.get(key), dict) for key in ("options", "learned"))
    if not whole or content.get("format") != _FORMAT_VERSION:
        raise DataError(f"{path} is not a model description of format {_FORMAT_VERSION}. Save the model again.")
    return content


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} cannot be read as safetensors ({error}). Save the model again.") from error
