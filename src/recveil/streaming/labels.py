"""Classes of the rows of a large table, from columns of the table itself or from another file.

The distinct values of the columns are counted first, in a pass over these columns alone, and turned into classes by the
same code as in memory. The classes of all targets together make a cell, a number from 0 (all unknown).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.types import UNDISCLOSED, Attribute, IntArray
from recveil.data.io.attributes import make_attributes
from recveil.data.io.tables import USER_NAMES, require_column
from recveil.data.io.vectors import PARQUET_SUFFIXES, read_rows
from recveil.streaming.block_table import Table
from recveil.streaming.id_hashes import Hashes, hash_ids
from recveil.streaming.parquet_parts import list_part_files, open_parquet, read_batches

__all__ = ["AttributeSource", "Labels", "Target", "count_values", "build_labels", "merge_values"]

MAX_DISTINCT_VALUES = 1_000_000
"""Distinct combinations of values."""

MAX_CELLS = 4_000
"""Combinations of classes."""

COUNT_COLUMN = "rows of this kind"
"""Column that counts rows in a table of distinct values."""


@dataclass(frozen=True)
class AttributeSource:
    """Where the attributes of a table are.

    Attributes:
        path: file or folder that holds them; None if the table itself does.
        names: columns of the targets.
        numeric: columns to be read as numbers.
        bins: cut points that turn numbers into classes.
    """

    path: Path | None
    names: tuple[str, ...]
    numeric: Sequence[str] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Target:
    """One attribute of a large table.

    Attributes:
        name: its column.
        labels: its classes.
        values: distinct values of the column.
        codes: class of each distinct value, -1 if undisclosed.
    """

    name: str
    labels: tuple[str, ...]
    values: pa.Array
    codes: IntArray

    def encode_values(self, values: pa.Array | pa.ChunkedArray) -> IntArray:
        """Return the class of each value."""
        place = pc.fill_null(pc.index_in(_decode_dictionary(values), value_set=self.values), -1)
        codes: IntArray = np.append(self.codes, UNDISCLOSED)[np.asarray(place)]
        return codes


@dataclass(frozen=True, eq=False)
class CellLookup:
    """The cells of users by id, at ten bytes for each user.

    Attributes:
        hashes: sorted hashes of the ids.
        cells: cell of each id.
        text: ids are hashed as text.
    """

    hashes: Hashes
    cells: NDArray[np.int16]
    text: bool

    def find_cells(self, ids: pa.Array, where: str | Path) -> NDArray[np.int16]:
        """Find the cell of each id; 0 (all unknown) for an id that is missing."""
        hashes = hash_ids(ids, where, text=self.text)
        place = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[place] == hashes, self.cells[place], 0).astype(np.int16)


@dataclass(frozen=True, eq=False)
class Labels:
    """The targets of a table, and the cells of its rows.

    Attributes:
        targets: the attributes.
        id_column: column of the user ids.
        notes: remarks for the reader of the numbers.
        lookup: cells by id, if the attributes are in another file.
    """

    targets: tuple[Target, ...]
    id_column: str
    notes: tuple[str, ...] = ()
    lookup: CellLookup | None = None

    @property
    def columns(self) -> list[str]:
        """Columns that determine the cell of a row."""
        return [target.name for target in self.targets] if self.lookup is None else [self.id_column]

    @property
    def shape(self) -> tuple[int, ...]:
        """For each target its number of classes plus one, for unknown."""
        return tuple(len(target.labels) + 1 for target in self.targets)

    @property
    def n_cells(self) -> int:
        """Number of possible cells."""
        return int(np.prod(self.shape))

    @property
    def codes(self) -> IntArray:
        """Class of each target in each cell, (n_cells, targets); -1 if unknown."""
        return np.stack(np.unravel_index(np.arange(self.n_cells), self.shape), axis=1).astype(np.int64) - 1

    def assign_cells(self, rows: pa.RecordBatch | pa.Table, where: str | Path) -> NDArray[np.int16]:
        """Return the cell of each row."""
        if self.lookup is not None:
            return self.lookup.find_cells(rows.column(self.id_column), where)
        return _encode_cells(self.targets, rows)

    def count_cells(self, values: pa.Table) -> IntArray:
        """Count the rows of each cell from counted values."""
        cells = _encode_cells(self.targets, values)
        return np.bincount(cells, np.asarray(values.column(COUNT_COLUMN)), self.n_cells).astype(np.int64)

    def count_classes(self, counts: IntArray) -> dict[str, dict[str, int]]:
        """Count the users of each class of each target, from those of the cells."""
        grid, axes = counts.reshape(self.shape), range(len(self.shape))
        per_target = [grid.sum(axis=tuple(a for a in axes if a != j))[1:] for j in axes]
        return {
            target.name: {label: int(n) for label, n in zip(target.labels, sizes, strict=True)}
            for target, sizes in zip(self.targets, per_target, strict=True)
        }

    def check_overlap(self, counts: IntArray, source: AttributeSource) -> None:
        """Refuse attributes that no row of the table has, since then the ids do not match."""
        if not counts[1:].sum():
            raise DataError(f"No user of the table has a known class in {source.path}. Use the same ids in both.")


def build_labels(table: Table, source: AttributeSource, values: pa.Table | None) -> Labels:
    """Build the classes of the targets.

    Args:
        table: the table.
        source: where the attributes are.
        values: distinct values counted in the table, if it holds the attributes.

    Returns:
        The labels.

    Raises:
        DataError: a target cannot be cut into classes, or an id occurs twice.
        UsageError: the targets have too many combinations of classes.
    """
    if values is not None:
        targets, notes = _build_targets(values, source)
        return Labels(targets, table.id_column, notes)
    assert source.path is not None
    key, key_type = _read_id_column(source.path, source.names)
    counted = None
    for rows in _read_columns(source.path, list(source.names)):
        piece = count_values(rows, source.names)
        counted = piece if counted is None else merge_values(counted, piece)
    assert counted is not None
    targets, notes = _build_targets(counted, source)
    id_type = table.schema.field(table.id_column).type if table.schema is not None else pa.int64()
    id_type = id_type if table.ids is None else table.ids.type
    # Numbers and texts are compared as texts, "7" being the user 7.
    text = not (_is_number(id_type) and _is_number(key_type))
    return Labels(targets, table.id_column, notes, _build_lookup(source, key, targets, text=text))


def _build_lookup(source: AttributeSource, key: str, targets: Sequence[Target], *, text: bool) -> CellLookup:
    """Read the cell of each user from a file of attributes."""
    assert source.path is not None
    hash_parts, cell_parts = [], []
    for rows in _read_columns(source.path, [key, *source.names]):
        hash_parts.append(hash_ids(rows.column(key), source.path, text=text))
        cell_parts.append(_encode_cells(targets, rows))
    hashes, cells = np.concatenate(hash_parts), np.concatenate(cell_parts)
    order = np.argsort(hashes)
    hashes, cells = hashes[order], cells[order]
    repeats = int((hashes[1:] == hashes[:-1]).sum())
    if repeats:
        raise DataError(f"{source.path} has {repeats} users more than once. Keep one row for each.")
    return CellLookup(hashes, cells, text)


def count_values(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> pa.Table:
    """Count the rows of each combination of values in these columns."""
    plain = pa.table({name: _decode_dictionary(rows.column(name)) for name in names})
    counted = plain.group_by(list(names)).aggregate([([], "count_all")])
    return counted.rename_columns([COUNT_COLUMN if name == "count_all" else name for name in counted.column_names])


def merge_values(first: pa.Table, second: pa.Table) -> pa.Table:
    """Add up two tables of counted values."""
    both = pa.concat_tables([first, second])
    names = [name for name in both.column_names if name != COUNT_COLUMN]
    total = both.group_by(names).aggregate([(COUNT_COLUMN, "sum")])
    if total.num_rows > MAX_DISTINCT_VALUES:
        raise DataError(
            f"{' and '.join(names)} have more than {MAX_DISTINCT_VALUES:,} distinct values. Name columns that hold "
            "classes, or round the numbers first."
        )
    return total.rename_columns(
        [COUNT_COLUMN if name == f"{COUNT_COLUMN}_sum" else name for name in total.column_names]
    )


def _build_targets(counted: pa.Table, source: AttributeSource) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    counts = np.asarray(counted.column(COUNT_COLUMN))
    values = counted.select(list(source.names))
    numeric = [name for name in source.numeric if name in source.names]
    bins = {name: edges for name, edges in source.bins.items() if name in source.names}
    attributes = make_attributes(values, numeric=numeric, bins=bins, keep=list(source.names))
    targets, notes = [], []
    for name in source.names:
        if attributes[name].is_numeric:
            raise DataError(
                f"Attribute '{name}' is a number, not a class. Cut it into classes by `bins`, as in {name}=35,45."
            )
        attribute, note = _merge_single_users(attributes[name], counts)
        notes += note
        distinct = values.column(name).combine_chunks().unique()
        first = np.asarray(pc.index_in(distinct, value_set=values.column(name).combine_chunks()))
        targets.append(Target(name, attribute.labels, distinct, attribute.codes[first]))
    cells = int(np.prod([len(target.labels) + 1 for target in targets]))
    if cells > MAX_CELLS:
        raise UsageError(f"The targets have {cells:,} combinations of classes. Name fewer; at most {MAX_CELLS:,} work.")
    return tuple(targets), tuple(notes)


def _merge_single_users(attribute: Attribute, counts: IntArray) -> tuple[Attribute, list[str]]:
    """Merge classes of one user into the class "rest", as in memory.

    A lone user cannot be hidden among others.
    """
    known = attribute.codes != UNDISCLOSED
    n = np.bincount(attribute.codes[known], counts[known], minlength=len(attribute.labels)).astype(np.int64)
    if len(n) < 2:
        same = f"is '{attribute.labels[0]}' for all {n[0]:,} users who disclose it" if len(n) else "is empty"
        raise DataError(f"The column '{attribute.name}' {same}; there is nothing to guess. Choose another target.")
    n_single = int((n < 2).sum())
    if not n_single:
        return attribute, []
    merged = np.sort(np.argsort(n, kind="stable")[: max(n_single, 2)])
    if len(n) - len(merged) + 1 < 2:
        raise DataError(f"'{attribute.name}' has no two classes of two users or more. Choose another target.")
    remaining = np.setdiff1d(np.arange(len(n)), merged[1:])
    new = np.searchsorted(remaining, np.where(np.isin(np.arange(len(n)), merged), merged[0], np.arange(len(n))))
    labels = tuple("rest" if k == merged[0] else attribute.labels[k] for k in remaining)
    names = ", ".join(f"'{attribute.labels[k]}'" for k in merged)
    note = (
        f"{attribute.name}: a class of one user cannot be protected alone. {names} were made one class, 'rest', of "
        f"{int(n[merged].sum())} users."
    )
    codes = np.append(new, UNDISCLOSED)[attribute.codes].astype(np.int64)
    return replace(attribute, codes=codes, labels=labels), [note]


def _encode_cells(targets: Sequence[Target], rows: pa.RecordBatch | pa.Table) -> NDArray[np.int16]:
    """Compute the cell of each row from the classes of its targets.

    The classes are digits of the number of the cell, those of the first target the most significant.
    """
    cell = np.zeros(len(rows), dtype=np.int16)
    for target in targets:
        cell = (cell * (len(target.labels) + 1) + target.encode_values(rows.column(target.name)) + 1).astype(np.int16)
    return cell


def _decode_dictionary(values: pa.Array | pa.ChunkedArray) -> Any:
    kind = values.type
    return values.cast(kind.value_type) if pa.types.is_dictionary(kind) else values


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _read_id_column(path: Path, names: Sequence[str]) -> tuple[str, pa.DataType]:
    """Read the name and type of the id column; the named columns must exist."""
    if path.is_dir() or path.suffix.lower() in PARQUET_SUFFIXES:
        with open_parquet(list_part_files(path)[0]) as file:
            schema = file.schema_arrow
    else:
        schema = read_rows(path).schema
    key = require_column(schema.empty_table(), USER_NAMES, path)
    for name in names:
        if name not in schema.names:
            raise unknown_name(f"attribute in {path}", name, [other for other in schema.names if other != key])
    kind = schema.field(key).type
    return key, kind.value_type if pa.types.is_dictionary(kind) else kind


def _read_columns(path: Path, columns: list[str]) -> Iterator[pa.RecordBatch | pa.Table]:
    """Read these columns of a file or folder of attributes, piece by piece."""
    if not path.is_dir() and path.suffix.lower() not in PARQUET_SUFFIXES:
        yield read_rows(path).select(columns)
        return
    for file in list_part_files(path):
        with open_parquet(file) as opened:
            groups = range(opened.num_row_groups)
        yield from read_batches(file, groups, columns, 1 << 20)
