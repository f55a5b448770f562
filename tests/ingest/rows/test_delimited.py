"""CSV and TSV as pandas, `csv`, spreadsheets and databases write them."""

import csv
import gzip
import io
import re

import hypothesis
import pandas as pd
import pytest
from hypothesis import strategies as st

from ingest.rows import delimited, dialects, row_file
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile
from tests.ingest.rows.reading import read
from tests.refusals import refused

UNCLEAR = "E-dialect-unclear"
ROWS = [
    {"text": "A cat.", "label": "1"},
    {"text": 'The "big" cat, it said.', "label": "0"},
    {"text": "Two\nlines; and\ta tab | a pipe", "label": "1"},
    {"text": "é, ü and 猫", "label": "0"},
]


def rows_of(path, **settings):
    rows = [row for _, row in read(path, **settings)]
    assert not any(isinstance(row, RowError) for row in rows), rows
    return rows


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("in.csv", {}),
        ("in.csv", {"sep": ";"}),
        ("in.csv", {"sep": "|"}),
        ("in.csv", {"sep": "\t"}),
        ("in.csv", {"quoting": csv.QUOTE_ALL}),
        ("in.csv", {"quoting": csv.QUOTE_NONNUMERIC}),
        ("in.csv", {"doublequote": False, "escapechar": "\\"}),
        ("in.csv", {"lineterminator": "\r\n", "encoding": "utf-8-sig"}),
        ("in.tsv", {"sep": "\t"}),
        ("in.tsv", {"sep": "\t", "quoting": csv.QUOTE_ALL}),
        ("in.tsv", {"sep": "\t", "quoting": csv.QUOTE_NONNUMERIC}),
        ("in.csv.gz", {}),
    ],
)
def test_what_pandas_writes_is_read_back(tmp_path, name, options):
    path = tmp_path / name
    pd.DataFrame(ROWS).to_csv(path, index=False, **options)
    assert rows_of(path) == ROWS


DOUBLED = 'text\tlabel\n"a ""b"""\t1\n'
SPARK = 'text,label\n"He said \\"hi\\" in C:\\temp, twice",1\nC:\\new,0\n'
R = '"text"\t"flag"\n"a good, film"\t{}\n"an ""odd"" one"\tTRUE\n'
ODD = ['an "odd" one', "TRUE"]
TEXTS_WITH_QUOTES = ['"Yes," said X.', 'He said "no".', '"A sentence."', '"Unclosed']
# Contents of CSV, or of TSV with a tab in the first line, and their rows by line.
READ = [
    # The index and missing values of pandas.
    (",text,label\n0,a,1.0\n1,,\n", {2: ["0", "a", "1.0"], 3: ["1", "", ""]}),
    # Excel in Europe separates by semicolons, and starts with a byte order mark.
    ('\ufefftext;label\r\n"1; 2, 3";0\r\n', {2: ["1; 2, 3", "0"]}),
    # Excel's own first line names the delimiter, and does not count as the header.
    ("sep=;\r\ntext;label\r\na, b;0\r\n", {3: ["a, b", "0"]}),
    (
        'sep=;\r\ntext;label;who\r\n"a\r\nb";1;x\r\nc;0;y\r\n',
        {3: ["a\r\nb", "1", "x"], 5: ["c", "0", "y"]},
    ),
    # Excel quotes fields with commas in TSV.
    (
        'text\tlabel\r\n"One, two"\t0\r\nthree\t1\r\n"""Four"" five"\t0\r\n',
        {2: ["One, two", "0"], 3: ["three", "1"], 4: ['"Four" five', "0"]},
    ),
    # R and pandas write some words without quotes.
    *(
        (R.format(bare), {2: ["a good, film", bare], 3: ODD})
        for bare in ["NA", "TRUE", "False", "-Inf", "3.5", ""]
    ),
    # Backslashes before quotes; others are text.
    (SPARK, {2: ['He said "hi" in C:\\temp, twice', "1"], 3: ["C:\\new", "0"]}),
    ('"text"\t"label"\n"say \\"no\\""\t1\n', {2: ['say "no"', "1"]}),
    # Only the header is quoted.
    ('"text"\t"label"\na good film\tham\n', {2: ["a good film", "ham"]}),
    # Quotes that are text.
    *(
        (f"text\tlabel\n{t}\t1\n{next_text}\t1\n", {2: [t, "1"], 3: [next_text, "1"]})
        for t in TEXTS_WITH_QUOTES
        for next_text in ("a, b", "a")
    ),
    (
        'text,label\n"Hi" she said,1\nno "x" here,0\n',
        {2: ['"Hi" she said', "1"], 3: ['no "x" here', "0"]},
    ),
    # A row over several lines is named by its first; blank lines are skipped.
    (
        'text,label\n"one\ntwo",0\n\nthree,1\n',
        {2: ["one\ntwo", "0"], 5: ["three", "1"]},
    ),
]


