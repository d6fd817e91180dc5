"""Headers and levels of Parquet data pages: enough of the format to tell pages of plain vectors from others.

Headers are Thrift structs in the compact protocol. Levels are runs: the same level many times, or single bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["OtherPageError", "PageHeader", "holds_full_lists", "is_single_run", "read_page_header"]

DATA_PAGE, PLAIN, RUNS = 0, 0, 3
"""Numbers of the page type and of the encodings in the format."""

INTEGERS, BYTES, STRUCT = (4, 5, 6), 8, 12
"""Types of fields in the compact protocol."""

MAX_RUNS = 1_000
"""Runs that are decoded until they repeat; lists of any length repeat after far fewer."""


class OtherPageError(Exception):
    """Raised for a page that is not one of plain vectors of one size; Arrow reads it instead."""


@dataclass(frozen=True)
class PageHeader:
    """Header of a page of plain numbers.

    Attributes:
        length: bytes of the header.
        compressed_size: bytes of the page in the file.
        uncompressed_size: bytes of the page.
        n_values: numbers in the page.
    """

    length: int
    compressed_size: int
    uncompressed_size: int
    n_values: int


def read_page_header(data: bytes) -> PageHeader:
    """Read the header that the bytes begin with.

    Raises:
        OtherPageError: it is not that of a page of plain numbers (of the first version of the format).
    """
    try:
        fields, end = _read_struct(data, 0)
        page = fields[5]
        if fields[1] != DATA_PAGE or [page[2], page[3], page[4]] != [PLAIN, RUNS, RUNS]:
            raise OtherPageError
        return PageHeader(end, fields[3], fields[2], page[1])
    except (IndexError, KeyError, TypeError) as error:
        raise OtherPageError from error


def is_single_run(levels: bytes, n_values: int, level: int) -> bool:
    """Tell whether the levels are one run of this level, of at least so many values."""
    try:
        count, at = _read_number(levels, 0)
        return not count & 1 and count >> 1 >= n_values and levels[at:] == bytes([level])
    except IndexError:
        return False


def holds_full_lists(levels: bytes, n_values: int, d: int, first: int) -> bool:
    """Tell whether repetition levels start a list at every d-th value and nowhere else.

    The runs are decoded until they come back to the start of a list; from there on they repeat.

    Args:
        levels: encoded levels.
        n_values: number of values.
        d: values of each list.
        first: place in its list of the first value.
    """
    at = done = 0
    starts: list[tuple[int, int]] = []  # bytes and values that were read where a run ends with a list
    for _ in range(MAX_RUNS):
        if done >= n_values:
            return True
        if (first + done) % d == 0:
            starts.append((at, done))
            if len(starts) == 2:
                at, done = _skip_repeats(levels, starts[0], starts[1], n_values)
                starts = [(at, done)]
                if done >= n_values:
                    return True
        try:
            at, size, is_expected = _check_run(levels, at, n_values - done, (first + done) % d, d)
        except IndexError:
            return False
        if not is_expected:
            return False
        done += size
    return False


def _skip_repeats(levels: bytes, start: tuple[int, int], end: tuple[int, int], n_values: int) -> tuple[int, int]:
    """Return the bytes and values read once the runs between two places no longer repeat."""
    size, count = end[0] - start[0], end[1] - start[1]
    rest = np.frombuffer(levels, np.uint8)[end[0] :]
    whole = rest[: len(rest) // size * size].reshape(-1, size)
    same = (whole == np.frombuffer(levels[start[0] : end[0]], np.uint8)).all(axis=1)
    n = len(same) if same.all() else int(same.argmin())
    n = min(n, (n_values - end[1]) // count)
    return end[0] + n * size, end[1] + n * count


def _check_run(levels: bytes, at: int, limit: int, place: int, d: int) -> tuple[int, int, bool]:
    """Return where a run ends, how many values it has, and whether lists start where they should.

    Args:
        levels: encoded levels.
        at: first byte of the run.
        limit: values that count; bits after them are filling.
        place: place in its list of the first value.
        d: values of each list.
    """
    header, at = _read_number(levels, at)
    if not header & 1:
        size, level = header >> 1, levels[at]
        starts_list = level == 0 and (d == 1 or (place == 0 and size == 1))
        return at + 1, size, size > 0 and (starts_list or (level == 1 and 0 < place <= d - size))
    end = at + (header >> 1)
    if end > len(levels) or end == at:
        raise IndexError
    bits = np.unpackbits(np.frombuffer(levels[at:end], np.uint8), bitorder="little")[:limit]
    starts = (place + np.arange(len(bits))) % d == 0
    return end, len(bits), bool((bits != starts).all())


def _read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Read integers and structs of a struct by their numbers; other fields are refused or skipped."""
    fields, number = dict[int, Any](), 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        number, at = (number + step, at + 1) if step else _read_field_number(data, at + 1)
        if kind in (1, 2):  # truth values are part of the type
            continue
        if kind in INTEGERS:
            coded, at = _read_number(data, at)
            fields[number] = coded >> 1 ^ -(coded & 1)
        elif kind == BYTES:
            length, at = _read_number(data, at)
            at += length
        elif kind == STRUCT:
            fields[number], at = _read_struct(data, at)
        else:
            raise OtherPageError
    return fields, at + 1


def _read_field_number(data: bytes, at: int) -> tuple[int, int]:
    coded, at = _read_number(data, at)
    return coded >> 1 ^ -(coded & 1), at


def _read_number(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned number of variable length, and return where it ends."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
