"""Preparing TFRecords from text."""

import concurrent.futures
import json
import os
import re
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
from tests.refusals import refused

TASK = TaskConfig()


@pytest.fixture
def paths(tmp_path):
    return OutputPaths(tmp_path / "output", "tiny")


@pytest.fixture
def source(tmp_path):
    """Splits of 5 pairs."""
    return str(tiny.write_tables(tmp_path / "text", rows=5))


def read(directory, split):
    return records.read(f"{directory}/{split}/*.tfrecord.gz")


SIZES = dict.fromkeys(("train", "eval", "test"), 20)
HEADER = "idx\tlabel\tsentence1\tsentence2\n"
ROW = "7\t1\tone\ttwo\n"


def test_every_row_becomes_an_example_with_its_texts_label_and_id(tmp_path, prepare):
    splits, _ = prepare(tiny.write_tables(tmp_path / "text", rows=20), TASK)
    assert {split: len(rows) for split, rows in splits.items()} == SIZES
    for index, (label, first, second) in enumerate(tiny.pairs(20, seed=0)):
        texts = {"sentence1": [first.encode()], "sentence2": [second.encode()]}
        assert splits["train"][index] == {**texts, "label": [label], "idx": [index]}


def test_columns_have_the_names_of_the_task(write, prepare):
    task = TaskConfig(text_columns=["question", "answer"], label_column="good")
    table = "question\tanswer\tgood\nwhy\tbecause\t1\nwho\tme\t0\n"
    splits, _ = prepare(write("tsv", train=table, eval=table), task)
    assert splits["train"][1]["answer"] == [b"me"]
    assert [example["idx"] for example in splits["train"]] == [[0], [1]]


def test_column_that_the_task_does_not_name_changes_nothing(write, prepare):
    contents = []
    for name in ("Ann", "Bob"):
        table = f"name\t{HEADER}{name}\t{ROW}"
        contents.append(prepare(write("tsv", train=table, eval=table), TASK, name)[0])
    assert contents[0] == contents[1]
    assert {*contents[0]["train"][0]} == {*TASK.columns}


def test_weights_of_rows_become_numbers_and_only_training_needs_them(write, prepare):
    rows = "1\tone\ttwo\t2\n0\tone\ttwo\t0.25\n"
    train = "label\tsentence1\tsentence2\tweight\n" + rows
    source = write("tsv", train=train, eval=HEADER + ROW)
    splits, _ = prepare(source, TaskConfig(weight_column="weight"))
    assert [example["weight"] for example in splits["train"]] == [[2.0], [0.25]]
    assert "weight" not in splits["eval"][0]


def test_columns_to_slice_by_become_texts_of_the_examples(write, prepare):
    rows = "1\tone\ttwo\t2024.0\t north\n0\tone\ttwo\tNA\t\n"
    table = "label\tsentence1\tsentence2\tyear\tregion\n" + rows
    source = write("tsv", train=table, eval=table, test=HEADER + ROW)
    splits, _ = prepare(source, TASK, slice_columns=["region", "year"])
    for split in ("train", "eval"):
        first, second = splits[split]
        assert (first["year"], first["region"]) == ([b"2024"], [b"north"])
        assert not {"year", "region"} & second.keys()  # no values
    (row,) = splits["test"]
    assert row.keys() == {"sentence1", "sentence2", "label", "idx"}


def test_column_of_the_task_is_no_column_to_slice_by(write, prepare):
    source = write("tsv", train=HEADER + ROW, eval=HEADER + ROW)
    with pytest.raises(UsageError, match="names 'label', a column of the task"):
        prepare(source, TASK, slice_columns=["label"])


def test_source_that_does_not_exist_is_refused(tmp_path, prepare):
    source = str(tmp_path / "absent")
    allowed = re.compile("^a file, a directory with train.csv and eval.csv")
    with refused("E-data-not-found", setting=source, allowed=allowed):
        prepare(source, TASK)


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


def test_second_preparation_of_one_destination_waits_and_is_refused(tmp_path, source):
    target = str(tmp_path / "records")
    report, second = in_the_middle(lambda: examples_lib.prepare(source, target, TASK))
    examples_lib.prepare(source, target, TASK, report)
    with refused("E-destination-exists", setting=target):
        second.result(60)
    assert [len(read(target, split)) for split in ("train", "eval", "test")] == [5] * 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records", "text"]


