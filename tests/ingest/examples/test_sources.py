"""Finding the files of a data set, and reading them in every format and layout."""

import csv
import gzip
import json

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from ingest.examples.bad_rows import BadRows
from ingest.examples.sources import open_source
from ingest.examples.text_source import open_splits
from tests import records

TASK = TaskConfig(
    text_columns=["Text"], label_column="Klasse", classes=["schlecht", "gut"]
)
ROWS = [
    {"Text": "A cat.", "Klasse": "gut"},
    {"Text": 'The "dog", they said.', "Klasse": "schlecht"},
    {"Text": "Two\nlines", "Klasse": "gut"},
]


def save_to_disk(directory, splits, class_names=None):
    """Writes a folder as `datasets` does with `save_to_disk`."""
    for name, rows in splits.items():
        folder = directory / name if name else directory
        folder.mkdir(parents=True, exist_ok=True)
        table = pa.Table.from_pylist(rows)
        if class_names:
            label = {"names": class_names, "_type": "ClassLabel"}
            features = {"Text": {"dtype": "string", "_type": "Value"}, "Klasse": label}
            info = json.dumps({"info": {"features": features}})
            table = table.replace_schema_metadata({"huggingface": info})
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


@pytest.mark.parametrize(
    "suffix",
    ["csv", "csv.gz", "tsv", "tsv.gz", "jsonl", "jsonl.gz", "parquet", "arrow"],
)
@pytest.mark.parametrize("layout", ["files", "shards", "folders"])
def test_every_format_is_read_in_every_layout(tmp_path, suffix, layout):
    source = tmp_path / "data"
    names = {
        "files": ["{}"],
        "shards": ["{}-00000-of-00002", "{}-00001-of-00002"],
        "folders": ["{}/part-0", "{}/part-1"],
    }[layout]
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
    label = {"names": classes, "_type": "ClassLabel"}
    info = json.dumps({"info": {"features": {"Klasse": label}}})
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"huggingface": info})
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(table, path)


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
    message = "has the classes neutral, schlecht, gut.*task.classes are schlecht, gut"
    with pytest.raises(UsageError, match=message):
        prepare(tmp_path / "data", tmp_path)


def test_indices_of_parquet_are_classes_of_the_task(tmp_path):
    rows = [{**row, "Klasse": int(row["Klasse"] == "gut")} for row in ROWS]
    for split in ("train", "eval"):
        write(tmp_path / "data" / f"{split}.parquet", rows)
    assert prepare(tmp_path / "data", tmp_path)["train"] == EXPECTED


def test_booleans_and_floats_of_pandas_are_labels(tmp_path):
    task = TASK.model_copy(update={"classes": ["false", "true"]})
    for name, values in (("names", [True, "True"]), ("indices", [1.0, "1"])):
        for split, value in zip(("train", "eval"), values, strict=True):
            rows = [{**row, "Klasse": value} for row in ROWS]
            write(tmp_path / name / f"{split}.jsonl", rows)
        read = prepare(tmp_path / name, tmp_path / f"{name}-records", task)
        assert {label for rows in read.values() for _, label in rows} == {1}


def test_tfrecords_in_one_file_are_split(tmp_path):
    path = tmp_path / "all.tfrecord"
    rows = MANY
    examples = [
        records.example(Text=[r["Text"].encode()], Klasse=[r["Klasse"].encode()])
        for r in rows
    ]
    records.write(path, examples)
    read = prepare(path, tmp_path)
    assert sorted(read) == ["eval", "test", "train"]
    assert sum(map(len, read.values())) == len(MANY)


def test_integers_of_tfrecords_are_indices_whatever_labels_are(tmp_path):
    task = TASK.model_copy(update={"classes": ["1", "2", "3"], "labels": "name"})
    for split in ("train", "eval"):
        path = tmp_path / "data" / f"{split}.tfrecord"
        path.parent.mkdir(exist_ok=True)
        examples = [
            records.example(Text=[f"text {n}".encode()], Klasse=[n % 3])
            for n in range(6)
        ]
        records.write(path, examples)
    source = open_source(
        "data",
        {s: [str(tmp_path / "data" / f"{s}.tfrecord")] for s in ("train", "eval")},
        DataConfig(),
    )
    with BadRows("refuse", tmp_path) as bad_rows:
        opened = open_splits(source, task, DataConfig(), print, bad_rows)
        labels = [row.features["Klasse"] for row in opened["train"]]
    assert labels == [0, 1, 2, 0, 1, 2]


def test_shards_of_a_data_set_without_splits_are_split(tmp_path):
    rows = MANY
    write(tmp_path / "data" / "part-0.csv", rows[:20])
    write(tmp_path / "data" / "part-1.csv", rows[20:])
    read = prepare(tmp_path / "data", tmp_path, test_size=0.25)
    assert sorted(read) == ["eval", "test", "train"]
    assert {*read["train"], *read["eval"], *read["test"]} == {
        (row["Text"], int(row["Klasse"] == "gut")) for row in rows
    }


