"""The command line, its messages and exit statuses."""

import numpy as np
import pytest
from click.testing import CliRunner

from pipeline.cli.main import main
from tests import records, tiny, toy_models
from tests.modules.encoder import sources

pytestmark = pytest.mark.slow


@pytest.fixture
def invoke():
    def invoke(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return invoke


_TO_FILE = ["--input", "a.tsv", "--output", "b.tsv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--set", "trainer.epochs"], "write key=value"),
        (["run", "--set", "trainer.epochs=0"], "trainer.epochs"),
        (["run", "--set", "trainer.restarts=3"], "set trainer.seeds instead"),
        (["run", "--config", "absent.yaml"], "absent.yaml cannot be read"),
        (["run", "--no-such-option"], "No such option"),
        (["predict", "--model", "absent"], "give one of --text TEXT"),
        (
            ["predict", "--model", "absent", "--pair", "a", "b", "--text", "c"],
            "give one of --text TEXT",
        ),
        (["predict", "--model", "absent", "--pair", "a", "b"], "holds no SavedModel"),
        (
            ["predict", "--model", "absent", "--input", "a.tsv"],
            "--input FILE and --output FILE go together",
        ),
        (
            ["predict", "--model", "absent", "--strict", *_TO_FILE],
            "--set apply to a directory",
        ),
        (
            ["predict", "--model", "absent", "--input", "no.tsv", "--output", "no"],
            "no.tsv matches no file",
        ),
        (["show-batch", "--output", "absent/b.png"], "there is no directory absent"),
        (["show-batch", "--data", "absent"], "absent is not a directory"),
        (["prepare-data", "absent", "records"], "absent is not a directory"),
        (["import-encoder", "absent", "new"], "SOURCE absent is not a directory"),
        (["import-encoder", "package:no_such", "new"], "no_such is not installed"),
        (["import-encoder", ".", "new"], "has neither bert_config.json"),
    ],
)
def test_bad_usage_exits_2_with_what_to_do(invoke, arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_prepare_data_writes_records_and_counts_them(invoke, tmp_path):
    source = tiny.write_tables(tmp_path / "text", rows=5)
    result = invoke("prepare-data", source, tmp_path / "records")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        f"{split}: 5 examples" for split in ("train", "eval", "test")
    ]


def test_show_batch_prints_tokens_and_draws_heat_maps(invoke, tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))
    picture = tmp_path / "batch.png"
    arguments = ("show-batch", "--config", recipe, "--output", picture)
    result = invoke(*arguments, "--rows", 2)
    assert result.exit_code == 0, result.output
    assert result.output.count("[CLS]") == 2
    assert "16 rows, padded to the longest, 15 tokens: 0% is padding" in result.output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_show_batch_of_tokenized_examples(invoke, tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))
    examples = [
        records.example(
            input_ids=[2, 6, 3, 7, 3, 0],
            input_mask=[1, 1, 1, 1, 1, 0],
            segment_ids=[0, 0, 0, 1, 1, 0],
            label_ids=[1],
            example_id=[index],
        )
        for index in range(3)
    ]
    for split in ("train", "eval"):
        records.write(tmp_path / "records" / f"{split}.tfrecord.gz", examples)
    result = invoke(
        *("show-batch", "--config", recipe, "--data", tmp_path / "records"),
        *("--set", "task.input=tokenized", "--output", tmp_path / "batch.png"),
    )
    assert result.exit_code == 0, result.output
    words = [tiny.VOCAB[index] for index in (2, 6, 3, 7, 3)]
    assert result.output.count(" ".join(words)) == 3
    assert "3 rows, padded to the longest, 5 tokens: 0% is padding" in result.output


def test_show_batch_counts_the_padding_of_shorter_rows(invoke, tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))
    examples = [
        records.example(
            input_ids=[2] * length,
            input_mask=[1] * length,
            segment_ids=[0] * length,
            label_ids=[1],
        )
        for length in (6, 8, 4)
    ]
    for split in ("train", "eval"):
        records.write(tmp_path / "records" / f"{split}.tfrecord.gz", examples)
    result = invoke(
        *("show-batch", "--config", recipe, "--data", tmp_path / "records"),
        *("--set", "task.input=tokenized", "--output", tmp_path / "batch.png"),
    )
    assert result.exit_code == 0, result.output
    # 18 tokens in 3 rows of 8, or in 3 rows of 32.
    expected = "padded to the longest, 8 tokens: 25% is padding; padded to 32: 81%"
    assert expected in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"label_ids": [-1]}, "label_ids of row 7 is -1, allowed are 0 to 1"),
        ({"label_ids": [2]}, "label_ids of row 7 is 2, allowed are 0 to 1"),
        ({"label_ids": []}, "label_ids (data type: int64) is required"),
        ({"input_ids": [2, 99, 3]}, "input_ids must be 0 to 30"),
        (None, "train has no rows"),
    ],
)
def test_show_batch_refuses_bad_rows_in_one_line(invoke, tmp_path, columns, message):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))
    valid = {
        "input_ids": [2, 6, 3],
        "input_mask": [1, 1, 1],
        "segment_ids": [0, 0, 0],
        "label_ids": [1],
        "example_id": [7],
    }
    examples = [] if columns is None else [records.example(**{**valid, **columns})]
    for split in ("train", "eval"):
        records.write(tmp_path / "records" / f"{split}.tfrecord.gz", examples)
    picture = tmp_path / "batch.png"
    result = invoke(
        *("show-batch", "--config", recipe, "--data", tmp_path / "records"),
        *("--set", "task.input=tokenized", "--output", picture),
    )
    assert result.exit_code == 2, result.output
    (line,) = result.output.splitlines()
    assert line.startswith(f"error: data {tmp_path / 'records'}: ")
    assert message in line
    assert not picture.exists()


