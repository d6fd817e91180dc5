"""Tables of interactions and users in files of any format of tables, and the `Dataset` made of them.

Text is read as text and narrowed to numbers only if nothing is lost, so that ids and codes such as `007` survive. Every
reader returns a `RawTables`: a table of interactions with the columns `user_id`, `item_id` and, if known, `rating` and
`timestamp`; and a table of users with `user_id` and one column per attribute.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from recveil.core.errors import DataError
from recveil.core.types import Dataset, FloatArray, IntArray
from recveil.data.io.attributes import AttributeTable, make_attributes
from recveil.data.io.formats.format_types import TableFormat
from recveil.data.io.formats.registry import find_format
from recveil.data.io.text import cast_to_text, check_file, narrow_column

__all__ = [
    "ITEM_NAMES",
    "RATING_NAMES",
    "TIME_NAMES",
    "USER_NAMES",
    "RawTables",
    "build_dataset",
    "drop_missing_ids",
    "find_column",
    "find_file",
    "narrow_table",
    "read_raw",
    "read_table",
    "require_column",
    "require_file",
    "select_interactions",
    "simplify_name",
]

log = logging.getLogger(__name__)

USER_NAMES = ("user_id", "user", "uid", "reviewer_id", "userid")
ITEM_NAMES = ("item_id", "item", "iid", "movie_id", "asin", "artist_id", "track_id", "product_id", "video_id")
RATING_NAMES = ("rating", "overall", "score", "stars")
TIME_NAMES = ("timestamp", "time", "unix_timestamp", "unix_review_time", "datetime", "date", "position")


@dataclass(frozen=True, eq=False)
class RawTables:
    """Tables as a reader returns them.

    Attributes:
        interactions: `user_id`, `item_id` and, if known, `rating` and `timestamp`.
        users: `user_id` and one column per attribute; None if there are no attributes.
    """

    interactions: pa.Table
    users: pa.Table | None = None


def read_table(path: str | Path, *, narrow: bool = True) -> pa.Table:
    """Read a table of any format of tables; text may be packed as .gz or .bz2.

    The first line of a text file must name the columns; types in the header of an atomic file are removed. Columns of
    plain numbers become numbers, unless `narrow` is off.

    Raises:
        DataError: the file cannot be read, or holds arrays without columns.
    """
    path = check_file(path)
    file_format = find_format(path)
    if not isinstance(file_format, TableFormat):
        raise DataError(f"{path} holds arrays ({file_format.name}), not a table with columns. Give a .parquet or .csv.")
    table = file_format.read(path)
    _refuse_duplicate_names(table, path)
    return narrow_table(table) if narrow and file_format.is_text else table


def narrow_table(table: pa.Table) -> pa.Table:
    """Convert the columns of plain numbers to numbers."""
    return pa.table({name: narrow_column(table.column(name)) for name in table.column_names})


def read_raw(path: str | Path) -> RawTables:
    """Read the interactions in a file or folder, and the users beside them.

    A folder holds `interactions.parquet` (or .csv, .tsv, .inter) and optionally `users.parquet` (or .csv, .tsv), or one
    RecBole `NAME.inter` and optionally `NAME.user`. The same names are looked for beside a file.
    """
    path = Path(path)
    if path.is_dir():
        path = _find_interactions(path)
    beside = [path.with_suffix(".user"), *(path.parent / f"users{end}" for end in (".parquet", ".csv", ".tsv"))]
    interactions = select_interactions(read_table(path), path)
    users_path = next((other for other in beside if other.is_file() and other != path), None)
    if users_path is None:
        return RawTables(interactions)
    users = read_table(users_path)
    return RawTables(interactions, _rename_column(users, require_column(users, USER_NAMES, users_path), "user_id"))


def select_interactions(table: pa.Table, path: str | Path) -> pa.Table:
    """Select `user_id`, `item_id` and, if they exist, `rating` and `timestamp`."""
    columns = {"user_id": require_column(table, USER_NAMES, path), "item_id": require_column(table, ITEM_NAMES, path)}
    optional = {"rating": find_column(table, RATING_NAMES), "timestamp": find_column(table, TIME_NAMES)}
    columns |= {name: original for name, original in optional.items() if original is not None}
    return pa.table({name: table.column(original) for name, original in columns.items()})


def find_file(folder: Path, *patterns: str) -> Path | None:
    """Find the first file that fits a pattern, up to two folders down."""
    places = (
        place for pattern in patterns for above in ("", "*/", "*/*/") for place in sorted(folder.glob(above + pattern))
    )
    return next((place for place in places if place.is_file()), None)


def require_file(folder: Path, *patterns: str) -> Path:
    """Find the first file that fits a pattern, or raise an error."""
    path = find_file(folder, *patterns)
    if path is None:
        raise DataError(f"{folder} does not hold {' or '.join(patterns)}. Put the official files there, unchanged.")
    return path


def find_column(table: pa.Table, names: Sequence[str]) -> str | None:
    """Find the first of these names that the table has.

    Case and separators do not matter (user_id, userId, USER ID).
    """
    simple = {simplify_name(name): name for name in reversed(table.column_names)}
    return next((simple[simplify_name(name)] for name in names if simplify_name(name) in simple), None)


def require_column(table: pa.Table, names: Sequence[str], path: str | Path) -> str:
    """Find the name under which the table has a column.

    Args:
        table: the table.
        names: accepted names, the preferred one first.
        path: file of the table, for errors.

    Raises:
        DataError: the table has none of these columns.
    """
    name = find_column(table, names)
    if name is None:
        existing = ", ".join(map(repr, table.column_names[:12])) + (", ..." if table.num_columns > 12 else "")
        raise DataError(
            f"{path} has no column '{names[0]}'; its columns are {existing}. Name one of them '{names[0]}' "
            f"(also accepted: {', '.join(names[1:])}); the first line of a text file must name the columns."
        )
    return name


def drop_missing_ids(interactions: pa.Table, path: str | Path) -> pa.Table:
    """Drop the rows without a user or an item, and log their number."""
    valid = pc.and_(pc.is_valid(interactions.column("user_id")), pc.is_valid(interactions.column("item_id")))
    complete = interactions.filter(valid)
    if complete.num_rows < interactions.num_rows:
        log.warning("%s: left out %d rows without an id.", path, interactions.num_rows - complete.num_rows)
    return complete


def build_dataset(
    name: str,
    interactions: pa.Table,
    users: pa.Table | None = None,
    *,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]] | None = None,
    keep: Sequence[str] = (),
    keep_label: Collection[str] | None = None,
) -> Dataset:
    """Build a data set from a table of interactions and a table of users.

    Ids are numbered in the order of the raw ids; rows stay in the order of the table. Every column of `users` becomes
    an attribute, except lists and columns with more than 200 distinct values (zip codes, raw locations), which are kept
    only if named in `keep`. Users without an interaction are left out; users without a row are undisclosed.

    Args:
        name: name of the data set.
        interactions: one row for each interaction, `user_id, item_id[, timestamp]`.
        users: one row for each user, `user_id` and attributes.
        numeric: columns to keep as numbers instead of classes.
        bins: columns to cut into classes, with the lower edges of all classes but the first.
        keep: columns to make attributes however many values they have.
        keep_label: labels to keep as classes though they look undisclosed; None keeps all of them.

    Raises:
        DataError: a table is empty, lacks a column, or its ids are missing or do not match.
    """
    if interactions.num_rows == 0:
        raise DataError(f"The data set '{name}' has no interactions. Check that the file has rows below its header.")
    if users is None and (numeric or bins or keep):
        raise DataError(f"The data set '{name}' has no table of users to take attributes from. Put one beside it.")
    user, user_ids = _encode_ids(
        _convert_ids(interactions.column(require_column(interactions, USER_NAMES, name)), "user_id", name)
    )
    item, item_ids = _encode_ids(
        _convert_ids(interactions.column(require_column(interactions, ITEM_NAMES, name)), "item_id", name)
    )
    time_name = find_column(interactions, TIME_NAMES)
    time = None if time_name is None else _parse_times(interactions.column(time_name), name)
    attributes = AttributeTable({})
    if users is not None:
        rows = _find_user_rows(user_ids, users, name)
        columns = users.drop_columns([require_column(users, USER_NAMES, name)]).take(pa.array(rows, mask=rows < 0))
        attributes = make_attributes(columns, numeric=numeric, bins=bins or {}, keep=keep, keep_label=keep_label)
    notes = () if keep_label is None else attributes.notes
    return Dataset(name, user, item, time, user_ids, item_ids, dict(attributes), notes)


def _refuse_duplicate_names(table: pa.Table, path: Path) -> None:
    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path} has more than one column '{repeated[0]}'. Rename or remove all but one.")


def _find_interactions(folder: Path) -> Path:
    path = find_file(folder, *(f"interactions{end}" for end in (".parquet", ".csv", ".tsv", ".inter")), "*.inter")
    if path is None:
        raise DataError(f"{folder} holds no interactions.parquet (or .csv, .tsv) and no .inter file. Put one there.")
    return path


def simplify_name(name: str) -> str:
    """Simplify a name of a column, so that case and separators do not matter."""
    return re.sub(r"[^a-z0-9]", "", name.casefold())


def _rename_column(table: pa.Table, old: str, new: str) -> pa.Table:
    return table.rename_columns([new if name == old else name for name in table.column_names])


def _convert_ids(column: pa.ChunkedArray, label: str, name: str) -> pa.ChunkedArray:
    """Convert ids to 64-bit numbers or text; a missing one is an error."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    elif not pa.types.is_integer(column.type):
        column = cast_to_text(column, label, name)
        column = pc.if_else(pc.equal(column, ""), None, column)
    if column.null_count:
        raise DataError(f"{column.null_count} rows of '{name}' have no {label}. Fill in or remove them.")
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        return column
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        raise DataError(
            f"Some {label} of '{name}' are not whole numbers. Write ids as whole numbers or text."
        ) from None


