"""Preparing TFRecords from text."""

import concurrent.futures
import json
import os
import threading
from pathlib import Path

import pytest

from contracts import fingerprint
from contracts.errors import UsageError
from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from ingest.working_directory import WorkingDirectory
from pipeline.config.paths import OutputPaths
from tests import opened_files, records, tiny

TASK = TaskConfig()


def read(directory, split):
    return records.read(f"{directory}/{split}/*.tfrecord.gz")


def write(directory, **tables):
    directory.mkdir()
    for name, text in tables.items():
        (directory / f"{name}.tsv").write_bytes(text.encode())
    return str(directory)


HEADER = "idx\tlabel\tsentence1\tsentence2\n"
ROW = "7\t1\tone\ttwo\n"


def test_every_row_becomes_an_example_with_its_texts_label_and_id(tmp_path):
    source = tiny.write_tables(tmp_path / "text", rows=20)
    counts = examples_lib.prepare(str(source), str(tmp_path / "records"), TASK)
    assert counts == {"train": 20, "eval": 20, "test": 20}
    examples = read(tmp_path / "records", "train")
    for index, (label, first, second) in enumerate(tiny.pairs(20, seed=0)):
        assert examples[index]["sentence1"] == [first.encode()]
        assert examples[index]["sentence2"] == [second.encode()]
        assert examples[index]["label"] == [label]
        assert examples[index]["idx"] == [index]


def test_double_quotes_and_control_characters_are_text(tmp_path):
    row = '1\t0\t"The pie\x12 does not fit.\t"Unclosed\r\n'
    source = write(tmp_path / "text", train=HEADER + row, dev=HEADER + ROW)
    examples_lib.prepare(source, str(tmp_path / "records"), TASK)
    (example,) = read(tmp_path / "records", "train")
    assert example["sentence1"] == [b'"The pie\x12 does not fit.']
    assert example["sentence2"] == [b'"Unclosed']


@pytest.mark.parametrize("name", ["eval", "validation", "dev"])
def test_split_names_of_other_libraries_are_read(tmp_path, name):
    source = write(tmp_path / "text", **{"train": HEADER + ROW, name: HEADER + ROW})
    counts = examples_lib.prepare(source, str(tmp_path / "records"), TASK)
    assert counts == {"train": 1, "eval": 1}


def test_mrpc_as_glue_ships_it_with_its_own_header_and_unlabelled_test(tmp_path):
    labelled = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t5\t6\tone\ttwo\n"
    unlabelled = "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t5\t6\tone\ttwo\n"
    source = write(tmp_path / "text", train=labelled, dev=labelled, test=unlabelled)
    lines = []
    counts = examples_lib.prepare(source, str(tmp_path / "records"), TASK, lines.append)
    assert counts == {"train": 1, "eval": 1}
    assert f"{source}/test.tsv has no column label: left out" in lines


def test_labels_may_be_class_names(tmp_path):
    row = "1\tequivalent\tone\ttwo\n2\tnot_equivalent\tone\ttwo\n"
    source = write(tmp_path / "text", train=HEADER + row, eval=HEADER + row)
    examples_lib.prepare(source, str(tmp_path / "records"), TASK)
    examples = read(tmp_path / "records", "train")
    assert [example["label"] for example in examples] == [[1], [0]]


def test_columns_have_the_names_of_the_task(tmp_path):
    task = TaskConfig(text_columns=["question", "answer"], label_column="good")
    table = "question\tanswer\tgood\nwhy\tbecause\t1\nwho\tme\t0\n"
    source = write(tmp_path / "text", train=table, eval=table)
    examples_lib.prepare(source, str(tmp_path / "records"), task)
    examples = read(tmp_path / "records", "train")
    assert examples[1]["answer"] == [b"me"]
    assert [example["idx"] for example in examples] == [[0], [1]]


