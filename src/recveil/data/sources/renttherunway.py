"""RentTheRunway (Misra, Wan and McAuley 2018), the sister of ModCloth by the same authors.

`renttherunway_final_data.json`, also .gz: one JSON object a line with user_id, item_id, rating (text, 2 to 10),
review_date ("April 20, 2016") and what users say of themselves: body type, age, height (5' 8"), weight (137lbs) and
bust size (34d). Fields were read in public code. The prepared tables `interactions.parquet` and `users.parquet` are
read as well.

Ages outside 5-100 are undisclosed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from recveil.core.errors import DataError
from recveil.data.cleaning import Cleaning, mask_implausible_ages
from recveil.data.io.json_lines import read_json_lines, take_first_known
from recveil.data.io.tables import RawTables, drop_missing_ids, read_raw, require_file
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "read_renttherunway"]

OFFICIAL_FILE = "renttherunway_final_data.json*"

_REQUIRED = ("user_id", "item_id", "rating")
_FEET_AND_INCHES = r"^\s*(?P<feet>\d)\s*'\s*(?P<inches>\d{1,2})"
_BUST = r"^\s*(?P<number>\d{2})\s*(?P<letter>[a-z/+]+)"
_POUNDS = r"^\s*(?P<pounds>\d{2,3})\s*lbs"


def read_renttherunway(folder: Path) -> RawTables:
    """Read the ratings with their dates, and what users say of themselves; of several values the first one counts."""
    path = require_file(folder, OFFICIAL_FILE)
    rows = read_json_lines(path)
    missing = sorted(set(_REQUIRED) - set(rows.column_names))
    if missing:
        raise DataError(f"{path} has no field '{missing[0]}'. Take the official file, unchanged.")
    return RawTables(drop_missing_ids(_read_ratings(rows), path), mask_implausible_ages(_read_users(rows)))


def _read_prepared(folder: Path) -> RawTables:
    """Read the prepared tables, with the same rule about ages."""
    raw = read_raw(folder)
    return raw if raw.users is None else replace(raw, users=mask_implausible_ages(raw.users))


def _read_ratings(rows: pa.Table) -> pa.Table:
    columns = {"user_id": rows.column("user_id"), "item_id": rows.column("item_id")}
    columns["rating"] = _to_numbers(rows.column("rating"))
    if "review_date" in rows.column_names:
        dates = rows.column("review_date")
        columns["timestamp"] = pc.strptime(dates, format="%B %d, %Y", unit="s", error_is_null=True)
    return pa.table(columns)


def _read_users(rows: pa.Table) -> pa.Table:
    """Read body type, age, height in inches, weight in pounds and bust size of each user."""
    fields = ("body type", "age", "height", "weight", "bust size")
    users = take_first_known(rows, {name: name.replace(" ", "_") for name in fields})
    columns = {"user_id": users.column("user_id")}
    known = {name: users.column(name) for name in users.column_names}
    if "body_type" in known:
        columns["body_type"] = known["body_type"]
    if "age" in known:
        columns["age"] = _to_numbers(known["age"])
    if "height" in known:
        parts = _extract_parts(known["height"], _FEET_AND_INCHES)
        columns["height_in"] = pc.add(pc.multiply(_to_numbers(parts["feet"]), 12.0), _to_numbers(parts["inches"]))
    if "weight" in known:
        columns["weight_lbs"] = _to_numbers(_extract_parts(known["weight"], _POUNDS)["pounds"])
    if "bust_size" in known:
        parts = _extract_parts(known["bust_size"], _BUST)
        columns["bust_size_num"], columns["bust_size_letter"] = _to_numbers(parts["number"]), parts["letter"]
    return pa.table(columns)


def _extract_parts(texts: pa.ChunkedArray, pattern: str) -> dict[str, pa.Array]:
    """Extract the named parts of each text; null where the text is another."""
    found = pc.extract_regex(texts, pattern=pattern)
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    return {field.name: pc.struct_field(found, field.name) for field in found.type}


def _to_numbers(values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Read numbers from text; null where it is none."""
    if not pa.types.is_string(values.type):
        return values.cast(pa.float64())
    is_number = pc.match_substring_regex(values, r"^\s*\d+(\.\d+)?\s*$")
    return pc.utf8_trim_whitespace(pc.if_else(is_number, values, None)).cast(pa.float64())


SOURCES: dict[str, Source] = {
    "renttherunway": Source(
        title="RentTheRunway: rented clothes, with body type, age, height, weight and size of the users",
        read=read_renttherunway,
        read_prepared=_read_prepared,
        markers=(OFFICIAL_FILE,),
        license="Research use with citation; no license is stated.",
        citation="Misra, Wan and McAuley. Decomposing Fit Semantics for Product Size Recommendation. RecSys, 2018.",
        page="https://cseweb.ucsd.edu/~jmcauley/datasets.html#clothing_fit",
        cleaning=Cleaning(user_core=5, item_core=5),
    ),
}
