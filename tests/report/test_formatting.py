from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recveil.audits.attribute.leak_map import FEWEST
from recveil.report.formatting import (
    MISSING,
    SMALL_CELL,
    class_count,
    discreet,
    estimate,
    finite,
    number,
    p_value,
    text,
    too_small,
)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf, "0.5", True, [], {}])
def test_what_is_not_a_number_is_shown_as_missing(value):
    assert finite(value) is None
    assert number(value) == MISSING


def test_numbers_have_a_true_minus_thousands_and_no_negative_zero():
    assert number(-0.0312) == "−0.031"
    assert number(-0.0001) == "0.000"
    assert number(0.0312, signed=True) == "+0.031"
    assert number(-0.0001, signed=True) == "0.000"
    assert number(1234567, 0) == "1,234,567"


@given(st.floats(-1e6, 1e6))
def test_a_printed_number_reads_back_to_within_its_digits(value):
    printed = number(value, 4).replace("−", "-").replace(",", "")
    assert abs(float(printed) - value) <= 0.5e-4 + 1e-9


def test_a_p_value_is_never_printed_as_zero():
    assert p_value(0.0004) == "< 0.001"
    assert p_value(0.001) == "0.001"
    assert p_value(None) == MISSING


def test_an_interval_with_one_end_missing_is_not_shown():
    assert estimate({"value": 0.5, "low": 0.4, "high": 0.6, "n": 1200}) == {
        "value": "0.500",
        "interval": "[0.400, 0.600]",
        "n": "1,200",
    }
    assert estimate({"value": 0.5, "low": None, "high": 0.6, "n": 10})["interval"] == ""
    assert estimate(None) == {"value": MISSING, "interval": "", "n": MISSING}


@given(st.text(st.characters(), max_size=40))
def test_text_can_be_written_and_has_no_control_characters(value):
    shown = text(value)
    shown.encode("utf-8")
    assert all(ord(character) >= 32 for character in shown)


def test_text_replaces_lone_surrogates_and_leaves_ordinary_letters():
    assert text("a\ud800b\x00c\nd") == "a\ufffdb\ufffdc d"
    assert text("Zoë 漢字 <b>") == "Zoë 漢字 <b>"


@pytest.mark.parametrize(("users", "small"), [(0, True), (9, True), (10, False), (5000, False), (None, False)])
def test_small_classes_are_not_described(users, small):
    assert too_small(users) is small
    assert ("fewer" in class_count(users)) is small


def test_small_means_the_same_where_it_is_computed_and_where_it_is_printed():
    assert SMALL_CELL == FEWEST


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("its 7 users are too few", "its fewer than 10 users are too few"),
        ("1 user has no value", "fewer than 10 user has no value"),
        ("its 17 users, 1,007 users, 0.7 users", "its 17 users, 1,007 users, 0.7 users"),
        ("left out for 5 folds", "left out for 5 folds"),
        ("7\x00 users", "7\ufffd users"),
    ],
)
def test_sentences_do_not_count_fewer_than_ten_users(said, shown):
    assert discreet(said) == shown
