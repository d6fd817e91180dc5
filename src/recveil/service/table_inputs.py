"""Uploaded tables as inputs of a workflow: columns under the names that readers know, attributes beside the vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from recveil.core.errors import DataError, UsageError
from recveil.service.documents import ColumnChoice

__all__ = [
    "PART_NAMES",
    "UPLOAD_SUFFIXES",
    "PreparedTable",
    "find_part",
    "find_suffix",
    "prepare_table",
    "restore_names",
]

TABLE_SUFFIXES = (".parquet", ".pq", ".csv", ".tsv", ".csv.gz", ".tsv.gz")
ARRAY_SUFFIXES = (".npy", ".safetensors")
UPLOAD_SUFFIXES = (*TABLE_SUFFIXES, *ARRAY_SUFFIXES, ".txt")
"""Endings of files that can be uploaded; a list of ids may be .txt."""

PART_NAMES = ("table", "attributes", "ids")
ID_NAME, VECTOR_NAME = "user_id", "embedding"


@dataclass(frozen=True)
class PreparedTable:
    """Files that a workflow reads.

    Attributes:
        embeddings: table of the vectors.
        attributes: table of the attributes; None if there are none.
        ids: ids of the rows, for arrays without any.
        former_names: names in the upload, by the names that columns were given.
    """

    embeddings: Path
    attributes: Path | None
    ids: Path | str | None = None
    former_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def output_suffix(self) -> str:
        """Ending of a file that the vectors can be written back to."""
        return "".join(self.embeddings.suffixes).removesuffix(".gz")


def find_suffix(file_name: str) -> str:
    """Return the known ending of a file name; nothing else of the name is used.

    Raises:
        UsageError: the ending is unknown.
    """
    matches = [suffix for suffix in UPLOAD_SUFFIXES if file_name.lower().endswith(suffix)]
    if not matches:
        raise UsageError(f"The ending of a file is unknown. Upload one of {', '.join(UPLOAD_SUFFIXES)}.")
    return matches[0]


def find_part(folder: Path, name: str) -> Path | None:
    """Find the uploaded file of this part (`table`, `attributes` or `ids`)."""
    return next((folder / (name + s) for s in UPLOAD_SUFFIXES if (folder / (name + s)).is_file()), None)


def prepare_table(folder: Path, work: Path, columns: ColumnChoice) -> PreparedTable:
    """Return the files for a workflow; those that differ from the upload are written into `work`.

    Args:
        folder: folder of the upload.
        work: folder for tables with other names.
        columns: which columns hold ids and vectors.

    Raises:
        DataError: the table cannot be read, or lacks a chosen column.
    """
    table, attributes, ids = (find_part(folder, name) for name in PART_NAMES)
    if table is None:
        raise DataError("The upload holds no table. Upload it again.")
    rows = "row-number" if columns.row_numbers and ids is None else ids
    if table.name.endswith(ARRAY_SUFFIXES):
        return PreparedTable(table, attributes, rows)
    names: dict[str, str] = {}
    embeddings = table
    if columns.id is not None or columns.vectors:
        embeddings, names = _rename_columns(table, work / "users.parquet", columns)
    if attributes is None:
        attributes = _split_attributes(embeddings, work / "attributes.parquet")
    return PreparedTable(embeddings, attributes, rows, names)


def restore_names(path: Path, names: Mapping[str, str]) -> None:
    """Give the columns of a Parquet file the names that they had in the upload."""
    import pyarrow.parquet as pq

    from recveil.core.files import write_atomically

    if names:
        table = pq.read_table(path)
        with write_atomically(path) as temporary:
            pq.write_table(table.rename_columns([names.get(name, name) for name in table.column_names]), temporary)


def _rename_columns(source: Path, place: Path, columns: ColumnChoice) -> tuple[Path, dict[str, str]]:
    """Write the table with the names that readers know; return it with the former names."""
    import pyarrow.parquet as pq

    from recveil.data.io.vectors import read_rows

    table = read_rows(source)
    new = {} if columns.id is None else {columns.id: ID_NAME}
    new |= dict(zip(columns.vectors, _name_vectors(columns.vectors), strict=True))
    absent = [name for name in new if name not in table.column_names]
    if absent:
        raise DataError(f"The table has no column '{absent[0]}'. Choose one of its columns.")
    # A column that has one of these names and was not chosen steps aside.
    aside = {name: f"{name} (not chosen)" for name in table.column_names if name in new.values() and name not in new}
    names = {name: new.get(name, aside.get(name, name)) for name in table.column_names}
    pq.write_table(table.rename_columns(list(names.values())), place)
    return place, {now: former for former, now in names.items() if now != former}


def _name_vectors(columns: list[str]) -> list[str]:
    return [VECTOR_NAME] if len(columns) == 1 else [f"emb_{number}" for number in range(len(columns))]


def _split_attributes(embeddings: Path, place: Path) -> Path | None:
    """Write the columns beside the vectors as a table of attributes; None if there are none."""
    import pyarrow.parquet as pq

    from recveil.data.io.tables import USER_NAMES, require_column
    from recveil.data.io.vectors import parse_vectors, read_rows

    table = read_rows(embeddings)
    key = require_column(table, USER_NAMES, embeddings)
    vectors = parse_vectors(table, embeddings)
    other = [name for name in table.column_names if name not in (key, *vectors.columns)]
    if not other:
        return None
    pq.write_table(table.select([key, *other]), place)
    return place