def test_column_that_the_task_does_not_name_changes_nothing(tmp_path):
    contents = []
    for name in ("Ann", "Bob"):
        table = f"name\t{HEADER}{name}\t{ROW}"
        source = write(tmp_path / name, train=table, eval=table)
        examples_lib.prepare(source, str(tmp_path / f"{name}_records"), TASK)
        contents.append(read(tmp_path / f"{name}_records", "*"))
    assert contents[0] == contents[1]
    assert {*contents[0][0]} == {*TASK.columns}


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (HEADER + "1\t1\tonly one text\n", r"train\.tsv:2: 3 fields, the header has 4"),
        (HEADER + ROW + "1\tyes\ta\tb\n", r"train\.tsv:3: label is 'yes'; allowed are"),
        (HEADER + "x\t1\ta\tb\n", r"train\.tsv:2: idx is 'x', not a whole number"),
        (
            HEADER + f"{1 << 63}\t1\ta\tb\n",
            r"train\.tsv:2: idx is '9223372036854775808'",
        ),
        ("label\ttext\n1\ta\n", r"no column sentence1, sentence2; it has label, text"),
        ("sentence1\tsentence2\na\tb\n", r"no column label; .*task\.label_column"),
        (HEADER, r"train\.tsv has no rows; the split train needs some"),
        (
            HEADER.replace("idx", "label") + ROW,
            r"train\.tsv:1: the header has the column 'label' more than once; rename",
        ),
    ],
)
def test_malformed_table_is_refused_with_file_and_line_and_leaves_nothing(
    tmp_path, train, message
):
    source = write(tmp_path / "text", train=train, eval=HEADER + ROW)
    with pytest.raises(UsageError, match=message):
        examples_lib.prepare(source, str(tmp_path / "records"), TASK)
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


WEIGHTED = TaskConfig(weight_column="weight")
WEIGHTED_HEADER = "label\tsentence1\tsentence2\tweight\n"


def test_weights_of_rows_become_numbers_and_only_training_needs_them(tmp_path):
    rows = "1\tone\ttwo\t2\n0\tone\ttwo\t0.25\n"
    source = write(tmp_path / "text", train=WEIGHTED_HEADER + rows, eval=HEADER + ROW)
    examples_lib.prepare(source, str(tmp_path / "records"), WEIGHTED)
    train, evaluation = (read(tmp_path / "records", s) for s in ("train", "eval"))
    assert [example["weight"] for example in train] == [[2.0], [0.25]]
    assert "weight" not in evaluation[0]


@pytest.mark.parametrize("split", ["train", "eval"])
@pytest.mark.parametrize("weight", ["-1", "nan", "inf", "", "heavy"])
def test_weight_that_is_not_a_number_from_0_is_refused_with_file_and_line(
    tmp_path, split, weight
):
    good, bad = (WEIGHTED_HEADER + f"1\tone\ttwo\t{w}\n" for w in ("1", weight))
    tables = {"train": good, "eval": good, split: bad}
    source = write(tmp_path / "text", **tables)
    message = rf"{split}\.tsv:2: weight is '{weight}'; allowed are numbers from 0"
    with pytest.raises(UsageError, match=message):
        examples_lib.prepare(source, str(tmp_path / "records"), WEIGHTED)


def test_training_split_without_the_weight_column_is_refused(tmp_path):
    source = write(tmp_path / "text", train=HEADER + ROW, eval=HEADER + ROW)
    message = r"train\.tsv has no column weight; .*\(task\.weight_column names them\)"
    with pytest.raises(UsageError, match=message):
        examples_lib.prepare(source, str(tmp_path / "records"), WEIGHTED)


SLICED = DataConfig(slice_columns=["region", "year"])
SLICED_HEADER = "label\tsentence1\tsentence2\tyear\tregion\n"


def prepare_sliced(tmp_path, **tables):
    source = write(tmp_path / "text", **tables)
    target = str(tmp_path / "records")
    return examples_lib.prepare(source, target, TASK, settings=SLICED)


def test_columns_to_slice_by_become_texts_of_the_examples(tmp_path):
    rows = "1\tone\ttwo\t2024.0\t north\n0\tone\ttwo\tNA\t\n"
    train = SLICED_HEADER + rows
    prepare_sliced(tmp_path, train=train, eval=train, test=HEADER + ROW)
    for split in ("train", "eval"):
        first, second = read(tmp_path / "records", split)
        assert (first["year"], first["region"]) == ([b"2024"], [b"north"])
        assert not {"year", "region"} & second.keys()  # no values
    (row,) = read(tmp_path / "records", "test")
    assert row.keys() == {"sentence1", "sentence2", "label", "idx"}


