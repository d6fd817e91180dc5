"""Tables of vectors written back in the form in which they came."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import torch

from recveil.core.errors import UsageError
from recveil.core.files import check_output_file, write_atomically
from recveil.core.types import FloatArray
from recveil.data.io.vectors import PARQUET_SUFFIXES, TEXT_DELIMITERS, Vectors, replace_vectors

__all__ = ["check_vector_output", "write_embeddings"]

BLOCK_ROWS = 8_192
"""Rows that are formatted as text at once."""


def write_embeddings(path: str | Path, vectors: Vectors, x: FloatArray) -> None:
    """Write `x` in place of the vectors; rows, ids and other columns stay.

    The file appears whole or not at all.

    Args:
        path: file to write; its suffix chooses the format.
        vectors: the table as it was read.
        x: the new vectors, of the same shape.

    Raises:
        UsageError: the shape differs, or the format cannot hold the table.
    """
    if x.shape != vectors.x.shape:
        raise UsageError(
            f"The new vectors have the shape {x.shape}. It must be that of the old ones, {vectors.x.shape}."
        )
    suffix = check_vector_output(path, vectors).suffix.lower()
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
        table = replace_vectors(vectors, x.astype(np.float32))
        _write_text(path, table, vectors.text, TEXT_DELIMITERS[suffix])


def check_vector_output(path: str | Path, vectors: Vectors) -> Path:
    """Return the path if these vectors can be written there.

    Raises:
        UsageError: the format is unknown or would lose the ids.
    """
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


def _write_text(path: str | Path, table: pa.Table, text: pa.Table | None, delimiter: str) -> None:
    """Write a table as text; columns that were read from text are written as they were."""
    place = table.schema.get_field_index("embedding")
    if place >= 0:
        numbers = table.column(place).cast(pa.list_(pa.string()))
        lists = pc.binary_join_element_wise("[", pc.binary_join(numbers, ", "), "]", "")
        table = table.set_column(place, "embedding", lists)
    nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if nested:
        raise UsageError(f"The column '{nested[0]}' cannot be written to the text file {path}. Write .parquet instead.")
    original = {} if text is None else {name: text.column(name) for name in text.column_names}
    columns = pa.table({name: original.get(name, table.column(name)) for name in table.column_names})
    with write_atomically(path) as temporary, temporary.open("wb") as file:
        file.write(_format_header(table.column_names, delimiter))
        for start in range(0, columns.num_rows, BLOCK_ROWS):
            try:
                file.write(_format_rows(columns.slice(start, BLOCK_ROWS), delimiter))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                reason = str(error).splitlines()[0]
                raise UsageError(f"{path} cannot hold this table ({reason}). Write .parquet instead.") from error


def _format_rows(rows: pa.Table, delimiter: str) -> bytes:
    cells = [_format_cells(rows.column(name).cast(pa.string()), delimiter) for name in rows.column_names]
    lines = pc.binary_join_element_wise(*cells, delimiter, null_handling="replace", null_replacement="")
    return "".join(f"{line}\n" for line in lines.to_pylist()).encode()


def _format_cells(cells: pa.ChunkedArray, delimiter: str) -> pa.ChunkedArray:
    """Put cells in quotes that could not be read back without; between tabs there are no quotes."""
    if delimiter == "\t":
        if pc.any(pc.match_substring_regex(cells, "[\t\r\n]"), min_count=0).as_py():
            raise pa.ArrowInvalid("a cell holds a tab or a line end")
        return cells
    special = pc.match_substring_regex(cells, '["\r\n' + delimiter + "]")
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(cells, '"', '""'), '"', "")
    return pc.if_else(special, quoted, cells)


def _format_header(names: list[str], delimiter: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(names)
    return line.getvalue().encode()


def _write_safetensors(path: str | Path, vectors: Vectors, x: FloatArray) -> None:
    from safetensors.torch import save_file

    tensors = dict(vectors.source) if isinstance(vectors.source, Mapping) else {}
    if isinstance(vectors.source, pa.Table):
        tensors[f"{vectors.owner}_id"] = torch.tensor(vectors.ids.to_numpy())
    tensors["embedding" if isinstance(vectors.source, pa.Table) else vectors.columns[0]] = torch.tensor(x)
    with write_atomically(path) as temporary:
        save_file(tensors, temporary)
