"""The command line, its messages and exit statuses."""

import io
import re

import numpy as np
import pytest
from click.testing import CliRunner

from contracts.records.checks import ChecksReport
from contracts.records.data import DataVerdict
from contracts.records.evaluation import MetricVerdict, Verdict
from contracts.storage import files
from pipeline import exit_status
from pipeline.cli import main as main_module
from pipeline.cli.main import main
from pipeline.cli.metric_tables import verdict_tables
from pipeline.console import Console
from pipeline.operations.run import Run
from tests import tiny, toy_models
from tests.refusals import check_command
from tests.report import sample_parts

pytestmark = pytest.mark.slow


@pytest.fixture
def invoke():
    def invoke(*arguments):
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return invoke


_PREDICT = "predict --model absent"


@pytest.mark.parametrize(
    ("command", "name", "parts"),
    [
        ("run --set trainer.epochs", "E-settings-refused", ["--set: 'trainer.epochs'"]),
        ("run --set trainer.epochs=0", "E-settings-refused", ["trainer.epochs"]),
        ("run --config absent.yaml", "E-config-unreadable", ["absent.yaml"]),
        ("run --no-such-option", "E-settings-refused", ["--no-such-option: "]),
        (_PREDICT, "E-options-conflict", ["--text TEXT", "--pair A B", "--input FILE"]),
        (f"{_PREDICT} --pair a b --text c", "E-options-conflict", ["--input FILE"]),
        (f"{_PREDICT} --pair a b", "E-model-not-found", ["--model", "absent"]),
        (f"{_PREDICT} --input a.tsv", "E-options-conflict", ["--output FILE"]),
        (
            f"{_PREDICT} --strict --input a.tsv --output b.tsv",
            "E-options-conflict",
            ["--output-format, --batch-rows and --strict", "--output DIR"],
        ),
        (f"{_PREDICT} --input no.tsv --output no", "E-data-not-found", ["no.tsv"]),
        (f"{_PREDICT} --text \n", "E-text-refused", ["--text: "]),
        (
            "show-batch --output absent/b.png",
            "E-no-such-directory",
            ["--output: absent/b.png: "],
        ),
        ("show-batch --output /proc/b.png", "E-storage-failed", ["--output: "]),
        ("show-batch --data absent", "E-data-not-found", ["absent"]),
        ("prepare-data absent records", "E-data-not-found", ["absent"]),
        ("prepare-data . new*", "E-path-pattern", ["DESTINATION: ", "new*"]),
        ("prepare-data sample_data /dev/null/a", "E-storage-failed", ["/dev/null/a"]),
        ("import-encoder absent new", "E-encoder-not-found", ["SOURCE", "absent"]),
        ("import-encoder package:no_such new", "E-encoder-not-found", ["no_such"]),
        ("import-encoder . new", "E-encoder-not-found", ["bert_config.json"]),
        ("import-encoder . new[1]", "E-path-pattern", ["DEST: ", "new[1]"]),
        ("init new? --data .", "E-path-pattern", ["FOLDER: ", "new?"]),
        ("init /dev/null/x --data .", "E-storage-failed", ["/dev/null/x"]),
        ("serve --model a[1]/b", "E-path-pattern", ["--model: ", "a[1]/b"]),
        ("serve --model gs://a/b", "E-local-path-required", ["--model: gs://a/b; "]),
        (
            "monitor --model a --samples b --reference c --history /no/h",
            "E-no-such-directory",
            ["--history: /no/h: "],
        ),
        ("completion", "E-settings-refused", ["SHELL: tcsh; ", "bash, zsh, fish"]),
        ("ui --output nowhere", "E-output-not-found", ["--output: ", "nowhere"]),
        ("runs --output nowhere", "E-output-not-found", ["--output: ", "nowhere"]),
        (
            "ui --output . --allowed-host http://a",
            "E-settings-refused",
            ["--allowed-host: http://a; "],
        ),
        (
            "override latest --output . --reason \t",
            "E-settings-refused",
            ["--reason: "],
        ),
        ("inspect-data", "E-option-missing", ["PATH", "--config FILE"]),
        (
            "inspect-data --config a --label x --text y",
            "E-options-conflict",
            ["--text, --label cannot be", "--config", "task.label_column", "--set"],
        ),
        (
            "inspect-data --config a --kind score",
            "E-options-conflict",
            ["task.kind, task.classes or task.label_range"],
        ),
    ],
)
def test_bad_usage_exits_2_and_names_the_option(
    invoke, monkeypatch, command, name, parts
):
    monkeypatch.setenv("SHELL", "/bin/tcsh")
    check_command(invoke(*command.split(" ")), name, *parts)


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