@pytest.mark.parametrize(("content", "expected"), READ)
def test_file_of_another_program_is_read(tmp_path, content, expected):
    name = "in.tsv" if "\t" in content.splitlines()[0] else "in.csv"
    rows = read(write(tmp_path / name, content))
    assert {line: [*row.values()] for line, row in rows} == expected


@pytest.mark.parametrize(
    ("name", "content", "settings", "row"),
    [
        ("in.tsv", DOUBLED, {}, ['a "b"', "1"]),
        ("in.tsv", DOUBLED, {"quoting": "none"}, ['"a ""b"""', "1"]),
        ("in.csv", "a;b,c\n1;2,3\n", {"delimiter": ";"}, ["1", "2,3"]),
        ("in.csv", "a\tb\n1\t2\n", {"delimiter": "tab"}, ["1", "2"]),
    ],
)
def test_settings_override_the_detected_dialect(tmp_path, name, content, settings, row):
    ((_, read_row),) = read(write(tmp_path / name, content), **settings)
    assert [*read_row.values()] == row


def test_tsv_with_a_quoted_header_and_other_rows_is_refused_with_the_setting(tmp_path):
    path = write(tmp_path / "in.tsv", '"text"\t"label"\n"a "b" c"\t1\n')
    with refused(UNCLEAR, setting="data.quoting", got=re.compile("^the header of")):
        read(path)


@pytest.mark.parametrize("name", ["in.tsv", "in.csv"])
@pytest.mark.parametrize("header", ["text\tlabel", '"text"\tlabel', '"text"\t"label"'])
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('"{}"\t"{}"', "{}"),
        ('"{}"\t{}', "{}"),
        ('{}\t"{}"', "{}"),
        ('"say ""{}"""\t"{}"', 'say "{}"'),
        ('"say \\"{}\\""\t{}', 'say "{}"'),
    ],
)
def test_quotes_of_tsv_are_judged_from_the_rows(tmp_path, name, header, line, expected):
    rows = [("a good film", "ham"), ("bad, very bad", "spam"), ("it was fine", "ham")]
    lines = "".join(line.format(*row) + "\n" for row in rows)
    assert rows_of(write(tmp_path / name, f"{header}\n{lines}")) == [
        {"text": expected.format(text), "label": label} for text, label in rows
    ]


def test_tsv_whose_rows_are_quoted_but_for_stray_quotes_is_refused_with_the_setting(
    tmp_path,
):
    rows = "".join(f'"row {n}"\t"ham"\n' for n in range(50))
    path = write(tmp_path / "in.tsv", f'text\tlabel\n{rows}"a "b" c"\t"spam"\n')
    got = re.compile(rf"^the column text of {path} is quoted")
    with refused(UNCLEAR, setting="data.quoting", got=got):
        read(path)


STRAY = 'a\t"an "odd" one"\n'
# Tables with a quoted column that does not parse.
UNPARSED = {
    "blank line at the end": "".join(f'a\t"text {n} is good"\n' for n in range(100))
    + f"{STRAY}\n",
    "row with fewer fields": "".join(f'a\t"text {n} is good"\n' for n in range(100))
    + f"{STRAY}short\n",
    "cells over several lines": "".join(f'a\t"one\nline {n}"\n' for n in range(20))
    + STRAY,
    "sample cut in the first column": STRAY + f'{"ham" * 30}\t"good"\n' * 20_000,
    "quotes in the cells": "".join(f'a\t"text {n} says "hi""\n' for n in range(20)),
}


@pytest.mark.parametrize("case", UNPARSED)
def test_quoted_column_of_tsv_that_does_not_parse_is_refused_with_the_setting(
    tmp_path, case
):
    path = write(tmp_path / "in.tsv", "label\ttext\n" + UNPARSED[case])
    got = re.compile(rf"^the column text of {path} is quoted")
    with refused(UNCLEAR, setting="data.quoting", got=got):
        read(path)
    assert len(read(path, quoting="none")) >= 20