def test_column_of_the_task_is_no_column_to_slice_by(tmp_path):
    source = write(tmp_path / "text", train=HEADER + ROW, eval=HEADER + ROW)
    settings = DataConfig(slice_columns=["label"])
    with pytest.raises(UsageError, match="names 'label', a column of the task"):
        examples_lib.prepare(source, str(tmp_path / "r"), TASK, settings=settings)


def test_bytes_that_are_not_utf_8_are_refused_with_file_and_line(tmp_path):
    source = write(tmp_path / "text", train=HEADER + ROW, eval=HEADER + ROW)
    with open(f"{source}/train.tsv", "ab") as file:
        file.write(b"1\t1\t\xff\xfe\tb\n")
    with pytest.raises(
        UsageError,
        match=r"train\.tsv:3: column 5: the byte 0xff is not utf-8.*cp1252",
    ):
        examples_lib.prepare(source, str(tmp_path / "records"), TASK)


def test_missing_split_is_refused_with_the_files_that_exist(tmp_path):
    source = write(tmp_path / "text", train=HEADER + ROW)
    with pytest.raises(UsageError, match=r"no split eval .*it has train\.tsv"):
        examples_lib.prepare(source, str(tmp_path / "records"), TASK)


def test_source_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UsageError, match="absent does not exist; give a file"):
        examples_lib.prepare(str(tmp_path / "absent"), str(tmp_path / "records"), TASK)


def test_existing_destination_is_never_overwritten(tmp_path):
    source = tiny.write_tables(tmp_path / "text")
    (tmp_path / "records").mkdir()
    with pytest.raises(UsageError, match="exists; name a new directory"):
        examples_lib.prepare(str(source), str(tmp_path / "records"), TASK)


def in_the_middle(call):
    """Returns a `report` that starts another thread once, and its future."""
    future = concurrent.futures.Future()

    def run():
        try:
            future.set_result(call())
        except UsageError as error:
            future.set_exception(error)

    thread = threading.Thread(target=run)

    def report(_):
        if thread.ident is None:
            thread.start()
            thread.join(0.2)
            assert thread.is_alive()  # waits

    return report, future


def test_second_preparation_of_one_destination_waits_and_is_refused(tmp_path):
    source = str(tiny.write_tables(tmp_path / "text", rows=5))
    target = str(tmp_path / "records")
    report, second = in_the_middle(lambda: examples_lib.prepare(source, target, TASK))
    examples_lib.prepare(source, target, TASK, report)
    with pytest.raises(UsageError, match="records exists; name a new directory"):
        second.result(60)
    assert [len(read(target, split)) for split in ("train", "eval", "test")] == [5] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records", "text"]


