"""Classes of the rows of a large table, from columns of the table itself or from another file.

The distinct values of the columns are counted first, in a pass over these columns alone, and turned into classes by the
same code as in memory. The classes of all targets together make a cell, a number from 0 (all unknown).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError, unknown_name
from recveil.core.types import UNDISCLOSED, Attribute, IntArray
from recveil.data.io.attributes import make_attributes
from recveil.defenses.embeddings.class_labels import match_classes
from recveil.streaming.block_table import Table
from recveil.streaming.id_hashes import Hashes, hash_ids
from recveil.streaming.target_columns import check_target_column, find_id_column, read_columns, simplify_values
from recveil.streaming.value_counts import COUNT_COLUMN, count_values, merge_values

__all__ = ["AttributeSource", "Labels", "Target", "build_labels", "check_targets", "sort_by_hash"]

MAX_CELLS = 4_000
"""Combinations of classes."""


@dataclass(frozen=True)
class AttributeSource:
    """Where the attributes of a table are.

    Attributes:
        path: file or folder that holds them; None if the table itself does.
        names: columns of the targets; a name that is given twice counts once.
        numeric: columns to be read as numbers.
        bins: cut points that turn numbers into classes.
        keep_label: labels to keep as classes though they look undisclosed; None keeps all of them.
        undisclosed: further labels of users who did not disclose.
        known: classes of each target that a saved map knows; any number of users may have them.
    """

    path: Path | None
    names: tuple[str, ...]
    numeric: Sequence[str] = ()
    bins: Mapping[str, Sequence[float]] = field(default_factory=dict)
    keep_label: Sequence[str] | None = ()
    undisclosed: Sequence[str] = ()
    known: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", tuple(dict.fromkeys(self.names)))


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
        place = pc.fill_null(pc.index_in(simplify_values(values, self.name), value_set=self.values), -1)
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

    def find_cells(self, sorted_hashes: Hashes) -> tuple[NDArray[np.int16], int]:
        """Find the cell of each id by its hash, 0 (all unknown) for one that is missing; count those that are present.

        Both sides are sorted, so that a search starts where the last one ended and stays in the processor's cache.
        """
        place = np.minimum(np.searchsorted(self.hashes, sorted_hashes), len(self.hashes) - 1)
        is_present = self.hashes[place] == sorted_hashes
        return np.where(is_present, self.cells[place], 0).astype(np.int16), int(is_present.sum())


@dataclass(frozen=True, eq=False)
class Labels:
    """The targets of a table, and the cells of its rows.

    Attributes:
        targets: the attributes.
        id_column: column of the user ids.
        notes: remarks for the reader of the numbers.
        lookup: cells by id, if the attributes are in another file.
        row_cells: cell of each row of the table, once they were looked up.
    """

    targets: tuple[Target, ...]
    id_column: str
    notes: tuple[str, ...] = ()
    lookup: CellLookup | None = None
    row_cells: NDArray[np.int16] | None = None

    @property
    def columns(self) -> list[str]:
        """Columns that determine the cell of a row."""
        if self.row_cells is not None:
            return []
        return [target.name for target in self.targets] if self.lookup is None else [self.id_column]

    @property
    def shape(self) -> tuple[int, ...]:
        """For each target its number of classes plus one, for unknown."""
        return tuple(len(target.labels) + 1 for target in self.targets)

    @property
    def n_cells(self) -> int:
        """Number of possible cells."""
        return math.prod(self.shape)

    @property
    def codes(self) -> IntArray:
        """Class of each target in each cell, (n_cells, targets); -1 if unknown."""
        return np.stack(np.unravel_index(np.arange(self.n_cells), self.shape), axis=1).astype(np.int64) - 1

    def assign_cells(
        self, rows: pa.RecordBatch | pa.Table, where: str | Path, start: int | None = None
    ) -> NDArray[np.int16]:
        """Return the cell of each row; `start` is the number of the first one in the table, where it is known."""
        if self.row_cells is not None and start is not None:
            return self.row_cells[start : start + rows.num_rows]
        if self.lookup is None:
            return _encode_cells(self.targets, rows)
        hashes = hash_ids(rows.column(self.id_column), where, text=self.lookup.text)
        order = np.argsort(hashes)
        cells = np.empty(len(order), dtype=np.int16)
        cells[order] = self.lookup.find_cells(hashes[order])[0]
        return cells

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


def check_targets(table: Table, source: AttributeSource) -> None:
    """Refuse a missing target, one that is no column of a table with attributes, or one that holds no classes."""
    if not source.names:
        known = ", ".join(table.other_columns) if source.path is None else f"see {source.path}"
        raise UsageError(f"A large table needs `target`, the name of an attribute. Columns: {known}.")
    if COUNT_COLUMN in source.names:
        raise UsageError(f"The name '{COUNT_COLUMN}' is used by recveil itself. Rename this column.")
    for name in source.names if source.path is None else ():
        if name not in table.other_columns:
            raise unknown_name(f"column in {table.path}", name, table.other_columns)
        check_target_column(table.schema, name, table.path)


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
    key, key_type = find_id_column(source.path, source.names)
    counted = None
    for rows in read_columns(source.path, list(source.names)):
        piece = count_values(rows, source.names)
        counted = piece if counted is None else merge_values(counted, piece)
    if counted is None:
        raise DataError(f"{source.path} has no rows. Check that it was written whole.")
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
    for rows in read_columns(source.path, [key, *source.names]):
        hash_parts.append(hash_ids(rows.column(key), source.path, text=text))
        cell_parts.append(_encode_cells(targets, rows))
    hashes, cells = sort_by_hash(np.concatenate(hash_parts), np.concatenate(cell_parts))
    repeats = int((hashes[1:] == hashes[:-1]).sum())
    if repeats:
        raise DataError(f"{source.path} has {repeats} users more than once. Keep one row for each.")
    return CellLookup(hashes, cells, text)


def sort_by_hash(hashes: Hashes, cells: NDArray[np.int16]) -> tuple[Hashes, NDArray[np.int16]]:
    """Sort both by the hashes.

    Hashes that leave 16 bits free, as whole numbers commonly do, are sorted as one number with their cells: a fifth of
    the time.
    """
    least = hashes.min(initial=2**64 - 1)
    if len(hashes) and int(hashes.max()) - int(least) < 2**48:
        both = np.sort((hashes - least) << np.uint64(16) | cells.astype(np.uint64))
        return (both >> np.uint64(16)) + least, both.astype(np.uint16).astype(np.int16)
    order = np.argsort(hashes)
    return hashes[order], cells[order]


def _build_targets(counted: pa.Table, source: AttributeSource) -> tuple[tuple[Target, ...], tuple[str, ...]]:
    counts = np.asarray(counted.column(COUNT_COLUMN))
    values = counted.select(list(source.names))
    numeric = [name for name in source.numeric if name in source.names]
    bins = {name: edges for name, edges in source.bins.items() if name in source.names}
    attributes = make_attributes(
        values,
        numeric=numeric,
        bins=bins,
        keep=list(source.names),
        keep_label=source.keep_label,
        undisclosed=source.undisclosed,
        row_counts=counts,
    )
    targets, notes = [], [*attributes.notes]
    for name in source.names:
        if attributes[name].is_numeric:
            raise DataError(
                f"Attribute '{name}' is a number, not a class. Cut it into classes by `bins`, as in {name}=35,45."
            )
        if known := source.known.get(name):
            codes = match_classes(attributes[name], counts, known)
            attribute = replace(attributes[name], codes=codes, labels=tuple(known))
        else:
            attribute, note = _merge_single_users(attributes[name], counts)
            notes += note
        distinct = values.column(name).combine_chunks().unique()
        first = np.asarray(pc.index_in(distinct, value_set=values.column(name).combine_chunks()))
        targets.append(Target(name, attribute.labels, distinct, attribute.codes[first]))
    cells = math.prod(len(target.labels) + 1 for target in targets)
    if cells > MAX_CELLS:
        number = f"{cells:,}" if cells < 10**9 else f"{float(cells):.0e}"
        raise UsageError(
            f"The {len(targets)} targets have {number} combinations of classes, and at most {MAX_CELLS:,} work. Name "
            "fewer targets, or merge classes."
        )
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
    rest = _name_rest([attribute.labels[k] for k in remaining if k != merged[0]], attribute.name)
    labels = tuple(rest if k == merged[0] else attribute.labels[k] for k in remaining)
    names = ", ".join(f"'{attribute.labels[k]}'" for k in merged)
    note = (
        f"{attribute.name}: a class of one user cannot be protected alone. {names} were made one class, '{rest}', of "
        f"{int(n[merged].sum())} users."
    )
    codes = np.append(new, UNDISCLOSED)[attribute.codes].astype(np.int64)
    return replace(attribute, codes=codes, labels=labels), [note]


def _name_rest(labels: Sequence[str], name: str) -> str:
    """Return a label for merged classes that no other class has."""
    rest = "rest" if "rest" not in labels else f"rest of {name}"
    while rest in labels:
        rest = f"{rest} (merged)"
    return rest


def _encode_cells(targets: Sequence[Target], rows: pa.RecordBatch | pa.Table) -> NDArray[np.int16]:
    """Compute the cell of each row from the classes of its targets.

    The classes are digits of the number of the cell, those of the first target the most significant.
    """
    cell = np.zeros(len(rows), dtype=np.int16)
    for target in targets:
        cell = (cell * (len(target.labels) + 1) + target.encode_values(rows.column(target.name)) + 1).astype(np.int16)
    return cell


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
