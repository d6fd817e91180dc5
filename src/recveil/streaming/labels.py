"""What is known of the rows of a large table: their classes, from columns of the table itself or from another one.

The distinct values of the columns are counted first (a pass over these columns alone) and made into classes by the same
code that does it in memory. All targets together make a cell: a number from 0, where nothing is known.
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
"""Distinct combinations of values that are looked at."""

MAX_CELLS = 4_000
"""Combinations of classes."""

COUNT_COLUMN = "rows of this kind"


@dataclass(frozen=True)
class AttributeSource:
    """Where the attributes stand (None: in the table itself), which are meant, and how numbers become classes."""

    path: Path | None
    names: tuple[str, ...]
    numeric: Sequence[str] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Target:
    """One attribute: its labels, and the class of each value that its column holds (-1 = undisclosed)."""

    name: str
    labels: tuple[str, ...]
    values: pa.Array
    codes: IntArray

    def encode_values(self, given: pa.Array | pa.ChunkedArray) -> IntArray:
        """The class of each row."""
        place = pc.fill_null(pc.index_in(_decode_dictionary(given), value_set=self.values), -1)
        codes: IntArray = np.append(self.codes, UNDISCLOSED)[np.asarray(place)]
        return codes


@dataclass(frozen=True, eq=False)
class CellLookup:
    """The cells of users by their ids: ten bytes for each user of the attributes are held in memory."""

    hashes: Hashes
    cells: NDArray[np.int16]
    text: bool

    def find_cells(self, ids: pa.Array, where: str | Path) -> NDArray[np.int16]:
        """The cell of each id; 0, nothing known, for one that is not there."""
        wanted = hash_ids(ids, where, text=self.text)
        place = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return np.where(self.hashes[place] == wanted, self.cells[place], 0).astype(np.int16)


@dataclass(frozen=True, eq=False)
class Labels:
    """The targets, and how the rows of the table find their cells."""

    targets: tuple[Target, ...]
    id_column: str
    notes: tuple[str, ...] = ()
    lookup: CellLookup | None = None

    @property
    def columns(self) -> list[str]:
        """What must be read of a row to know its cell."""
        return [target.name for target in self.targets] if self.lookup is None else [self.id_column]

    @property
    def shape(self) -> tuple[int, ...]:
        """For each target its classes, and one more for unknown."""
        return tuple(len(target.labels) + 1 for target in self.targets)

    @property
    def n_cells(self) -> int:
        """How many cells there could be."""
        return int(np.prod(self.shape))

    @property
    def codes(self) -> IntArray:
        """(n_cells, targets): the class of each target in each cell, -1 = unknown."""
        return np.stack(np.unravel_index(np.arange(self.n_cells), self.shape), axis=1).astype(np.int64) - 1

    def assign_cells(self, rows: pa.RecordBatch | pa.Table, where: str | Path) -> NDArray[np.int16]:
        """The cell of each row."""
        if self.lookup is not None:
            return self.lookup.find_cells(rows.column(self.id_column), where)
        return _encode_cells(self.targets, rows)

    def count_cells(self, values: pa.Table) -> IntArray:
        """How many rows each cell has, from the counted values."""
        return np.bincount(
            _encode_cells(self.targets, values), np.asarray(values.column(COUNT_COLUMN)), self.n_cells
        ).astype(np.int64)

    def count_classes(self, counts: IntArray) -> dict[str, dict[str, int]]:
        """For each target how many users each class has, from those of the cells."""
        grid, axes = counts.reshape(self.shape), range(len(self.shape))
        per_target = [grid.sum(axis=tuple(a for a in axes if a != j))[1:] for j in axes]
        return {
            target.name: {label: int(n) for label, n in zip(target.labels, found, strict=True)}
            for target, found in zip(self.targets, per_target, strict=True)
        }

    def check_overlap(self, counts: IntArray, facts: AttributeSource) -> None:
        """An error where no row of the table has a known class: then the ids do not match."""
        if not counts[1:].sum():
            raise DataError(f"No user of the table has a known class in {facts.path}. Write the ids alike in both.")


def build_labels(table: Table, facts: AttributeSource, values: pa.Table | None) -> Labels:
    """The classes of the targets; `values` are those counted in the table itself, where the facts stand in it."""
    if values is not None:
        targets, notes = _build_targets(values, facts, table.path)
        return Labels(targets, table.id_column, notes)
    assert facts.path is not None
    key, kinds = _read_id_column(facts.path, facts.names)
    counted = None
    for rows in _read_columns(facts.path, list(facts.names)):
        found = count_values(rows, facts.names)
        counted = found if counted is None else merge_values(counted, found)
    assert counted is not None
    targets, notes = _build_targets(counted, facts, facts.path)
    ids = table.schema.field(table.id_column).type if table.schema is not None else pa.int64()
    ids = ids if table.ids is None else table.ids.type
    text = not (_is_number(ids) and _is_number(kinds))
    found_ids, found_cells = [], []
    for rows in _read_columns(facts.path, [key, *facts.names]):
        found_ids.append(hash_ids(rows.column(key), facts.path, text=text))
        found_cells.append(_encode_cells(targets, rows))
    hashes, cells = np.concatenate(found_ids), np.concatenate(found_cells)
    order = np.argsort(hashes)
    hashes, cells = hashes[order], cells[order]
    twice = int((hashes[1:] == hashes[:-1]).sum())
    if twice:
        raise DataError(f"{facts.path} has {twice} users more than once. Keep one row for each.")
    return Labels(targets, table.id_column, notes, CellLookup(hashes, cells, text))


def count_values(rows: pa.RecordBatch | pa.Table, names: Sequence[str]) -> pa.Table:
    """How many rows have each combination of values in these columns."""
    plain = pa.table({name: _decode_dictionary(rows.column(name)) for name in names})
    counted = plain.group_by(list(names)).aggregate([([], "count_all")])
    return counted.rename_columns([COUNT_COLUMN if name == "count_all" else name for name in counted.column_names])


def merge_values(first: pa.Table, second: pa.Table) -> pa.Table:
    """The counts of both."""
    both = pa.concat_tables([first, second])
    names = [name for name in both.column_names if name != COUNT_COLUMN]
    total = both.group_by(names).aggregate([(COUNT_COLUMN, "sum")])
    if total.num_rows > MAX_DISTINCT_VALUES:
        raise DataError(
            f"{' and '.join(names)} have more than {MAX_DISTINCT_VALUES:,} different values. Name columns that hold classes, "
            "or round the numbers before they are cut."
        )
    return total.rename_columns(
        [COUNT_COLUMN if name == f"{COUNT_COLUMN}_sum" else name for name in total.column_names]
    )


def _build_targets(
    counted: pa.Table, facts: AttributeSource, where: Path
) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    counts = np.asarray(counted.column(COUNT_COLUMN))
    values = counted.select(list(facts.names))
    numeric = [name for name in facts.numeric if name in facts.names]
    bins = {name: edges for name, edges in facts.bins.items() if name in facts.names}
    attributes = make_attributes(values, numeric=numeric, bins=bins, keep=list(facts.names))
    targets, notes = [], []
    for name in facts.names:
        if attributes[name].is_numeric:
            raise DataError(
                f"Attribute '{name}' is a number, not a class. Cut it into classes, as in --bins {name}=35,45."
            )
        attribute, note = _merge_single_users(attributes[name], counts)
        notes += note
        distinct = values.column(name).combine_chunks().unique()
        first = np.asarray(pc.index_in(distinct, value_set=values.column(name).combine_chunks()))
        targets.append(Target(name, attribute.labels, distinct, attribute.codes[first]))
    cells = int(np.prod([len(target.labels) + 1 for target in targets]))
    if cells > MAX_CELLS:
        raise UsageError(f"The targets have {cells:,} combinations of classes; {MAX_CELLS:,} is the most. Name fewer.")
    return tuple(targets), tuple(notes)


def _merge_single_users(attribute: Attribute, counts: IntArray) -> tuple[Attribute, list[str]]:
    """Classes of one user made one class, as in memory: nobody can be hidden among the likes of oneself."""
    known = attribute.codes != UNDISCLOSED
    n = np.bincount(attribute.codes[known], counts[known], minlength=len(attribute.labels)).astype(np.int64)
    if len(n) < 2:
        same = f"is '{attribute.labels[0]}' for all {n[0]:,} users who disclose it" if len(n) else "is empty"
        raise DataError(f"The column '{attribute.name}' {same}; there is nothing to guess. Choose another target.")
    lonely = int((n < 2).sum())
    if not lonely:
        return attribute, []
    held = np.sort(np.argsort(n, kind="stable")[: max(lonely, 2)])
    if len(n) - len(held) + 1 < 2:
        raise DataError(f"'{attribute.name}' has no two classes of two users or more. Choose another target.")
    kept = np.setdiff1d(np.arange(len(n)), held[1:])
    new = np.searchsorted(kept, np.where(np.isin(np.arange(len(n)), held), held[0], np.arange(len(n))))
    labels = tuple("rest" if k == held[0] else attribute.labels[k] for k in kept)
    names = ", ".join(f"'{attribute.labels[k]}'" for k in held)
    note = (
        f"{attribute.name}: a class of one user cannot be protected alone. {names} were made one class, 'rest', of "
        f"{int(n[held].sum())} users."
    )
    codes = np.append(new, UNDISCLOSED)[attribute.codes].astype(np.int64)
    return replace(attribute, codes=codes, labels=labels), [note]


def _encode_cells(targets: Sequence[Target], rows: pa.RecordBatch | pa.Table) -> NDArray[np.int16]:
    cell = np.zeros(len(rows), dtype=np.int16)
    for target in targets:
        cell = (cell * (len(target.labels) + 1) + target.encode_values(rows.column(target.name)) + 1).astype(np.int16)
    return cell


def _decode_dictionary(given: pa.Array | pa.ChunkedArray) -> Any:
    kind = given.type
    return given.cast(kind.value_type) if pa.types.is_dictionary(kind) else given


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _read_id_column(path: Path, names: Sequence[str]) -> tuple[str, pa.DataType]:
    """The id column of the attributes and its kind; the named columns must be there."""
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
    """These columns of a file or folder of attributes, piece by piece."""
    if not path.is_dir() and path.suffix.lower() not in PARQUET_SUFFIXES:
        yield read_rows(path).select(columns)
        return
    for file in list_part_files(path):
        with open_parquet(file) as given:
            groups = range(given.num_row_groups)
        yield from read_batches(file, groups, columns, 1 << 20)
