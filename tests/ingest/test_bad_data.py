"""Bad data stop before training with their location, or pass with a shown count.

Each case goes through `prepare`, which `prepare-data`, `init` and a run call, or
through `resolve_examples`, with which a run checks TFRecords before it starts.
"""

import gzip
import io
import re
import struct

import google_crc32c
import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

from contracts import wording
from contracts.errors import UsageError
from contracts.task.definition import TaskConfig
from ingest import examples
from ingest.examples import tf_examples
from ingest.examples.bad_rows import BadRowsError
from ingest.rows.row_errors import VanishedFileError
from ingest.rows.row_file import RowFile
from pipeline.cli.main import main
from pipeline.config.paths import OutputPaths
from tests import records
from tests.refusals import check_command, refused

CLASSES = TaskConfig(text_columns=["text"], classes=["no", "yes"])
SCORES = TaskConfig(text_columns=["text"], classes=None, label_range=[0, 5])
SKIP = "correct the data, or leave such rows out with `data.on_bad_rows=skip`"
WEIGHTS = ("-1", "nan", "inf", "", "heavy")

TABLE = {"text": ["a cat", "a dog", "a bird"], "label": ["no", "yes", "no"]}
CSV = b"text,label\na cat,no\na dog,yes\n"
JSONL = b'{"text": "a cat", "label": "no"}\n{"text": "a dog", "label": "yes"}\n'


def csv(line):
    return CSV + line + b"\na bird,no\n"


def jsonl(line):
    return JSONL + line + b"\n"


def to_parquet(table, **layout):
    buffer = io.BytesIO()
    parquet.write_table(table, buffer, **layout)
    return buffer.getvalue()


def to_arrow(table):
    buffer = io.BytesIO()
    with pa.ipc.new_stream(buffer, table.schema) as writer:
        writer.write_table(table)
    return buffer.getvalue()


PARQUET = to_parquet(pa.table(TABLE))
ARROW = to_arrow(pa.table(TABLE))


def flip(content, position, bits=0xFF):
    changed = bytearray(content)
    changed[position] ^= bits
    return bytes(changed)


def with_offsets_outside():
    """Returns Arrow whose lists end outside of their values: pyarrow aborts on them."""
    buffers = [None, pa.py_buffer(np.array([0, 1 << 20, 2, 4], np.int32))]
    children = [pa.array([1, 2, 3, 4])]
    broken = pa.Array.from_buffers(pa.list_(pa.int64()), 3, buffers, children=children)
    return to_arrow(pa.table({**TABLE, "extra": broken}))


def repeated_column():
    columns = [pa.array(values) for values in (*TABLE.values(), ["yes"] * 3)]
    return pa.Table.from_arrays(columns, ["text", "label", "label"])