def test_stray_quote_in_a_quoted_file_refuses_only_its_row(tmp_path):
    lines = '"text","label"\n"good film","1"\n"bad "film"","0"\n"fine","1"\n'
    first, second, third = read(write(tmp_path / "in.csv", lines))
    assert first == (2, {"text": "good film", "label": "1"})
    assert "not a line of this dialect" in str(second[1])
    assert third == (4, {"text": "fine", "label": "1"})


def test_text_of_a_million_characters_is_read(tmp_path):
    long = "ab, " * 250_000
    path = write(tmp_path / "in.tsv", f'text\tlabel\n"x\ty"\t1\n"{long}\t"\t0\n')
    assert [len(row["text"]) for row in rows_of(path)] == [3, 1_000_001]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('text,label\r"a, b",0\rc,1\r', ["a, b", "c"]),
        ('text,label\r"a\nb",0\rc,1\r', ["a\nb", "c"]),
        ('text,label\r"a\n\nb\n""c""\n\n\n",0\rc,1', ['a\n\nb\n"c"\n\n\n', "c"]),
        ("text,label\na,0\rb,1\rc,1\r", ["a", "b", "c"]),
        ("text,label\ra,0\rb,1\r\n", ["a", "b"]),
        ("text,label\ra,0\rb,1\rc,1\r\n\n", ["a", "b", "c"]),
        ("sep=;\rtext;label\ra, b;0\r", ["a, b"]),
        ('text,label\n"a\rb\rc\rd",0\n', ["a\rb\rc\rd"]),
    ],
)
@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_carriage_returns_end_rows_beside_lone_line_feeds(
    tmp_path, name, text, expected
):
    if name == "in.tsv":
        text = text.replace(",", "\t").replace("\t ", ", ")
    assert [row["text"] for row in rows_of(write(tmp_path / name, text))] == expected


def test_few_carriage_returns_beside_line_feeds_refuse_their_rows(tmp_path):
    path = write(tmp_path / "in.csv", "text,label\na\rb,1\nc,0\nd,1\n")
    first, *others = read(path)
    assert isinstance(first[1], RowError)
    assert others == [
        (3, {"text": "c", "label": "0"}),
        (4, {"text": "d", "label": "1"}),
    ]


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_many_carriage_returns_in_texts_end_no_rows(tmp_path, name, end):
    rows = "".join(f"text\r number\r {n} here\ta{end}" for n in range(300))
    text = f"text\tlabel{end}{rows}"
    path = write(tmp_path / name, text.replace("\t", ",") if name == "in.csv" else text)
    read_rows = [row for _, row in read(path)]
    assert len(read_rows) == 300
    # Outside of quotes, `csv` refuses a carriage return: no cut text is a good row.
    assert all(isinstance(row, RowError) for row in read_rows)


def test_malformed_rows_do_not_hide_that_carriage_returns_end_the_rows(tmp_path):
    rows = "".join(f"row {n},1\r" for n in range(20))
    path = write(tmp_path / "in.csv", f"text,label\rone,too,many\r{rows}a\nb,1\r")
    lines = read(path)
    assert isinstance(lines[0][1], RowError)
    assert lines[1] == (3, {"text": "row 0", "label": "1"})
    assert len(lines) == 23


@pytest.mark.parametrize("quoted", ["", '"c d"\t1\n'])
def test_blank_lines_of_tsv_are_no_rows(tmp_path, quoted):
    text = f"text\tlabel\na b\t1\n\n{quoted}  \n\n"
    rows = read(write(tmp_path / "in.tsv", text))
    assert [number for number, _ in rows] == ([2, 4] if quoted else [2])
    assert not any(isinstance(row, RowError) for _, row in rows)