def _encode_ids(ids: pa.ChunkedArray) -> tuple[IntArray, NDArray[Any]]:
    encoded = ids.dictionary_encode().unify_dictionaries()
    values = encoded.chunk(0).dictionary
    order = pc.sort_indices(values)
    rank = np.empty(len(values), dtype=np.int64)
    rank[order.to_numpy()] = np.arange(len(values))
    codes = np.concatenate([chunk.indices.to_numpy(zero_copy_only=False) for chunk in encoded.chunks])
    return rank[codes], values.take(order).to_numpy(zero_copy_only=False)


def _parse_times(column: pa.ChunkedArray, name: str) -> IntArray | FloatArray | None:
    """Parse times as numbers, dates as seconds since 1970; None if all are null."""
    if column.null_count == len(column):
        return None
    if column.null_count:
        raise DataError(f"{column.null_count} rows of '{name}' have no time. Fill them in or remove the column.")
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        dtype = np.int64 if pa.types.is_integer(column.type) else np.float64
        numbers: IntArray | FloatArray = column.to_numpy().astype(dtype)
    else:
        micro = _parse_dates(column, name).cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        numbers = micro // 1_000_000 if not (micro % 1_000_000).any() else micro / 1e6
    if not np.isfinite(numbers).all():
        raise DataError(f"Some times of '{name}' are not numbers. Fill them in or remove the column.")
    return numbers


