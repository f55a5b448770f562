"""Finding the files of a data set, and reading them in every format and layout."""

import gzip
import json
import re

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from ingest.examples.bad_rows import BadRows
from ingest.examples.sources import open_source
from ingest.examples.text_source import open_splits
from tests import records
from tests.refusals import refused

TASK = TaskConfig(
    text_columns=["Text"], label_column="Klasse", classes=["schlecht", "gut"]
)
ROWS = [
    {"Text": "A cat.", "Klasse": "gut"},
    {"Text": 'The "dog", they said.', "Klasse": "schlecht"},
    {"Text": "Two\nlines", "Klasse": "gut"},
]


def to_table(rows, class_names=None):
    """Returns a table of `datasets`, whose labels are indices of class names."""
    label = {"names": class_names, "_type": "ClassLabel"}
    info = {"info": {"features": {"Klasse": label} if class_names else {}}}
    table = pa.Table.from_pylist(rows)
    return table.replace_schema_metadata({"huggingface": json.dumps(info)})


def save_to_disk(directory, splits, class_names=None):
    """Writes a folder as `datasets` does with `save_to_disk`."""
    for name, rows in splits.items():
        folder = directory / name if name else directory
        folder.mkdir(parents=True, exist_ok=True)
        table = to_table(rows, class_names)
        half = len(rows) // 2
        files = []
        for index, part in enumerate((table[:half], table[half:])):
            file = f"data-{index:05}-of-00002.arrow"
            files.append({"filename": file})
            with pa.ipc.new_stream(str(folder / file), table.schema) as writer:
                writer.write_table(part)
        (folder / "state.json").write_text(
            json.dumps({"_data_files": files, "_split": name or None})
        )
        (folder / "dataset_info.json").write_text("{}")
    if "" not in splits:
        (directory / "dataset_dict.json").write_text(json.dumps({"splits": [*splits]}))
    return directory


