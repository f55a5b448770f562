"""Cells with the labels of a row, as people and programs write them."""

import pytest

from contracts.task import label_cells
from contracts.task.label_cells import CellError, read_cell


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['Sales, marketing']", ["Sales, marketing"]),
        ("['Sales, marketing', 'R&D']", ["Sales, marketing", "R&D"]),
        ('["caf\\u00e9", "na\\u00efve"]', ["café", "naïve"]),
        ("{'a', 'b'}", ["a", "b"]),
        ("('a',)", ["a"]),
        ("('b', 'a')", ["b", "a"]),
        ("frozenset({'a'})", ["a"]),
        ("[3, 17]", [3, 17]),
        ("['it\\'s', \"b\"]", ["it's", "b"]),
        ("['\\d+']", ["\\d+"]),  # not a valid escape
        ("[joy, love]", ["joy", "love"]),
        ("(joy, love)", ["joy", "love"]),
        ("['nan']", ["nan"]),
        ("dict_keys(['a', 'b'])", ["a", "b"]),
        ("deque(['a', 'b'], maxlen=3)", ["a", "b"]),
        ('"[\\"a\\", \\"b\\"]"', ["a", "b"]),  # JSON in JSON
        ("Index(['a'], dtype='object')", ["a"]),
        # NumPy
        ("['a' 'b c']", ["a", "b c"]),
        ("['a'\n 'b']", ["a", "b"]),
        ("[ 3 17]", [3, 17]),
        ("[np.str_('a'), np.str_('b')]", ["a", "b"]),
        ("array(['a', 'b'], dtype='<U5')", ["a", "b"]),
        # PostgreSQL
        ("{joy,love}", ["joy", "love"]),
        ('{"Sales, marketing",joy}', ["Sales, marketing", "joy"]),
        # no label
        *((text, []) for text in ("[]", "['']", '[""]', "", " ", "{}", "()", "set()")),
        *((value, []) for value in ([], [""], [" "], {}, ())),
        (["a", "b", "a"], ["a", "b"]),
        ((" a", "b"), ["a", "b"]),
        ({"b", "a"}, ["a", "b"]),
        (3, [3]),
        # not lists
        ("[URGENT] a|b", ["[URGENT] a", "b"]),
        ("[a]|[b]", ["[a]", "[b]"]),
        ("(a)|b", ["(a)", "b"]),
        ("a, b", ["a, b"]),
    ],
)
def test_lists_are_read_as_a_whole(cell, labels):
    assert read_cell(cell, "|") == labels


@pytest.mark.parametrize(
    ("cell", "separator", "labels"),
    [
        *(
            (text.format(separator), separator, ["a", "b c"])
            for separator in "|;,#/+&"
            for text in (
                "a{}b c",
                " a {} b c ",
                "a{0}b c{0}",
                "{0}a{0}b c",
                "a{0}a{0}b c",
            )
        ),
        ("a  b\tc ", " ", ["a", "b", "c"]),
        ("a\nb c\r\n", "\n", ["a", "b c"]),
        ("__label__a __label__b", "__label__", ["a", "b"]),
        ("__label__a, __label__b,", "__label__", ["a", "b"]),
        ('"Sales, marketing", R&D', ",", ["Sales, marketing", "R&D"]),
        ("'a', 'b'", ",", ["a", "b"]),
        ("rock 'n' roll, pop", ",", ["rock 'n' roll", "pop"]),
        ("a||b", "|", ["a", "", "b"]),  # the parser refuses the empty name
        ("a, b", ", ", ["a", "b"]),
        ("a,b", ", ", ["a", "b"]),
    ],
)
def test_separator_blanks_and_repeats_do_not_matter(cell, separator, labels):
    assert read_cell(cell, separator) == labels


@pytest.mark.parametrize(
    ("cell", "separator", "reason"),
    [
        ('[{"id": 0, "name": "x"}]', "|", "a list of objects; write the names"),
        ([{"id": 0}], "|", "a list of objects"),
        ('{"/m/1": "Drama"}', "|", "an object; write the names"),
        ("{'a': nan}", "|", "an object"),
        ({"a": 1}, "|", "an object"),
        ("[['a']]", "|", "a list of lists"),
        ("[0.1, 0.9]", "|", "a list of numbers with decimals"),
        ("[0. 1.]", "|", "a list of numbers with decimals"),
        ([1.0, 3.0], "|", "a list of numbers with decimals"),
        ("[null]", "|", r"is '\[null\]', a list with a null; leave it out"),
        ([None, "a"], "|", "a list with a null"),
        ("['a', nan]", "|", "a list with a null"),
        ("['a' nan]", "|", "a list with a null"),
        ("[joy, None]", "|", "a list with a null"),
        ("Counter({'a': 1})", "|", "an object"),
        ("tensor([0, 1, 0, 1])", "|", "which looks like 0 or 1 for each label"),
        ("yes;no;no", ";", "which looks like 0 or 1 for each label"),
        ([float("nan")], "|", "a list with a null"),
        ("[0, 0, 1]", "|", "which looks like 0 or 1 for each label"),
        ("[0 0 1]", "|", "which looks like 0 or 1 for each label"),
        ([True, False, False], "|", "which looks like 0 or 1 for each label"),
        ("0 0 1", " ", "which looks like 0 or 1 for each label"),
        ("1,1,0", ",", "which looks like 0 or 1 for each label"),
        ("['a' 'b' ... 'c']", "|", "a list that NumPy has shortened"),
        ("['a' 'b', 'c']", "|", "a list without a comma between two names"),
        ("['a', 'b'", ",", "a list that cannot be read"),
        ("[" * 5000, "|", "a list that cannot be read"),
    ],
)
def test_what_is_not_labels_is_refused_with_the_reason(cell, separator, reason):
    with pytest.raises(CellError, match=reason):
        read_cell(cell, separator)


@pytest.mark.parametrize(
    ("labels", "text"),
    [
        ((), ""),
        (("a", "b c"), "a|b c"),
        (("R&D, labs", "C++"), "R&D, labs|C++"),
        (("a|b", "é"), '["a|b", "é"]'),
        # These would be read as another name.
        (("[x]",), '["[x]"]'),
        (("{}",), '["{}"]'),
        (('"q"',), '["\\"q\\""]'),
    ],
)
def test_written_labels_are_read_back(labels, text):
    assert label_cells.join(labels) == text
    assert read_cell(text, label_cells.SEPARATOR) == [*labels]