def test_show_batch_of_text_with_a_bad_label_names_its_source(invoke, tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))
    table = tmp_path / "data" / "train.tsv"
    table.write_text(table.read_text() + "99\t5\tThe cat.\tA dog!\n")
    picture = tmp_path / "batch.png"
    result = invoke("show-batch", "--config", recipe, "--output", picture)
    assert result.exit_code == 2, result.output
    message = f"error: data {tmp_path / 'data'}: a row of train is not valid"
    assert message in result.output
    assert "label of row 99 is 5, allowed are 0 to 1" in result.output


def test_show_batch_of_a_damaged_file_names_its_directory(invoke, tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml", output=str(tmp_path / "out"))
    row = records.example(
        input_ids=[2, 3], input_mask=[1, 1], segment_ids=[0, 0], label_ids=[1]
    )
    for split in ("train", "eval"):
        path = tmp_path / "records" / f"{split}.tfrecord.gz"
        records.write(path, [row] * 9)
        path.write_bytes(path.read_bytes()[:-20])
    result = invoke(
        *("show-batch", "--config", recipe, "--data", tmp_path / "records"),
        *("--set", "task.input=tokenized", "--output", tmp_path / "batch.png"),
    )
    assert result.exit_code == 2, result.output
    (line,) = result.output.splitlines()
    assert f"data {tmp_path / 'records'}: train cannot be read (" in line
    assert "{{" not in line


def test_predict_shows_classes_of_pairs_and_scores_of_single_texts(invoke, tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    # Brackets mean nothing here, whatever they mean to the library that draws.
    result = invoke("predict", "--model", model, "--pair", "[/b]", "long text")
    assert result.exit_code == 0, result.output
    cells = [line.split("│")[1:-1] for line in result.output.splitlines()]
    assert ["[/b]", "long text", "second", "0.900"] in [
        [cell.strip() for cell in row] for row in cells
    ]
    model = toy_models.save(toy_models.Length(), tmp_path / "scores")
    result = invoke("predict", "--model", model, "--text", "cat", "--text", "")
    assert result.exit_code == 0, result.output
    assert "score" in result.output
    assert "0.300" in result.output
    result = invoke("predict", "--model", model, "--pair", "a", "b")
    assert result.exit_code == 2
    assert "the model takes single texts (sentence)" in result.output


def test_predict_writes_a_directory_and_tells_what_was_refused(invoke, tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    (tmp_path / "in.tsv").write_text("left\tright\na\t\nb\n")
    arguments = ("predict", "--model", model, "--input", tmp_path / "in.tsv")
    result = invoke(*arguments, "--output", tmp_path / "strict", "--strict")
    assert result.exit_code == 2
    assert "1 of 2 rows cannot be predicted" in result.output
    assert not (tmp_path / "strict").exists()
    result = invoke(
        *arguments, "--output", tmp_path / "out", "--output-format", "jsonl"
    )
    assert result.exit_code == 0, result.output
    assert f"1 rows predicted, 1 refused, in {tmp_path / 'out'}," in result.output
    assert (tmp_path / "out" / "predictions-00000-of-00001.jsonl").is_file()
    result = invoke(*arguments, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "is not new" in result.output


def test_import_encoder_writes_a_checkpoint_and_describes_it(invoke, tmp_path):
    heads = {"cls.predictions.bias": np.zeros(3, np.float32)}
    source = tiny.write_encoder(tmp_path / "encoder", **heads)
    result = invoke("import-encoder", source, tmp_path / "imported")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "2 layers x 16, 2 heads, 6,304 parameters, 31 tokens (uncased)",
        "left out, no part of the encoder: cls.predictions.bias",
        f"written to {tmp_path / 'imported'}",
    ]
    assert (tmp_path / "imported" / "bert_model.ckpt.index").is_file()
    again = invoke("import-encoder", source, tmp_path / "imported")
    assert again.exit_code == 2
    assert "exists; name a new directory" in again.output.replace("\n", " ")


@pytest.mark.slow
def test_import_encoder_takes_the_vocabulary_of_a_preprocessor(invoke, tmp_path):
    source = sources.write_saved_model(tmp_path / "hub")
    (source / "assets" / "vocab.txt").unlink()
    preprocessor = sources.write_preprocessor(tmp_path / "preprocessor")
    arguments = ("import-encoder", source, tmp_path / "imported")
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert "--preprocessor HANDLE_OR_DIR" in result.output.replace("\n", " ")
    result = invoke(*arguments, "--preprocessor", preprocessor)
    assert result.exit_code == 0, result.output
    words = (tmp_path / "imported" / "vocab.txt").read_text().splitlines()
    assert words == tiny.VOCAB


def test_import_encoder_refuses_a_preprocessor_that_is_not_needed(invoke, tmp_path):
    source = tiny.write_encoder(tmp_path / "encoder")
    arguments = ("import-encoder", source, tmp_path / "imported")
    result = invoke(*arguments, "--preprocessor", tmp_path)
    assert result.exit_code == 2
    assert f"--preprocessor {tmp_path} is for a SavedModel" in result.output
    assert not (tmp_path / "imported").exists()