def write(path, rows):
    """Writes rows in the format of the file's name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(rows)
    name = path.name.removesuffix(".gz")
    if name.endswith(".csv"):
        frame.to_csv(path, index=False)
    elif name.endswith(".tsv"):
        frame.to_csv(path, index=False, sep="\t")
    elif name.endswith(".jsonl"):
        frame.to_json(path, orient="records", lines=True)
    elif name.endswith(".parquet"):
        frame.to_parquet(path)
    else:
        assert name.endswith(".arrow")
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def prepare(source, directory, task=TASK, **settings):
    """Returns texts and labels of each split, in the order of the records."""
    target = directory / "records"
    lines = []
    settings = DataConfig(**settings)
    examples_lib.prepare(str(source), str(target), task, lines.append, settings)
    return {
        split.name: [
            (row["Text"][0].decode(), row["Klasse"][0])
            for row in records.read(f"{split}/*.gz")
        ]
        for split in sorted(target.iterdir())
        if split.is_dir()
    }


MANY = [{"Text": f"row {n}", "Klasse": ["gut", "schlecht"][n % 2]} for n in range(40)]
EXPECTED = [("A cat.", 1), ('The "dog", they said.', 0), ("Two\nlines", 1)]


FORMATS = ("csv", "csv.gz", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "parquet", "arrow")
LAYOUTS = {
    "shards": ["{}-00000-of-00002", "{}-00001-of-00002"],
    "folders": ["{}/part-0", "{}/part-1"],
    "files": ["{}"],
}


@pytest.mark.parametrize(
    ("suffix", "layout"),
    [
        *((suffix, "shards") for suffix in FORMATS),
        *(("csv", "folders"), ("arrow", "folders")),
        *(("csv", "files"), ("arrow", "files")),
    ],
)
def test_every_format_is_read_in_every_layout(tmp_path, suffix, layout):
    source, names = tmp_path / "data", LAYOUTS[layout]
    for split in ("train", "validation"):
        parts = [ROWS] if len(names) == 1 else [ROWS[:1], ROWS[1:]]
        for name, rows in zip(names, parts, strict=True):
            write(source / f"{name.format(split)}.{suffix}", rows)
    assert prepare(source, tmp_path) == {"train": EXPECTED, "eval": EXPECTED}


def test_folder_of_hugging_face_datasets_is_read_with_its_class_names(tmp_path):
    # `gut` is 0 there and 1 in the task.
    rows = [{**row, "Klasse": int(row["Klasse"] != "gut")} for row in ROWS]
    splits = {"train": rows, "validation": rows, "unsupervised": rows}
    source = save_to_disk(tmp_path / "data", splits, ["gut", "schlecht"])
    assert prepare(source, tmp_path) == {"train": EXPECTED, "eval": EXPECTED}


def write_labelled(path, classes, labels):
    rows = [{"Text": f"row {n}", "Klasse": label} for n, label in enumerate(labels)]
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(to_table(rows, classes), path)


def test_each_split_has_its_own_order_of_classes(tmp_path):
    source = tmp_path / "data"
    write_labelled(source / "train.parquet", ["gut", "schlecht"], [0, 1])
    write_labelled(source / "eval.parquet", ["schlecht", "gut"], [0, 1])
    assert prepare(source, tmp_path) == {
        "train": [("row 0", 1), ("row 1", 0)],
        "eval": [("row 0", 0), ("row 1", 1)],
    }


def test_class_names_that_match_the_task_only_in_part_are_refused(tmp_path):
    for split in ("train", "eval"):
        path = tmp_path / "data" / f"{split}.parquet"
        write_labelled(path, ["neutral", "schlecht", "gut"], [0, 1])
    got = re.compile(
        "^schlecht, gut, but .* has the classes neutral, schlecht, gut for"
    )
    with refused("E-classes-differ", setting="task.classes", got=got):
        prepare(tmp_path / "data", tmp_path)


def test_tfrecords_in_one_file_are_split(tmp_path):
    path = tmp_path / "all.tfrecord"
    examples = [
        records.example(Text=[row["Text"].encode()], Klasse=[row["Klasse"].encode()])
        for row in MANY
    ]
    records.write(path, examples)
    read = prepare(path, tmp_path)
    assert sorted(read) == ["eval", "test", "train"]
    assert sum(map(len, read.values())) == len(MANY)


def test_integers_of_tfrecords_are_indices_whatever_labels_are(tmp_path):
    task = TASK.model_copy(update={"classes": ["1", "2", "3"], "labels": "name"})
    examples = [
        records.example(Text=[f"text {n}".encode()], Klasse=[n % 3]) for n in range(6)
    ]
    path = records.write(tmp_path / "rows.tfrecord", examples)
    source = open_source("data", {"train": [path], "eval": [path]}, DataConfig())
    with BadRows("refuse", tmp_path) as bad_rows:
        opened = open_splits(source, task, DataConfig(), print, bad_rows)
        labels = [row.features["Klasse"] for row in opened["train"]]
    assert labels == [0, 1, 2, 0, 1, 2]


def test_shards_of_a_data_set_without_splits_are_split(tmp_path):
    write(tmp_path / "data" / "part-0.csv", MANY[:20])
    write(tmp_path / "data" / "part-1.csv", MANY[20:])
    read = prepare(tmp_path / "data", tmp_path, test_size=0.25)
    assert sorted(read) == ["eval", "test", "train"]
    assert {*read["train"], *read["eval"], *read["test"]} == {
        (row["Text"], int(row["Klasse"] == "gut")) for row in MANY
    }


@pytest.mark.parametrize(
    ("names", "error", "got"),
    [
        ("Train.csv Test.csv", "unclear", "it has Test.csv, which looks like a split"),
        ("rows.csv rows.jsonl", "unclear", "it has files of several kinds (.csv, .js"),
        ("eval.csv train.csv train.jsonl", "unclear", "train.csv and train.jsonl"),
        ("eval.csv train.csv train-1.csv", "unclear", "train-1.csv and train.csv"),
        ("eval.csv train.csv train/a.csv", "unclear", "train.csv and train/a.csv"),
        ("train.csv", "missing", "it has no split eval (train.csv), but train.csv"),
        ("eval.csv test.csv", "missing", "it has no split train"),
    ],
)
def test_files_that_are_not_one_set_of_splits_are_refused(tmp_path, names, error, got):
    source = tmp_path / "data"
    for name in names.split():
        write(source / name, ROWS)
    got = re.compile(re.escape(got))
    with refused(f"E-split-{error}", setting=str(source), got=got):
        prepare(source, tmp_path)


def test_file_whose_name_shows_no_format_is_read_if_the_format_is_set(tmp_path):
    path = write(tmp_path / "rows.csv", MANY).rename(tmp_path / "rows.txt")
    with refused("E-format-unknown", setting=str(path)):
        prepare(path, tmp_path)
    read = prepare(path, tmp_path, format="csv")
    assert sum(map(len, read.values())) == len(MANY)
    for split in ("train", "eval"):
        path = write(tmp_path / "data" / f"{split}.csv", ROWS)
        path.rename(path.with_suffix(".txt"))
    (tmp_path / "again").mkdir()
    read = prepare(tmp_path / "data", tmp_path / "again", format="csv")
    assert read == {"train": EXPECTED, "eval": EXPECTED}


def test_files_that_are_not_read_are_named_but_hidden_ones(tmp_path):
    for name in ("train.csv", "val.csv", "training.csv", ".train.csv", "_train.csv"):
        write(tmp_path / "data" / name, ROWS)
    (tmp_path / "data" / "more.xlsx").touch()
    lines = []
    source, target = str(tmp_path / "data"), str(tmp_path / "records")
    counts = examples_lib.prepare(source, target, TASK, lines.append)
    assert counts == {"train": 3, "eval": 3}
    assert "training.csv, more.xlsx: no known split or format, left out" in lines


@pytest.mark.parametrize("suffix", ["csv.gz", "arrow", "parquet"])
def test_damaged_file_loses_no_row_silently(tmp_path, suffix):
    path = write(tmp_path / "data" / f"train.{suffix}", MANY * 300)
    write(tmp_path / "data" / f"eval.{suffix}", ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    setting = re.compile(rf"train\.{suffix}")
    with refused("E-file-damaged", setting=setting, got=re.compile("cannot be read")):
        prepare(tmp_path / "data", tmp_path, on_bad_rows="skip")


def test_shard_of_another_encoding_is_refused_by_name(tmp_path):
    for part in range(2):
        write(tmp_path / "data" / f"part-{part}.csv", MANY)
    path = tmp_path / "data" / "part-1.csv"
    path.write_bytes(path.read_text().encode("utf-16"))
    settings = {"on_bad_rows": "skip", "encoding": "cp1252"}
    got = re.compile("UTF-16.*`data.encoding=utf-16`")
    with refused("E-file-damaged", setting=str(path), got=got):
        prepare(tmp_path / "data", tmp_path, **settings)


def test_json_of_another_program_is_not_a_folder_of_hugging_face(tmp_path):
    for split in ("train", "eval"):
        write(tmp_path / "data" / f"{split}.csv", ROWS)
    (tmp_path / "data" / "state.json").write_text('{"page": 1}')
    (tmp_path / "data" / "dataset_dict.json").write_text("[]")
    assert prepare(tmp_path / "data", tmp_path)["eval"] == EXPECTED


def test_selection_of_rows_of_hugging_face_datasets_is_refused(tmp_path):
    source = save_to_disk(tmp_path / "data", {"train": ROWS, "test": ROWS})
    state = source / "train" / "state.json"
    content = json.loads(state.read_text()) | {
        "_indices_data_files": [{"filename": "i"}]
    }
    state.write_text(json.dumps(content))
    advice = "save it again after dataset.flatten_indices()"
    with refused("E-file-damaged", setting=str(state.parent), advice=advice):
        prepare(source, tmp_path)


def test_records_with_a_bad_row_are_named_by_their_number(tmp_path):
    labels = [b"gut", b"gut", b"gut", b"?", b"gut"]
    examples = [records.example(Text=[b"a"], Klasse=[label]) for label in labels]
    path = tmp_path / "all.tfrecord.gz"
    records.write(path, examples)
    with refused("E-rows-refused", got=re.compile(r"\.gz:4: Klasse is '\?'")):
        prepare(path, tmp_path)


def test_lines_of_quoted_and_gzipped_csv_are_counted_in_its_text(tmp_path):
    text = 'Text,Klasse\n"two\nlines",gut\nbad,?\n' + "fine,gut\n" * 20
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with refused("E-rows-refused", got=re.compile(r"\.gz:4: Klasse is '\?'")):
        prepare(path, tmp_path)


def test_dialect_is_reported(tmp_path):
    path = tmp_path / "rows.csv"
    rows = [{**row, "Text": f'"{row["Text"]}"'} for row in MANY]
    pd.DataFrame(rows).to_csv(path, sep=";", index=False)
    lines = []
    examples_lib.prepare(str(path), str(tmp_path / "records"), TASK, lines.append)
    assert lines[0] == 'rows.csv: csv: semicolon, quoted, a quote in a field is ""'
