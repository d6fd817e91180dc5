"""What is understood of an uploaded table before anything is run: users, dimensions, columns, classes, warnings."""

from __future__ import annotations

import tempfile
from pathlib import Path

from recveil.core.errors import RecveilError
from recveil.core.types import Attribute
from recveil.service.documents import ColumnChoice, ColumnOverview, TableOverview
from recveil.service.table_inputs import ARRAY_SUFFIXES, find_part, prepare_table

__all__ = ["inspect_table"]

MAX_CLASSES_SHOWN = 12
MAX_COLUMNS_SHOWN = 200


def inspect_table(folder: Path, columns: ColumnChoice) -> TableOverview:
    """Read an uploaded table as a workflow would; what goes wrong is the `problem` of the overview."""
    names = _list_columns(folder)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        try:
            overview = _read_overview(folder, Path(work), columns)
        except RecveilError as error:
            return TableOverview(problem=str(error), all_columns=names)
    return overview.model_copy(update={"all_columns": names})


def _list_columns(folder: Path) -> list[str]:
    """List the columns of the table, if it has any that can be chosen."""
    from recveil.data.io.tables import read_table

    path = find_part(folder, "table")
    if path is None or path.name.endswith(ARRAY_SUFFIXES):
        return []
    try:
        return [str(name) for name in read_table(path, narrow=False).column_names[:MAX_COLUMNS_SHOWN]]
    except RecveilError:
        return []


def _read_overview(folder: Path, work: Path, columns: ColumnChoice) -> TableOverview:
    from recveil.data.io.array_files import check_scale
    from recveil.data.io.user_tables import read_attributes, read_embeddings

    prepared = prepare_table(folder, work, columns)
    vectors = read_embeddings(prepared.embeddings, prepared.ids)
    check_scale(vectors.x, prepared.embeddings)
    former = prepared.former_names
    overview = TableOverview(
        n_users=len(vectors.x),
        dimensions=vectors.x.shape[1],
        id_column=former.get(vectors.key, vectors.key) if vectors.holds_ids else None,
        vector_columns=[former.get(name, name) for name in vectors.columns[:MAX_COLUMNS_SHOWN]],
    )
    if prepared.attributes is None:
        problem = (
            "The table has no column besides ids and vectors. Add a table of attributes: user_id and one column each."
        )
        return overview.model_copy(update={"problem": problem})
    attributes = read_attributes(prepared.attributes, vectors.ids)
    shown = [_describe_column(attribute) for attribute in list(attributes.values())[:MAX_COLUMNS_SHOWN]]
    update: dict[str, object] = {"columns": shown, "warnings": list(attributes.notes)}
    if not shown:
        update["problem"] = "No column holds classes that could be attacked. Add a table of attributes."
    return overview.model_copy(update=update)


def _describe_column(attribute: Attribute) -> ColumnOverview:
    undisclosed = int((~attribute.known).sum())
    if attribute.is_numeric:
        return ColumnOverview(name=attribute.name, kind="number", undisclosed=undisclosed)
    counts = {label: int(count) for label, count in zip(attribute.labels, attribute.counts, strict=True) if count}
    largest = sorted(counts.items(), key=lambda item: -item[1])[:MAX_CLASSES_SHOWN]
    return ColumnOverview(
        name=attribute.name, kind="classes", n_classes=len(counts), counts=dict(largest), undisclosed=undisclosed
    )