def test_files_of_a_killed_preparation_are_deleted(tmp_path, source):
    left = tmp_path / ".records.incomplete" / "train"
    left.mkdir(parents=True)
    examples_lib.prepare(source, str(tmp_path / "records"), TASK)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records", "text"]


def test_two_runs_that_make_the_same_examples_both_use_them(source, paths):
    report, second = in_the_middle(
        lambda: examples_lib.resolve_examples(source, TASK, paths.examples)
    )
    first = examples_lib.resolve_examples(source, TASK, paths.examples, report)
    assert second.result(60) == first
    assert len(read(first.directory, "train")) == 5


def test_same_text_is_prepared_once_and_an_edit_again(source, paths):
    first = examples_lib.resolve_examples(source, TASK, paths.examples)
    assert examples_lib.resolve_examples(source, TASK, paths.examples) == first
    with open(f"{source}/train.tsv", "a") as file:
        file.write("99\t1\tA cat.\tThe cat.\n")
    assert examples_lib.resolve_examples(source, TASK, paths.examples) != first


@pytest.mark.parametrize("damage", ["deleted", "emptied"])
def test_damaged_examples_are_written_again(source, paths, damage):
    first = examples_lib.resolve_examples(source, TASK, paths.examples)
    (path,) = Path(first.directory, "train").glob("*.gz")
    path.unlink() if damage == "deleted" else path.write_text("")
    lines = []
    again = examples_lib.resolve_examples(source, TASK, paths.examples, lines.append)
    assert again == first
    assert len(read(first.directory, "train")) == 5
    assert lines[0].startswith(f"{first.directory} is written again: 1 of its files")


def test_examples_of_a_process_killed_after_publishing_are_checked(
    source, paths, monkeypatch
):
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


def test_run_opens_a_file_once_more_to_look_for_earlier_examples(tmp_path, paths):
    source, (name,) = write_rows(tmp_path, "one")
    for times in (2, 1):  # to hash it and to read its rows; to hash it
        with opened_files.counted() as opened:
            examples_lib.resolve_examples(str(source), TASK, paths.examples)
        assert opened[name] == times


def test_dialects_of_all_shards_are_known_before_the_rows_are_written(tmp_path):
    source, _ = write_rows(tmp_path, "shards")
    with (source / "a-1.csv").open("w") as file:
        file.write("idx;sentence1|sentence2;label\n1;a|b;1\n")
    lines = []
    got = re.compile(r"^semicolon and pipe fit the fields of .*/a-1\.csv$")
    with refused("E-dialect-unclear", setting="data.delimiter", got=got):
        examples_lib.prepare(str(source), str(tmp_path / "r"), TASK, lines.append)
    assert not lines


def test_directory_of_tfrecords_is_not_copied(tmp_path, source, paths):
    directory = str(tmp_path / "records")
    examples_lib.prepare(source, directory, TASK)
    examples = examples_lib.resolve_examples(directory, TASK, paths.examples)
    assert examples.directory == directory
    assert sorted(examples.patterns) == ["eval", "test", "train"]
    assert not (tmp_path / "output").exists()


def rewrite(path):
    """Changes a file in place, which keeps its size and its modification time."""
    status, content = path.stat(), bytearray(path.read_bytes())
    content[4] ^= 1  # the time in the header of gzip
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


@pytest.mark.parametrize("has_card", [True, False])
def test_tfrecords_rewritten_with_the_same_size_and_time_have_another_fingerprint(
    tmp_path, source, paths, has_card
):
    directory = tmp_path / "records"
    examples_lib.prepare(source, str(directory), TASK)
    if not has_card:
        (directory / "data_card.json").unlink()

    def resolve():
        return examples_lib.resolve_examples(str(directory), TASK, paths.examples)

    first = resolve()
    assert first.fingerprint == resolve().fingerprint
    # The card of prepared records has the hash of their source.
    assert (first.card.fingerprint != first.fingerprint) == has_card
    fingerprints = {first.fingerprint}
    for split in ("train", "eval", "test"):
        rewrite(next((directory / split).glob("*.gz")))
        fingerprints.add(resolve().fingerprint)
    assert len(fingerprints) == 4


