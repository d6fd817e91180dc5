"""Attributes of users from the columns of a table: classes, classes cut from numbers, or numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recveil.core.errors import DataError, UsageError
from recveil.core.types import UNDISCLOSED, Attribute, FloatArray, IntArray

__all__ = [
    "MAX_CLASSES",
    "AttributeTable",
    "convert_to_numbers",
    "cut_numbers",
    "drop_empty_classes",
    "is_undisclosed_label",
    "join_attributes",
    "make_attributes",
    "select_auditable",
]

MAX_JOINT_CLASSES = 10_000
"""Combinations of classes that occur, in one joint attribute."""

MAX_CLASSES = 200
"""Distinct values that a column of classes has at most; a column with more holds names or addresses."""

_FEWEST_USERS = 5
"""Users of a class that five folds can hold; an attribute that nobody named needs two such classes."""

_EMPTY_WORDS = ("", "nan", "null")
_UNDISCLOSED_WORDS = frozenset((
    "?", "??", "unknown", "unk", "na", "n/a", "#n/a", "n.a", "nil", "none", "missing", "undefined", "undisclosed",
    "unspecified", "unanswered", "withheld", "no answer", "no response", "don't know", "dont know", "do not know",
))  # fmt: skip
"""Words for an undisclosed value, as `_normalize_label` writes them."""
_UNDISCLOSED_PHRASE = re.compile(
    r"not (known|disclosed|specified|stated|available|applicable|given|provided|reported|recorded|answered|set)|"
    r"(i |i would |i'd |would )?(prefer|rather) not( to)?( .*)?|(declined?|refused?) to .*"
)
_UNDISCLOSED_NUMBERS = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
_MAX_EXACT_INTEGER = 2.0**53
"""Whole numbers up to this size are exact as 64-bit floats."""


class AttributeTable(dict[str, Attribute]):
    """Attributes by name, with notes on what was left out or changed when they were read.

    Attributes:
        notes: sentences for the reader of the numbers.
    """

    def __init__(self, attributes: Mapping[str, Attribute], notes: Sequence[str] = ()) -> None:
        super().__init__(attributes)
        self.notes = tuple(notes)


def make_attributes(
    users: pa.Table,
    *,
    numeric: Sequence[str] = (),
    bins: Mapping[str, Sequence[float]],
    keep: Sequence[str] = (),
    keep_label: Collection[str] | None = (),
    undisclosed: Collection[str] = (),
    row_counts: IntArray | None = None,
) -> AttributeTable:
    """Make an attribute of every column; null, empty and NaN are undisclosed.

    So are labels that stand for it (see `is_undisclosed_label`). Lists and columns with more than `MAX_CLASSES`
    distinct values are left out unless they are named. The notes say so; they are about the columns in `keep`, or about
    all if there are none.

    Args:
        users: one row for each user.
        numeric: columns to keep as numbers.
        bins: columns to cut into classes, with the lower edges of all classes but the first.
        keep: columns to make attributes however many values they have.
        keep_label: labels to keep as classes though they look undisclosed; None keeps all of them.
        undisclosed: further labels of users who did not disclose.
        row_counts: users that each row stands for; one if None.

    Raises:
        DataError: a named column does not exist, is no text, or does not hold numbers.
    """
    named = {*numeric, *bins, *keep}
    absent = sorted(named - set(users.column_names))
    if absent:
        raise DataError(f"The users have no column '{absent[0]}'. Their columns: {', '.join(users.column_names)}.")
    attributes, notes, missing = {}, [], {*(keep_label or ()), *undisclosed}
    for name in users.column_names:
        text, reason = _read_text(users.column(name))
        if text is None:
            if name in named:
                raise DataError(f"The column '{name}' {reason}, not one value for each user. Choose another one.")
            notes += [] if keep else [f"{name} was left out: it {reason}."]
            continue
        missing -= _find_named_labels(text, missing)
        text, note = _drop_undisclosed_labels(name, text, keep_label, undisclosed, row_counts)
        attribute = _make_attribute(name, text, bins.get(name), is_numeric=name in numeric)
        if name not in named and len(attribute.labels) > MAX_CLASSES:
            notes += [] if keep else [_describe_many_classes(attribute)]
            continue
        attributes[name] = attribute
        notes += note if not keep or name in keep else []
    notes += [f"No user has the label '{label}', so naming it changed nothing." for label in sorted(missing)]
    return AttributeTable(attributes, notes)


def _find_named_labels(text: pa.ChunkedArray, named: Collection[str]) -> set[str]:
    """Find those of the named labels that a user has, whatever their case."""
    if not named:
        return set()
    labels = {label.lower() for label in text.unique().to_pylist() if label is not None}
    return {name for name in named if name.strip().lower() in (*labels, *_EMPTY_WORDS)}


def is_undisclosed_label(label: str, labels: Collection[str] = ()) -> bool:
    """Tell whether a label stands for an undisclosed value, such as "unknown", "N/A" or -1.

    Case, blanks, hyphens, underscores and marks around a word do not matter. Numbers such as -1 and 9999 do only where
    two or more other labels are: among words, or among numbers that they are apart from. A negative one is where no
    other number is negative, 9999 where all are less than half of it.

    Args:
        label: the label, of any case.
        labels: all labels of its column; without them no number stands for an undisclosed value.
    """
    return _is_undisclosed_word(label) or label.strip() in {other.strip() for other in _find_number_codes(labels)}


def _is_undisclosed_word(label: str) -> bool:
    word = _normalize_label(label)
    return word in _EMPTY_WORDS or word in _UNDISCLOSED_WORDS or _UNDISCLOSED_PHRASE.fullmatch(word) is not None


def _normalize_label(label: str) -> str:
    """Write a label in lower case, words apart by single blanks, without marks around it, as in "<NA>"."""
    return " ".join(label.lower().replace("’", "'").replace("_", " ").replace("-", " ").strip(" .()<>[]*'\"").split())


def _find_number_codes(labels: Collection[str]) -> list[str]:
    """Find the labels among numbers that stand for an undisclosed value."""
    words = [label for label in labels if not _is_undisclosed_word(label)]
    numbers = {word: number for word in words if (number := _parse_number(word)) is not None}
    codes = {word: number for word, number in numbers.items() if number in _UNDISCLOSED_NUMBERS}
    if len(words) - len(codes) < 2:
        return []
    others = [number for word, number in numbers.items() if word not in codes]
    low, high = min(others, default=0.0), max(others, default=0.0)
    return [word for word, code in codes.items() if (low >= 0 if code < 0 else high < code / 2)]


def _parse_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _drop_undisclosed_labels(
    name: str,
    text: pa.ChunkedArray,
    keep_label: Collection[str] | None,
    undisclosed: Collection[str],
    row_counts: IntArray | None,
) -> tuple[pa.ChunkedArray, list[str]]:
    """Make labels null that stand for an undisclosed value; return the sentence that counts their users."""
    if keep_label is None:
        return text, []
    kept = {label.strip().lower() for label in keep_label}
    labels = [label for label in text.unique().to_pylist() if label is not None and label.lower() not in kept]
    codes = _find_number_codes(labels)
    named = {label.strip().lower() for label in undisclosed}
    dropped = sorted(n for n in labels if n.lower() in named or n in codes or _is_undisclosed_word(n))
    if not dropped:
        return text, []
    place = pc.fill_null(pc.index_in(text, value_set=pa.array(dropped, pa.string())), -1).to_numpy()
    is_dropped = place >= 0
    counts = np.bincount(place[is_dropped], None if row_counts is None else row_counts[is_dropped], len(dropped))
    parts = [f"{int(count):,} users labelled '{label}'" for label, count in zip(dropped, counts, strict=True) if count]
    cure = "" if {label.lower() for label in dropped} <= named else "; name a label by `keep_label` to keep it"
    note = f"{name}: {' and '.join(parts)} are treated as undisclosed{cure}."
    return pc.if_else(pa.array(is_dropped), None, text), [note]


def _describe_many_classes(attribute: Attribute) -> str:
    reason = (
        f"{attribute.name} was left out: it has {len(attribute.labels):,} distinct values, more than {MAX_CLASSES}."
    )
    if convert_to_numbers(attribute) is None:
        return f"{reason} Name it as a target to keep it."
    return f"{reason} Read it as numbers by `numeric`, or cut it into classes by `bins`."


def select_auditable(attributes: Mapping[str, Attribute]) -> tuple[list[str], list[str]]:
    """Select the attributes that an audit can guess, where nobody named any; return them and notes on the others."""
    reasons = {name: _find_hindrance(attribute) for name, attribute in attributes.items()}
    chosen = [name for name, reason in reasons.items() if not reason]
    return chosen, [f"{name} was left out: {reason}." for name, reason in reasons.items() if reason]


def _find_hindrance(attribute: Attribute) -> str:
    """Say why an attribute cannot be guessed; an empty text if it can."""
    if not attribute.known.any():
        return "nobody disclosed it"
    if attribute.values is not None:
        is_constant = np.nanmin(attribute.values) == np.nanmax(attribute.values)
        return "all users who disclose it have the same number" if is_constant else ""
    counts = attribute.counts
    if (counts > 0).sum() < 2:
        return f"all users who disclose it have '{attribute.labels[int(counts.argmax())]}'"
    has_two = (counts >= _FEWEST_USERS).sum() >= 2
    return "" if has_two else f"it has no two classes of {_FEWEST_USERS} users; name it as a target to keep it"


def cut_numbers(name: str, values: FloatArray, edges: Sequence[float]) -> Attribute:
    """Cut numbers into classes at the edges; an edge belongs to the class above it.

    Args:
        name: name of the attribute.
        values: the numbers; NaN is undisclosed.
        edges: lower edges of all classes but the first.
    """
    cuts = np.asarray(edges, dtype=np.float64)
    if len(cuts) == 0 or not np.isfinite(cuts).all() or (np.diff(cuts) <= 0).any():
        raise DataError(f"Cannot cut '{name}' at {list(edges)}. Give one or more edges, each above the one before.")
    codes = np.where(np.isnan(values), UNDISCLOSED, np.searchsorted(cuts, values, side="right")).astype(np.int64)
    return drop_empty_classes(Attribute(name, codes, _label_bands(cuts)))


def join_attributes(attributes: Sequence[Attribute]) -> Attribute:
    """Join attributes into one whose classes are the combinations that occur.

    A user is undisclosed if any of the attributes is.

    Raises:
        UsageError: there are more combinations than an audit can hold apart.
    """
    codes = np.stack([a.codes for a in attributes])
    known = (codes != UNDISCLOSED).all(0)
    combinations, place = np.unique(codes[:, known], axis=1, return_inverse=True)
    name = " & ".join(a.name for a in attributes)
    if combinations.shape[1] > MAX_JOINT_CLASSES:
        raise UsageError(
            f"'{name[:60]}' has {combinations.shape[1]:,} joint classes, and at most {MAX_JOINT_CLASSES:,} are "
            "audited. Name fewer targets."
        )
    joint = np.full(len(known), UNDISCLOSED, dtype=np.int64)
    joint[known] = place.reshape(-1)
    labels = (" & ".join(a.labels[k] for a, k in zip(attributes, each, strict=True)) for each in combinations.T)
    return Attribute(name, joint, tuple(labels))


def convert_to_numbers(attribute: Attribute) -> FloatArray | None:
    """Convert the attribute to numbers; None if its classes are no numbers.

    Undisclosed users get NaN.
    """
    if attribute.values is not None:
        return attribute.values
    try:
        known = np.array([float(label) for label in attribute.labels], dtype=np.float64)
    except ValueError:
        return None
    return np.append(known, np.nan)[attribute.codes]


def drop_empty_classes(attribute: Attribute) -> Attribute:
    """Drop the classes that no user has."""
    if attribute.is_numeric:
        return attribute
    used = attribute.counts > 0
    new = np.append(np.where(used, np.cumsum(used) - 1, UNDISCLOSED), UNDISCLOSED).astype(np.int64)
    labels = tuple(label for label, has_users in zip(attribute.labels, used, strict=True) if has_users)
    return replace(attribute, codes=new[attribute.codes], labels=labels)


def _label_bands(cuts: FloatArray) -> tuple[str, ...]:
    whole = bool((cuts == np.floor(cuts)).all())
    low = [f"{edge:g}" for edge in cuts]
    high = [f"{edge - 1:g}" for edge in cuts] if whole else low
    between = [a if whole and a == b else f"{a}-{b}" for a, b in zip(low[:-1], high[1:], strict=True)]
    return (f"<{low[0]}", *between, f"{low[-1]}+")


def _read_text(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray | None, str]:
    """Read a column as text; None with the reason if it holds lists, or bytes or a type that are no text."""
    if pa.types.is_nested(column.type):
        return None, f"holds {column.type}"
    try:
        return _convert_to_text(column), ""
    except pa.ArrowInvalid:
        return None, "holds bytes that are no text"
    except pa.ArrowNotImplementedError:
        return None, f"holds {column.type}"


def _convert_to_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
        column = pc.if_else(pc.is_nan(column), None, column)
        # A larger number would be rounded, or become the largest integer, and two classes one.
        exact = pc.and_(pc.equal(pc.floor(column), column), pc.less_equal(pc.abs(column), _MAX_EXACT_INTEGER))
        if pc.all(exact, min_count=0).as_py():
            column = column.cast(pa.int64())
    text = pc.utf8_trim_whitespace(column.cast(pa.string()))
    return pc.if_else(pc.is_in(pc.utf8_lower(text), value_set=pa.array(_EMPTY_WORDS)), None, text)


def _make_attribute(name: str, text: pa.ChunkedArray, edges: Sequence[float] | None, *, is_numeric: bool) -> Attribute:
    if edges is None and not is_numeric:
        return _read_classes(name, text)
    values = _read_numbers(name, text)
    if edges is not None:
        return cut_numbers(name, values, edges)
    return Attribute(name, np.full(len(values), UNDISCLOSED, dtype=np.int64), (), values)


def _read_numbers(name: str, text: pa.ChunkedArray) -> FloatArray:
    try:
        values: FloatArray = text.cast(pa.float64()).to_numpy().astype(np.float64)
    except pa.ArrowInvalid:
        raise DataError(f"The column '{name}' holds text that is not a number. Read it as classes instead.") from None
    return np.where(np.isinf(values), np.nan, values)


def _read_classes(name: str, text: pa.ChunkedArray) -> Attribute:
    values = [label for label in text.unique().to_pylist() if label is not None]
    labels = _sort_labels(values)
    codes: IntArray = pc.fill_null(pc.index_in(text, value_set=pa.array(labels, pa.string())), UNDISCLOSED).to_numpy()
    return Attribute(name, codes.astype(np.int64), tuple(labels))


def _sort_labels(labels: list[str]) -> list[str]:
    try:
        return sorted(labels, key=lambda label: (float(label), label))
    except ValueError:
        return sorted(labels)
