"""Delimited text files, read as text and narrowed to numbers only if nothing is lost."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from recveil.core.errors import DataError

__all__ = [
    "cast_to_text",
    "check_file",
    "describe_read_error",
    "detect_delimiter",
    "narrow_column",
    "open_for_writing",
    "open_unpacked",
    "read_delimited",
    "read_first_line",
    "read_line_form",
]

log = logging.getLogger(__name__)

MAX_EXPANSION = 200
"""Size of an unpacked text file, in sizes of the packed one."""
MAX_UNPACKED_BYTES = 8 * 2**30
MIN_UNPACKED_BYTES = 64 * 2**20
"""Size up to which any packed text file is read."""

_CHUNK_BYTES = 1 << 20
_PACKED_SUFFIXES = (".gz", ".bz2")

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
    try:
        header = _read_header(path, delimiter, encoding) if names is None else list(names)
        # Arrow takes the types of columns by name, so a column without a name needs one.
        unique = [name or f"column {place} without a name" for place, name in enumerate(header)]
        with _open_source(path, delimiter) as (source, delimiter):
            table = pyarrow.csv.read_csv(
                source,
                pyarrow.csv.ReadOptions(column_names=unique, skip_rows=int(names is None), encoding=encoding),
                _build_parse_options(delimiter, skipped if skip_ragged else None),
                _build_convert_options(unique, only, types or {}),
            )
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        raise describe_read_error(path, error) from error
    if only is None:
        table = table.rename_columns(header)
    if skipped:
        log.warning("%s: left out %d rows with too many or too few fields.", path, len(skipped))
    return table


def _build_parse_options(delimiter: str, skipped: list[int] | None) -> pyarrow.csv.ParseOptions:
    """Build options that count ragged rows in `skipped`, or refuse them if there is no list."""

    def skip_row(row: Any) -> str:
        assert skipped is not None
        skipped.append(1)
        return "skip"

    # Rows are decoded for a handler, which prints a traceback where they are not UTF-8: there is one only if needed.
    handler = None if skipped is None else skip_row
    quote = _quote_character(delimiter)
    return pyarrow.csv.ParseOptions(delimiter=delimiter, quote_char=quote, invalid_row_handler=handler)


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


@contextmanager
def _open_source(path: Path, delimiter: str) -> Iterator[tuple[Any, str]]:
    if len(delimiter) == 1 and path.suffix.lower() not in _PACKED_SUFFIXES:
        yield path, delimiter
        return
    with open_unpacked(path) as stream:
        if len(delimiter) == 1:
            yield stream, delimiter
        else:
            # Arrow splits at one character only; the unit separator does not occur in text.
            yield io.BytesIO(stream.read().replace(delimiter.encode(), b"\x1f")), "\x1f"


@contextmanager
def open_unpacked(path: Path) -> Iterator[Any]:
    """Open a text file for reading; one packed as .gz or .bz2 is unpacked, up to a limit."""
    with pa.input_stream(str(path), compression="detect") as stream:
        yield _LimitedStream(stream, path) if path.suffix.lower() in _PACKED_SUFFIXES else stream


@contextmanager
def open_for_writing(path: Path) -> Iterator[IO[bytes]]:
    """Open a text file for writing, packed if its ending is .gz or .bz2; same content, same bytes."""
    ending = path.suffix.lower()
    with path.open("wb") as file:
        if ending == ".gz":
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif ending == ".bz2":
            with bz2.BZ2File(file, "wb") as packed_file:
                yield packed_file
        else:
            yield file


class _LimitedStream(io.RawIOBase):
    """A packed file that is refused when it unpacks to far more than its size."""

    def __init__(self, stream: Any, path: Path) -> None:
        self._stream, self._path, self._total = stream, path, 0
        self._limit = min(MAX_UNPACKED_BYTES, max(MIN_UNPACKED_BYTES, MAX_EXPANSION * path.stat().st_size))

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size:
            part: bytes = self._stream.read(min(size, _CHUNK_BYTES) if size > 0 else _CHUNK_BYTES)
            self._total += len(part)
            if self._total > self._limit:
                raise DataError(
                    f"{self._path} unpacks to more than {self._limit >> 20:,} MiB, {MAX_EXPANSION} times its size or "
                    "more than is allowed. Unpack it by hand if you trust it."
                )
            parts.append(part)
            size -= len(part)
            if not part:
                break
        return b"".join(parts)


def read_first_line(path: Path, encoding: str) -> str:
    """Read the first line of a text file, packed or not."""
    return _read_first_bytes(path).rstrip(b"\r").decode(encoding).removeprefix("\ufeff")


def read_line_form(path: Path) -> tuple[str, str]:
    """Read the byte order mark that a text file begins with, if any, and what its lines end with."""
    line = _read_first_bytes(path)
    return "\ufeff" if line.startswith(b"\xef\xbb\xbf") else "", "\r\n" if line.endswith(b"\r") else "\n"


def _read_first_bytes(path: Path) -> bytes:
    with pa.input_stream(str(path), compression="detect") as stream:
        return cast(bytes, stream.read(1 << 20).split(b"\n", 1)[0])


def _quote_character(delimiter: str) -> str | bool:
    return '"' if delimiter in (",", ";") else False


def _read_header(path: Path, delimiter: str, encoding: str) -> list[str]:
    line = read_first_line(path, encoding)
    if "\r" in line:
        raise DataError(f"{path} has a carriage return in its first line. Save it with line ends of Unix or Windows.")
    try:
        cells = (
            next(csv.reader([line], delimiter=delimiter), []) if _quote_character(delimiter) else line.split(delimiter)
        )
    except csv.Error as error:
        raise DataError(f"The first line of {path} does not name columns ({error}). Write their names there.") from None
    header = [cell.strip() for cell in cells]
    if not any(header):
        raise DataError(f"The first line of {path} is blank. It must name the columns.")
    return header


def detect_delimiter(path: Path, encoding: str) -> str:
    """Detect whether the first line is delimited by commas, tabs or semicolons."""
    try:
        line = read_first_line(path, encoding)
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise describe_read_error(path, error) from error
    return max(",\t;", key=line.count)


def cast_to_text(column: pa.ChunkedArray, name: str, source: str | Path) -> pa.ChunkedArray:
    """Convert a column to text.

    Args:
        column: the column.
        name: its name, for errors.
        source: its file or data set, for errors.

    Raises:
        DataError: it holds lists, or bytes that are no text.
    """
    try:
        return column.cast(pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise DataError(f"The {name} of {source} hold {column.type} that is no text. Write them as text.") from None


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
