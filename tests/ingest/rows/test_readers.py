"""Finding files, and reading their rows."""

import re
import sys
import types

import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.settings.data import DataConfig
from ingest.examples import tf_examples
from ingest.rows import readers, remote_rows
from ingest.rows.row_errors import FileError, RowError
from ingest.rows.row_file import RowFile
from tests.prediction.batch.conftest import write_rows
from tests.refusals import refused


@pytest.mark.parametrize(
    ("names", "source", "name", "got"),
    [
        ([], "", "E-data-not-found", "matches no file"),
        (["a.txt"], "a.txt", "E-split-unclear", "has files of the formats unknown"),
        (["a.tsv", "b.jsonl"], "", "E-split-unclear", "of the formats jsonl, tsv"),
    ],
)
def test_input_without_files_of_one_format_is_refused(
    tmp_path, names, source, name, got
):
    for file in names:
        (tmp_path / file).touch()
    source = str(tmp_path / source)
    got = re.compile(f"^{re.escape(source)} .*{got}$")
    with refused(name, setting="source", got=got):
        readers.find_files(source)


@pytest.mark.parametrize("name", ["in[1].tsv", "in[1]"])
def test_name_with_the_characters_of_a_glob_is_read(tmp_path, name):
    source = path = tmp_path / name
    if not source.suffix:
        source.mkdir()
        path = source / "a*.tsv"
    path.write_text("left\tright\na\tb\n")
    assert readers.find_files(str(source)) == ("tsv", [str(path)])
    ((location, row),) = RowFile(str(path), "tsv").read()
    assert (str(location), row) == (f"{path}:2", {"left": "a", "right": "b"})


def test_columns_get_the_names_of_tfds_if_the_first_row_cannot_be_read(tmp_path):
    header = b"Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    (tmp_path / "in.tsv").write_bytes(header + b"1\t2\t3\t\xff\tb\n1\t2\t3\ta\tb\n")
    (_, error), (_, row) = RowFile(str(tmp_path / "in.tsv"), "tsv").read()
    assert "is not utf-8" in str(error)
    assert [*row] == ["label", "#1 ID", "#2 ID", "sentence1", "sentence2"]


CONVERT = "python -m ingest.rows.json_conversion "


@pytest.mark.parametrize(
    ("text", "convert"),
    [
        ('[\n {\n  "text": "a"\n },\n {\n  "text": "b"\n }\n]\n', CONVERT),
        ('\n[{"text": "a"},\n{"text": "b"}]\n', CONVERT),
        ('[{"text": "a"}, {"text": "b"}]', CONVERT),
        ('{\n  "text": "a"\n}\n{\n  "text": "b"\n}\n', "jq -c . IN"),
        ('{"text": "a",\n "n": "x"}\n{"text": "b",\n "n": "y"}\n', "jq -c . IN"),
        ('{ "data": [\n  {"text": "a"},\n  {"text": "b"}\n]}\n', CONVERT),
        ("[1,\n2]\n", "jq -c '.[]' IN"),
    ],
)
def test_json_over_several_lines_is_refused_once_with_how_to_convert_it(
    tmp_path, text, convert
):
    (tmp_path / "in.json").write_text(text)
    ((_, error),) = RowFile(str(tmp_path / "in.json"), "jsonl").read()
    assert isinstance(error, FileError)
    assert convert in str(error)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        *((cut, "not JSON") for cut in ('{"text": "a', '{"text": "a",', '{"t')),
        *((cut, "not JSON") for cut in ('{"text": "a"', '{"text": tr')),
        *((array, "not a JSON object") for array in ('["c"]', "[]")),
        ('{"n": %s}' % ("9" * 4301), "not JSON"),
    ],
)
def test_first_line_that_is_no_object_refuses_only_its_row(tmp_path, line, reason):
    (tmp_path / "in.jsonl").write_text(f'{line}\n{{"text": "b"}}\n["c"]\n')
    located = RowFile(str(tmp_path / "in.jsonl"), "jsonl").read()
    first, row, last = (row for _, row in located)
    assert not isinstance(first, FileError)
    assert reason in str(first)
    assert row == {"text": "b"}
    assert "not a JSON object" in str(last)


