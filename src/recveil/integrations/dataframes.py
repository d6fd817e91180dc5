"""Tables of any DataFrame library: user vectors and attributes in, the same library out.

A DataFrame is read through its Arrow stream (pandas, polars, pyarrow, DuckDB, ...), so no library is a dependency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray
from recveil.data.io.array_files import check_scale
from recveil.data.io.attributes import AttributeTable, make_attributes
from recveil.data.io.ids import normalize_ids, refuse_duplicates
from recveil.data.io.tables import USER_NAMES, find_column
from recveil.data.io.user_tables import NamedTable, read_attributes
from recveil.data.io.vectors import Vectors, parse_vectors, replace_vectors
from recveil.integrations.model_release import ModelRelease

__all__ = ["TableInput", "is_dataframe", "read_arrow", "read_table_input"]

SOURCE = Path("the DataFrame")
"""Name of a DataFrame in errors."""


@dataclass(frozen=True, eq=False)
class TableInput:
    """User vectors and attributes from arrays or a DataFrame, and how to give defended vectors back.

    Attributes:
        x: (n, d) user vectors.
        attributes: attributes of the users by name.
        original: what was handed in.
        vectors: the vectors with their table; None for arrays.
        columns: names of the vector columns in the DataFrame.
        notes: columns and labels that were left out.
        model: the release of a trained model, where one was handed in.
    """

    x: FloatArray
    attributes: Mapping[str, Attribute]
    original: Any
    vectors: Vectors | None = None
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model: ModelRelease | None = None

    def replace_vectors(self, x: FloatArray) -> Any:
        """Return the input with these vectors: an array, a release, or a DataFrame of the same library."""
        if self.model is not None:
            return self.model.replace_vectors(x)
        if self.vectors is None:
            return x
        table = replace_vectors(self.vectors, x)
        names = dict(zip(self.vectors.columns, self.columns, strict=True))
        table = table.rename_columns([names.get(name, name) for name in table.column_names])
        table = table.select([name for name in read_arrow(self.original).column_names if name in table.column_names])
        return _convert_back(table, self.original)


def is_dataframe(data: object) -> bool:
    """Tell whether this is a DataFrame of any library."""
    # Columns (pandas and polars Series, Arrow arrays) are Arrow streams as well, and have no columns.
    return hasattr(data, "__arrow_c_stream__") and hasattr(data, "columns")


def read_arrow(data: Any) -> pa.Table:
    """Return a DataFrame of any library as an Arrow table; a pandas index without a name is left out."""
    table = data if isinstance(data, pa.Table) else pa.table(data)
    table = table.select([name for name in table.column_names if not name.startswith("__index_level_")])
    # polars hands out text as views, which many functions of Arrow do not take.
    plain = [field.with_type(pa.large_string()) if field.type == pa.string_view() else field for field in table.schema]
    return table.cast(pa.schema(plain))


def read_table_input(
    data: Any,
    y: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    vectors: str | Sequence[str] | None = None,
    numeric: Sequence[str] = (),
    keep_label: Sequence[str] = (),
) -> TableInput:
    """Read user vectors and attributes.

    Args:
        data: a DataFrame with vectors and attributes, an (n, d) array, or the release of a model.
        y: labels of the users where `data` is an array: one label each, a mapping from names to labels, or attributes.
            For a release also a DataFrame with `user_id` and one column for each attribute.
        target: attributes to read from a DataFrame (all if None), or the name of `y`.
        vectors: column of lists, or numeric columns, that hold the vectors of a DataFrame.
        numeric: attributes that hold numbers.
        keep_label: labels to keep as classes though they look undisclosed, such as "none".

    Raises:
        UsageError: the arguments do not fit together.
        DataError: the table cannot be used as it is.
    """
    if is_dataframe(data):
        if y is not None:
            raise UsageError("A DataFrame holds the attributes itself. Name them by `target` and leave out `y`.")
        return _read_dataframe(data, _as_names(target), vectors, numeric, keep_label)
    if y is None:
        raise UsageError("An array needs the labels of its users. Give `y`, or a DataFrame with a `target`.")
    if vectors is not None:
        raise UsageError("`vectors` names columns of a DataFrame, and an array was given. Leave it out.")
    names = _as_names(target)
    if isinstance(data, ModelRelease) and is_dataframe(y):
        return _read_model_input(data, y, names, numeric, keep_label)
    model = data if isinstance(data, ModelRelease) else None
    x = np.asarray(data if model is None else model.user_vectors, dtype=np.float32)
    if x.ndim != 2:
        raise DataError(f"The vectors have shape {x.shape}. Give a table with one row for each user.")
    attributes = _read_labels(y, (names or ["target"])[0], numeric, keep_label)
    for attribute in attributes.values():
        if len(attribute.codes) != len(x):
            raise DataError(
                f"There are {len(x):,} vectors and {len(attribute.codes):,} labels of '{attribute.name}'. Give one "
                "label for each row."
            )
    if np.isfinite(x).all():
        check_scale(x, "the array")
    return TableInput(x, attributes, data, notes=attributes.notes, model=model)


def _read_model_input(
    model: ModelRelease, users: Any, names: list[str], numeric: Sequence[str], keep_label: Sequence[str]
) -> TableInput:
    """Read the attributes of a model's users from a DataFrame with their ids."""
    wanted = [*names, *(name for name in numeric if name not in names)]
    attributes = read_attributes(
        NamedTable(SOURCE, read_arrow(users)), model.user_ids, numeric=numeric, keep=names, keep_label=keep_label
    )
    chosen = {name: attributes[name] for name in wanted} if names else dict(attributes)
    return TableInput(model.user_vectors, chosen, model, notes=(*model.notes, *attributes.notes), model=model)


