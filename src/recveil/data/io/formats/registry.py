"""All formats, found by the ending of a path."""

from __future__ import annotations

from pathlib import Path

from recveil.core.errors import DataError
from recveil.data.io.formats import delimited, feather, hdf5, json_lines, keras, npy, npz, parquet, pytorch, safetensors
from recveil.data.io.formats import word2vec as word2vec_text
from recveil.data.io.formats.format_types import PACKED_ENDINGS, ArrayFormat, TableFormat

__all__ = ["FORMATS", "PARQUET_ENDINGS", "find_format", "get_ending", "is_typed_table", "list_endings"]

FORMATS: tuple[TableFormat | ArrayFormat, ...] = (
    parquet.FORMAT,
    feather.FORMAT,
    *delimited.FORMATS,
    json_lines.FORMAT,
    word2vec_text.FORMAT,
    npy.FORMAT,
    npz.FORMAT,
    safetensors.FORMAT,
    pytorch.FORMAT,
    hdf5.FORMAT,
    keras.FORMAT,
)
PARQUET_ENDINGS = parquet.FORMAT.endings
_BY_ENDING = {ending: file_format for file_format in FORMATS for ending in file_format.endings}


def get_ending(path: Path) -> str:
    """Return the ending that names the format, in lower case: ".csv" of "users.csv.gz"."""
    endings = [ending.lower() for ending in path.suffixes]
    is_packed = len(endings) > 1 and endings[-1] in PACKED_ENDINGS
    return endings[-2] if is_packed else "".join(endings[-1:])


def find_format(path: Path) -> TableFormat | ArrayFormat:
    """Find the format of a file by its ending; a .txt file may hold word2vec vectors.

    Raises:
        DataError: the ending is unknown, or a format that cannot be packed is.
    """
    file_format = _BY_ENDING.get(get_ending(path))
    if file_format is not None and get_ending(path) == ".txt" and path.is_file() and word2vec_text.is_word2vec(path):
        return word2vec_text.FORMAT
    is_packed = path.suffix.lower() in PACKED_ENDINGS
    if file_format is None or (is_packed and not (isinstance(file_format, TableFormat) and file_format.packs)):
        raise DataError(f"Cannot tell what {path} is. Known endings: {', '.join(list_endings())}.")
    return file_format


def list_endings(*, written: bool = False) -> list[str]:
    """List the endings of files that can be read, or of those that can be written."""
    readers = {ending for ending, each in _BY_ENDING.items() if isinstance(each, TableFormat) and each.write is None}
    return [ending for ending in _BY_ENDING if not (written and ending in readers)]


def is_typed_table(path: Path) -> bool:
    """Tell whether the ending is that of a table whose numbers have a type."""
    file_format = _BY_ENDING.get(get_ending(path))
    return isinstance(file_format, TableFormat) and file_format.keeps_types
