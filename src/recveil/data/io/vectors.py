"""Tables of vectors in files: read, checked once at the door, and written back in the form they came in.

Vectors come as Parquet or CSV (`user_id` with `embedding`, or with `emb_0, emb_1, ...`), as `.npy` with the ids beside
it, or as safetensors. Nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
import torch
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.files import check_output_file, write_atomically
from recveil.core.types import FloatArray
from recveil.data.io.ids import normalize_ids, refuse_duplicates
from recveil.data.io.tables import ITEM_NAMES, USER_NAMES, read_table, require_column
from recveil.data.io.text import check_file, describe_read_error, narrow_column

__all__ = [
    "PARQUET_SUFFIXES",
    "Vectors",
    "check_output",
    "parse_floats",
    "read_ids",
    "find_numbered_columns",
    "read_embeddings",
    "read_rows",
    "replace_vectors",
    "parse_vectors",
    "write_embeddings",
]

PARQUET_SUFFIXES = (".parquet", ".pq")
TEXT_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_NUMBERED_NAME = re.compile(r"emb_(\d+)")


@dataclass(frozen=True, eq=False)
class Vectors:
    """A table of vectors with its ids, and how it was written down, so that it can be written in the same way.

    `of` says whose they are, `key` names the ids, `columns` the columns or the tensor that hold the vectors. `source`
    is the whole table, all tensors of a safetensors file, or nothing (`.npy`). `dtype` is the width of the numbers
    in the file.
    """

    ids: pa.Array
    x: NDArray[np.float32]
    key: str
    columns: tuple[str, ...]
    source: pa.Table | Mapping[str, torch.Tensor] | None
    dtype: type[np.floating[Any]]
    of: str = "user"

    @property
    def holds_ids(self) -> bool:
        """Whether the ids stand in the file itself, not in another or nowhere."""
        return self.source is not None and self.key in (
            self.source.column_names if isinstance(self.source, pa.Table) else self.source
        )


def read_embeddings(
    path: str | Path, ids: str | Path | None = None, *, of: Literal["user", "item"] = "user"
) -> Vectors:
    """The vectors of users, or of items, with their ids.

    `ids` is a file with the ids of the rows (.npy, .txt with one on each line, .csv, .parquet), for a .npy or
    safetensors file that has none; without it they are 0, 1, 2, ...
    """
    path = check_file(path)
    readers = {".npy": _read_npy_vectors, ".safetensors": _read_safetensors_vectors}
    vectors = readers.get(path.suffix.lower(), _read_table_vectors)(path, of)
    if ids is not None:
        if vectors.holds_ids:
            raise UsageError(f"{path} has ids of its own in '{vectors.key}'. Leave out the ids in {ids}.")
        vectors = replace(vectors, ids=read_ids(Path(ids), of))
    n = len(vectors.x)
    if len(vectors.ids) != n:
        raise DataError(
            f"{ids or path} has {len(vectors.ids)} ids and {path} has {n} vectors. Give one id for each row, in the "
            f"same order (a .csv of ids starts with a header line)."
        )
    refuse_duplicates(normalize_ids(vectors.ids, path), path, of)
    bad = np.flatnonzero(~np.isfinite(vectors.x).all(axis=1))
    if len(bad):
        raise DataError(
            f"{len(bad)} of the {n} vectors in {path} hold NaN, infinite or missing numbers, the first that of {of} "
            f"'{vectors.ids[int(bad[0])]}'. Remove or mend these rows."
        )
    return vectors


def write_embeddings(path: str | Path, vectors: Vectors, x: FloatArray) -> None:
    """Write `x` in place of the vectors: same rows, ids and other columns; the ending of the path says which form.

    The file appears whole or not at all.
    """
    if x.shape != vectors.x.shape:
        raise UsageError(f"The new vectors have the shape {x.shape}, the old ones {vectors.x.shape}; keep it.")
    suffix = check_output(path, vectors).suffix.lower()
    x = np.ascontiguousarray(x, dtype=vectors.dtype)
    if suffix == ".npy":
        with write_atomically(path) as temporary:
            np.save(temporary, x, allow_pickle=False)
    elif suffix == ".safetensors":
        _write_safetensors(path, vectors, x)
    elif suffix in PARQUET_SUFFIXES:
        with write_atomically(path) as temporary:
            pyarrow.parquet.write_table(replace_vectors(vectors, x), temporary)
    else:
        _write_text(path, replace_vectors(vectors, x.astype(np.float32)), TEXT_DELIMITERS[suffix])


def check_output(path: str | Path, vectors: Vectors) -> Path:
    """The path, if these vectors can be written there; call it before long work, not after."""
    path = check_output_file(path)
    suffix = path.suffix.lower()
    if suffix not in (*PARQUET_SUFFIXES, *TEXT_DELIMITERS, ".npy", ".safetensors"):
        raise UsageError(f"Cannot tell how to write {path}. Use .parquet, .csv, .tsv, .npy or .safetensors.")
    if suffix == ".npy" and vectors.holds_ids:
        raise UsageError(f"A .npy file cannot hold the ids, so {path} would lose them. Write .parquet instead.")
    if suffix == ".safetensors" and vectors.holds_ids and not pa.types.is_integer(vectors.ids.type):
        raise UsageError(
            f"A safetensors file cannot hold ids that are text, so {path} would lose them. Write .parquet."
        )
    return path


def read_rows(path: str | Path) -> pa.Table:
    """The table in the file, which must have rows."""
    table = read_table(path)
    if table.num_rows == 0:
        raise DataError(f"{path} has no rows below its header. Check that it was written whole.")
    return table


def _read_table_vectors(path: Path, of: str) -> Vectors:
    return parse_vectors(read_rows(path), path, of)


def parse_vectors(table: pa.Table, path: Path, of: str = "user") -> Vectors:
    """The vectors in a table that was read from this file, not yet checked."""
    key = require_column(table, USER_NAMES if of == "user" else ITEM_NAMES, path)
    if "embedding" in table.column_names:
        x = _parse_lists(table, key, path)
        columns: tuple[str, ...] = ("embedding",)
    else:
        columns = find_numbered_columns(table.column_names, path)
        x = np.stack([parse_floats(table.column(name), name, path) for name in columns], axis=1)
    kinds = {getattr(kind, "value_type", kind) for kind in (table.schema.field(name).type for name in columns)}
    wide = path.suffix.lower() in PARQUET_SUFFIXES and pa.float64() in kinds
    return Vectors(
        _combine_chunks(table.column(key)),
        _convert_to_float32(x),
        key,
        columns,
        table,
        np.float64 if wide else np.float32,
        of,
    )


def find_numbered_columns(names: list[str], path: Path) -> tuple[str, ...]:
    """The columns emb_0, emb_1, ... among these, which must be there without gaps."""
    numbers = sorted(int(found[1]) for found in map(_NUMBERED_NAME.fullmatch, names) if found)
    if not numbers:
        given = ", ".join(names[:12])
        raise DataError(f"{path} has no column 'embedding' and no columns emb_0, emb_1, ...; it has {given}.")
    if numbers != list(range(len(numbers))):
        gap = next(number for number in range(len(numbers) + 1) if number not in numbers)
        raise DataError(
            f"{path} has columns up to emb_{numbers[-1]} but no emb_{gap}. Number them from 0 without gaps."
        )
    return tuple(f"emb_{number}" for number in numbers)


def _parse_lists(table: pa.Table, key: str, path: Path) -> FloatArray:
    given = table.column("embedding")
    if pa.types.is_string(given.type) or pa.types.is_large_string(given.type):
        # CSV holds lists as text: "[0.1, 0.2]" or "0.1 0.2".
        given = pc.split_pattern_regex(pc.utf8_trim(given, " []()"), r"[,;\s]+")
    kind = given.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise DataError(
            f"The column 'embedding' of {path} holds {kind}, not lists of numbers. Write lists, or emb_0, ..."
        )
    lengths = pc.fill_null(pc.list_value_length(given), 0).to_numpy()
    d = int(lengths[0])
    other = np.flatnonzero(lengths != d)
    if len(other) or d == 0:
        row = int(other[0]) if len(other) else 0
        raise DataError(
            f"The vectors in {path} differ in length: that of '{table.column(key)[0]}' has {d} numbers, that of "
            f"'{table.column(key)[row]}' has {lengths[row]}. Give every row the same number, at least one."
        )
    blocks = [parse_floats(chunk.flatten(), "embedding", path) for chunk in given.chunks]
    return np.concatenate(blocks).reshape(-1, d)


def parse_floats(values: pa.Array | pa.ChunkedArray, name: str, path: str | Path) -> FloatArray:
    """The column as numbers, NaN where one is missing; text that is no number is an error."""
    try:
        # Floats stay as wide as they are: a large table should not be held twice as large.
        given = values if pa.types.is_floating(values.type) else values.cast(pa.float64())
        numbers: FloatArray = given.to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise DataError(f"The column '{name}' of {path} does not hold numbers ({error}). Mend or remove it.") from None
    return numbers


def _read_npy_vectors(path: Path, of: str) -> Vectors:
    return _wrap_array(_load_npy(path), path, of)


def _load_npy(path: Path) -> NDArray[Any]:
    path = check_file(path)
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise DataError(f"{path} is not a whole .npy file of plain numbers or text. Write it again.") from error
    if not isinstance(array, np.ndarray):
        raise DataError(f"{path} is an archive of arrays. Save the one array with numpy.save.")
    return array


def _wrap_array(array: NDArray[Any], path: Path, of: str) -> Vectors:
    if not (np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)):
        raise DataError(f"{path} holds {array.dtype}, not numbers. Write the vectors as 32-bit floats.")
    if array.ndim != 2 or array.size == 0:
        shape = " x ".join(map(str, array.shape)) or "a single number"
        raise DataError(f"{path} holds no table of vectors (its shape is {shape}). Give one row for each {of}.")
    dtype = np.float64 if array.dtype == np.float64 else np.float32
    return Vectors(
        pa.array(np.arange(len(array))), _convert_to_float32(array), f"{of}_id", ("embedding",), None, dtype, of
    )


def _read_safetensors_vectors(path: Path, of: str) -> Vectors:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} is not a whole safetensors file. Write it again.") from error
    tables = [name for name, tensor in tensors.items() if tensor.ndim == 2]
    name = "embedding" if "embedding" in tensors else tables[0] if len(tables) == 1 else None
    if name is None:
        raise DataError(
            f"{path} holds {len(tables)} tables among its tensors ({', '.join(sorted(tensors)) or 'none'}). Keep one, "
            f"or name the one that is meant 'embedding'."
        )
    key = f"{of}_id"
    table = tensors[name]
    vectors = _wrap_array((table.float() if table.itemsize < 4 else table).numpy(), path, of)
    ids = pa.array(tensors[key].numpy()) if key in tensors else vectors.ids
    return replace(vectors, ids=ids, columns=(name,), source=tensors)


def read_ids(path: Path, of: str) -> pa.Array:
    """The ids in a file, one for each row."""
    path = check_file(path)
    suffix = path.suffix.lower()
    if suffix == ".npy":
        return pa.array(_load_npy(path).ravel())
    if suffix == ".txt":
        try:
            lines = path.read_text(encoding="utf8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise describe_read_error(path, error) from error
        return narrow_column(pa.array(lines, pa.string()))
    table = read_rows(path)
    key = (
        table.column_names[0]
        if table.num_columns == 1
        else require_column(table, USER_NAMES if of == "user" else ITEM_NAMES, path)
    )
    return _combine_chunks(table.column(key))


def _combine_chunks(given: pa.ChunkedArray) -> pa.Array:
    return given.combine_chunks() if given.num_chunks != 1 else given.chunk(0)


def _convert_to_float32(x: NDArray[Any]) -> NDArray[np.float32]:
    # A number too large for 32 bits becomes infinite here, and is refused with the other infinite ones.
    with np.errstate(over="ignore"):
        return x.astype(np.float32)


def replace_vectors(vectors: Vectors, x: FloatArray) -> pa.Table:
    """The table the vectors came in, or a new one, with `x` in place of the old vectors."""
    table = vectors.source if isinstance(vectors.source, pa.Table) else pa.table({vectors.key: vectors.ids})
    if vectors.columns[0] == "emb_0":
        new = {name: pa.array(x[:, j]) for j, name in enumerate(vectors.columns)}
    else:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), x.shape[1])
        new = {"embedding": lists}
        kind = table.schema.field("embedding").type if "embedding" in table.column_names else lists.type
        if pa.types.is_list(kind) or pa.types.is_large_list(kind):
            make = pa.list_ if pa.types.is_list(kind) else pa.large_list
            new = {"embedding": lists.cast(make(lists.type.value_type))}
    for name, array in new.items():
        place = table.schema.get_field_index(name)
        table = table.append_column(name, array) if place < 0 else table.set_column(place, name, array)
    return table


def _write_text(path: str | Path, table: pa.Table, delimiter: str) -> None:
    place = table.schema.get_field_index("embedding")
    if place >= 0:
        numbers = table.column(place).cast(pa.list_(pa.string()))
        text = pc.binary_join_element_wise("[", pc.binary_join(numbers, ", "), "]", "")
        table = table.set_column(place, "embedding", text)
    nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if nested:
        raise UsageError(f"The column '{nested[0]}' cannot be written to the text file {path}. Write .parquet instead.")
    # Quotes are customary between commas, not between tabs.
    style = "needed" if delimiter == "," else "none"
    options = pyarrow.csv.WriteOptions(delimiter=delimiter, quoting_style=style, include_header=False)
    with write_atomically(path) as temporary, temporary.open("wb") as file:
        file.write(_format_header(table.column_names, delimiter))
        try:
            pyarrow.csv.write_csv(table, file, options)
        except pa.ArrowInvalid as error:
            raise UsageError(f"{path} cannot hold this table ({error}). Write .parquet instead.") from error


def _format_header(names: list[str], delimiter: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def _write_safetensors(path: str | Path, vectors: Vectors, x: FloatArray) -> None:
    from safetensors.torch import save_file

    tensors = dict(vectors.source) if isinstance(vectors.source, Mapping) else {}
    if isinstance(vectors.source, pa.Table):
        tensors[f"{vectors.of}_id"] = torch.tensor(vectors.ids.to_numpy())
    tensors["embedding" if isinstance(vectors.source, pa.Table) else vectors.columns[0]] = torch.tensor(x)
    with write_atomically(path) as temporary:
        save_file(tensors, temporary)