@pytest.mark.parametrize(
    ("header", "lines", "expected"),
    [
        ("text,label,,,", ["a,1,,,", "b,0,,,"], {"text": "a", "label": "1"}),
        ("text,label,", ["a,1,", "b,0,"], {"text": "a", "label": "1"}),
        ("text,label, , ", ["a,1,,", "b,0, ,"], {"text": "a", "label": "1"}),
        ("text,label,,", ["a,1", "b,0,,"], {"text": "a", "label": "1"}),
        ("text,,label,", ["a,,1,", "b,,0,"], {"text": "a", "label": "1"}),
        (",text,label,", ["0,a,1,", "1,b,0,"], {"": "0", "text": "a", "label": "1"}),
        # Columns without names that have values are named as pandas names them.
        (
            *("label,text,,,", ["1,a,,,", "0,b,c,,d"]),
            {"label": "1", "text": "a", "Unnamed: 2": "", "Unnamed: 4": ""},
        ),
        (
            *("text,label,Unnamed: 3,,", ["a,1,x,,", "b,0,y,,"]),
            {"text": "a", "label": "1", "Unnamed: 3": "x"},
        ),
        (
            *("text,Unnamed: 2,,,", ["a,1,,x,", "b,0,y,,"]),
            {"text": "a", "Unnamed: 2": "1", "Unnamed: 2.1": "", "Unnamed: 3": "x"},
        ),
    ],
)
@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
def test_columns_without_a_name_and_without_values_are_dropped_with_a_line(
    tmp_path, name, header, lines, expected
):
    text = "\n".join([header, *lines]) + "\n"
    text = text.replace(",", "\t") if name == "in.tsv" else text
    path = write(tmp_path / name, text)
    assert rows_of(path)[0] == expected
    file = RowFile(str(path), name.removeprefix("in."))
    dropped = len(header.split(",")) - len(expected)
    assert f"; {dropped} empty column" in file.describe_dialect()
    assert "without a name dropped" in file.describe_dialect()


LONG = "many " * 500  # 1000 rows are more than the sample of a file


def test_value_of_a_column_without_a_name_far_below_is_kept(tmp_path):
    text = "text,label,\n" + f"{LONG},1,\n" * 1000 + "a,0,rest\n"
    path = write(tmp_path / "in.csv", text)
    assert rows_of(path)[-1] == {"text": "a", "label": "0", "": "rest"}
    assert "dropped" not in RowFile(str(path), "csv").describe_dialect()


def test_quoted_field_far_below_the_start_of_a_tsv_file_is_found(tmp_path):
    text = "text\tlabel\n" + f"{LONG}\t1\n" * 1000 + '"a ""b"""\t0\n'
    path = write(tmp_path / "in.tsv", text)
    assert rows_of(path)[-1] == {"text": 'a "b"', "label": "0"}


@pytest.mark.parametrize("bad", ['"never closed,1', '"closed" too early,1', 'a"b",1,2'])
def test_stray_quote_refuses_its_line_and_hides_no_other(tmp_path, bad):
    good = "".join(f"row {number},1\n" for number in range(200))
    text = f'text,label\n"quoted, once",0\n{bad}\n{good}"quoted, twice",0\n'
    numbers = dict(read(write(tmp_path / "in.csv", text)))
    assert isinstance(numbers[3], RowError)
    assert [n for n, row in numbers.items() if isinstance(row, RowError)] == [3]
    assert len(numbers) == 203
    assert numbers[204] == {"text": "quoted, twice", "label": "0"}


def test_byte_of_another_encoding_is_named_with_line_column_and_how_to_read_it(
    tmp_path,
):
    text = 'text,label\nplain,0\n"one\ntwo café",1\nnaïve,0\n'
    path = write(tmp_path / "in.csv", text, "cp1252")
    (_, good), (second, error), (third, other) = read(path)
    assert good == {"text": "plain", "label": "0"}
    assert second == 3
    assert "line 4, column 8: the byte 0xe9 is not utf-8" in str(error)
    assert "`data.encoding=cp1252`" in str(error)
    assert third == 5
    assert str(other).startswith("column 3: the byte 0xef")
    texts = [row["text"] for row in rows_of(path, encoding="cp1252")]
    assert texts == ["plain", "one\ntwo café", "naïve"]


@pytest.mark.parametrize("family", ["utf-16", "utf-32", "utf-8"])
@pytest.mark.parametrize("order", ["-le", "-be"])
@pytest.mark.parametrize("name", ["in.tsv", "in.csv", "in.jsonl", "in.csv.gz"])
def test_file_with_a_byte_order_mark_is_read_or_refused_with_how_to_read_it(
    tmp_path, family, order, name
):
    text = "text\tlabel\nGrüße\t1\n"
    if name == "in.jsonl":
        text = '{"text": "Grüße", "label": "1"}\n'
    expected = [{"text": "Grüße", "label": "1"}]
    names = [family] if family == "utf-8" else [family, family + order]
    content = f"\ufeff{text}".encode(names[-1])
    if name.endswith(".gz"):
        content = gzip.compress(content)
    path = tmp_path / name
    path.write_bytes(content)
    for encoding in ("utf-8", *names):  # utf-8 is the default
        assert rows_of(path, encoding=encoding) == expected
    for encoding in {"cp1252", "utf-16", "utf-32-le"}:
        if not encoding.startswith(family):
            ((_, error),) = read(path, encoding=encoding)
            assert f"the byte order mark of {family.upper()}, but" in str(error)
            assert f"`data.encoding={family}`" in str(error)


