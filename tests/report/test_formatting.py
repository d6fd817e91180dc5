from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recveil
from recveil.core.types import Estimate
from recveil.report.formatting import (
    MIN_USERS_SHOWN,
    MISSING,
    ShownEstimate,
    format_class_size,
    format_command,
    format_estimate,
    format_number,
    format_p_value,
    format_text,
    is_too_small,
    join_names,
    redact_sentence,
    replace_controls,
    select_hidden_classes,
)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_a_missing_number_is_shown_as_missing(value: float | None) -> None:
    assert format_number(value) == MISSING


def test_numbers_have_a_true_minus_thousands_and_no_negative_zero() -> None:
    assert format_number(-0.0312) == "−0.031"
    assert format_number(-0.0001) == "0.000"
    assert format_number(0.0312, signed=True) == "+0.031"
    assert format_number(-0.0001, signed=True) == "0.000"
    assert format_number(1234567, 0) == "1,234,567"


@given(st.floats(-1e6, 1e6))
def test_a_printed_number_reads_back_to_within_its_digits(value: float) -> None:
    printed = format_number(value, 4).replace("−", "-").replace(",", "")
    assert abs(float(printed) - value) <= 0.5e-4 + 1e-9


def test_a_p_value_is_never_printed_as_zero() -> None:
    assert [format_p_value(p) for p in (0.0004, 0.001, math.nan)] == ["< 0.001", "0.001", MISSING]


def test_an_interval_with_one_end_missing_is_not_shown() -> None:
    assert format_estimate(Estimate(0.5, 0.4, 0.6, 1200)) == ShownEstimate("0.500", "[0.400, 0.600]", "1,200")
    assert format_estimate(Estimate(0.5, math.nan, 0.6, 10)).interval == ""
    assert format_estimate(None) == ShownEstimate(MISSING, "", MISSING)


@given(st.text(st.characters(), max_size=40))
def test_text_can_be_written_and_has_no_control_characters(value: str) -> None:
    shown = format_text(value)
    shown.encode("utf-8")
    assert all(ord(character) >= 32 for character in shown)


def test_text_replaces_what_cannot_be_shown_and_leaves_ordinary_letters() -> None:
    assert format_text("a\ud800b\x00c\nd\u202ee") == "a\ufffdb\ufffdc d\ufffde"
    assert format_text("Zoë 漢字 <b>") == "Zoë 漢字 <b>"


@pytest.mark.parametrize(("users", "small"), [(0, True), (9, True), (10, False), (5000, False), (None, False)])
def test_small_classes_are_not_counted(users: int | None, small: bool) -> None:
    assert is_too_small(users) is small
    assert ("fewer" in format_class_size(users)) is small


@pytest.mark.parametrize(
    ("sizes", "hidden"),
    [
        ({"a": 197, "b": 197, "c": 6}, {"c", "a"}),
        ({"a": 50, "b": 40, "c": 6, "d": 3}, {"c", "d", "b"}),
        ({"a": 50, "b": 40, "c": 6, "d": 4}, {"c", "d"}),
        ({"a": 90, "b": 5}, {"a", "b"}),
        ({"a": 90, "b": 10, "c": None}, set()),
        ({}, set()),
    ],
)
def test_small_classes_hide_a_second_one_so_that_differences_tell_nothing(
    sizes: dict[str, int | None], hidden: set[str]
) -> None:
    assert select_hidden_classes(sizes) == hidden


def test_pages_of_several_lines_lose_control_characters() -> None:
    assert replace_controls("<p>a\u202eb\x1bc</p>\n\t<p>") == "<p>a\ufffdb\ufffdc</p>\n\t<p>"


def test_a_group_is_too_small_below_the_bound_of_the_audits() -> None:
    source = Path(recveil.__file__).parent / "audits" / "attribute" / "leak_map.py"
    assert f"\nMIN_USERS_PER_NUMBER = {MIN_USERS_SHOWN}\n" in source.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("sentence", "shown"),
    [
        ("its 7 users are too few", "its fewer than 10 users are too few"),
        ("1 user has no value", "fewer than 10 user has no value"),
        ("its 17 users, 1,007 users, 0.7 users", "its 17 users, 1,007 users, 0.7 users"),
        ("excluded for 5 folds", "excluded for 5 folds"),
        ("7\x00 users", "7\ufffd users"),
        ("cannot read /home/alice/x.csv: gone", "cannot read x.csv: gone"),
        ("see https://example.org/a/b and users/items", "see https://example.org/a/b and users/items"),
    ],
)
def test_sentences_tell_neither_small_counts_nor_folders(sentence: str, shown: str) -> None:
    assert redact_sentence(sentence) == shown


def test_a_command_shows_the_last_component_of_absolute_paths_only() -> None:
    line = ["/usr/bin/recveil", "audit", "--run=/home/alice/run/", "--bins", "age=35,45", "--out", "/a/my report.html"]
    line += ["C:\\Users\\alice\\x.csv", "~/secret/y.csv", "data/z.csv", "s3://bucket/t.parquet"]
    assert format_command(line) == (
        "recveil audit --run=run --bins age=35,45 --out 'my report.html' x.csv y.csv data/z.csv s3://bucket/t.parquet"
    )


def test_names_are_joined_as_in_a_sentence() -> None:
    assert [join_names(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