def test_tfrecords_are_read_once_to_hash_them(tmp_path, source, paths):
    directory = str(tmp_path / "records")
    examples_lib.prepare(source, directory, TASK)
    with opened_files.counted() as opened:
        examples_lib.resolve_examples(directory, TASK, paths.examples)
    # Each split has a file of this name; its first bytes show its compression.
    assert opened["data-00000-of-00001.tfrecord.gz"] == 3 * 2


def test_real_mrpc_is_read_whole(mrpc, prepare):
    splits, _ = prepare(mrpc, TASK)
    sizes = {split: len(rows) for split, rows in splits.items()}
    assert sizes == {"train": 3668, "eval": 408, "test": 1725}
    assert sum(example["label"][0] for example in splits["eval"]) == 279


SINGLE = TaskConfig(text_columns=["body"], label_range=[0, 10])
STARS = TaskConfig(text_columns=["body"], classes=["bad", "fine", "good"])


@pytest.fixture
def write_labels(write):
    """Writes splits of rows with the given labels."""

    def write_labels(**splits):
        tables = {
            split: "body\tlabel\n" + "".join(f"Text.\t{label}\n" for label in labels)
            for split, labels in splits.items()
        }
        return write("tsv", **tables)

    return write_labels


def labels_of(splits):
    return {s: [row["label"][0] for row in rows] for s, rows in splits.items()}


def test_single_sentences_have_scores(write_labels, prepare):
    scores = ["7.25", "1e1"]
    splits, _ = prepare(write_labels(train=scores, eval=scores), SINGLE)
    assert splits["train"] == [
        {"body": [b"Text."], "label": [7.25], "idx": [0]},
        {"body": [b"Text."], "label": [10.0], "idx": [1]},
    ]


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
    write, prepare, task, is_kept
):
    table, secret = HEADER + ROW, HEADER + "1\t-1\ta\tb\n"
    source = write("tsv", train=table, eval=table, test=secret)
    splits, lines = prepare(source, task)
    assert ("test" in splits) == is_kept
    assert (f"{source}/test.tsv has only -1 for label: left out" in lines) != is_kept


def test_labels_of_all_splits_are_indices_or_all_are_names(write_labels, prepare):
    source = write_labels(train="012", eval=["0", "-1"])
    got = re.compile(r"eval\.tsv:3: label is '-1'; allowed are 0")
    with refused("E-rows-refused", got=got):
        prepare(source, STARS)
    got = "no rows are left in the split train"
    with refused("E-split-missing", got=got, advice="add some"):
        prepare(source, STARS, on_bad_rows="skip")


def test_no_label_changes_its_class_if_bad_rows_are_skipped(write_labels, prepare):
    source = write_labels(train=["1", "bad", "good"], eval=["fine", "2"])
    splits, _ = prepare(source, STARS, on_bad_rows="skip")
    assert labels_of(splits) == {"train": [0, 2], "eval": [1]}
    source = write_labels(train=["1", "2", "good"], eval=["fine"])
    splits, lines = prepare(source, STARS, "late", on_bad_rows="skip")
    assert labels_of(splits) == {"train": [2], "eval": [1]}
    reason = "the label good is not the index of a class, so that every label"
    assert reason in " ".join(lines)


def test_one_value_has_one_class_in_all_files(write_labels, prepare):
    task = STARS.model_copy(update={"classes": ["1", "2", "3"], "labels": "name"})
    splits, _ = prepare(write_labels(train=["1.0", "3.0"], eval=["1", "03"]), task)
    assert labels_of(splits) == {"train": [0, 2], "eval": [0, 2]}


@pytest.mark.parametrize(
    ("test", "values"), [([""] * 3, "(empty)"), (["NA", "", "-1"], "(empty), -1, NA")]
)
def test_split_without_a_label_is_left_out_with_its_values(
    write_labels, prepare, test, values
):
    source = write_labels(train="012", eval="012", test=test)
    splits, lines = prepare(source, STARS)
    assert splits.keys() == {"train", "eval"}
    assert f"{source}/test.tsv has only {values} for label: left out" in lines


@pytest.mark.parametrize("mark", ["", "NA", "-1"])
def test_row_without_a_label_in_a_labelled_split_is_a_bad_row(
    write_labels, prepare, mark
):
    source = write_labels(train="012", eval="012", test=[mark, "1", "2"])
    got = re.compile(rf"test\.tsv:2: label is '{mark}'")
    with refused("E-rows-refused", got=got):
        prepare(source, STARS.model_copy(update={"labels": "index"}))


