"""Files of an outsider's observations of users: histories, lists, members, and texts of items.

Histories are `user_id, item_id[, timestamp]`, lists `user_id, item_id, rank`. Members are `user_id, member` (0 or 1,
true or false), or a column of the members' ids alone. Texts are `item_id, text`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.data.io.ids import Ids, find_positions, normalize_ids, refuse_duplicates, unify_types
from recveil.data.io.tables import (
    ITEM_NAMES,
    USER_NAMES,
    build_dataset,
    find_column,
    require_column,
    select_interactions,
)
from recveil.data.io.text import cast_to_text
from recveil.data.io.user_tables import read_recommendations
from recveil.data.io.vectors import read_rows

__all__ = ["Platform", "collect_item_ids", "match_ids", "read_members", "read_platform", "read_texts", "scatter_rows"]

TEXT_NAMES = ("text", "title", "name", "description")
MEMBER_NAMES = ("member", "is_member", "membership", "label")
TRUE_WORDS, FALSE_WORDS = ("1", "1.0", "true", "yes"), ("0", "0.0", "false", "no")


@dataclass(frozen=True, eq=False)
class Platform:
    """Users of one platform as an outsider observes them.

    Attributes:
        users: their ids.
        data: their interactions.
        histories: items of each user, oldest first.
        lists: items recommended to each user, best first, -1 after the end of a list.
    """

    users: pa.Array
    data: Dataset
    histories: list[IntArray]
    lists: IntArray


def collect_item_ids(tables: Sequence[Path], other_ids: Ids | None = None) -> pa.Array:
    """Collect the distinct items of these files and of the other ids."""
    parts = [
        normalize_ids(t.column(require_column(t, ITEM_NAMES, path)), path) for path in tables for t in [read_rows(path)]
    ]
    if other_ids is not None:
        parts.append(normalize_ids(other_ids, "the item vectors"))
    if len({part.type for part in parts}) > 1:
        parts = [part.cast(pa.large_string()) for part in parts]
    return pa.concat_arrays(parts).unique()


def read_platform(histories: Path, lists: Path, items: pa.Array) -> Platform:
    """Read the users of a file of histories and a file of lists.

    Args:
        histories: file of interactions.
        lists: file of recommendations.
        items: ids that number the items.

    Raises:
        DataError: a user is in only one of the files.
    """
    data = build_dataset(histories.stem, select_interactions(read_rows(histories), histories))
    users = normalize_ids(data.user_ids, histories)
    listed = normalize_ids((table := read_rows(lists)).column(require_column(table, USER_NAMES, lists)), lists).unique()
    _refuse_missing(listed, users, f"have a list in {lists} and no history in {histories}")
    _refuse_missing(users, listed, f"have a history in {histories} and no list in {lists}")
    place = match_ids(normalize_ids(data.item_ids, histories), items)
    order = np.lexsort((np.arange(len(data)) if data.time is None else data.time, data.user))
    ends = np.cumsum(np.bincount(data.user, minlength=data.n_users))[:-1]
    return Platform(
        users, data, np.split(place[data.item[order]], ends), read_recommendations(lists, data.user_ids, items)
    )


def read_members(path: Path, users: pa.Array) -> NDArray[np.bool_]:
    """Read which of these users are members.

    Raises:
        DataError: a user is missing, occurs twice or has no history, or a mark is neither yes nor no.
    """
    table = read_rows(path)
    listed = normalize_ids(table.column(require_column(table, USER_NAMES, path)), path)
    refuse_duplicates(listed, path, "user")
    _refuse_missing(listed, users, f"are in {path} and have no history")
    marked = find_column(table, MEMBER_NAMES)
    if marked is None and table.num_columns > 1:
        raise DataError(
            f"{path} has the columns {', '.join(table.column_names[:12])} and none called 'member'. Add it, with 0 and "
            "1, or leave only the ids of the members."
        )
    place = match_ids(users, listed)
    if marked is None:
        return place >= 0
    _refuse_missing(users, listed, f"have a history and are not in {path}")
    marks = pc.utf8_lower(pc.utf8_trim_whitespace(cast_to_text(table.column(marked), marked, path)))
    yes, no = (
        pc.fill_null(pc.is_in(marks, value_set=pa.array(words)), False).to_numpy()
        for words in (TRUE_WORDS, FALSE_WORDS)
    )
    if not (yes | no).all():
        row = int(np.flatnonzero(~(yes | no))[0])
        raise DataError(
            f"{int((~(yes | no)).sum())} rows of {path} do not say whether the user is a member: that of "
            f"'{listed[row]}' has '{table.column(marked)[row]}'. Write 1 or 0, true or false."
        )
    return np.asarray(yes, dtype=np.bool_)[place]


def read_texts(path: Path, items: Ids) -> list[str | None]:
    """Read the text of each of these items; None for an item without a row.

    Raises:
        DataError: the file holds the text of none of these items.
    """
    table = read_rows(path)
    listed = normalize_ids(table.column(require_column(table, ITEM_NAMES, path)), path)
    refuse_duplicates(listed, path, "item")
    name = require_column(table, TEXT_NAMES, path)
    text = cast_to_text(table.column(name), name, path)
    place = match_ids(normalize_ids(items, "the items"), listed)
    if not (place >= 0).any():
        raise DataError(
            f"{path} holds the text of none of the items (its first id is '{listed[0]}'). Write the ids alike in both."
        )
    texts: list[str | None] = text.take(pa.array(place, mask=place < 0)).to_pylist()
    return texts


def match_ids(ids: pa.Array, known_ids: pa.Array) -> IntArray:
    """Find the position of each id among the known ids; numbers match text."""
    return find_positions(*unify_types(ids, known_ids))


def scatter_rows(rows: FloatArray, place: IntArray) -> FloatArray:
    """Take the rows at these places; NaN where there is none (-1)."""
    table = np.full((len(place), rows.shape[1]), np.nan, dtype=np.float32)
    table[place >= 0] = rows[place[place >= 0]]
    return table


def _refuse_missing(ids: pa.Array, known_ids: pa.Array, problem: str) -> None:
    missing = ids.filter(pa.array(match_ids(ids, known_ids) < 0))
    if len(missing):
        raise DataError(
            f"{len(missing)} users {problem}, such as '{missing[0]}'. Add the missing rows, or leave these users out."
        )
