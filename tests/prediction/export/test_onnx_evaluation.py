"""ONNX files are compared with the pushed model on labelled Examples."""

import dataclasses
import json
import re
import subprocess

import numpy as np
import pytest
from click.testing import CliRunner

from benchmarks import peer_environment
from contracts.versions import served_versions
from modules.export.pushed_model import read_pushed
from pipeline.cli.main import main
from portable.model import PortableModel
from prediction.export import folders
from tests import exported, records, tiny
from tests.nightly import nightly
from tests.prediction.export import minilm
from tests.refusals import check_command, refused

pytestmark = pytest.mark.slow

KINDS = ["pairs", *map(nightly, ("sentences", "scores", "labels"))]


def write_rows(path, task, directory):
    """Writes labelled Examples of the task; returns the path."""
    texts = [row[: len(task.text_columns)] for row in exported.PAIRS]
    label = 0.5 if task.classes is None else [1, 0, 1] if task.kind else 1
    encoder = tiny.write_encoder(directory / "encoder")
    rows = exported.rows_of(
        task, texts, [label] * len(texts), str(encoder / "vocab.txt")
    )
    return records.write(path, [records.example(**row) for row in rows])


def run(*arguments):
    result = CliRunner().invoke(main, ["export", "--format", "onnx", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("kind", [*KINDS, nightly("tokens of pairs")])
def test_every_kind_of_task_predicts_what_is_served(export, tmp_path, kind):
    model = export(kind)
    path = write_rows(tmp_path / "rows", model.task, tmp_path)
    folder = tmp_path / "folder"
    output = run(
        *("--model", str(model.directory), "--output", str(folder), "--int8"),
        *("--examples", path, "--label-column", model.task.label_column),
    )
    assert "4 rows" in output
    readme = (folder / "README.md").read_text()
    assert "| metric | served | model.onnx | model.int8.onnx |" in readme
    if model.task.classes:
        assert re.search(r"rows with another prediction +│ +│ 0 ", output)
        assert "| rows with another prediction | | 0 | " in readme
    pair = '--pair "Text 1." "Text 2."'
    assert (pair in readme) == (len(model.task.text_columns) == 2)
    assert "manifest.json" in {entry.name for entry in folder.iterdir()}


def test_text_that_is_not_utf_8_is_compared(export, tmp_path):
    rows = [
        records.example(question=[text], answer=[b"a dog"], label=[1])
        for text in (b"the cat \xff", b"", b"\xc3\x28 the")
    ]
    path = records.write(tmp_path / "rows.gz", rows)
    evaluation = folders.export(
        *(str(export("pairs").directory), str(tmp_path / "folder"), print),
        target_format="onnx",
        examples=path,
    )
    (difference,) = evaluation.differences.values()
    assert difference.is_rounding
    served, file = evaluation.values.values()
    assert file == pytest.approx(served, abs=1e-5, nan_ok=True)


def test_file_that_predicts_differently_is_not_exported(export, tmp_path, monkeypatch):
    model = export("pairs")
    path = write_rows(tmp_path / "rows", model.task, tmp_path)
    pushed = read_pushed(str(model.directory))
    bias = pushed.tensors["classifier.bias"] + np.float32([0.01, 0, 0])
    other = dataclasses.replace(
        pushed, tensors={**pushed.tensors, "classifier.bias": bias}
    )
    monkeypatch.setattr(folders, "read_pushed", lambda model: other)
    got = re.compile(r"^model.onnx predicts something else than .*/1: .* by 0.00")
    options = {"target_format": "onnx", "examples": path}
    with refused("E-export-unsupported", got=got):
        folders.export(str(model.directory), str(tmp_path / "f"), print, **options)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["encoder", "rows"]


@pytest.mark.parametrize(
    ("options", "message", "name"),
    [
        (["onnx", "--int8"], "--int8: it ch", "E-option-missing"),
        (["huggingface", "--int8"], "leave --int8 and --exam", "E-options-conflict"),
        (["onnx", "--examples", "none/*"], "--examples: none/* m", "E-data-not-found"),
    ],
)
def test_options_that_contradict_are_refused(tmp_path, options, message, name):
    arguments = ["--model", str(tmp_path), "--output", str(tmp_path / "folder")]
    result = CliRunner().invoke(main, ["export", *arguments, "--format", *options])
    check_command(result, name, message)


@pytest.mark.parametrize(
    ("kind", "features", "got"),
    [
        ("pairs", {"label": [3]}, "label is 3, not a label of the model"),
        ("pairs", {"class": [1]}, "label is None, not a label of the model"),
        ("pairs", {"label": [1]}, "the feature question is not one text"),
        nightly("labels", {"label": [1, 0]}, "label is [1, 0], not a label"),
        nightly("labels", {"label": [1, 0, 2]}, "label is [1, 0, 2], not a label"),
    ],
)
def test_example_without_label_or_text_is_refused(
    export, tmp_path, kind, features, got
):
    rows = [records.example(text=[b"not UTF-8: \xff"], **features)]
    path = records.write(tmp_path / "rows.gz", rows)
    options = {"target_format": "onnx", "examples": path}
    got = re.compile(re.escape(got))
    with refused("E-rows-refused", setting=f"{path}:1", got=got):
        folders.export(
            str(export(kind).directory), str(tmp_path / "folder"), print, **options
        )
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["rows.gz"]


@pytest.mark.nightly
def test_mrpc_is_predicted_as_served_and_the_file_is_valid(mrpc, tmp_path):
    served_versions.push(str(minilm.push(tmp_path)), str(tmp_path / "pushed"), "1")
    pushed = tmp_path / "pushed" / "1"
    pairs = minilm.read_mrpc(mrpc)[:1000]
    folder = tmp_path / "folder"
    run("--model", str(pushed), "--output", str(folder))
    portable = PortableModel(str(folder))
    logits = portable.compute_logits(list(zip(*pairs, strict=True)))
    expected = minilm.predict(pushed, pairs)
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-4)
    check = "import onnx, sys; onnx.checker.check_model(sys.argv[1], full_check=True)"
    python = peer_environment.build()
    subprocess.run([python, "-c", check, folder / "model.onnx"], check=True)
    assert json.loads((folder / "model.json").read_text())["vocab_size"] == 30522
