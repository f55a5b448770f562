"""CSV and TSV without a header, and with another quote."""

import csv
import re

import pandas as pd
import pydantic
import pytest

from contracts.settings.data import DataConfig
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile
from tests.ingest.rows.reading import read
from tests.refusals import refused

ROWS = [
    ["I can't, really.", "neg"],
    ['She said: "yes"; and left.', "pos"],
    ["'Twas fine.", "pos"],
    ["Two\nlines\t| here", "neg"],
]
NAMES = ["text", "label"]


def rows_of(path, **settings):
    return [[*row.values()] for _, row in read(path, **settings)]


def write(path, rows, header=None, **options):
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n", **options)
        writer.writerows([*([header] if header else []), *rows])
    return path


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL])
@pytest.mark.parametrize("quote", ['"', "'", "~"])
@pytest.mark.parametrize("header", [None, NAMES])
def test_file_with_a_quote_and_without_a_header_is_read(
    tmp_path, name, delimiter, quoting, quote, header
):
    options = {"delimiter": delimiter, "quoting": quoting, "quotechar": quote}
    path = write(tmp_path / name, ROWS, header, **options)
    settings = {"quote": quote, "columns": None if header else NAMES}
    if header is None:
        settings["quoting"] = "double"
    else:
        settings["delimiter"] = delimiter
    rows = read(path, **settings)
    assert [[*row.values()] for _, row in rows] == ROWS
    assert {(*row,) for _, row in rows} == {("text", "label")}
    first = 1 if header is None else 2
    assert [number for number, _ in rows] == [first + n for n in range(4)]


@pytest.mark.parametrize("name", ["in.csv", "in.tsv"])
@pytest.mark.parametrize("columns", [None, NAMES])
@pytest.mark.parametrize("delimiter", [",", "\t", ";"])
def test_single_quotes_around_all_texts_are_detected(
    tmp_path, name, delimiter, columns
):
    options = {"delimiter": delimiter, "quoting": csv.QUOTE_ALL, "quotechar": "'"}
    header = None if columns else NAMES
    path = write(tmp_path / name, ROWS, header, **options)
    assert rows_of(path, columns=columns) == ROWS
    file = RowFile(str(path), path.suffix[1:], DataConfig(columns=columns))
    assert "quoted, a quote in a field is ''" in file.describe_dialect()


def test_single_quotes_as_databases_and_weka_write_them(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text(
        "id,text,label\n1,'It\\'s fine, \\\\o/','pos'\n2,'So, no.',NULL\n3,'','neg'\n"
    )
    assert rows_of(path) == [
        ["1", "It's fine, \\o/", "pos"],
        ["2", "So, no.", "NULL"],
        ["3", "", "neg"],
    ]


def test_only_texts_with_delimiters_are_in_single_quotes(tmp_path):
    path = tmp_path / "in.csv"
    path.write_text("text,label\n'So, no.',neg\nFine.,pos\nIt's fine.,pos\n")
    assert rows_of(path)[0] == ["So, no.", "neg"]
    assert rows_of(path)[2] == ["It's fine.", "pos"]


@pytest.mark.parametrize(
    "text",
    [
        "text,label\n'Twas fine,pos\nI can't,neg\n'quoted' word,pos\na 'word',neg\n",
        "text,label\n'one',pos\n",
        "text\tlabel\nHe's 'in',\tpos\n'tis 'out'\tneg\n",
        "text,label\n\"'So, no.'\",neg\n\"'Yes.'\",pos\n",
        "text,label\n\"['a', 'b']\",neg\n\"['a']\",pos\n",
        "text,label\n'90s music',neg\nmusic of the '80s',pos\n",
    ],
)
def test_apostrophes_are_text(tmp_path, text):
    name = "in.tsv" if "\t" in text else "in.csv"
    (tmp_path / name).write_text(text)
    expected = pd.read_csv(tmp_path / name, sep="\t" if "\t" in text else ",")
    assert rows_of(tmp_path / name) == expected.to_numpy().tolist()


@pytest.mark.parametrize("text", ["a,b,c\n", "a\n", "a,b,,\n"])
def test_another_number_of_names_is_refused_with_the_file_and_both_counts(
    tmp_path, text
):
    path = tmp_path / "in.csv"
    path.write_text(text)
    count = len(text.split(","))
    got = re.compile(rf"^2 names, text, label, but .*{path} has {count} fields?: a")
    with refused("E-column-missing", setting="data.columns", got=got):
        read(path, columns=NAMES)


def test_row_with_another_number_of_fields_is_named(tmp_path):
    (tmp_path / "in.csv").write_text("I like it,pos\nSo, so,neg\nNo,neg\n")
    rows = read(tmp_path / "in.csv", columns=NAMES)
    assert [number for number, _ in rows] == [1, 2, 3]
    assert str(rows[1][1]) == "3 fields, data.columns has 2"
    assert rows[2][1] == {"text": "No", "label": "neg"}


def test_first_row_that_cannot_be_read_is_a_bad_row(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"caf\xe9,pos\nfine,neg\n")
    (_, bad), (_, good) = read(tmp_path / "in.csv", columns=NAMES)
    assert isinstance(bad, RowError)
    assert good == {"text": "fine", "label": "neg"}


def test_number_of_names_decides_the_delimiter(tmp_path):
    (tmp_path / "in.csv").write_text("Well, yes; and no|pos\nWell, no, fine|neg\n")
    assert rows_of(tmp_path / "in.csv", columns=NAMES)[0] == [
        "Well, yes; and no",
        "pos",
    ]
    (tmp_path / "one.csv").write_text("I like it, really.\nYes.\n")
    assert rows_of(tmp_path / "one.csv", columns=["text"])[0] == ["I like it, really."]


def test_header_with_the_same_names_is_refused(tmp_path):
    (tmp_path / "in.csv").write_text("text,label\na,b\n")
    got = re.compile(r"first line of .*in\.csv has these names, so it is a header")
    with refused("E-column-missing", setting="data.columns", got=got):
        read(tmp_path / "in.csv", columns=NAMES)


@pytest.mark.parametrize("name", ["in.jsonl", "in.parquet", "in.arrow", "in.tfrecord"])
def test_formats_with_names_refuse_columns(tmp_path, name):
    (tmp_path / name).touch()
    got = re.compile(f"the format of {tmp_path / name} is {name[3:]}")
    with refused("E-column-missing", setting="data.columns", got=got):
        read(tmp_path / name, columns=NAMES)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"columns": []}, "at least 1"),
        ({"columns": ["a", "a"]}, "a different name"),
        ({"columns": ["a", " "]}, "not empty"),
        ({"columns": ["a"], "source": "tfds:imdb"}, "leave data.columns out"),
        ({"quote": "''"}, "at most 1"),
        ({"quote": "a"}, "cannot quote"),
        ({"quote": "\n"}, "cannot quote"),
        ({"quote": "\\"}, "cannot quote"),
        ({"quote": "|", "delimiter": "pipe"}, "the delimiter"),
        ({"quote": "'", "quoting": "none"}, "leave one of them out"),
    ],
)
def test_setting_is_refused(settings, message):
    with pytest.raises(pydantic.ValidationError, match=message):
        DataConfig(**settings)
