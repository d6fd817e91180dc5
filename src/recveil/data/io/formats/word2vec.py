"""The text form of word2vec (gensim, fastText): two counts, then on each line an id and its numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from recveil.core.errors import DataError, UsageError
from recveil.data.io.formats.format_types import TableFormat
from recveil.data.io.text import describe_read_error, narrow_column, open_for_writing, open_unpacked, read_first_line

__all__ = ["FORMAT", "is_word2vec", "read_word2vec"]

ID_COLUMN, VECTOR_COLUMN = "id", "embedding"


def is_word2vec(path: Path) -> bool:
    """Tell whether the first line of a text file holds two counts and nothing else."""
    try:
        cells = read_first_line(path, "utf8").split(" ")
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException):
        return False
    return len([cell for cell in cells if cell]) == 2 and all(cell.isdecimal() for cell in cells if cell)


def read_word2vec(path: Path) -> pa.Table:
    """Read the ids and vectors.

    Raises:
        DataError: a line has too many or too few numbers, or the counts of the first line are wrong.
    """
    try:
        with open_unpacked(path) as stream:
            lines = stream.read().decode("utf8").splitlines()
    except (OSError, EOFError, UnicodeDecodeError, pa.ArrowException) as error:
        raise describe_read_error(path, error) from error
    if not is_word2vec(path):
        raise DataError(f"The first line of {path} is not the count of vectors and their length. Write both there.")
    rows, d = (int(cell) for cell in lines[0].split())
    cells = [line.split() for line in lines[1:] if line.strip()]
    uneven = [place for place, line in enumerate(cells) if len(line) != d + 1]
    if uneven or len(cells) != rows or not d:
        where = f"line {uneven[0] + 2} has {len(cells[uneven[0]]) - 1} numbers" if uneven else f"{len(cells)} follow"
        raise DataError(f"{path} announces {rows} vectors of {d} numbers, and {where}. Write the file again.")
    try:
        numbers = np.array([line[1:] for line in cells], dtype=np.float32).reshape(rows, d)
    except ValueError as error:
        raise DataError(f"{path} holds something that is not a number ({error}). Correct or remove it.") from None
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(numbers.ravel()), d)
    ids = narrow_column(pa.chunked_array([pa.array([line[0] for line in cells], pa.string())]))
    return pa.table({ID_COLUMN: ids, VECTOR_COLUMN: vectors})


def _write_word2vec(path: Path, table: pa.Table, original: Path | None) -> None:
    """Write a table of one column of ids and one of vectors."""
    lists = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    others = [name for name in table.column_names if name not in lists]
    if len(lists) != 1 or len(others) != 1:
        raise UsageError(
            f"A word2vec file holds ids and vectors alone, and the table has the columns "
            f"{', '.join(table.column_names[:12])}. Write .parquet instead."
        )
    ids = table.column(others[0]).cast(pa.string()).to_pylist()
    if any(not name or any(letter.isspace() for letter in name) for name in ids):
        raise UsageError("A word2vec file cannot hold ids with spaces. Write .parquet instead.")
    x = np.stack(table.column(lists[0]).to_numpy())
    with open_for_writing(path) as file:
        file.write(f"{x.shape[0]} {x.shape[1]}\n".encode())
        for name, row in zip(ids, x.astype(np.float32), strict=True):
            file.write(f"{name} {' '.join(map(str, row))}\n".encode())


FORMAT = TableFormat(
    "word2vec text", (".w2v", ".word2vec", ".vec"), read_word2vec, _write_word2vec, packs=True, id_column=ID_COLUMN
)
