"""The command line, its messages and exit statuses."""

import io
import re

import numpy as np
import pytest
from click.testing import CliRunner

from contracts.records.evaluation import MetricVerdict
from contracts.storage import file_format
from pipeline.cli import main as main_module
from pipeline.cli.main import main
from pipeline.cli.metric_tables import verdict_tables
from pipeline.console import Console
from tests import tiny, toy_models
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
        (["run", "--config", "absent.yaml"], "absent.yaml cannot be read"),
        (["run", "--no-such-option"], "No such option"),
        (["predict", "--model", "absent"], "give one of --text TEXT"),
        (
            ["predict", "--model", "absent", "--pair", "a", "b", "--text", "c"],
            "give one of --text TEXT",
        ),
        (["predict", "--model", "absent", "--pair", "a", "b"], "has no SavedModel"),
        (
            ["predict", "--model", "absent", "--input", "a.tsv"],
            "--input FILE and --output FILE go together",
        ),
        (
            ["predict", "--model", "absent", "--strict", *_TO_FILE],
            "--strict apply to a directory",
        ),
        (
            ["predict", "--model", "absent", "--input", "no.tsv", "--output", "no"],
            "no.tsv matches no file",
        ),
        (["show-batch", "--output", "absent/b.png"], "there is no directory absent"),
        (["show-batch", "--output", "/proc/b.png"], "/proc/b.png cannot be written"),
        (["show-batch", "--data", "absent"], "absent does not exist"),
        (["prepare-data", "absent", "records"], "absent does not exist"),
        (["import-encoder", "absent", "new"], "SOURCE absent is not a directory"),
        (["import-encoder", "package:no_such", "new"], "no_such is not installed"),
        (["import-encoder", ".", "new"], "has neither bert_config.json"),
        (["import-encoder", ".", "new[1]"], "new[1]: TensorFlow and Beam read [ in a"),
        (["prepare-data", ".", "new*"], "new*: TensorFlow and Beam read * in a path"),
        (["init", "new?", "--data", "."], "new?: TensorFlow and Beam read ? in a path"),
        (
            ["serve", "--model", "a[1]/b"],
            "a[1]/b: TensorFlow and Beam read [ in a path",
        ),
        (
            ["prepare-data", "sample_data", "/dev/null/a"],
            "/dev/null/a cannot be written",
        ),
        (["init", "/dev/null/x", "--data", "."], "/dev/null/x cannot be written"),
    ],
)
def test_bad_usage_exits_2_with_what_to_do(invoke, arguments, message):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert message in result.output.replace("\n", " ")


def test_metrics_of_classes_are_a_table_of_their_own():
    values = {
        "f1": 0.5,
        "precision/[b]a/c": 0.1,
        "recall/[b]a/c": 0.2,
        "f1/[b]a/c": 0.3,
        "precision/other": 0.8,
        "recall/other": 0.7,
        "f1/other": 0.6,
    }
    metrics = [
        MetricVerdict(metric=name, value=value, threshold=0.9 if value == 0.7 else None)
        for name, value in values.items()
    ]
    output = io.StringIO()
    Console(file=output, width=100).print(*verdict_tables(metrics), sep="\n")
    lines = [line for line in output.getvalue().splitlines() if line[0] in "│┃"]
    cells = [
        [cell.strip() for cell in re.split("[│┃]", line)[1:-1] if cell.strip()]
        for line in lines
    ]
    assert cells == [
        ["metric", "value", "champion", "threshold", "max. drop", "bounds"],
        ["f1", "0.5"],
        ["recall/other", "0.7", "0.9", "failed"],
        ["class", "precision", "recall", "f1"],
        ["[b]a/c", "0.1", "0.2", "0.3"],
        ["other", "0.8", "0.7", "0.6"],
    ]


def test_file_of_an_unknown_format_is_one_line_and_bad_usage(invoke, monkeypatch):
    def read(*_, **__):
        file_format.parse('{"format": 2}', "data_card.json")

    monkeypatch.setattr(main_module.recipe, "load_config", read)
    result = invoke("run")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: data_card.json has the format 2")


def test_prepare_data_writes_records_and_counts_them(invoke, tmp_path):
    source = tiny.write_tables(tmp_path / "text", rows=5)
    result = invoke("prepare-data", source, tmp_path / "records")
    assert result.exit_code == 0
    assert result.output.splitlines() == [
        "train.tsv, eval.tsv, test.tsv: tsv: tab, no quoting"
    ] + [f"{split}: 5 examples" for split in ("train", "eval", "test")]


def test_predict_shows_classes_of_pairs_and_scores_of_single_texts(invoke, tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    # They mean nothing here, whatever they mean to the library that draws.
    result = invoke("predict", "--model", model, "--pair", "[/b]", ":smile: [red]a")
    assert result.exit_code == 0, result.output
    cells = [line.split("│")[1:-1] for line in result.output.splitlines()]
    assert ["[/b]", ":smile: [red]a", "second", "0.900"] in [
        [cell.strip() for cell in row] for row in cells
    ]
    arguments = ("--pair", "a", "b", "--min-probability", "0.8")
    result = invoke("predict", "--model", model, *arguments)
    expected = "1 prediction (1 of 1 without a class: probability below 0.8)"
    assert expected in result.output
    model = toy_models.save(toy_models.Length(), tmp_path / "scores")
    result = invoke("predict", "--model", model, "--text", "cat", "--text", "a")
    assert result.exit_code == 0, result.output
    assert "score" in result.output
    assert "0.300" in result.output
    labels = toy_models.save(toy_models.Letters(), tmp_path / "labels")
    result = invoke("predict", "--model", labels, "--text", "ab", "--text", "c")
    assert "with a (0.900), with b (0.900)" in " ".join(result.output.split())
    result = invoke("predict", "--model", model, "--pair", "a", "b")
    assert result.exit_code == 2
    assert "the model takes single texts (sentence)" in result.output


@pytest.mark.parametrize("name", ["out.csv.gz", "out.TSV", "out.ndjson"])
def test_predict_writes_the_file_that_the_output_names(invoke, tmp_path, name):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    (tmp_path / "in.csv").write_text("left,right\na,b\n")
    arguments = ("predict", "--model", model, "--input", tmp_path / "in.csv")
    result = invoke(*arguments, "--output", tmp_path / name)
    assert result.exit_code == 0, result.output
    assert (tmp_path / name).is_file()
    result = invoke(*arguments, "--output", tmp_path / "out.txt.gz")
    assert result.exit_code == 2
    assert "allowed are .csv, .tsv, .jsonl" in result.output.replace("\n", " ")


def test_predict_writes_a_directory_and_reports_refused_rows(invoke, tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    (tmp_path / "in.tsv").write_text("left\tright\na\tb\nb\n")
    arguments = ("predict", "--model", model, "--input", tmp_path / "in.tsv")
    result = invoke(*arguments, "--output", tmp_path / "strict", "--strict")
    assert result.exit_code == 2
    assert "1 of 2 rows cannot be predicted" in result.output
    assert not (tmp_path / "strict").exists()
    result = invoke(
        *arguments, "--output", tmp_path / "out", "--output-format", "jsonl"
    )
    assert result.exit_code == 0, result.output
    assert f"1 row predicted, 1 refused, in {tmp_path / 'out'}," in result.output
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
@pytest.mark.nightly
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
