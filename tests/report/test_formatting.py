"""Numbers and texts as a person reads them."""

import math

import pytest

from contracts.records.evaluation import Estimate
from contracts.run_states import MARKS
from report import formatting

MINUS = "\u2212"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\u2013"),
        (math.nan, "NaN"),
        (-math.inf, f"{MINUS}\u221e"),
        (1234567, "1,234,567"),
        (0.123456, "0.1235"),
        (-0.5, f"{MINUS}0.5"),
        (6.3e-07, f"6.3e{MINUS}7"),
    ],
)
def test_numbers_have_four_digits(value, text):
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("north", "north"),
        (None, "\u2013"),
        (0.00012, "0.00012"),
        (Estimate(value=0.9), "0.900"),
        (Estimate(value=0.9, interval=(0.85, 0.95)), "0.900 (0.850 to 0.950)"),
        (Estimate(value=1520.25), "1520"),
        (Estimate(value="nan"), "NaN"),
    ],
)
def test_cells_of_a_table(value, text):
    assert formatting.cell(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.02, "+0.020"), (-0.02, f"{MINUS}0.020"), (0.0001, "±0.000"), (math.nan, "NaN")],
)
def test_a_difference_has_its_sign(value, text):
    assert formatting.difference(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.64, "0.6 s"),
        (92.7, "1 min 33 s"),
        (3599.9, "1 h 00 min"),
        (7500, "2 h 05 min"),
    ],
)
def test_durations_in_the_units_that_fit(seconds, text):
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(17, "17 bytes"), (948_551_680, "905 MiB"), (8 << 30, "8.00 GiB")],
)
def test_sizes_in_the_units_that_fit(count, text):
    assert formatting.size(count) == text


def test_control_characters_are_shown_as_pictures():
    text = "a\x00b\x1bc\td\ne\x7f\ud83d \u05e9 \U0001f600"
    assert formatting.printable(text) == (
        "a\u2400b\u241bc\td\ne\ufffd\ufffd \u05e9 \U0001f600"
    )


def test_long_texts_end_with_an_ellipsis():
    assert formatting.shorten("abcdef", 4) == "abc…"
    assert formatting.shorten("abcd", 4) == "abcd"


def test_states_are_told_apart_by_symbol_and_color_where_a_user_acts_differently():
    marks = [MARKS[state] for state in ("pushed", "refused", "failed", "interrupted")]
    assert len({mark.color for mark in marks}) == len(marks)
    assert MARKS["interrupted"].symbol != MARKS["failed"].symbol
