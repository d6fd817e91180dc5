"""Files of a release that an audit reads back: vectors, lists and attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from recveil.core.files import write_atomically
from recveil.core.types import Attribute, FloatArray, IntArray

__all__ = ["write_attributes", "write_lists", "write_vectors"]


def write_vectors(path: Path, key: str, ids: NDArray[Any], x: FloatArray) -> None:
    """Write ids under `key` and vectors as `embedding`.

    Args:
        path: Parquet file to write.
        key: name of the column of ids.
        ids: one id for each vector.
        x: the vectors.
    """
    flat = pa.array(np.ascontiguousarray(x, dtype=np.float32).reshape(-1))
    _write_table(path, {key: pa.array(ids), "embedding": pa.FixedSizeListArray.from_arrays(flat, x.shape[1])})


def write_lists(path: Path, lists: IntArray, user_ids: NDArray[Any], item_ids: NDArray[Any]) -> None:
    """Write one row for each item of each list, with ranks from 1.

    Args:
        path: Parquet file to write.
        lists: items of each user, best first; -1 is left out.
        user_ids: raw ids of the users.
        item_ids: raw ids of the items.
    """
    user, place = np.nonzero(lists >= 0)
    item = lists[user, place]
    _write_table(path, {"user_id": user_ids[user], "item_id": item_ids[item], "rank": place + 1})


def write_attributes(path: Path, user_ids: NDArray[Any], attributes: Iterable[Attribute]) -> None:
    """Write one column for each attribute, readable by the owner alone; undisclosed values are null.

    Args:
        path: Parquet file to write.
        user_ids: raw ids of the users.
        attributes: the attributes of these users.
    """
    columns: dict[str, object] = {"user_id": user_ids}
    for a in attributes:
        if a.values is not None:
            columns[a.name] = pa.array(a.values, mask=~a.known)
        else:
            labels = np.array([*a.labels, ""], dtype=object)
            columns[a.name] = pa.array(labels[a.codes], type=pa.string(), mask=~a.known)
    _write_table(path, columns, private=True)


def _write_table(path: Path, columns: Mapping[str, object], *, private: bool = False) -> None:
    with write_atomically(path, private=private) as temporary:
        pyarrow.parquet.write_table(pa.table(dict(columns)), temporary)