# Lines of CSV and of JSON, and why they are bad rows.
CSV_LINES = [
    (b'"open,no\n"a, b",no', "a quoted field that starts"),
    (b"a fish", "1 field, the header has 2"),
    (b"a,b,no", "3 fields, the header has 2"),
    (b"a\rb,no", "not a line of this dialect"),
    (b"a \xff,no", "column 3: the byte 0xff is not utf-8; .*`data.encoding=cp1252`"),
    (b"\0\0,no", "text is .* no visible character"),
    (b"a,maybe", "label is 'maybe'; allowed are"),
    (b"a,2", "label is '2'; allowed are"),
    (b"a,", "label is '', which stands for"),
    (b"a,0.5", "label is '0.5'; allowed are"),
]
JSON_LINES = [
    (b'{"text": "a", "label": "no", "label": "yes"}', "it has the key 'label' more th"),
    (b'{"text": "a", "label": "no", "more": {"x": 1, "x": 2}}', "it has the key 'x'"),
    (b'{"text": NaN, "label": "no"}', "text is 'nan', not text"),
    (b'{"text": "a", "label": NaN}', "label is 'nan', which stands for a missing"),
    (b'{"text": {"en": "a"}, "label": "no"}', "text is .*not text"),
    (b'{"text": 5, "label": "no"}', "text is '5', not text"),
    (b'{"text": "a", "label": "no"} garbage', "not JSON: Extra data: .*column 3"),
    (b'{"text": "a", "la', "not JSON: "),
    (b'{"text": "a"}', "no column label; the row"),
]
CORRUPT_PAGE = PARQUET[:10] + b"\xff" * 30 + PARQUET[40:]
# The format of a training file, its content, and its bad row with the reason.
BAD_ROWS = [
    *(("csv", csv(line), f"4: {reason}") for line, reason in CSV_LINES),
    *(("jsonl", jsonl(line), f"3: {reason}") for line, reason in JSON_LINES),
    ("tsv", CSV.replace(b",", b"\t") + b"a\rb\tno\n", "4: not a line of this dialect"),
    ("csv", b"text,label,idx\na,no,x\n", "2: idx is 'x', not a whole number"),
    ("csv", b"text,label,idx\na,no,%d\n" % (1 << 63), "2: idx is '9"),
    ("parquet", CORRUPT_PAGE, "1: the row group cannot be read from here"),
    ("parquet", to_parquet(pa.table({**TABLE, "text": [1, 2, 3]})), "1: text is '1', "),
    (
        "arrow",
        to_arrow(pa.table({**TABLE, "text": [1, 2, 3]})),
        "1: text is '1', not t",
    ),
]
TWICE = "column 'label' more than once; rename or remove"
UNREADABLE = "the file cannot be read"
PARQUET_TWICE = to_parquet(repeated_column())
FOOTER = flip(PARQUET, len(PARQUET) - 200)
# By case: the format, the content, the row after which nothing is read, and why.
DAMAGED = {
    "column twice": ("csv", b"text,label,label\na,no,yes\n", ":1", TWICE),
    "no gzip, but named so": ("csv.gz", CSV, "", UNREADABLE),
    "truncated gzip": ("csv.gz", gzip.compress(CSV)[:-9], ":\\d", UNREADABLE),
    "bit flip in gzip": ("csv.gz", flip(gzip.compress(CSV), 25), "(:\\d)?", ""),
    "Parquet of 0 bytes": ("parquet", b"", ":1", UNREADABLE),
    "truncated Parquet": ("parquet", PARQUET[:-20], ":1", UNREADABLE),
    "Parquet's end alone": ("parquet", PARQUET[-300:], ":1", UNREADABLE),
    "bit flip in Parquet's footer": ("parquet", FOOTER, ":1", ""),
    "Parquet with a column twice": ("parquet", PARQUET_TWICE, ":1", TWICE),
    "CSV named Parquet": ("parquet", CSV, ":1", UNREADABLE),
    "truncated Arrow": ("arrow", ARROW[: len(ARROW) // 2], ":1", UNREADABLE),
    "Arrow with a column twice": ("arrow", to_arrow(repeated_column()), ":1", TWICE),
    "Arrow whose lists end outside": ("arrow", with_offsets_outside(), ":1", "the "),
    "Arrow of a corrupt length": ("arrow", flip(ARROW, 7), ":1", UNREADABLE),
}


def write_splits(tmp_path, suffix, content):
    source = tmp_path / "data"
    source.mkdir()
    (source / f"train.{suffix}").write_bytes(content)
    (source / "eval.csv").write_bytes(CSV)
    return source


def prepare(tmp_path, suffix, content, task=CLASSES):
    source = write_splits(tmp_path, suffix, content)
    examples.prepare(str(source), str(tmp_path / "records"), task)


@pytest.mark.parametrize(("suffix", "content", "reason"), BAD_ROWS)
def test_bad_row_is_refused_with_its_location_and_leaves_nothing(
    tmp_path, suffix, content, reason
):
    got = re.compile(rf"^\d rows? cannot be used:\n  .*/train\.{suffix}:{reason}")
    with refused("E-rows-refused", BadRowsError, setting=None, got=got, advice=SKIP):
        prepare(tmp_path, suffix, content)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_file_is_refused_with_its_location_and_leaves_nothing(tmp_path, case):
    suffix, content, row, got = DAMAGED[case]
    setting = re.compile(rf"/train\.{suffix}{row}$")
    with refused("E-file-damaged", setting=setting, got=re.compile(got)):
        prepare(tmp_path, suffix, content)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_gzip_without_its_name_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"train\.csv"):
        prepare(tmp_path, "csv", gzip.compress(CSV))


WEIGHTED = TaskConfig(
    text_columns=["text"], classes=["no", "yes"], weight_column="weight"
)


@pytest.mark.parametrize(
    ("task", "content", "setting", "allowed"),
    [
        (CLASSES, "Text,label\na,no\n", "task.text_columns", "Text, label"),
        (CLASSES, "text\na\n", "task.label_column", "text"),
        (WEIGHTED, "text,label\na,no\n", "task.weight_column", "text, label"),
    ],
)
def test_missing_column_is_refused_with_its_setting(
    tmp_path, task, content, setting, allowed
):
    with refused("E-column-missing", setting=setting, allowed=allowed):
        prepare(tmp_path, "csv", content.encode(), task)


@pytest.mark.parametrize("content", [b"", b"text,label\n"])
def test_file_without_rows_is_refused(tmp_path, content):
    setting, got = f"{tmp_path}/data/train.csv", re.compile("the split train needs")
    with refused("E-split-missing", setting=setting, got=got):
        prepare(tmp_path, "csv", content)


OUTSIDE, POSITIVE = (f"; allowed are numbers from {n}" for n in (r"0\.0 to 5", "0"))
MARK = ", which stands for a missing value"


@pytest.mark.parametrize(
    ("task", "column", "value", "problem"),
    [
        *((SCORES, "label", value, MARK) for value in ("", "nan", "NA", "-")),
        *((SCORES, "label", value, OUTSIDE) for value in ("5.5", "-0.1", "inf")),
        *((SCORES, "label", value, OUTSIDE) for value in ("1e999", "five", "-inf")),
        *((WEIGHTED, "weight", value, POSITIVE) for value in WEIGHTS),
    ],
)
@pytest.mark.parametrize("split", ["train", "eval"])
def test_number_out_of_range_is_refused(tmp_path, task, column, value, problem, split):
    (tmp_path / "data").mkdir()
    header, good = "text,label,weight\na,1,2\n", "b,1,1\n"
    bad = f"b,{value},1\n" if column == "label" else f"b,1,{value}\n"
    for name in ("train", "eval"):
        content = header + (bad if name == split else good)
        (tmp_path / "data" / f"{name}.csv").write_text(content)
    got = re.compile(rf"/{split}\.csv:3: {column} is '{value}'{problem}")
    with refused("E-rows-refused", got=got):
        examples.prepare(str(tmp_path / "data"), str(tmp_path / "records"), task)


LONG = "long " * (1 << 18)
NESTED = b'{"text": "a", "label": "no", "more": {"x": [NaN]}}\n'
# By case: the training file, and the texts that become Examples.
PASSED = {
    "mixed line ends": ("csv", CSV + b"x,no\r\ny,yes\n", ["a cat", "a dog", "x", "y"]),
    "quote in a file that has no other": ("csv", csv(b'"a,no'), None),
    "NUL within a text": ("jsonl", jsonl(rb'{"text": "\u0000b", "label": "no"}'), None),
    "right-to-left text": (
        "csv",
        csv("\u202b\u05e9\u05dc\u05d5\u05dd\u202c,no".encode()),
        ["a cat", "a dog", "\u202b\u05e9\u05dc\u05d5\u05dd\u202c", "a bird"],
    ),
    "byte order mark": ("csv", b"\xef\xbb\xbf" + CSV, ["a cat", "a dog"]),
    "UTF-16": ("csv", CSV.decode().encode("utf-16"), ["a cat", "a dog"]),
    "text of 1 MB": ("csv", csv(f"{LONG},no".encode()), None),
    "additional column": ("csv", b"text,more,label\na,1,no\nb,,yes\n", ["a", "b"]),
    "columns in another order": ("csv", b"label,text\nno,a\nyes,b\n", ["a", "b"]),
    "ids twice": ("csv", b"idx,text,label\n1,a,no\n1,b,yes\n", ["a", "b"]),
    "nested value elsewhere": ("jsonl", NESTED, ["a"]),
}


@pytest.mark.parametrize("case", PASSED)
def test_unusual_file_passes_with_the_count_of_its_rows(tmp_path, case):
    suffix, content, texts = PASSED[case]
    source = write_splits(tmp_path, suffix, content)
    lines = []
    examples.prepare(str(source), str(tmp_path / "records"), CLASSES, lines.append)
    rows = records.read(tmp_path / "records" / "train" / "*.gz")
    assert f"train: {wording.count(len(rows), 'example')}" in lines
    if texts is not None:
        assert [row["text"][0].decode() for row in rows] == texts


def test_equal_texts_of_one_file_cannot_be_split(tmp_path):
    (tmp_path / "all.csv").write_bytes(b"text,label\n" + b"same,no\nsame,yes\n" * 20)
    got = re.compile("^it has fewer than three different texts of no, yes, which")
    with refused("E-class-too-small", setting="data.source", got=got):
        examples.prepare(str(tmp_path / "all.csv"), str(tmp_path / "records"), CLASSES)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow", "tfrecord"])
def test_shard_that_vanishes_after_it_was_listed_is_named(tmp_path, suffix):
    file = RowFile(str(tmp_path / f"train-0.{suffix}"), suffix)
    for read in (lambda: list(file.read()), lambda: file.sha256):
        with refused("E-data-changed", VanishedFileError, setting=file.path):
            read()


def test_shard_that_vanishes_while_another_is_read_is_named(tmp_path):
    source = tmp_path / "data"
    source.mkdir()
    for name in ("train-0", "train-1", "eval"):
        (source / f"{name}.jsonl").write_bytes(JSONL)

    def report(_):
        (source / "train-1.jsonl").unlink(missing_ok=True)

    setting = f"{source}/train-1.jsonl"
    with refused("E-data-changed", VanishedFileError, setting=setting):
        examples.prepare(str(source), str(tmp_path / "records"), CLASSES, report)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


ROWS = [{"text": f"text {n}", "label": n % 2} for n in range(5)]


def frame(record):
    """Returns a record of a TFRecord file with its checksums."""

    def masked(content):
        crc = google_crc32c.value(content)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


FRAMES = [frame(tf_examples.from_row(row)) for row in ROWS]
PLAIN = b"".join(FRAMES)
START = len(b"".join(FRAMES[:2]))  # of the third record
COPY = "copy the file again, or write it anew"
RECORDS = {
    "bit flip in a length": (flip(PLAIN, START, 4), ":3: .*of the record's length"),
    "bit flip in a length's checksum": (flip(PLAIN, START + 9), ":3: .*'s length"),
    "bit flip in a record": (flip(PLAIN, START + 20, 1), r":3: .*'s content is wrong"),
    "bit flip in the last checksum": (flip(PLAIN, -1, 1), r":5: .*content is wrong"),
    "truncated record": (PLAIN[: START + 20], r":3: .*the record is truncated"),
    "truncated length": (PLAIN[: START + 5], r":3: .*the record is truncated"),
    "text behind the records": (PLAIN + b"# the end of it\n", r":6: .*length is wrong"),
    "no TFRecord": (CSV, r":1: .*checksum of the record's length is wrong"),
    "record that is no Example": (PLAIN + frame(b"\xff" * 9), r":6: not a tf\.Example"),
}


def resolve(tmp_path, name, content):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / name).write_bytes(content)
    (tmp_path / "data" / "eval.tfrecord").write_bytes(PLAIN)
    paths = OutputPaths(tmp_path / "output", "tiny")
    return examples.resolve_examples(str(tmp_path / "data"), CLASSES, paths.examples)


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("case", RECORDS)
def test_damaged_record_is_refused_before_the_run_with_its_number(
    tmp_path, case, packed
):
    content, message = RECORDS[case]
    name = "train.tfrecord.gz" if packed else "train.tfrecord"
    row, got = message.split(": ", 1)
    setting = f"{tmp_path}/data/{name}{row}"
    with refused("E-file-damaged", setting=setting, got=re.compile(got), advice=COPY):
        resolve(tmp_path, name, gzip.compress(content) if packed else content)