def test_truncated_gzip_file_ends_with_an_error(tmp_path):
    text = "text,label\n" + "".join(f"row {n},1\n" for n in range(5_000))
    packed = gzip.compress(text.encode())
    (tmp_path / "in.csv.gz").write_bytes(packed[: len(packed) // 2])
    rows = read(tmp_path / "in.csv.gz")
    assert rows[0] == (2, {"text": "row 0", "label": "1"})
    assert "cannot be read from here" in str(rows[-1][1])


def test_first_row_does_not_wait_for_the_last(tmp_path, monkeypatch):
    opened = []
    open_packed = row_file.open_packed

    def spy(path):
        opened.append(open_packed(path))
        return opened[-1]

    monkeypatch.setattr(row_file, "open_packed", spy)
    path = write(tmp_path / "in.csv", "text,label\n" + f'"{LONG}, a comma",1\n' * 2000)
    rows = RowFile(str(path), "csv").read()
    next(rows)
    (file,) = opened
    assert file.tell() < path.stat().st_size / 2


# NUL: Python 3.10 has no CSV with it.
TEXTS = st.text(
    st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20
)


@hypothesis.settings(deadline=None)
@hypothesis.given(
    rows=st.lists(
        st.tuples(TEXTS, TEXTS, st.integers(0, 9) | st.booleans()),
        min_size=1,
        max_size=6,
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    end=st.sampled_from(["\n", "\r\n"]),
    mark=st.booleans(),
    name=st.sampled_from(["in.csv", "in.tsv"]),
)
def test_what_csv_writes_is_read_back(
    tmp_path_factory, rows, delimiter, quoting, end, mark, name
):
    hypothesis.assume(delimiter == "\t" or name == "in.csv")
    if end == "\n":  # Python before 3.13 writes a carriage return unquoted
        rows = [(a.replace("\r", ""), b.replace("\r", ""), n) for a, b, n in rows]
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator=end)
    writer.writerow(["first", "second", "label"])
    writer.writerows(rows)
    path = tmp_path_factory.mktemp("csv") / name
    write(path, ("\ufeff" if mark else "") + file.getvalue())
    expected = [
        {"first": first, "second": second, "label": str(label)}
        for first, second, label in rows
    ]
    assert rows_of(path) == expected


@hypothesis.settings(deadline=None)
@hypothesis.given(rows=st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=6))
def test_tsv_without_quoting_is_read_back(tmp_path_factory, rows):
    rows = [
        tuple("".join(c for c in text if c not in "\t\r\n") for text in row)
        for row in rows
    ]
    lines = ["first\tsecond", *map("\t".join, rows)]
    path = tmp_path_factory.mktemp("tsv") / "in.tsv"
    write(path, "\n".join(lines) + "\n")
    read_back = rows_of(path, quoting="none")
    assert [tuple(row.values()) for row in read_back] == rows


@hypothesis.settings(deadline=None, max_examples=200)
@hypothesis.given(
    content=st.lists(
        st.sampled_from(
            [b"a", b"b", b",", b'"', b"\n", b"\r\n", b"\\", b"\xc3\xa9", b"\xff"]
        )
    ).map(b"".join),
    quoting=st.sampled_from([dialects.DOUBLE, dialects.BACKSLASH, dialects.NONE]),
    batch=st.sampled_from([1, 5, 1000]),
)
def test_lines_parsed_in_batches_equal_those_parsed_one_by_one(content, quoting, batch):
    dialect = dialects.Dialect(",", quoting)

    def read():
        file = io.BufferedReader(io.BytesIO(b"x,y\n" + content))
        rows = delimited.read_table(file, dialect)
        return [(number, str(row)) for number, row in rows]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "_BATCH_CHARACTERS", batch)
        many = read()
        patch.setattr(delimited, "_parse_batch", lambda *_: None)
        assert read() == many
