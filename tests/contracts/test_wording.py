"""How messages write counts."""

import pytest

from contracts import wording


@pytest.mark.parametrize(
    ("number", "noun", "plural", "text"),
    [
        (0, "row", None, "0 rows"),
        (1, "row", None, "1 row"),
        (1.0, "more bad row", None, "1 more bad row"),
        (0.7, "day", None, "1 day"),
        (1_200, "row", None, "1,200 rows"),
        (1, "class", "classes", "1 class"),
        (2, "class", "classes", "2 classes"),
    ],
)
def test_count_has_the_form_of_its_number(number, noun, plural, text):
    assert wording.count(number, noun, plural) == text