@pytest.mark.parametrize("suffix", ["jsonl", "tfrecord"])
def test_missing_shard_is_refused_before_the_run(tmp_path, suffix):
    (tmp_path / "data").mkdir()
    content = JSONL if suffix == "jsonl" else PLAIN
    for name in ("train-00000-of-00002", "eval-0", "test-00000-of-00001"):
        (tmp_path / "data" / f"{name}.{suffix}").write_bytes(content)
    paths = OutputPaths(str(tmp_path / "output"), "tiny")
    setting = f"{tmp_path}/data/train-00001-of-00002.{suffix}"
    with refused("E-record-damaged", setting=setting):
        examples.resolve_examples(str(tmp_path / "data"), CLASSES, paths.examples)


def test_gzip_of_records_that_is_cut_anywhere_is_refused(tmp_path):
    """TensorFlow and Beam take one that is cut between two records for complete."""
    packed = gzip.compress(PLAIN, 0)
    path = tmp_path / "train.tfrecord.gz"
    for size in range(1, len(packed)):
        path.write_bytes(packed[:size])
        *rows, (location, error) = RowFile(str(path), "tfrecord").read()
        assert "cannot be read from here" in str(error)
        assert location.row == len(rows) + 1


def test_bit_flip_in_gzip_of_records_is_refused(tmp_path):
    packed = gzip.compress(PLAIN)
    path = tmp_path / "train.tfrecord.gz"
    for position in range(10, len(packed)):  # after the header, which has the time
        path.write_bytes(flip(packed, position))
        *_, (_, error) = RowFile(str(path), "tfrecord").read()
        assert "cannot be read from here" in str(error)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("prepare-data SOURCE out --set task.text_columns=[text]", "E-file-damaged"),
        ("init project --data SOURCE", "E-rows-refused"),
        ("inspect-data SOURCE", "E-rows-refused"),
    ],
)
def test_every_command_refuses_a_damaged_file_in_one_line(
    tmp_path, monkeypatch, command, name
):
    monkeypatch.chdir(tmp_path)
    source = write_splits(tmp_path, "csv.gz", CSV)
    arguments = command.replace("SOURCE", str(source)).split()
    result = CliRunner().invoke(main, arguments)
    check_command(result, name, f"{source}/train.csv.gz")