@pytest.mark.parametrize(
    ("status", "step"),
    [("refused", " override "), ("passed", " show ")],
)
def test_end_of_a_run_has_a_line_for_checks_that_no_code_knows(past, status, step):
    run = Run(past.paths, past.run("refused"))
    results = sample_parts.checks(status)
    verdict = Verdict(blessed=True, splits=["test"], champion=None, metrics=[])
    for component, output, record in (
        ("DataGate", "verdict: components.DataVerdict", DataVerdict(card={})),
        ("Evaluator", "verdict: components.ModelVerdict", verdict),
        ("ModelChecks", "blessing: InfraBlessing", ChecksReport(results=results)),
    ):
        (artifact,) = past.execute(component, [output])
        record.write(artifact.uri)
    run.record.reason = run.refusal
    console = Console(file=io.StringIO(), width=200, force_interactive=True)
    assert main_module.show(run, console) == exit_status.REFUSED
    lines = console.file.getvalue().splitlines()
    (warning,) = [line for line in lines if line.startswith("warning: ")]
    assert warning == f"warning: {results[1].message}"
    assert "Speed: a request takes 0.98 of the time" in lines
    assert (f"refused: {results[0].message}" in lines) == (status == "refused")
    assert "Required rows" not in console.file.getvalue()
    assert step in lines[-1]


def test_file_of_an_unknown_format_is_one_line_and_bad_usage(invoke, monkeypatch):
    def read(*_, **__):
        files.parse_record('{"format": 2}', "data_card.json")

    monkeypatch.setattr(main_module.recipe, "load_config", read)
    check_command(invoke("run"), "E-file-format-other", "data_card.json")


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
    check_command(result, "E-options-conflict", "(sentence)")


def test_predict_writes_the_file_that_the_output_names(invoke, tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    (tmp_path / "in.csv").write_text("left,right\na,b\n")
    arguments = ("predict", "--model", model, "--input", tmp_path / "in.csv")
    result = invoke(*arguments, "--output", tmp_path / "out.TSV.gz")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "out.TSV.gz").is_file()
    result = invoke(*arguments, "--output", tmp_path / "out.txt.gz")
    check_command(result, "E-format-unknown", "--output: ", "out.txt.gz")


def test_predict_writes_a_directory_and_reports_refused_rows(invoke, tmp_path):
    model = toy_models.save(toy_models.Longer(), tmp_path / "pairs")
    (tmp_path / "in.tsv").write_text("left\tright\na\tb\nb\n")
    arguments = ("predict", "--model", model, "--input", tmp_path / "in.tsv")
    result = invoke(*arguments, "--output", tmp_path / "strict", "--strict")
    check_command(result, "E-rows-refused", "1 of 2 rows")
    assert not (tmp_path / "strict").exists()
    result = invoke(
        *arguments, "--output", tmp_path / "out", "--output-format", "jsonl"
    )
    assert result.exit_code == 0, result.output
    assert f"1 row predicted, 1 refused, in {tmp_path / 'out'}," in result.output
    assert (tmp_path / "out" / "predictions-00000-of-00001.jsonl").is_file()
    result = invoke(*arguments, "--output", tmp_path / "out")
    check_command(result, "E-destination-exists", "--output", str(tmp_path / "out"))


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
    check_command(again, "E-destination-exists", str(tmp_path / "imported"))


def test_import_encoder_refuses_a_preprocessor_that_is_not_needed(invoke, tmp_path):
    source = tiny.write_encoder(tmp_path / "encoder")
    arguments = ("import-encoder", source, tmp_path / "imported")
    result = invoke(*arguments, "--preprocessor", tmp_path)
    check_command(result, "E-options-conflict", "--preprocessor")
    assert not (tmp_path / "imported").exists()