def allocate(*_, **options):
    """Requests more memory than there is."""
    return pa.allocate_buffer(1 << 62)


BATCH = types.SimpleNamespace(to_pylist=allocate, validate=lambda full: None)
ROW = types.SimpleNamespace(
    validate=lambda full: None,
    to_pylist=lambda: int("not a number"),
    num_rows=1,
    schema=types.SimpleNamespace(names=["left"]),
    columns=[[types.SimpleNamespace(as_py=allocate)]],
)


@pytest.mark.parametrize(
    "read", [allocate, lambda *_, **__: [BATCH], lambda *_, **__: [ROW]]
)
def test_lack_of_memory_refuses_no_row_of_parquet(tmp_path, monkeypatch, read):
    source = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"left": ["a"]}), source)
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", read)
    with pytest.raises(MemoryError):
        list(RowFile(str(source), "parquet").read())


@pytest.mark.parametrize(
    ("name", "first"),
    [("in.tsv", 2), ("in.jsonl.gz", 1), ("in.parquet", 1), ("in.tfrecord", 1)],
)
def test_rows_of_a_long_file_are_numbered_in_order(tmp_path, name, first):
    rows = [{"n": str(index), "text": "é" * (index % 50)} for index in range(1200)]
    source = write_rows(tmp_path / name, rows)
    file_format, paths = readers.find_files(str(source))
    located = list(RowFile(*paths, file_format).read())
    assert [location.row for location, _ in located] == [*range(first, 1200 + first)]
    decoded = (
        tf_examples.to_row(row) if isinstance(row, bytes) else row for _, row in located
    )
    assert list(decoded) == rows


@pytest.mark.parametrize(
    ("name", "encoding", "content"),
    [
        ("in.jsonl", "utf-8", b'{"a": "cut \\ud83d"}\n{"a": "b"}\n'),
        ("in.jsonl", "utf-8", b'{"b": {"c": ["cut \\ud83d"]}, "a": ""}\n{"a": "b"}\n'),
        ("in.csv", "utf-7", b"a\ncut +2D0-\nb\n"),
        ("in.tsv", "raw_unicode_escape", b"a\tc\ncut \\ud83d\td\nb\td\n"),
    ],
)
def test_row_with_a_lone_surrogate_is_refused_and_the_next_is_read(
    tmp_path, name, encoding, content
):
    path = tmp_path / name
    path.write_bytes(content)
    settings = DataConfig(encoding=encoding)
    (_, refused), (_, row) = RowFile(str(path), path.suffix[1:], settings).read()
    assert isinstance(refused, RowError)
    assert r"has a lone surrogate, '\ud83d', at character" in str(refused)
    assert row["a"] == "b"


@pytest.mark.parametrize("file_format", ["parquet", "arrow"])
def test_file_that_needs_a_missing_package_is_refused_by_name(
    tmp_path, monkeypatch, file_format
):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = str(tmp_path / f"in.{file_format}")
    with refused(
        "E-format-unknown",
        setting=path,
        got=f"it is {file_format.capitalize()}, which needs pyarrow",
        advice="run `pip install pyarrow`, or write .csv, .tsv or .jsonl",
    ):
        RowFile(path, file_format)


def test_remote_file_is_refused_without_a_package_that_reads_it(monkeypatch):
    monkeypatch.setattr(remote_rows, "_registered", [])
    path = "gs://bucket/in.csv"
    got = "only an installation with TensorFlow reads remote files"
    with refused("E-storage-failed", setting=path, got=got):
        readers.find_files(path)
    with refused("E-storage-failed", setting=path, got=got):
        list(RowFile(path, "csv").read())
