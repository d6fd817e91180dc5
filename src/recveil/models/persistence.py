"""A trained model on disk: its arrays as safetensors, its hyper-parameters as JSON. Nothing is unpickled."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from recveil.core.errors import DataError, unknown_name
from recveil.core.files import make_folder, writing
from recveil.core.protocols import Recommender

__all__ = ["load", "save"]

_ARRAYS, _OPTIONS = "model.safetensors", "model.json"
_FORMAT = 1


def save(model: Recommender, folder: str | Path, *, name: str) -> None:
    """Write a trained model into the folder; `name` is what `load` will look up.

    What is kept: the hyper-parameters, and of what was learned the arrays, the dicts of arrays (a network's weights)
    and the plain numbers.
    """
    from safetensors.numpy import save_file

    folder = make_folder(folder)
    arrays = {key: np.ascontiguousarray(value) for key, value in _arrays(model).items()}
    with writing(folder / _ARRAYS) as path:
        save_file(arrays, path)
    content = {"format": _FORMAT, "model": name, "options": _options(model), "learned": _numbers(model)}
    with writing(folder / _OPTIONS) as path:
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def load(folder: str | Path, constructors: Mapping[str, Callable[..., Recommender]]) -> Recommender:
    """The model saved in the folder; `constructors` maps names to model classes."""
    folder = Path(folder)
    content = _read_options(folder / _OPTIONS)
    name, options = content["model"], content["options"]
    if name not in constructors:
        raise unknown_name("model", str(name), constructors)
    try:
        model = constructors[name](**options)
    except TypeError as error:
        raise DataError(
            f"{folder / _OPTIONS} has options that '{name}' does not know ({error}). "
            "It may have been written by another version of recveil: train the model again."
        ) from error
    for key, value in content["learned"].items():
        setattr(model, key, value)
    for key, value in _nested(_read_arrays(folder / _ARRAYS)).items():
        setattr(model, key, value)
    return model


def _options(model: Any) -> dict[str, Any]:
    return {f.name: getattr(model, f.name) for f in fields(model) if f.init}


def _numbers(model: Any) -> dict[str, int | float]:
    learned = {f.name: getattr(model, f.name, None) for f in fields(model) if not f.init}
    return {name: value for name, value in learned.items() if isinstance(value, int | float)}


def _arrays(model: Any) -> dict[str, NDArray[Any]]:
    """What was learned, flat: an array `key` of a dict `field` is called `field.key`."""
    learned = {f.name: getattr(model, f.name, None) for f in fields(model) if not f.init}
    flat = {name: value for name, value in learned.items() if isinstance(value, np.ndarray)}
    dicts = {name: value for name, value in learned.items() if isinstance(value, dict)}
    return flat | {f"{name}.{key}": array for name, inside in dicts.items() for key, array in inside.items()}


def _nested(flat: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """The other way round."""
    whole: dict[str, Any] = {}
    for name, array in flat.items():
        field, dot, key = name.partition(".")
        if dot:
            whole.setdefault(field, {})[key] = array
        else:
            whole[name] = array
    return whole


def _read_options(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DataError(
            f"There is no saved model in {path.parent}: {path.name} is missing. "
            "Name a folder that a model was saved to."
        )
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DataError(f"{path} is not JSON ({error}). Save the model again.") from error
    whole = isinstance(content, dict) and all(isinstance(content.get(key), dict) for key in ("options", "learned"))
    if not whole or content.get("format") != _FORMAT:
        raise DataError(f"{path} is not a model description of format {_FORMAT}. Save the model again.")
    return content


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} cannot be read as safetensors ({error}). Save the model again.") from error
