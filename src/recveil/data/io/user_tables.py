"""Files beside the vectors: attributes, interactions and recommendations, checked when they are read.

Everything is aligned with the ids of the vectors; ids written as numbers in one file and as text in the other match.
`read_embeddings` and `write_embeddings` are re-exported, so that one module offers all files of an audit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED, Attribute, Dataset, IntArray
from recveil.data.io.attributes import AttributeTable, make_attributes
from recveil.data.io.ids import (
    Ids,
    as_numpy,
    find_positions,
    normalize_ids,
    refuse_duplicates,
    require_positions,
    unify_types,
)
from recveil.data.io.tables import (
    ITEM_NAMES,
    USER_NAMES,
    build_dataset,
    find_column,
    require_column,
    select_interactions,
)
from recveil.data.io.vector_output import check_vector_output, write_embeddings
from recveil.data.io.vectors import Vectors, parse_floats, read_embeddings, read_rows

__all__ = [
    "NamedTable",
    "Vectors",
    "check_vector_output",
    "read_attributes",
    "read_embeddings",
    "read_interactions",
    "read_listed_users",
    "read_recommendations",
    "require_classes",
    "select_own_attributes",
    "write_embeddings",
]

MIN_SHARED_USERS = 0.5
"""Share of the users of the smaller table that the other one must have."""


@dataclass(frozen=True, eq=False)
class NamedTable:
    """A table of users that was read already, and what errors call it."""

    name: str | Path
    rows: pa.Table


def read_attributes(
    path: str | Path | NamedTable,
    ids: Ids,
    *,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    keep: Sequence[str] = (),
    keep_label: Collection[str] | None = (),
    undisclosed: Collection[str] = (),
    key: str = "",
) -> AttributeTable:
    """Read one attribute from each column; null, empty and labels such as "unknown" are undisclosed.

    Users who are not among `ids` are dropped; `ids` without a row are undisclosed. The notes say how many there are.

    Args:
        path: the table of users, or its rows.
        ids: users to align the attributes with.
        numeric: columns to keep as numbers.
        bins: columns to cut into classes, with the lower edges of all classes but the first.
        keep: columns to make attributes however many values they have.
        keep_label: labels to keep as classes though they look undisclosed; None keeps all of them.
        undisclosed: further labels of users who did not disclose.
        key: column of the ids, where the table has it; one of the usual names else.

    Raises:
        DataError: fewer than half of the users match, a user occurs twice, or there is no column beside the ids.
    """
    path, table = (path.name, path.rows) if isinstance(path, NamedTable) else (path, read_rows(path))
    key = key if key in table.column_names else require_column(table, USER_NAMES, path)
    table_ids, user_ids = unify_types(normalize_ids(table.column(key), path), normalize_ids(ids, "the release"))
    refuse_duplicates(table_ids, path, "user")
    positions = find_positions(user_ids, table_ids)
    notes = _describe_overlap(user_ids, table_ids, positions, Path(path))
    if table.num_columns == 1:
        raise DataError(f"{path} has no column besides '{key}'. Add one column for each attribute.")
    columns = table.drop_columns([key]).take(pa.array(positions, mask=positions < 0))
    attributes = make_attributes(
        columns, numeric=numeric, bins=bins or {}, keep=keep, keep_label=keep_label, undisclosed=undisclosed
    )
    return AttributeTable(attributes, [*notes, *attributes.notes])


def select_own_attributes(vectors: Vectors) -> pa.Table:
    """Select the columns of a table of vectors that may be attributes.

    Raises:
        UsageError: the vectors come as an array, or there is no other column.
    """
    if vectors.source is None or not vectors.other_names:
        raise UsageError(
            f"{vectors.path} holds vectors and no attributes. Name a file with user_id and one column for each "
            "attribute by `attributes`."
        )
    return vectors.source.select(vectors.other_names)


def read_listed_users(path: str | Path) -> Vectors:
    """Read the users of a file of recommendations; they have no vectors.

    Raises:
        DataError: the file cannot be read, or an id is missing.
    """
    table = read_rows(path)
    key = require_column(table, USER_NAMES, path)
    ids = normalize_ids(table.column(key), path).unique()
    return Vectors(ids, np.empty((len(ids), 0), np.float32), key, (), None, np.float32, path=Path(path))


def read_interactions(path: str | Path, user_ids: Ids, item_ids: Ids | None = None) -> Dataset:
    """Read interactions, numbered like `user_ids` and `item_ids`.

    Args:
        path: the table of interactions.
        user_ids: ids that number the users.
        item_ids: ids that number the items; without them items are numbered by the file.

    Raises:
        DataError: the file names an unknown user or item.
    """
    data = build_dataset(str(path), select_interactions(read_rows(path), path))
    user = require_positions(data.user_ids, user_ids, path, "user")[data.user]
    data = replace(data, name=Path(path).stem, user=user, user_ids=as_numpy(user_ids))
    if item_ids is None:
        return data
    return replace(
        data, item=require_positions(data.item_ids, item_ids, path, "item")[data.item], item_ids=as_numpy(item_ids)
    )


def read_recommendations(path: str | Path, user_ids: Ids, item_ids: Ids) -> IntArray:
    """Read the items recommended to each user, best first: (n_users, k).

    A list that ends early is filled with -1. Lists are in the order of `rank` (smallest first) or, without ranks, of
    `score` (largest first).

    Args:
        path: the table of recommendations.
        user_ids: ids that number the users.
        item_ids: ids that number the items.

    Raises:
        DataError: an id is unknown, an item or a rank repeats in a list, or there is no rank.
    """
    table = read_rows(path)
    user = require_positions(table.column(require_column(table, USER_NAMES, path)), user_ids, path, "user")
    item = require_positions(table.column(require_column(table, ITEM_NAMES, path)), item_ids, path, "item")
    _refuse_repeats(user, item, "item", user_ids, path)
    place = find_column(table, ("rank",))
    if place is not None:
        rank = parse_floats(table.column(place), place, path)
        _refuse_repeats(user, rank, "rank", user_ids, path)
    elif (place := find_column(table, ("score",))) is not None:
        rank = -parse_floats(table.column(place), place, path)
    else:
        raise DataError(f"{path} has no column 'rank' (1 for the best) and none called 'score'. Add one of them.")
    if np.isnan(rank).any():
        raise DataError(
            f"{int(np.isnan(rank).sum())} rows of {path} have no {place}. Fill it in, or remove these rows."
        )
    return _arrange_lists(user[order := np.lexsort((rank, user))], item[order], len(user_ids))


def require_classes(attribute: Attribute, *, minimum: int = 2) -> None:
    """Refuse an attribute that cannot be attacked or defended.

    Args:
        attribute: the attribute.
        minimum: users that every class must have.

    Raises:
        DataError: nobody disclosed it, all users have the same value, or a class is too small.
    """
    name = attribute.name
    disclosed = int(attribute.known.sum())
    if not disclosed:
        raise DataError(f"No user disclosed '{name}': the column is empty for all these users. Choose another target.")
    if attribute.values is not None:
        if np.nanmin(attribute.values) == np.nanmax(attribute.values):
            raise DataError(
                f"All {disclosed} users have the same '{name}'; there is nothing to guess. Choose another target."
            )
        return
    counts = attribute.counts
    if (counts > 0).sum() < 2:
        label = attribute.labels[int(counts.argmax())]
        raise DataError(
            f"All {disclosed} users have the same '{name}', '{label}'; there is nothing to guess. "
            f"Choose another target."
        )
    if counts.min() < minimum:
        label, users = attribute.labels[int(counts.argmin())], int(counts.min())
        raise DataError(
            f"The class '{label}' of '{name}' has {users} user{'s' * (users != 1)}, and {minimum} are needed. Merge it "
            f"with another class, or leave the attribute of these users blank."
        )


def _describe_overlap(user_ids: pa.Array, table_ids: pa.Array, rows: IntArray, path: Path) -> list[str]:
    """Describe how many ids are in only one of two tables; refuse tables that have less than half in common.

    A table may be a part of the other, so the share is that of the smaller one.
    """
    matched, n_users, n_rows = int((rows >= 0).sum()), len(user_ids), len(table_ids)
    if not matched:
        raise DataError(
            f"No user of the release is in {path}: the ids do not match (the release has '{user_ids[0]}', the "
            f"file has '{table_ids[0]}'). Write them alike in both."
        )
    if matched < MIN_SHARED_USERS * min(n_users, n_rows):
        stranger = user_ids[int(np.flatnonzero(rows < 0)[0])]
        raise DataError(
            f"Only {matched:,} users are in both tables, of {n_users:,} in the release and {n_rows:,} in {path}, "
            f"which lacks '{stranger}'. Write the ids alike in both, or leave out the users of other tables."
        )
    notes = []
    if matched < n_users:
        notes.append(
            f"{n_users - matched:,} of the {n_users:,} users of the release are not in {path.name} and are treated "
            "as undisclosed."
        )
    if matched < n_rows:
        notes.append(
            f"{n_rows - matched:,} of the {n_rows:,} users in {path.name} are not in the release and were left out."
        )
    return notes


def _refuse_repeats(user: IntArray, values: NDArray[Any], label: str, user_ids: Ids, path: str | Path) -> None:
    order = np.lexsort((values, user))
    same = (np.diff(user[order]) == 0) & (np.diff(values[order]) == 0)
    if same.any():
        name = as_numpy(user_ids)[user[order][:-1][same][0]]
        raise DataError(
            f"{path} has {int(same.sum())} rows too many: user '{name}', for instance, has the same {label} twice. "
            f"Keep each {label} once in a user's list."
        )


def _arrange_lists(user: IntArray, item: IntArray, n_users: int) -> IntArray:
    """Arrange the items of each user in a row.

    The input is ordered by user, then by place.
    """
    lengths = np.bincount(user, minlength=n_users)
    position = np.arange(len(user)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    lists = np.full((n_users, int(lengths.max())), UNDISCLOSED, dtype=np.int64)
    lists[user, position] = item
    return lists