def test_split_whose_first_row_lacks_the_label_keeps_its_labels(write, prepare):
    whole = '{"body": "A cat.", "label": "good"}\n'
    splits = {"train": whole, "eval": whole, "test": '{"body": "A cat."}\n' + whole}
    with refused("E-rows-refused", got=re.compile(r"test\.jsonl:1: no column label")):
        prepare(write("jsonl", **splits), STARS)


def test_null_is_no_label_even_if_a_class_is_called_none(write, prepare):
    task = STARS.model_copy(update={"classes": ["bad", "None"]})
    line = '{{"body": "A cat.", "label": {}}}\n'.format
    splits = {"train": line('"None"'), "eval": line('"bad"'), "test": line("null")}
    splits, _ = prepare(write("jsonl", **splits), task)
    assert splits.keys() == {"train", "eval"}


def test_marks_of_missing_texts_are_bad_rows(write, prepare):
    table = "body\tlabel\nNA\t7\nNA sales.\t7\n n/a \t7\n"
    source = write("tsv", train=table, eval="body\tlabel\nA cat.\t7\n")
    got = re.compile("(?s)^2 rows cannot be used.*body is 'NA', which stands for a mis")
    with refused("E-rows-refused", got=got):
        prepare(source, SINGLE)


def test_marks_are_texts_of_glue(write, prepare):
    table = "index\tpremise\thypothesis\tlabel\n1\tn/a\tNone\tneutral\n"
    source = write("tsv", train=table, eval=table)
    splits, _ = prepare(source, TaskConfig(name="mnli"))
    assert splits["train"][0]["hypothesis"] == [b"None"]


def test_two_files_of_one_split_are_refused(write, prepare):
    table = HEADER + ROW
    source = write("tsv", train=table, dev=table, validation=table)
    got = re.compile(r"dev\.tsv and validation\.tsv, .* the split eval")
    with refused("E-split-unclear", setting=str(source), got=got):
        prepare(source, TASK)


TOKENIZED = TaskConfig(input="tokenized")


@pytest.mark.parametrize("origin", [None, "tfds:glue/mrpc"])
def test_text_is_refused_for_a_task_of_token_ids(tmp_path, source, paths, origin):
    source = origin or source
    target = str(tmp_path / "records")
    for resolve in (
        lambda: examples_lib.resolve_examples(source, TOKENIZED, paths.examples),
        lambda: examples_lib.prepare(source, target, TOKENIZED),
    ):
        got = f"tokenized, but {source} is text"
        with refused("E-format-unknown", setting="task.input", got=got):
            resolve()


def test_token_ids_are_found_next_to_text(source, paths):
    for split in ("train", "eval"):
        path = Path(source, f"MRPC_{split}.tf_record")
        records.write(path, [records.example(label=[1])])
    examples = examples_lib.resolve_examples(source, TOKENIZED, paths.examples)
    assert examples.patterns["train"] == "MRPC_train.tf_record"


BINARY = "text,label\n" + "".join(f"text {n},{n % 2}\n" for n in range(60))


def find_warnings(source, tmp_path, **settings):
    """Returns the warnings of a run about rows that were split in another way."""
    task = TaskConfig(text_columns=["text"], classes=["0", "1"])
    lines = []
    examples_lib.resolve_examples(
        *(str(source), task, lambda key: tmp_path / "examples" / key, lines.append),
        DataConfig(**settings),
    )
    return [line for line in lines if line.startswith("warning: the rows of")]


def test_first_examples_that_are_split_in_another_way_warn_once(tmp_path):
    source = tmp_path / "all.csv"
    source.write_text(BINARY)

    def resolve(**settings):
        return find_warnings(source, tmp_path, **settings)

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
    source = tmp_path / "data"
    source.mkdir()

    def resolve(*names):
        for file in source.iterdir():
            file.unlink()
        for name in names:
            (source / name).write_text(BINARY.replace("text ", f"{name} "))
        return find_warnings(source, tmp_path)

    assert resolve("part-0.csv") == []
    (warning,) = resolve("train.csv", "eval.csv")
    assert "(its files had no splits)" in warning
    (warning,) = resolve("part-0.csv")
    assert "(its files had splits)" in warning
