"""The command that shows a batch."""

import json

import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from tests import records, tiny
from tests.refusals import check_command

pytestmark = pytest.mark.slow

VALID = {
    "input_ids": [2, 6, 3],
    "input_mask": [1, 1, 1],
    "segment_ids": [0, 0, 0],
    "label_ids": [1],
}


@pytest.fixture
def picture(tmp_path):
    return tmp_path / "batch.png"


@pytest.fixture
def show_batch(tmp_path, picture):
    """Runs the command on the tiny recipe, whose data is text."""
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))

    def show_batch(*arguments):
        command = ("show-batch", "--config", recipe, "--output", picture, *arguments)
        return CliRunner().invoke(main, [str(argument) for argument in command])

    return show_batch


@pytest.fixture
def show_tokenized(show_batch, tmp_path):
    """Runs the command on tokenized Examples; `cut` bytes are missing at the end."""

    def show_tokenized(examples, cut=0):
        for split in ("train", "eval"):
            path = tmp_path / "records" / f"{split}.tfrecord.gz"
            records.write(path, [records.example(**row) for row in examples])
            written = path.read_bytes()
            path.write_bytes(written[: len(written) - cut])
        arguments = ("--data", tmp_path / "records", "--set", "task.input=tokenized")
        return show_batch(*arguments)

    return show_tokenized


def test_tokens_are_printed_and_heat_maps_drawn(show_batch, picture):
    result = show_batch("--rows", 2)
    assert result.exit_code == 0, result.output
    assert result.output.count("[CLS]") == 2
    assert "16 rows, padded to the longest, 15 tokens: 0% is padding" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_padding_of_shorter_rows_is_counted_and_not_shown(show_tokenized):
    rows = [
        {
            "input_ids": [2] * length + [0],
            "input_mask": [1] * length + [0],
            "segment_ids": [0] * (length + 1),
            "label_ids": [1],
            "example_id": [length],
        }
        for length in (6, 8, 4)
    ]
    result = show_tokenized(rows)
    assert result.exit_code == 0, result.output
    # 18 tokens in 3 rows of 8, or in 3 rows of 32.
    expected = "padded to the longest, 8 tokens: 25% is padding; padded to 32: 81%"
    assert expected in " ".join(result.output.split())
    assert "[PAD]" not in result.output
    assert result.output.count("[CLS] " * 3) >= 3


@pytest.mark.parametrize(
    ("columns", "parts"),
    [
        ({"label_ids": [-1]}, ["label_ids", "row 7", "-1", "0 to 1"]),
        ({"label_ids": [2]}, ["label_ids", "row 7", "2", "0 to 1"]),
        ({"label_ids": []}, ["label_ids (data type: int64) is required"]),
        ({"input_ids": [2, 99, 3]}, ["input_ids", "0 to 30"]),
        (None, ["train"]),
    ],
)
def test_bad_rows_are_refused_in_one_line(
    show_tokenized, tmp_path, picture, columns, parts
):
    rows = [] if columns is None else [{**VALID, "example_id": [7], **columns}]
    result = show_tokenized(rows)
    check_command(result, "E-rows-refused", str(tmp_path / "records"), *parts)
    assert len(result.output.splitlines()) == 1
    assert not picture.exists()


def test_text_with_a_bad_label_names_its_line(show_batch, tmp_path):
    table = tmp_path / "data" / "train.tsv"
    table.write_text(table.read_text() + "99\t5\tThe cat.\tA dog!\n")
    check_command(show_batch(), "E-rows-refused", f"{table}:50", "'5'", "0 to 1")


def test_damaged_file_is_named_with_its_record(show_tokenized, tmp_path):
    result = show_tokenized([VALID] * 9, cut=20)
    check_command(
        result, "E-file-damaged", f"{tmp_path / 'records'}/train.tfrecord.gz:2"
    )
    assert len(result.output.splitlines()) == 1
    assert "{{" not in result.output


def test_names_of_several_labels_are_shown(show_batch, tmp_path):
    columns = {"sentence1": [b"the cat"], "sentence2": [b"a dog"]}
    for split in ("train", "eval"):
        rows = [
            records.example(**columns, labels=[1, 0, 1], idx=[0]),
            records.example(**columns, labels=[0, 0, 0], idx=[1]),
        ]
        records.write(tmp_path / "records" / f"{split}.tfrecord.gz", rows)
    task = {"kind": "multilabel", "classes": ["joy", "love", "fear"]}
    settings = (f"task.{key}={json.dumps(value)}" for key, value in task.items())
    arguments = [text for setting in settings for text in ("--set", setting)]
    arguments += ["--set", "task.label_column=labels", "--set", "task.metric=micro_f1"]
    result = show_batch("--data", tmp_path / "records", *arguments)
    assert result.exit_code == 0, result.output
    assert "joy|fear" in result.output
