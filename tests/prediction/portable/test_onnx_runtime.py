"""Exported ONNX files in ONNX Runtime, with real weights and sentences."""

import dataclasses
import json
import subprocess

import numpy as np
import pytest
import tensorflow as tf
from click.testing import CliRunner

from benchmarks import peer_environment
from contracts.versions import served_versions
from pipeline.cli.main import main
from prediction.portable import export as portable
from prediction.portable import onnx_environment, pushed_model
from tests import exported, tiny
from tests.prediction.portable import minilm

pytestmark = pytest.mark.nightly

# The first block of Python in a README, with the pairs of a file.
README_CODE = """
import json, os, sys
folder, rows, outputs = sys.argv[1:]
os.chdir(folder)
code = open("README.md").read().split("```python")[1].split("```")[0]
texts = [tuple(row) for row in json.load(open(rows))]
exec(code.replace('[("Text 1.", "Text 2.")]', "texts"))
np.save(outputs, logits)
"""


def run(*arguments):
    result = CliRunner().invoke(main, ["export", "--format", "onnx", *arguments])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "kind", ["pairs", "sentences", "scores", "labels", "tokens of pairs"]
)
def test_every_kind_of_task_predicts_what_is_served(export, tmp_path, kind):
    model = export(kind)
    task = model.task
    texts = [row[: len(task.text_columns)] for row in exported.PAIRS]
    label = 0.5 if task.classes is None else [1, 0, 1] if task.kind else 1
    labels = [label] * len(texts)
    encoder = tiny.write_encoder(tmp_path / "encoder")
    rows = exported.rows_of(task, texts, labels, str(encoder / "vocab.txt"))
    path = tmp_path / "rows"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(exported.serialize(row))
    output = run(
        *("--model", str(model.directory), "--output", str(tmp_path / "folder")),
        *("--examples", str(path), "--label-column", task.label_column, "--int8"),
    )
    assert "4 rows" in output
    readme = (tmp_path / "folder" / "README.md").read_text()
    assert "| metric | served | model.onnx | model.int8.onnx |" in readme


def test_file_that_predicts_differently_is_not_exported(export, tmp_path, monkeypatch):
    model = export("pairs")
    path = tmp_path / "rows"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for row in exported.rows_of(model.task, exported.PAIRS, [0] * 4):
            writer.write(exported.serialize(row))
    pushed = pushed_model.read_pushed(str(model.directory))
    bias = pushed.tensors["classifier.bias"] + np.float32(0.001)
    other = dataclasses.replace(
        pushed, tensors={**pushed.tensors, "classifier.bias": bias}
    )
    monkeypatch.setattr(portable, "read_pushed", lambda model: other)
    options = {"target_format": "onnx", "examples": str(path)}
    with pytest.raises(RuntimeError, match=r"model.onnx differs by 0.001 from .*/1, m"):
        portable.export(str(model.directory), str(tmp_path / "f"), print, **options)
    assert [entry.name for entry in tmp_path.iterdir()] == ["rows"]


def test_readme_code_predicts_mrpc_as_served(mrpc, tmp_path):
    served_versions.push(str(minilm.push(tmp_path)), str(tmp_path / "pushed"), "1")
    pushed = tmp_path / "pushed" / "1"
    pairs = minilm.read_mrpc(mrpc)[:1000]
    run("--model", str(pushed), "--output", str(tmp_path / "folder"))
    rows, outputs = tmp_path / "rows.json", tmp_path / "logits.npy"
    rows.write_text(json.dumps(pairs))
    python = peer_environment.build()
    script = [python, "-c", README_CODE, tmp_path / "folder", rows, outputs]
    subprocess.run(script, check=True)
    expected = minilm.predict(pushed, pairs)
    np.testing.assert_allclose(np.load(outputs), expected, rtol=1e-4, atol=1e-4)
    check = "import onnx, sys; onnx.checker.check_model(sys.argv[1], full_check=True)"
    file = tmp_path / "folder" / "model.onnx"
    subprocess.run([python, "-c", check, file], check=True)


def test_environment_is_installed_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    lines = []
    python = onnx_environment.find_python(lines.append)
    assert onnx_environment.find_python(lines.append) == python
    assert len(lines) == 1
    subprocess.run([python, "-c", "import onnxruntime"], check=True)
