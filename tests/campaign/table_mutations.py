"""Damage to tables and arrays that stay readable files of their format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from campaign.hostile_values import TEXTS

DTYPES = ("i1", "u8", "f2", "f4", "f8", ">f4", ">i8", "c8", "?", "M8[s]", "m8[D]", "U3", "S3", "V4", "i4,f4")
ARROW_TYPES = (
    pa.int8(), pa.uint64(), pa.float16(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(), pa.string_view(),
    pa.binary(), pa.binary(3), pa.date32(), pa.timestamp("us"), pa.time64("us"), pa.duration("s"), pa.decimal128(20, 3),
    pa.dictionary(pa.int8(), pa.string()), pa.null(), pa.list_(pa.int64()), pa.list_(pa.float32()),
    pa.struct([("a", pa.int64())]), pa.map_(pa.string(), pa.int64()), pa.list_(pa.string()),
)  # fmt: skip
NAMES = (
    "",
    "user_id",
    "item_id",
    "gender",
    "embedding",
    "emb_0",
    "emb_00",
    "emb_9999999",
    "rank",
    "\x1b[1m",
    "a,b",
    "x" * 300,
)
NUMBERS = (np.nan, np.inf, -np.inf, 0.0, 1e-42, 1e20, 3e38, -1.0, 0.5, 2.0**40)


def damage_csv(path: Path, rng: np.random.Generator) -> None:
    """Change fields, rows, the header, separators or the encoding of a text table."""
    rows = [line.split(",") for line in path.read_text().splitlines()]
    for _ in range(rng.integers(1, 4)):
        kind, row = rng.integers(8), int(rng.integers(len(rows)))
        field = int(rng.integers(len(rows[row])))
        if kind <= 1:
            rows[row][field] = TEXTS[rng.integers(len(TEXTS))]
        elif kind == 2:  # a whole column
            text = TEXTS[rng.integers(len(TEXTS))]
            rows[1:] = [[*r[:field], text, *r[field + 1 :]] for r in rows[1:]]
        elif kind == 3:
            rows[0][min(field, len(rows[0]) - 1)] = NAMES[rng.integers(len(NAMES))]
        elif kind == 4:
            rows = rows[: rng.integers(1, 4)]
        elif kind == 5:
            rows += rows[1 : int(rng.integers(1, 30))]
        elif kind == 6:
            rows[row] = rows[row][:field] + [""] * int(rng.integers(3))
        else:
            rows = [r[:field] + r[field + 1 :] for r in rows]
        rows = [r or [""] for r in rows]
    separator = (",", ",", ",", "\t", ";", "::", " ")[rng.integers(7)]
    text = ("\n", "\n", "\n", "\r\n", "\r")[rng.integers(5)].join(separator.join(row) for row in rows)
    encoding = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")[rng.integers(6)]
    path.write_bytes(text.encode(encoding, "replace"))


def damage_parquet(path: Path, rng: np.random.Generator) -> None:
    """Change the types, names, values, nulls or count of rows of a Parquet table."""
    table = pq.read_table(path)
    for _ in range(rng.integers(1, 3)):
        kind, column = rng.integers(7), int(rng.integers(max(table.num_columns, 1)))
        if not table.num_columns:
            break
        name, values = table.column_names[column], table.column(column)
        if kind <= 1:
            table = table.set_column(column, name, _make_column(len(table), rng))
        elif kind == 2:
            table = table.rename_columns([*table.column_names[:column], NAMES[rng.integers(len(NAMES))],
                                          *table.column_names[column + 1 :]])  # fmt: skip
        elif kind == 3:
            table = table.remove_column(column)
        elif kind == 4:
            table = table.append_column(NAMES[rng.integers(len(NAMES))], values)
        elif kind == 5:
            hidden = pa.array(rng.random(len(table)) < rng.random())
            table = table.set_column(column, name, pa.chunked_array([_hide_values(values, hidden)]))
        else:
            table = table.slice(0, int(rng.integers(4)))
    pq.write_table(table, path)


def damage_npy(path: Path, rng: np.random.Generator) -> None:
    """Change the type, shape or values of an array."""
    np.save(path, damage_array(np.load(path), rng))


def damage_arrays(path: Path, rng: np.random.Generator) -> None:
    """Change, rename or remove arrays of a safetensors file; its metadata stays."""
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        metadata = file.metadata()
    arrays = load_file(path)
    names = list(arrays)
    name = names[rng.integers(len(names))]
    kind = rng.integers(5)
    if kind <= 2:
        arrays[name] = np.ascontiguousarray(damage_array(arrays[name], rng))
    elif kind == 3:
        arrays[NAMES[rng.integers(len(NAMES))]] = arrays.pop(name)
    else:
        arrays.pop(name)
    try:
        save_file(arrays, path, metadata=metadata)
    except (KeyError, SafetensorError):  # a type that the format does not have: damage the bytes of the values instead
        content = bytearray(path.read_bytes())
        content[-64:] = rng.bytes(64)
        path.write_bytes(content)


def damage_array(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return an array of another type, shape or with other values."""
    kind = rng.integers(5)
    if kind == 0:
        changed = np.zeros(array.shape, DTYPES[rng.integers(len(DTYPES))])
        if changed.dtype.kind in "iuf?":
            changed[...] = np.clip(np.abs(array), 0, 100)
        return changed
    if kind == 1:
        shapes = ((), (0,), (array.size,), (1, *array.shape), (array.size, 1), (0, 4), (array.size, 1, 1))
        shape = shapes[rng.integers(len(shapes))]
        return np.resize(array, shape)
    if kind == 2:
        return array[: rng.integers(5)]
    changed = array.copy()
    number = NUMBERS[rng.integers(len(NUMBERS))]
    share = (1.0, 0.5, 0.02)[rng.integers(3)]
    with np.errstate(all="ignore"):
        changed[rng.random(array.shape) < share] = (
            number if changed.dtype.kind == "f" or np.isfinite(number) and abs(number) < 2**31 else -1
        )
    return changed


def _make_column(n_rows: int, rng: np.random.Generator) -> pa.Array:
    """Make a column of a random type; values that the type does not take are null."""
    arrow_type = ARROW_TYPES[rng.integers(len(ARROW_TYPES))]
    plain = (1, 1.5, "a", b"abc", b"\xff\xfe\xfd", [1, 2], ["a"], {"a": 1}, [("a", 1)], True, "", "1")
    taken = []
    for value in plain:
        try:
            taken.append(pa.scalar(value, arrow_type).as_py())
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError, ValueError, OverflowError):
            continue
    if arrow_type == pa.float64():
        taken = [float(number) for number in NUMBERS]
    values = [taken[i] for i in rng.integers(len(taken), size=n_rows)] if taken else [None] * n_rows
    return pa.array(values, arrow_type)


def _hide_values(values: pa.ChunkedArray, hidden: pa.Array) -> pa.Array:
    pairs = zip(values.to_pylist(), hidden.to_pylist(), strict=True)
    return pa.array([None if hide else value for value, hide in pairs], values.type)
