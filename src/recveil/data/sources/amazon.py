"""Amazon ratings and reviews (McAuley lab), one category at a time.

`ratings_CATEGORY.csv` has no header: user, item, rating, time in the release of 2014; item, user, rating, time in that
of 2018 (`CATEGORY.csv`). The items show which it is: their ids have ten characters. A file with a header is read by it.
`reviews_CATEGORY.json` (also `_5` for the 5-core, also .gz) has one JSON object a line, of which reviewerID, asin,
overall and unixReviewTime are used. The formats were read in public code. There are no attributes.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from recveil.data.io.tables import RawTables, drop_missing_ids, read_table, require_file, select_interactions
from recveil.data.io.text import check_file, describe_read_error, read_delimited, read_first_line
from recveil.data.sources.source import Source

__all__ = ["SOURCES", "list_file_patterns", "read_category", "read_file"]

LICENSE = "Research use with citation; no license is stated."
CITATION = "McAuley et al. Image-based Recommendations on Styles and Substitutes. SIGIR, 2015."
_PAGE = "http://jmcauley.ucsd.edu/data/amazon/index_2014.html"
_FILES = "http://snap.stanford.edu/data/amazon/productGraph/categoryFiles"
_REVIEW_TYPES = {"reviewerID": pa.string(), "asin": pa.string(), "overall": pa.float64(), "unixReviewTime": pa.int64()}


def list_file_patterns(category: str) -> tuple[str, ...]:
    """List the file names of a category, ratings first."""
    return (
        f"ratings_{category}.csv*",
        f"{category}.csv*",
        f"reviews_{category}.json*",
        f"reviews_{category}_5.json*",
        f"{category}.json*",
        f"{category}_5.json*",
    )


def read_category(folder: Path, *, category: str) -> RawTables:
    """Read the ratings of a category, from its ratings or else its reviews."""
    return read_file(require_file(folder, *list_file_patterns(category)))


def read_file(path: Path) -> RawTables:
    """Read one file of ratings (.csv) or reviews (.json, one object a line)."""
    table = _read_ratings(path) if ".csv" in path.suffixes else _read_reviews(path)
    return RawTables(drop_missing_ids(table, path))


def _read_ratings(path: Path) -> pa.Table:
    cells = read_first_line(check_file(path), "utf8").split(",")
    if not cells[-1].strip().replace(".", "", 1).isdigit():
        return select_interactions(read_table(path), path)
    numbers = {"rating": pa.float64(), "timestamp": pa.int64()}
    table = read_delimited(path, delimiter=",", names=["first", "second", *numbers], types=numbers)
    # Item ids have ten characters: the column with more of these holds the items.
    shares = [pc.mean(pc.equal(pc.utf8_length(table.column(name)), 10)).as_py() for name in ("first", "second")]
    user, item = ("second", "first") if shares[0] > shares[1] else ("first", "second")
    order = {"user_id": user, "item_id": item, "rating": "rating", "timestamp": "timestamp"}
    return pa.table({new: table.column(old) for new, old in order.items()})


def _read_reviews(path: Path) -> pa.Table:
    try:
        with pa.input_stream(str(check_file(path)), compression="detect") as stream:
            table = pyarrow.json.read_json(
                stream,
                read_options=pyarrow.json.ReadOptions(block_size=1 << 24),
                parse_options=pyarrow.json.ParseOptions(
                    explicit_schema=pa.schema(list(_REVIEW_TYPES.items())), unexpected_field_behavior="ignore"
                ),
            )
    except (pa.ArrowException, OSError, EOFError) as error:
        raise describe_read_error(path, error) from error
    return select_interactions(table, path)


def _describe_category(category: str) -> Source:
    return Source(
        title=f"Amazon {category.replace('_', ' ')}, ratings of 2014, without attributes",
        read=partial(read_category, category=category),
        markers=list_file_patterns(category),
        license=LICENSE,
        citation=CITATION,
        page=_PAGE,
        url=f"{_FILES}/ratings_{category}.csv",
    )


SOURCES: dict[str, Source] = {
    "amazon-beauty": _describe_category("Beauty"),
    "amazon-digital-music": _describe_category("Digital_Music"),
}
