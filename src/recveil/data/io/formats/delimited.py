"""CSV and TSV files, and the atomic files of RecBole. Cells that are not vectors are written as they were spelled."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from recveil.core.errors import UsageError
from recveil.data.io.formats.format_types import TableFormat
from recveil.data.io.text import detect_delimiter, open_for_writing, read_delimited, read_line_form

__all__ = ["FORMATS", "read_csv", "read_tsv"]

BLOCK_ROWS = 8_192
"""Rows that are formatted as text at once."""

_TYPED_NAME = re.compile(r"^(.+):(token|token_seq|float|float_seq)$")


def read_csv(path: Path, *, encoding: str = "utf8") -> pa.Table:
    """Read a file delimited by commas, semicolons or tabs, as text."""
    return read_delimited(path, delimiter=detect_delimiter(path, encoding), encoding=encoding)


def read_tsv(path: Path, *, encoding: str = "utf8") -> pa.Table:
    """Read a file delimited by tabs, as text; types in the header of an atomic file are removed."""
    table = read_delimited(path, delimiter="\t", encoding=encoding)
    if all(_TYPED_NAME.match(name) for name in table.column_names):
        table = table.rename_columns([name.rsplit(":", 1)[0] for name in table.column_names])
    return table


def _write_csv(path: Path, table: pa.Table, original: Path | None) -> None:
    _write_delimited(path, table, "," if original is None else detect_delimiter(original, "utf8"), original)


def _write_tsv(path: Path, table: pa.Table, original: Path | None) -> None:
    _write_delimited(path, table, "\t", original)


def _write_delimited(path: Path, table: pa.Table, delimiter: str, original: Path | None) -> None:
    """Write a table whose vectors are text already, with the first mark and the line ends of the original."""
    mark, end = ("", "\n") if original is None else read_line_form(original)
    nested = [field.name for field in table.schema if pa.types.is_nested(field.type)]
    if nested:
        raise UsageError(f"The column '{nested[0]}' cannot be written to a text file. Write .parquet instead.")
    with open_for_writing(path) as file:
        file.write(mark.encode() + _format_header(table.column_names, delimiter, end))
        for start in range(0, table.num_rows, BLOCK_ROWS):
            try:
                file.write(_format_rows(table.slice(start, BLOCK_ROWS), delimiter, end))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                reason = str(error).splitlines()[0]
                raise UsageError(f"A text file cannot hold this table ({reason}). Write .parquet instead.") from error


def _format_rows(rows: pa.Table, delimiter: str, end: str) -> bytes:
    cells = [_format_cells(rows.column(name).cast(pa.string()), delimiter) for name in rows.column_names]
    lines = pc.binary_join_element_wise(*cells, delimiter, null_handling="replace", null_replacement="")
    return "".join(f"{line}{end}" for line in lines.to_pylist()).encode()


def _format_cells(cells: pa.ChunkedArray, delimiter: str) -> pa.ChunkedArray:
    """Put cells in quotes that could not be read back without; between tabs there are no quotes."""
    if delimiter == "\t":
        if pc.any(pc.match_substring_regex(cells, "[\t\r\n]"), min_count=0).as_py():
            raise pa.ArrowInvalid("a cell holds a tab or a line end")
        return cells
    special = pc.match_substring_regex(cells, '["\r\n' + delimiter + "]")
    quoted = pc.binary_join_element_wise('"', pc.replace_substring(cells, '"', '""'), '"', "")
    return pc.if_else(special, quoted, cells)


def _format_header(names: list[str], delimiter: str, end: str) -> bytes:
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator=end).writerow(names)
    return line.getvalue().encode()


FORMATS = (
    TableFormat("CSV", (".csv",), read_csv, _write_csv, is_text=True, packs=True),
    TableFormat("TSV", (".tsv", ".tab"), read_tsv, _write_tsv, is_text=True, packs=True),
    TableFormat("RecBole atomic", (".inter", ".user", ".item", ".txt"), read_tsv, None, is_text=True, packs=True),
)
