"""JSON from files that anybody may have written: one reader, which says in one sentence what is wrong.

Python's own reader takes NaN, infinity and integers of any length, and nesting as deep as the stack. None of these is
in a file that recveil writes, and each of them would surface later as another error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from recveil.core.errors import DataError

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

    ModelT = TypeVar("ModelT", bound=BaseModel)

__all__ = ["describe_mistake", "parse_json", "read_json_document", "read_json_object"]

MAX_DEPTH = 50
"""Levels of nesting; the documents of recveil have fewer than fifteen."""
MAX_DIGITS = 30
"""Digits of an integer; seeds and counts have fewer than twenty."""


def parse_json(text: str) -> Any:
    """Parse JSON as its standard has it.

    Raises:
        ValueError: the text is not JSON, or holds NaN, a number without end, or nesting beyond all use.
    """
    try:
        content = json.loads(
            text, parse_constant=_refuse_constant, parse_float=_parse_finite, parse_int=_parse_short_integer
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    _check_depth(content)
    return content


def read_json_object(path: str | Path, *, name: str, advice: str) -> Mapping[str, Any]:
    """Read the JSON object in a file.

    Args:
        path: the file.
        name: what the file is called at the beginning of an error, such as "The baseline run.json".
        advice: what to do about a file that cannot be read, as a sentence.

    Raises:
        DataError: the file cannot be read, or holds something else.
    """
    try:
        content = parse_json(Path(path).read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise DataError(f"{name} cannot be read: {error.strerror or error}. {advice}") from None
    except ValueError as error:
        raise DataError(f"{name} is not a JSON document ({_shorten(str(error))}). {advice}") from None
    if not isinstance(content, dict):
        raise DataError(f"{name} is not a JSON object. {advice}")
    return content


def read_json_document(path: str | Path, model: type[ModelT], *, name: str, advice: str) -> ModelT:
    """Read the JSON document in a file as this model.

    Args:
        path: the file.
        model: the form of the document.
        name: what the file is called at the beginning of an error.
        advice: what to do about a file that cannot be read, as a sentence.

    Raises:
        DataError: the file cannot be read, or its content is of another form.
    """
    from pydantic import ValidationError

    content = read_json_object(path, name=name, advice=advice)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{name} is damaged ({describe_mistake(error)}). {advice}") from None


def describe_mistake(error: ValidationError) -> str:
    """Return the place and the reason of the first mistake in a document."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(_shorten(str(step)) for step in first["loc"])
    return f"{place or 'the document'}: {_shorten(first['msg'])}"


def _check_depth(content: object) -> None:
    level, depth = [content], 0
    while level:
        if depth > MAX_DEPTH:
            raise ValueError("it is nested too deeply")
        inside: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inside += value.values()
            elif isinstance(value, list):
                inside += value
        level, depth = inside, depth + 1


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number in JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _parse_short_integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(text):,} digits")
    return int(text)


def _shorten(text: str, length: int = 100) -> str:
    return text if len(text) <= length else f"{text[:length]}..."
