"""Values that have broken programs, for every place where a value can be given."""

from __future__ import annotations

DIGITS = "9" * 5_000

TEXTS = (
    "",
    " ",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "1e400",
    "-1",
    "0",
    "-0.0",
    "1e-320",
    "1e20",
    "3.5e38",
    "2147483648",
    "9223372036854775808",
    "1.0000000000000001",
    "0x10",
    "1_000",
    "1,5",
    "true",
    "null",
    "None",
    "N/A",
    "unknown",
    "rest",
    "ü",
    "a & b",
    "a.b c",
    "日本",
    "'",
    '"',
    '"a,b"',
    "=1+1",
    "<script>alert(1)</script>",
    "{{ 7 * 7 }}",
    "\x1b[31mred",
    "\x07",
    "\x00",
    "\u202egnp",
    "\ufeff",
    "\u0661",
    "..",
    "/",
    "a\tb",
    "%s%n",
    "x" * 3_000,
    DIGITS,
)
"""Texts; some look like numbers."""

NUMBERS: tuple[object, ...] = (0, -1, 1, 2, 0.5, 1e-300, 1e300, 2**31, 2**53 + 1, 2**63, 10**25, float("nan"))

ANYTHING: tuple[object, ...] = (None, True, False, [], {}, [[]], {"a": {}}, [1, "a", None], *NUMBERS, *TEXTS)

CHUNKS = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\n",
    b"\r",
    b",",
    b'"',
    b"\x1b[2J",
    b"\x80\x81",
    b"PK\x03\x04",
    b"PAR1",
    b"\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808, 4), }\n",
    b"\x1f\x8b\x08\x00",
    b"{" * 3_000,
    b"[" * 3_000,
    b"9" * 5_000,
    b"a," * 2_000,
    b"x" * 140_000,
    "\u202e\u2028é".encode(),
    "abc".encode("utf-16"),
)
"""Bytes put in front of a file, into it, or in its place."""