def _read_dataframe(
    data: Any,
    names: list[str],
    vectors: str | Sequence[str] | None,
    numeric: Sequence[str],
    keep_label: Sequence[str],
) -> TableInput:
    table = read_arrow(data)
    if not table.num_rows:
        raise DataError("The DataFrame has no rows.")
    columns = _find_vector_columns(table, _as_names(vectors), [*names, *numeric])
    key = find_column(table, USER_NAMES) or "user_id"
    if key in table.column_names:
        refuse_duplicates(normalize_ids(table.column(key), SOURCE), SOURCE, "user")
    others = table.select([name for name in table.column_names if name not in columns and name != key])
    attributes = make_attributes(others, numeric=numeric, bins={}, keep=names, keep_label=keep_label)
    parsed = parse_vectors(_standardize_names(table, columns, key), SOURCE)
    bad = np.flatnonzero(~np.isfinite(parsed.x).all(axis=1))
    if len(bad):
        raise DataError(f"{len(bad)} of the {len(parsed.x)} vectors hold NaN, infinite or missing numbers.")
    check_scale(parsed.x, SOURCE)
    chosen = {name: attributes[name] for name in [*names, *numeric]} if names else attributes
    return TableInput(parsed.x, chosen, data, parsed, columns, attributes.notes)


def _find_vector_columns(table: pa.Table, named: list[str], reserved: Sequence[str]) -> tuple[str, ...]:
    """Find the columns that hold the vectors: as named, `embedding`, emb_N, the only list, or all floats."""
    for name in [*named, *reserved]:
        if name not in table.column_names:
            raise DataError(f"The DataFrame has no column '{name}'. Its columns: {', '.join(table.column_names)}.")
    if named:
        return tuple(named)
    if "embedding" in table.column_names:
        return ("embedding",)
    numbered = [name for name in table.column_names if name.removeprefix("emb_").isdecimal() and name[:4] == "emb_"]
    if numbered:
        return tuple(sorted(numbered, key=lambda name: int(name[4:])))
    lists = [f.name for f in table.schema if pa.types.is_nested(f.type) and f.name not in reserved]
    if len(lists) == 1:
        return (lists[0],)
    floats = [f.name for f in table.schema if pa.types.is_floating(f.type) and f.name not in reserved]
    if not floats:
        raise DataError(
            "The DataFrame has no column of vectors (lists of numbers, or numeric columns). Name them by `vectors`."
        )
    return tuple(floats)


def _standardize_names(table: pa.Table, columns: tuple[str, ...], key: str) -> pa.Table:
    """Give the id and vector columns the names that our files have."""
    is_list = len(columns) == 1 and pa.types.is_nested(table.schema.field(columns[0]).type)
    names = {columns[0]: "embedding"} if is_list else {name: f"emb_{i}" for i, name in enumerate(columns)}
    renamed = table.rename_columns([names.get(name, name) for name in table.column_names])
    if key not in table.column_names:
        renamed = renamed.append_column("user_id", pa.array(np.arange(table.num_rows)))
    return renamed


def _read_labels(y: Any, name: str, numeric: Sequence[str], keep_label: Sequence[str]) -> AttributeTable:
    """Make attributes from labels; -1 among integers, None and NaN are undisclosed."""
    if isinstance(y, Attribute):
        return AttributeTable({y.name: y})
    if isinstance(y, Mapping):
        tables = {key: _read_labels(labels, key, numeric, keep_label) for key, labels in y.items()}
        attributes = {key: attribute for key, table in tables.items() for attribute in table.values()}
        return AttributeTable(attributes, [note for table in tables.values() for note in table.notes])
    table = read_arrow(y) if is_dataframe(y) else pa.table({name: _as_column(y)})
    names = list(table.column_names)
    numbers = numeric if is_dataframe(y) else [n for n in numeric if n == name]
    return make_attributes(table, numeric=numbers, bins={}, keep=names, keep_label=keep_label)


def _as_column(labels: ArrayLike) -> pa.Array:
    values = np.asarray(labels)
    if values.ndim != 1:
        raise DataError(
            f"The labels have shape {values.shape}. Give one for each user, or a mapping from names to labels."
        )
    if np.issubdtype(values.dtype, np.integer):
        return pa.array(values, mask=values == UNDISCLOSED)
    return pa.array(values.tolist() if values.dtype == object else values, from_pandas=True)


def _as_names(names: str | Sequence[str] | None) -> list[str]:
    return [] if names is None else [names] if isinstance(names, str) else list(names)


def _convert_back(table: pa.Table, original: Any) -> Any:
    library = type(original).__module__.split(".")[0]
    if library == "pandas":
        # pandas aligns rows by the index, so it must come back as it was.
        frame = table.select([str(name) for name in original.columns]).to_pandas(ignore_metadata=True)
        return frame.set_axis(original.index, axis=0).set_axis(original.columns, axis=1)
    if library == "polars":
        return import_module("polars").from_arrow(table)
    if library == "narwhals":
        return import_module("narwhals").from_arrow(table, backend=original.implementation)
    return table
