"""Arrays from files: which of them are the vectors and the ids, and whether they can be computed with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.data.io.tables import ITEM_NAMES, USER_NAMES, simplify_name

__all__ = ["check_scale", "choose_id_array", "choose_vector_array", "convert_id_array"]

MIN_MAGNITUDE, MAX_MAGNITUDE = 1e-15, 1e15
"""Range of the largest number of a table, which keeps squares and sums of squares in the range of 32-bit floats."""

_ID_KINDS = "iufUS"
_TRAINING_STATE = ("optimizer.", "optimizer/")
"""Arrays under these names have the shape of the vectors and are none."""

Shapes = Mapping[str, tuple[int, ...]]


def check_scale(x: NDArray[np.float32], source: str | Path) -> None:
    """Refuse vectors whose squares leave the range of 32-bit floats.

    Raises:
        DataError: the largest number is above `MAX_MAGNITUDE`, or not zero and below `MIN_MAGNITUDE`.
    """
    largest = float(max(x.max(), -x.min()))
    if largest > MAX_MAGNITUDE or 0 < largest < MIN_MAGNITUDE:
        raise DataError(
            f"The largest number in {source} is {largest:.0e}, and {MIN_MAGNITUDE:.0e} to {MAX_MAGNITUDE:.0e} can be "
            "computed with. Multiply all vectors by one number."
        )


def choose_vector_array(shapes: Shapes, owner: str, path: Path, named: str = "") -> str:
    """Choose the array that holds the vectors.

    It is the one that was named; else the one called `embedding`, the only table, or the only table whose name holds
    "user" (or "item").

    Args:
        shapes: shapes of the arrays of a file, by name.
        owner: whose vectors they are, "user" or "item".
        path: the file, for errors.
        named: the name that was given, if any.

    Raises:
        DataError: the named array does not exist, or none can be chosen.
    """
    if named:
        if named not in shapes:
            raise DataError(f"{path} has no array '{named}'. It has {_list_names(shapes)}.")
        return named
    if "embedding" in shapes:
        return "embedding"
    tables = [name for name, shape in shapes.items() if len(shape) == 2 and not name.startswith(_TRAINING_STATE)]
    other = "item" if owner == "user" else "user"
    of_owner = [name for name in tables if owner in name.lower() and other not in name.lower()]
    for candidates in (tables, of_owner):
        if len(candidates) == 1:
            return candidates[0]
    if len(shapes) == 1:
        return next(iter(shapes))
    raise DataError(
        f"{path} holds {len(tables)} tables among its arrays ({_list_names(shapes)}). Name the one with the vectors by "
        "`vectors`."
    )


def choose_id_array(shapes: Shapes, n_rows: int, owner: str, path: Path, named: str = "") -> str | None:
    """Choose the array that holds the ids of the rows: one with a name for ids, and one entry for each row.

    Args:
        shapes: shapes of the arrays of a file, by name.
        n_rows: rows of its table of vectors.
        owner: whose vectors they are, "user" or "item".
        path: the file, for errors.
        named: the name that was given, if any.

    Raises:
        DataError: the named array, or the array `user_id` (or `item_id`), does not hold one entry for each row.
    """
    names = (*(USER_NAMES if owner == "user" else ITEM_NAMES), f"{owner}_ids", "ids", "id")
    known = {simplify_name(name): place for place, name in reversed(list(enumerate(names)))}
    fitting = [name for name, shape in shapes.items() if shape == (n_rows,)]
    exact = named or f"{owner}_id"
    if named and named not in shapes:
        raise DataError(f"{path} has no array '{named}'. It has {_list_names(shapes)}.")
    if exact in shapes and exact not in fitting:
        shape = " x ".join(map(str, shapes[exact])) or "a single number"
        raise DataError(
            f"The array '{exact}' of {path} does not fit its {n_rows} vectors (its shape is {shape}). Give one id for "
            "each row."
        )
    if named:
        return named
    candidates = [name for name in fitting if simplify_name(name) in known]
    return min(candidates, key=lambda name: (known[simplify_name(name)], name), default=None)


def convert_id_array(array: NDArray[Any], source: str | Path) -> pa.Array:
    """Convert an array of ids to Arrow; dimensions of length one do not matter.

    Raises:
        DataError: the array holds something other than numbers or text, or a table of them.
    """
    if array.size != max(array.shape, default=1):
        shape = " x ".join(map(str, array.shape))
        raise DataError(f"The ids in {source} are a table (its shape is {shape}). Give one id for each row.")
    if array.dtype.kind in _ID_KINDS:
        try:
            return pa.array(array.astype(array.dtype.newbyteorder("=")).ravel())
        except (pa.ArrowException, UnicodeError, ValueError, TypeError):
            pass
    raise DataError(f"The ids in {source} are {array.dtype}. Write every id as a whole number or as text.")


def _list_names(shapes: Shapes) -> str:
    names = [f"{name} ({' x '.join(map(str, shape)) or '1'})" for name, shape in sorted(shapes.items())]
    return ", ".join(names[:12]) + (", ..." if len(names) > 12 else "") or "none"
