"""What is written is read back, and any bytes are read or refused.

`test_delimited.py` writes CSV and TSV and reads them back.
"""

import gzip
import json

import hypothesis
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyarrow import parquet

from ingest.examples import tf_examples
from ingest.rows.row_file import RowFile
from tests import records
from tools.fuzz import targets

SETTINGS = hypothesis.settings(deadline=None, derandomize=True, max_examples=40)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
FLOATS = st.floats(width=32, allow_nan=False)
ROWS = st.lists(
    st.fixed_dictionaries({"text": TEXTS, "label": INTEGERS, "score": FLOATS}),
    min_size=1,
    max_size=6,
)
NESTED = st.recursive(
    st.none() | st.booleans() | INTEGERS | FLOATS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


def read(path, file_format):
    located = list(RowFile(str(path), file_format).read())
    assert [location.row for location, _ in located] == [*range(1, 1 + len(located))]
    return [row for _, row in located]


@SETTINGS
@hypothesis.given(
    rows=st.lists(st.dictionaries(TEXTS, NESTED, max_size=4), min_size=1, max_size=6),
    is_ascii=st.booleans(),
    is_packed=st.booleans(),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_json_lines_that_are_written_are_read_back(
    directory, rows, is_ascii, is_packed, end
):
    text = "".join(json.dumps(row, ensure_ascii=is_ascii) + end for row in rows)
    path = directory / ("in.jsonl.gz" if is_packed else "in.jsonl")
    content = text.encode()
    path.write_bytes(gzip.compress(content) if is_packed else content)
    assert read(path, "jsonl") == rows


@SETTINGS
@hypothesis.given(rows=ROWS, group=st.integers(1, 3))
def test_parquet_and_arrow_that_are_written_are_read_back(directory, rows, group):
    table = pa.Table.from_pylist(rows)
    parquet.write_table(table, directory / "in.parquet", row_group_size=group)
    assert read(directory / "in.parquet", "parquet") == rows
    with pa.ipc.new_stream(str(directory / "in.arrow"), table.schema) as writer:
        writer.write_table(table, max_chunksize=group)
    assert read(directory / "in.arrow", "arrow") == rows


@SETTINGS
@hypothesis.given(rows=ROWS, name=st.sampled_from(["in.tfrecord", "in.tfrecord.gz"]))
def test_examples_that_are_written_are_read_back(directory, rows, name):
    examples = [
        records.example(
            text=[row["text"].encode()], label=[row["label"]], score=[row["score"]]
        )
        for row in rows
    ]
    path = records.write(directory / name, examples)
    assert [tf_examples.to_row(record) for record in read(path, "tfrecord")] == rows


READERS = sorted(targets.TARGETS.keys() - {"http", "grpc"})


@st.composite
def damaged(draw, content):
    """Draws a content that is cut, overwritten or extended."""
    changed = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        position = draw(st.integers(0, len(changed)))
        length = draw(st.integers(0, 8))
        changed[position : position + length] = draw(st.binary(max_size=8))
    return bytes(changed[: draw(st.integers(0, len(changed)))] or changed)


@pytest.mark.parametrize("name", READERS)
@SETTINGS
@hypothesis.given(data=st.data())
def test_any_bytes_are_read_or_refused(name, data):
    seed = st.sampled_from(targets.seeds(name))
    content = data.draw(st.binary(max_size=60) | seed.flatmap(damaged))
    targets.TARGETS[name](content)


@pytest.mark.parametrize("name", ["http", "grpc"])
@SETTINGS
@hypothesis.given(data=st.data())
def test_any_request_is_parsed_or_refused(name, data):
    seed = st.sampled_from(targets.seeds(name))
    targets.TARGETS[name](data.draw(st.binary(max_size=60) | seed.flatmap(damaged)))


@pytest.mark.parametrize("name", targets.TARGETS)
def test_first_inputs_of_the_fuzzer_are_read(name):
    for seed in targets.seeds(name):
        targets.TARGETS[name](seed)
