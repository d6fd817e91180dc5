"""Delimited text files, read as text and narrowed to numbers only if nothing is lost."""

from __future__ import annotations

import csv
import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recveil.core.errors import DataError

__all__ = [
    "check_file",
    "describe_read_error",
    "detect_delimiter",
    "narrow_column",
    "read_delimited",
    "read_first_line",
]

log = logging.getLogger(__name__)

_WHOLE_NUMBER = r"^(0|-?[1-9][0-9]*)$"
_DECIMAL_NUMBER = r"^(-?(0|[1-9][0-9]*)(\.[0-9]*)?([eE][-+]?[0-9]+)?|[nN]a[nN])$"


def read_delimited(
    path: Path,
    *,
    delimiter: str,
    names: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    types: Mapping[str, Any] | None = None,
    encoding: str = "utf8",
    skip_ragged: bool = False,
) -> pa.Table:
    """Read a delimited text file, as text unless `types` says otherwise.

    Empty fields are null. Double quotes are removed only if the delimiter is a comma or a semicolon.

    Args:
        path: the file; .gz and .bz2 are unpacked.
        delimiter: separator of fields, one character or more.
        names: column names of a file without a header line.
        only: the columns to keep.
        types: Arrow types of columns that are not text.
        encoding: encoding of the file.
        skip_ragged: drop rows with too many or too few fields and log their number, instead of raising an error.

    Raises:
        DataError: the file is missing, empty or cannot be read.
    """
    path = check_file(path)
    skipped: list[int] = []

    def handle_ragged_row(row: Any) -> str:
        skipped.append(1)
        return "skip" if skip_ragged else "error"

    try:
        header = _read_header(path, delimiter, encoding) if names is None else list(names)
        source, delimiter = _open_source(path, delimiter)
        table = pyarrow.csv.read_csv(
            source,
            read_options=pyarrow.csv.ReadOptions(column_names=header, skip_rows=int(names is None), encoding=encoding),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=delimiter, quote_char=_quote_character(delimiter), invalid_row_handler=handle_ragged_row
            ),
            convert_options=_build_convert_options(header, only, types or {}),
        )
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise describe_read_error(path, error) from error
    if skipped:
        log.warning("%s: left out %d rows with too many or too few fields.", path, len(skipped))
    return table


def _build_convert_options(
    header: Sequence[str], only: Sequence[str] | None, types: Mapping[str, Any]
) -> pyarrow.csv.ConvertOptions:
    return pyarrow.csv.ConvertOptions(
        column_types={name: types.get(name, pa.string()) for name in header},
        include_columns=list(only) if only is not None else None,
        null_values=[""],
        strings_can_be_null=True,
    )


def check_file(path: str | Path) -> Path:
    """Return the path of an existing file that is not empty, or raise an error."""
    path = Path(path)
    if path.is_dir():
        raise DataError(f"{path} is a folder. Name a file inside it.")
    if not path.is_file():
        raise DataError(f"There is no file {path}. Check the path.")
    if path.stat().st_size == 0:
        raise DataError(f"{path} is empty. Download or write it again.")
    return path


def describe_read_error(path: Path, error: Exception) -> DataError:
    """Describe why a file could not be read, as an error to raise."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "utf-8" in reason.lower() or "utf8" in reason.lower():
        return DataError(f"{path} is not UTF-8 text. Save it as UTF-8 and try again.")
    if isinstance(error, EOFError | OSError):
        return DataError(f"{path} cannot be read ({reason}). It may be truncated: download it again.")
    if isinstance(error, KeyError):
        return DataError(f"{path} lacks a column: {error.args[0]}. Take the official file, unchanged.")
    return DataError(
        f"{path} cannot be read as a table: {reason.rstrip('.')}. Correct that row or write the file again."
    )


def _open_source(path: Path, delimiter: str) -> tuple[Any, str]:
    if len(delimiter) == 1:
        return path, delimiter
    # Arrow splits at one character only; the unit separator does not occur in text.
    with pa.input_stream(str(path), compression="detect") as stream:
        return io.BytesIO(stream.read().replace(delimiter.encode(), b"\x1f")), "\x1f"


def read_first_line(path: Path, encoding: str) -> str:
    """Read the first line of a text file, packed or not."""
    with pa.input_stream(str(path), compression="detect") as stream:
        line: bytes = stream.read(1 << 20).split(b"\n", 1)[0]
    return line.rstrip(b"\r").decode(encoding).removeprefix("\ufeff")


def _quote_character(delimiter: str) -> str | bool:
    return '"' if delimiter in (",", ";") else False


def _read_header(path: Path, delimiter: str, encoding: str) -> list[str]:
    line = read_first_line(path, encoding)
    if _quote_character(delimiter):
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    return [cell.strip() for cell in line.split(delimiter)]


def detect_delimiter(path: Path, encoding: str) -> str:
    """Detect whether the first line is delimited by commas, tabs or semicolons."""
    try:
        line = read_first_line(path, encoding)
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise describe_read_error(path, error) from error
    return max(",\t;", key=line.count)


def narrow_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert a column to numbers if every entry is a plain number.

    Entries with leading zeros, plus signs or more than 64 bits are ids or codes, and the column stays text.
    """
    for pattern, kind in ((_WHOLE_NUMBER, pa.int64()), (_DECIMAL_NUMBER, pa.float64())):
        if pc.all(pc.match_substring_regex(column, pattern), min_count=0).as_py():
            try:
                return column.cast(kind)
            except pa.ArrowInvalid:
                return column
    return column