def test_hidden_files_and_other_names_are_ignored(tmp_path):
    for split in ("train", "eval"):
        write(tmp_path / "data" / f"{split}.csv", ROWS)
    for name in (".train.csv", "_train.csv", "training.csv", "notes.txt"):
        (tmp_path / "data" / name).write_text("nothing")
    assert prepare(tmp_path / "data", tmp_path) == {"train": EXPECTED, "eval": EXPECTED}


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["Train.csv", "Test.csv"], r"Test\.csv, which looks like a split"),
        (["rows.csv", "rows.jsonl"], r"several kinds \(\.csv, \.jsonl\)"),
        (
            ["train.csv", "train.jsonl", "eval.csv"],
            r"train\.csv and train\.jsonl",
        ),
        (["train.csv", "train-1.csv", "eval.csv"], r"train-1\.csv and train\.csv"),
        (["train.csv", "train/a.csv", "eval.csv"], r"train\.csv and train/a\.csv"),
        (["train.csv"], r"no split eval \(train\.csv\); it has train\.csv"),
        (["eval.csv", "test.csv"], r"no split train"),
    ],
)
def test_files_that_are_not_one_set_of_splits_are_refused(tmp_path, names, message):
    for name in names:
        write(tmp_path / "data" / name, ROWS)
    with pytest.raises(UsageError, match=message):
        prepare(tmp_path / "data", tmp_path)


def test_file_whose_name_shows_no_format_is_read_if_the_format_is_set(tmp_path):
    path = write(tmp_path / "rows.csv", MANY).rename(tmp_path / "rows.txt")
    with pytest.raises(UsageError, match=r"rows\.txt: its name shows no format"):
        prepare(path, tmp_path)
    read = prepare(path, tmp_path, format="csv")
    assert sum(map(len, read.values())) == len(MANY)


def test_format_of_a_directory_is_set(tmp_path):
    for split in ("train", "eval"):
        path = write(tmp_path / "data" / f"{split}.csv", ROWS)
        path.rename(path.with_suffix(".txt"))
    read = prepare(tmp_path / "data", tmp_path, format="csv")
    assert read == {"train": EXPECTED, "eval": EXPECTED}


def test_files_that_are_not_read_are_named(tmp_path):
    for name in ("train.csv", "val.csv", "notes.csv"):
        write(tmp_path / "data" / name, ROWS)
    (tmp_path / "data" / "more.xlsx").touch()
    lines = []
    source, target = str(tmp_path / "data"), str(tmp_path / "records")
    counts = examples_lib.prepare(source, target, TASK, lines.append)
    assert counts == {"train": 3, "eval": 3}
    assert "notes.csv, more.xlsx: no known split or format, left out" in lines


@pytest.mark.parametrize("suffix", ["csv.gz", "arrow", "parquet"])
@pytest.mark.parametrize("policy", ["refuse", "skip"])
def test_damaged_file_loses_no_row_silently(tmp_path, suffix, policy):
    path = write(tmp_path / "data" / f"train.{suffix}", MANY * 300)
    write(tmp_path / "data" / f"eval.{suffix}", ROWS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UsageError, match=rf"train\.{suffix}.*cannot be read"):
        prepare(tmp_path / "data", tmp_path, on_bad_rows=policy)


def test_shard_of_another_encoding_is_refused_by_name(tmp_path):
    for part in range(2):
        write(tmp_path / "data" / f"part-{part}.csv", MANY)
    path = tmp_path / "data" / "part-1.csv"
    path.write_bytes(path.read_text().encode("utf-16"))
    settings = {"on_bad_rows": "skip", "encoding": "cp1252"}
    with pytest.raises(UsageError, match=r"part-1\.csv: .*UTF-16.*data\.encoding=utf"):
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
    with pytest.raises(UsageError, match=r"flatten_indices\(\)"):
        prepare(source, tmp_path)


def test_first_bad_rows_of_every_format_are_named(tmp_path):
    bad = {"Text": "A cat.", "Klasse": "mittel"}
    first = {"csv": 5, "tsv": 5, "jsonl": 3, "parquet": 3, "arrow": 3}
    for suffix, row in first.items():
        source = tmp_path / suffix
        write(source / f"train.{suffix}", [ROWS[0], ROWS[2], bad])
        write(source / f"eval.{suffix}", ROWS)
        message = rf"train\.{suffix}:{row}: Klasse is 'mittel'; allowed are "
        with pytest.raises(UsageError, match=message):
            prepare(source, tmp_path)


def test_records_with_a_bad_row_are_named_by_their_number(tmp_path):
    examples = [records.example(Text=[b"a"], Klasse=[b"gut"]) for _ in range(20)]
    examples.insert(3, records.example(Text=[b"a"], Klasse=[b"?"]))
    path = tmp_path / "all.tfrecord.gz"
    records.write(path, examples)
    with pytest.raises(UsageError, match=r"all\.tfrecord\.gz:4: Klasse is '\?'"):
        prepare(path, tmp_path)


def test_lines_of_quoted_and_gzipped_csv_are_counted_in_its_text(tmp_path):
    text = 'Text,Klasse\n"two\nlines",gut\nbad,?\n' + "fine,gut\n" * 20
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with pytest.raises(UsageError, match=r"rows\.csv\.gz:4: Klasse is '\?'"):
        prepare(path, tmp_path)


def test_dialect_is_reported(tmp_path):
    path = tmp_path / "rows.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ["Text", "Klasse"], delimiter=";")
        writer.writeheader()
        writer.writerows(
            {"Text": f'"{n}"', "Klasse": ["gut", "schlecht"][n % 2]} for n in range(40)
        )
    lines = []
    examples_lib.prepare(str(path), str(tmp_path / "records"), TASK, lines.append)
    assert lines[0] == 'rows.csv: csv: semicolon, quoted, a quote in a field is ""'