def test_files_of_a_killed_preparation_are_deleted(tmp_path):
    source = str(tiny.write_tables(tmp_path / "text", rows=5))
    left = tmp_path / ".records.incomplete" / "train"
    left.mkdir(parents=True)
    examples_lib.prepare(source, str(tmp_path / "records"), TASK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records", "text"]


def test_two_runs_that_make_the_same_examples_both_use_them(tmp_path):
    source = str(tiny.write_tables(tmp_path / "text", rows=5))
    paths = OutputPaths(tmp_path / "output", "tiny")
    report, second = in_the_middle(
        lambda: examples_lib.resolve_examples(source, TASK, paths.examples)
    )
    first = examples_lib.resolve_examples(source, TASK, paths.examples, report)
    assert second.result(60) == first
    assert len(read(first.directory, "train")) == 5


def test_same_text_is_prepared_once_and_an_edit_again(tmp_path):
    source = tiny.write_tables(tmp_path / "text")
    paths = OutputPaths(tmp_path / "output", "tiny")
    first = examples_lib.resolve_examples(str(source), TASK, paths.examples)
    assert examples_lib.resolve_examples(str(source), TASK, paths.examples) == first
    with open(source / "train.tsv", "a") as file:
        file.write("99\t1\tA cat.\tThe cat.\n")
    assert examples_lib.resolve_examples(str(source), TASK, paths.examples) != first


@pytest.mark.parametrize("damage", ["deleted", "emptied"])
def test_damaged_examples_are_written_again(tmp_path, damage):
    source = str(tiny.write_tables(tmp_path / "text", rows=5))
    paths = OutputPaths(tmp_path / "output", "tiny")
    first = examples_lib.resolve_examples(source, TASK, paths.examples)
    (path,) = Path(first.directory, "train").glob("*.gz")
    path.unlink() if damage == "deleted" else path.write_text("")
    reported = []
    again = examples_lib.resolve_examples(source, TASK, paths.examples, reported.append)
    assert again == first
    assert len(read(first.directory, "train")) == 5
    assert reported[0] == (
        f"{first.directory} is written again: 1 of its files are missing or have "
        "changed"
    )


def test_examples_of_a_process_killed_after_publishing_are_checked(
    tmp_path, monkeypatch
):
    source = str(tiny.write_tables(tmp_path / "text", rows=5))
    paths = OutputPaths(tmp_path / "output", "tiny")
    publish = WorkingDirectory.publish

    def killed(*arguments):
        publish(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(WorkingDirectory, "publish", killed)
        with pytest.raises(KeyboardInterrupt):
            examples_lib.resolve_examples(source, TASK, paths.examples)
    (directory,) = paths.examples("").iterdir()
    (path,) = (directory / "train").glob("*.gz")
    path.unlink()
    examples_lib.resolve_examples(source, TASK, paths.examples)
    assert len(read(directory, "train")) == 5


def write_rows(tmp_path, kind):
    """Writes 40 rows as a file, as a file for each split, or as shards of one."""
    rows = [f'{n},text {n},"left, {n}",right,{n % 2}\n' for n in range(40)]
    header = "idx,sentence1,more,sentence2,label\n"
    names = {"one": ["a"], "splits": ["train", "eval"], "shards": ["a-0", "a-1"]}[kind]
    source = tmp_path / "rows"
    source.mkdir()
    for index, name in enumerate(names):
        part = rows[index :: len(names)]
        (source / f"{name}.csv").write_text(header + "".join(part))
    return source, [f"{name}.csv" for name in names]


@pytest.mark.parametrize("kind", ["one", "splits", "shards"])
def test_file_is_opened_once(tmp_path, kind):
    source, names = write_rows(tmp_path, kind)
    with opened_files.counted() as opened:
        examples_lib.prepare(str(source), str(tmp_path / "records"), TASK)
    # The dialects of all shards are shown before the rows of the first are read.
    times = [1, 2] if kind == "shards" else [1] * len(names)
    assert [opened[name] for name in names] == times
    card = examples_lib.find_examples(str(tmp_path / "records")).card
    assert card.fingerprint == fingerprint.of_files(source / name for name in names)


def test_run_opens_a_file_once_more_to_look_for_earlier_examples(tmp_path):
    source, (name,) = write_rows(tmp_path, "one")
    paths = OutputPaths(tmp_path / "output", "tiny")
    for times in (2, 1):  # to hash it and to read its rows; to hash it
        with opened_files.counted() as opened:
            examples_lib.resolve_examples(str(source), TASK, paths.examples)
        assert opened[name] == times


def test_dialects_of_all_shards_are_known_before_the_rows_are_written(tmp_path):
    source, _ = write_rows(tmp_path, "shards")
    with (source / "a-1.csv").open("w") as file:
        file.write("idx;sentence1|sentence2;label\n1;a|b;1\n")
    lines = []
    with pytest.raises(UsageError, match=r"a-1\.csv: its fields may be separated by"):
        examples_lib.prepare(str(source), str(tmp_path / "r"), TASK, lines.append)
    assert not lines


def test_directory_of_tfrecords_is_not_copied(tmp_path):
    source = tiny.write_tables(tmp_path / "text")
    examples_lib.prepare(str(source), str(tmp_path / "records"), TASK)
    examples = examples_lib.resolve_examples(
        str(tmp_path / "records"), TASK, OutputPaths(tmp_path / "output", "tiny")
    )
    assert examples.directory == str(tmp_path / "records")
    assert sorted(examples.patterns) == ["eval", "test", "train"]
    assert not (tmp_path / "output").exists()


def rewrite(path):
    """Changes a file in place, which keeps its size and its modification time."""
    status, content = path.stat(), bytearray(path.read_bytes())
    content[4] ^= 1  # the time in the header of gzip
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


@pytest.mark.parametrize("split", ["train", "eval", "test"])
@pytest.mark.parametrize("has_card", [True, False])
def test_tfrecords_rewritten_with_the_same_size_and_time_have_another_fingerprint(
    tmp_path, has_card, split
):
    source = str(tiny.write_tables(tmp_path / "text"))
    directory = tmp_path / "records"
    examples_lib.prepare(source, str(directory), TASK)
    if not has_card:
        (directory / "data_card.json").unlink()

    def resolve():
        paths = OutputPaths(tmp_path / "output", "tiny")
        return examples_lib.resolve_examples(str(directory), TASK, paths.examples)

    first = resolve()
    assert first.fingerprint == resolve().fingerprint
    # The card of prepared records has the hash of their source.
    assert (first.card.fingerprint != first.fingerprint) == has_card
    rewrite(next((directory / split).glob("*.gz")))
    assert resolve().fingerprint != first.fingerprint


def test_tfrecords_are_read_once_to_hash_them(tmp_path):
    source = str(tiny.write_tables(tmp_path / "text"))
    directory = str(tmp_path / "records")
    examples_lib.prepare(source, directory, TASK)
    paths = OutputPaths(tmp_path / "output", "tiny")
    with opened_files.counted() as opened:
        examples_lib.resolve_examples(directory, TASK, paths.examples)
    # Each split has a file of this name; its first bytes show its compression.
    assert opened["data-00000-of-00001.tfrecord.gz"] == 3 * 2


def test_real_mrpc_is_read_whole(mrpc, tmp_path):
    counts = examples_lib.prepare(str(mrpc), str(tmp_path / "records"), TASK)
    assert counts == {"train": 3668, "eval": 408, "test": 1725}
    labels = [example["label"][0] for example in read(tmp_path / "records", "eval")]
    assert sum(labels) == 279


SINGLE = TaskConfig(text_columns=["body"], label_range=[0, 10])
RATED = "body\tlabel\n"


def test_single_sentences_have_scores(tmp_path):
    table = RATED + "A cat.\t7.25\nA bird.\t1e1\n"
    source = write(tmp_path / "text", train=table, eval=table)
    examples_lib.prepare(source, str(tmp_path / "records"), SINGLE)
    assert read(tmp_path / "records", "train") == [
        {"body": [b"A cat."], "label": [7.25], "idx": [0]},
        {"body": [b"A bird."], "label": [10.0], "idx": [1]},
    ]


MISSING = ", which stands for a missing value"
OUTSIDE = r"; allowed are numbers from 0\.0 to 10"


@pytest.mark.parametrize(
    ("score", "problem"),
    [
        *((score, MISSING) for score in ("", "nan", "NA", "-")),
        *((score, OUTSIDE) for score in ("good", "-inf", "1,5", "-3")),
    ],
)
def test_missing_score_or_one_outside_the_range_is_refused_with_file_and_line(
    tmp_path, score, problem
):
    table = RATED + f"A cat.\t7\nA dog.\t{score}\n"
    source = write(tmp_path / "text", train=table, eval=RATED + "A cat.\t7\n")
    message = rf"train\.tsv:3: label is '{score}'{problem}"
    with pytest.raises(UsageError, match=message):
        examples_lib.prepare(source, str(tmp_path / "records"), SINGLE)


@pytest.mark.parametrize(
    ("task", "is_kept"),
    [
        (TASK, False),
        (TaskConfig(classes=["-1", "1"]), True),
        (TaskConfig(label_range=[0, 5]), False),
        (TaskConfig(label_range=[-2, 2]), True),
    ],
)
def test_minus_one_is_a_missing_label_of_a_test_split_unless_the_task_has_it(
    tmp_path, task, is_kept
):
    secret = HEADER + "1\t-1\ta\tb\n"
    source = write(
        tmp_path / "text", train=HEADER + ROW, eval=HEADER + ROW, test=secret
    )
    lines = []
    counts = examples_lib.prepare(source, str(tmp_path / "records"), task, lines.append)
    assert ("test" in counts) == is_kept
    assert (f"{source}/test.tsv has only -1 for label: left out" in lines) != is_kept


STARS = TaskConfig(text_columns=["body"], classes=["bad", "fine", "good"])


def prepare(tmp_path, task=STARS, skips=False, **labels):
    """Prepares splits of rows with the given labels; returns theirs, and the lines."""
    tables = {
        split: RATED + "".join(f"Text {n}.\t{label}\n" for n, label in enumerate(rows))
        for split, rows in labels.items()
    }
    source = write(tmp_path / "text", **tables)
    settings = DataConfig(on_bad_rows="skip" if skips else "refuse")
    lines = []
    counts = examples_lib.prepare(
        source, str(tmp_path / "records"), task, lines.append, settings
    )
    return {
        split: [row["label"][0] for row in read(tmp_path / "records", split)]
        for split in counts
    }, lines


def test_labels_of_all_splits_are_indices_or_all_are_names(tmp_path):
    with pytest.raises(UsageError, match=r"eval.tsv:3: label is '-1'; allowed are 0"):
        prepare(tmp_path, train="012", eval=["0", "-1"])
    (tmp_path / "skip").mkdir()
    with pytest.raises(UsageError, match="the split train has no rows left"):
        prepare(tmp_path / "skip", train="012", eval=["0", "-1"], skips=True)


def test_no_label_changes_its_class_if_bad_rows_are_skipped(tmp_path):
    labels, lines = prepare(
        tmp_path, train=["1", "bad", "good"], eval=["fine", "2"], skips=True
    )
    assert labels == {"train": [0, 2], "eval": [1]}
    (tmp_path / "late").mkdir()
    labels, lines = prepare(
        tmp_path / "late", train=["1", "2", "good"], eval=["fine"], skips=True
    )
    assert labels == {"train": [2], "eval": [1]}
    assert (
        "the label good is not the index of a class, so that every label"
        in " ".join(lines)
    )


def test_one_value_has_one_class_in_all_files(tmp_path):
    task = STARS.model_copy(update={"classes": ["1", "2", "3"], "labels": "name"})
    labels, _ = prepare(tmp_path, task, train=["1.0", "3.0"], eval=["1", "03"])
    assert labels == {"train": [0, 2], "eval": [0, 2]}


@pytest.mark.parametrize(
    ("test", "line"),
    [
        (["-1"] * 3, "test.tsv has only -1 for label: left out"),
        ([""] * 3, "test.tsv has only (empty) for label: left out"),
        (["NA", "", "-1"], "test.tsv has only (empty), -1, NA for label: left out"),
    ],
)
def test_split_without_a_label_is_left_out_with_its_values(tmp_path, test, line):
    labels, lines = prepare(tmp_path, train="012", eval="012", test=test)
    assert labels.keys() == {"train", "eval"}
    assert any(shown.endswith(line) for shown in lines)


@pytest.mark.parametrize("mark", ["", "NA", "-1"])
def test_row_without_a_label_in_a_labelled_split_is_a_bad_row(tmp_path, mark):
    task = STARS.model_copy(update={"labels": "index"})
    with pytest.raises(UsageError, match=rf"test.tsv:2: label is '{mark}'"):
        prepare(tmp_path, task, train="012", eval="012", test=[mark, "1", "2"])


def test_split_whose_first_row_lacks_the_label_keeps_its_labels(tmp_path):
    (tmp_path / "data").mkdir()
    for split in ("train", "eval", "test"):
        rows = [{"body": f"Text {n}.", "label": "good"} for n in range(3)]
        if split == "test":
            del rows[0]["label"]
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "data" / f"{split}.jsonl").write_text(lines)
    with pytest.raises(UsageError, match=r"test.jsonl:1: no column label"):
        examples_lib.prepare(str(tmp_path / "data"), str(tmp_path / "records"), STARS)


def test_null_is_no_label_even_if_a_class_is_called_none(tmp_path):
    task = STARS.model_copy(update={"classes": ["bad", "None"]})
    (tmp_path / "data").mkdir()
    for split, label in (("train", "None"), ("eval", "bad"), ("test", None)):
        line = json.dumps({"body": "A cat.", "label": label}) + "\n"
        (tmp_path / "data" / f"{split}.jsonl").write_text(line)
    counts = examples_lib.prepare(
        str(tmp_path / "data"), str(tmp_path / "records"), task
    )
    assert counts == {"train": 1, "eval": 1}


def test_marks_of_missing_texts_are_bad_rows(tmp_path):
    table = RATED + "NA\t7\nNA sales.\t7\n n/a \t7\n"
    source = write(tmp_path / "text", train=table, eval=RATED + "A cat.\t7\n")
    message = "2 rows cannot be used(.|\n)*body is 'NA', which stands for a missing"
    with pytest.raises(UsageError, match=message):
        examples_lib.prepare(source, str(tmp_path / "records"), SINGLE)


def test_marks_are_texts_of_glue(tmp_path):
    header = "index\tpremise\thypothesis\tlabel\n"
    table = header + "1\tn/a\tNone\tneutral\n"
    source = write(tmp_path / "text", train=table, eval=table)
    task = TaskConfig(name="mnli")
    counts = examples_lib.prepare(source, str(tmp_path / "records"), task)
    assert counts == {"train": 1, "eval": 1}


def test_two_files_of_one_split_are_refused(tmp_path):
    table = HEADER + ROW
    source = write(tmp_path / "text", train=table, dev=table, validation=table)
    with pytest.raises(UsageError, match=r"dev\.tsv and validation\.tsv.*split eval"):
        examples_lib.prepare(source, str(tmp_path / "records"), TASK)


TOKENIZED = TaskConfig(input="tokenized")


@pytest.mark.parametrize("source", ["text", "tfds:glue/mrpc"])
def test_text_is_refused_for_a_task_of_token_ids(tmp_path, source):
    tiny.write_tables(tmp_path / "text")
    if not source.startswith("tfds:"):
        source = str(tmp_path / source)
    paths = OutputPaths(tmp_path / "output", "tiny")
    message = r"is text; name a directory of TFRecords .*or set task\.input=text"
    with pytest.raises(UsageError, match=message):
        examples_lib.resolve_examples(source, TOKENIZED, paths.examples)
    with pytest.raises(UsageError, match=message):
        examples_lib.prepare(source, str(tmp_path / "records"), TOKENIZED)


def test_token_ids_are_found_next_to_text(tmp_path):
    source = tiny.write_tables(tmp_path / "text")
    for split in ("train", "eval"):
        records.write(source / f"MRPC_{split}.tf_record", [records.example(label=[1])])
    paths = OutputPaths(tmp_path / "output", "tiny")
    examples = examples_lib.resolve_examples(str(source), TOKENIZED, paths.examples)
    assert examples.patterns["train"] == "MRPC_train.tf_record"


def test_first_examples_that_are_split_in_another_way_warn_once(tmp_path):
    task = TaskConfig(text_columns=["text"], classes=["0", "1"])
    source = tmp_path / "all.csv"
    rows = "".join(f"text {n},{n % 2}\n" for n in range(60))
    source.write_text("text,label\n" + rows)

    def resolve(**settings):
        lines = []
        examples_lib.resolve_examples(
            str(source),
            task,
            lambda key: tmp_path / "examples" / key,
            lines.append,
            DataConfig(**settings),
        )
        return [line for line in lines if line.startswith("warning: the rows of")]

    assert resolve() == []
    (card,) = (tmp_path / "examples").glob("*/data_card.json")
    content = json.loads(card.read_text())
    del content["splitting"]["eval_size"]  # as releases with random splits wrote it
    card.write_text(json.dumps(content))
    source.write_text(source.read_text() + "text 60,0\n")
    (warning,) = resolve()
    assert "release 1.0.0 split them at random" in warning
    assert "a champion of before may have been trained on rows that it is" in warning
    assert resolve() == []
    source.write_text(source.read_text() + "text 61,0\n")
    assert resolve() == []
    (warning,) = resolve(split_seed=7)
    assert "(data.split_seed was 0)" in warning
    assert resolve(split_seed=7) == []
    (warning,) = resolve()  # the Examples of the run before the last
    assert "(data.split_seed was 7)" in warning
    (warning,) = resolve(test_size=0.3)
    assert "(data.test_size was 0.2)" in warning


def test_source_that_has_splits_now_warns_that_it_had_none(tmp_path):
    task = TaskConfig(text_columns=["text"], classes=["0", "1"])
    source = tmp_path / "data"
    source.mkdir()
    rows = "text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(60))

    def resolve(*names):
        for file in source.iterdir():
            file.unlink()
        for name in names:
            (source / name).write_text(rows.replace("text ", f"{name} "))
        lines = []
        examples_lib.resolve_examples(
            str(source), task, lambda key: tmp_path / "examples" / key, lines.append
        )
        return [line for line in lines if line.startswith("warning: the rows of")]

    assert resolve("part-0.csv") == []
    (warning,) = resolve("train.csv", "eval.csv")
    assert "(its files had no splits)" in warning
    (warning,) = resolve("part-0.csv")
    assert "(its files had splits)" in warning
