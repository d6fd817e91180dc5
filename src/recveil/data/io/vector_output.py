"""Tables of vectors written back in the form in which they came."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.extras import import_extra
from recveil.core.files import check_output_file, write_atomically
from recveil.core.types import FloatArray
from recveil.data.io.formats.format_types import ArrayFormat, TableFormat, cast_vectors
from recveil.data.io.formats.registry import find_format, get_ending, list_endings
from recveil.data.io.vector_columns import is_list
from recveil.data.io.vectors import Vectors, replace_vectors

__all__ = ["check_vector_output", "write_embeddings"]


def write_embeddings(path: str | Path, vectors: Vectors, x: FloatArray) -> None:
    """Write `x` in place of the vectors; rows, ids, other columns and the type of the numbers stay.

    The file appears whole or not at all.

    Args:
        path: file to write; its ending chooses the format.
        vectors: the table as it was read.
        x: the new vectors, of the same shape.

    Raises:
        UsageError: the shape differs, or the format cannot hold the table.
    """
    if x.shape != vectors.x.shape:
        raise UsageError(
            f"The new vectors have the shape {x.shape}. It must be that of the old ones, {vectors.x.shape}."
        )
    path = check_vector_output(path, vectors)
    file_format = _find_output_format(path, vectors)
    original = vectors.path if _is_same_form(file_format, vectors) else None
    with write_atomically(path) as temporary:
        if isinstance(file_format, ArrayFormat):
            dropped = vectors.dropped if original is not None else ()
            arrays = _collect_arrays(vectors, x, file_format, is_copy=original is not None)
            file_format.write_arrays(temporary, arrays, original=original, dropped=dropped)
        else:
            assert file_format.write is not None, "checked before"
            file_format.write(temporary, _make_table(vectors, x, file_format), original)


def check_vector_output(path: str | Path, vectors: Vectors) -> Path:
    """Return the path if these vectors can be written there.

    Raises:
        UsageError: the format is unknown or would lose the ids.
        MissingExtra: an optional package is needed for it.
    """
    path = check_output_file(path)
    try:
        file_format = _find_output_format(path, vectors)
    except DataError:
        raise UsageError(f"Cannot tell how to write {path}. Use {', '.join(list_endings(written=True))}.") from None
    if isinstance(file_format, TableFormat):
        if file_format.write is None:
            raise UsageError(f"{file_format.name} files are read and not written. Write {path.stem}.parquet instead.")
        return path
    if file_format.package:
        import_extra(file_format.package, "hdf5", f"write {path}")
    if file_format.needs_original and not _is_same_form(file_format, vectors):
        raise UsageError(f"{path} would be a {file_format.name} file, and the input is none. Write .parquet instead.")
    if vectors.holds_ids and not file_format.holds_ids:
        raise UsageError(
            f"A {path.suffix} file cannot hold the ids, so {path} would lose them. Write .parquet instead."
        )
    if vectors.holds_ids and not _fits_ids(file_format, vectors):
        raise UsageError(
            f"A {file_format.name} file cannot hold ids that are text, so {path} would lose them. Write .parquet."
        )
    return path


def _find_output_format(path: Path, vectors: Vectors) -> TableFormat | ArrayFormat:
    """Find the format of an output; a .txt file has that of the input if it is one as well."""
    if vectors.path is not None and get_ending(path) == get_ending(vectors.path) == ".txt":
        return find_format(vectors.path)
    return find_format(path)


def _is_same_form(file_format: TableFormat | ArrayFormat, vectors: Vectors) -> bool:
    return vectors.path is not None and find_format(vectors.path) is file_format


def _fits_ids(file_format: ArrayFormat, vectors: Vectors) -> bool:
    return file_format.holds_ids and (file_format.holds_text or pa.types.is_integer(vectors.ids.type))


def _collect_arrays(
    vectors: Vectors, x: FloatArray, file_format: ArrayFormat, *, is_copy: bool
) -> dict[str, NDArray[Any]]:
    """Collect what is written: the vectors of a copy, or vectors and ids of a new file."""
    if is_copy:
        return {vectors.columns[0]: x}
    arrays = {"embedding": cast_vectors(x, np.dtype(vectors.dtype))}
    if not _fits_ids(file_format, vectors):
        return arrays
    ids = vectors.ids.to_numpy(zero_copy_only=False)
    return {f"{vectors.owner}_id": ids if ids.dtype.kind in "iu" else ids.astype(str), **arrays}


def _make_table(vectors: Vectors, x: FloatArray, file_format: TableFormat) -> pa.Table:
    """Return the table with the new vectors; for a text file as it is spelled there."""
    dtype = np.dtype(vectors.dtype if file_format.keeps_types else np.float32)
    table = replace_vectors(vectors, cast_vectors(x, dtype))
    if not file_format.is_text:
        return table
    place = table.schema.get_field_index(vectors.columns[0] if vectors.source is not None else "embedding")
    if is_list(table.schema.field(place).type):
        numbers = table.column(place).cast(pa.list_(pa.string()))
        lists = pc.binary_join_element_wise("[", pc.binary_join(numbers, ", "), "]", "")
        table = table.set_column(place, table.schema.field(place).name, lists)
    original = {} if vectors.text is None else {name: vectors.text.column(name) for name in vectors.text.column_names}
    return pa.table({name: original.get(name, table.column(name)) for name in table.column_names})
