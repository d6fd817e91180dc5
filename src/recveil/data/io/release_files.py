"""A release as files that `recveil audit` and `recveil cloak` read back: vectors, lists and attributes."""

from __future__ import annotations

from collections.abc import Iterable
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
    """Ids under `key`, and the vectors as `embedding`."""
    flat = pa.array(np.ascontiguousarray(x, dtype=np.float32).reshape(-1))
    _write_table(path, {key: pa.array(ids), "embedding": pa.FixedSizeListArray.from_arrays(flat, x.shape[1])})


def write_lists(path: Path, lists: IntArray, user_ids: NDArray[Any], item_ids: NDArray[Any]) -> None:
    """One row for each place of each list, ranks from 1; empty places (-1) are left out."""
    user, place = np.nonzero(lists >= 0)
    item = lists[user, place]
    _write_table(path, {"user_id": user_ids[user], "item_id": item_ids[item], "rank": place + 1})


def write_attributes(path: Path, user_ids: NDArray[Any], attributes: Iterable[Attribute]) -> None:
    """One column for each attribute; undisclosed values are null."""
    columns: dict[str, Any] = {"user_id": user_ids}
    for a in attributes:
        if a.values is not None:
            columns[a.name] = pa.array(a.values, mask=~a.known)
        else:
            labels = np.array([*a.labels, ""], dtype=object)
            columns[a.name] = pa.array(labels[a.codes], type=pa.string(), mask=~a.known)
    _write_table(path, columns)


def _write_table(path: Path, columns: dict[str, Any]) -> None:
    with write_atomically(path) as temporary:
        pyarrow.parquet.write_table(pa.table(columns), temporary)