def _parse_dates(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    if pa.types.is_temporal(column.type):
        return column.cast(pa.timestamp("us", tz=getattr(column.type, "tz", None)))
    for zone in ("UTC", None):
        try:
            return cast_to_text(column, "times", name).cast(pa.timestamp("us", tz=zone))
        except pa.ArrowInvalid:
            continue
    raise DataError(
        f"Some times of '{name}' cannot be read, for instance '{column[0]}'. "
        "Write them as seconds since 1970 or as 2005-04-27 13:45:00."
    )


def _find_user_rows(user_ids: NDArray[Any], users: pa.Table, name: str) -> IntArray:
    """Find the row of each user in the table of users; -1 if there is none."""
    table_ids = _convert_ids(
        users.column(require_column(users, USER_NAMES, name)), "user_id in the table of users", name
    )
    ids = pa.array(user_ids)
    if table_ids.type != ids.type:
        table_ids, ids = table_ids.cast(pa.string()), ids.cast(pa.string())
    counts = table_ids.value_counts()
    repeated = counts.filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise DataError(
            f"The table of users of '{name}' has {len(repeated)} users more than once, for instance "
            f"'{repeated.field('values')[0]}'. Keep one row for each."
        )
    rows: IntArray = (
        pc.fill_null(pc.index_in(ids, value_set=table_ids.combine_chunks()), -1).to_numpy().astype(np.int64)
    )
    if len(table_ids) and (rows < 0).all():
        raise DataError(
            f"No user of '{name}' is in its table of users (interactions have '{ids[0]}', the table has "
            f"'{table_ids[0]}'). Write the ids alike in both."
        )
    return rows
