"""Tables of a study: columns, rows, and what they have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from recveil.core.study_parts import (
    HeatMap,
    StudyFrontier,
    StudyTable,
    TableColumn,
    TableRow,
    TableValue,
)
from recveil.studies.pooled_seeds import PooledCell

__all__ = ["StudyContent", "build_table", "describe_seeds", "make_column", "make_row"]


@dataclass(frozen=True)
class StudyContent:
    """The parts of a study's result that depend on its kind; the fields are those of `StudyResult`."""

    k: int | None = None
    tables: list[StudyTable] = field(default_factory=list)
    frontiers: list[StudyFrontier] = field(default_factory=list)
    volumes: StudyTable | None = None
    wins: StudyTable | None = None
    heats: list[HeatMap] = field(default_factory=list)
    advice: list[str] = field(default_factory=list)


def make_column(key: str, label: str, digits: int = 3, *, signed: bool = False) -> TableColumn:
    """Make a column: its key in rows, its label, and how its numbers are printed."""
    return TableColumn(key=key, label=label, digits=digits, signed=signed)


def make_row(label: str, cells: Mapping[str, TableValue]) -> TableRow:
    """Make a row from its values by the key of their column."""
    return TableRow(label=label, cells=dict(cells))


def build_table(
    table_id: str, title: str, note: str, columns: Sequence[TableColumn], rows: Iterable[TableRow]
) -> StudyTable:
    """Build a table; columns in which no row has a value are left out.

    Args:
        table_id: what the table is known by.
        title: its title.
        note: what its numbers mean.
        columns: its columns.
        rows: its rows.
    """
    rows = list(rows)
    used = [column for column in columns if any(row.cells.get(column.key) is not None for row in rows)]
    return StudyTable(id=table_id, title=title, note=note, columns=used, rows=rows)


def describe_seeds(cells: PooledCell) -> str:
    """Say how many seeds are done, and why not all."""
    done, missing = len(cells.results), cells.n_missing
    if not missing:
        return str(cells.wanted)
    not_run = missing - len(cells.errors)
    reasons = [f"{len(cells.errors)} failed"] * bool(cells.errors) + [f"{not_run} not run"] * bool(not_run)
    return f"{done} of {cells.wanted} ({', '.join(reasons)})"
