"""Exported models in the older libraries of TensorFlow Serving."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf

from components.serving_check import rows
from contracts.settings.sections import Sections
from pipeline.config.paths import REPOSITORY
from tests import exported as exported_lib
from tests import records, served
from tools import check_in_tf_serving

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed():
    """The Python of the older libraries."""
    problem = check_in_tf_serving.install(check_in_tf_serving.ENVIRONMENT)
    if problem and "No interpreter found for Python" in problem:
        pytest.skip(
            "TensorFlow 2.12 has no wheels for Python 3.12 and later, and neither "
            "Python 3.10 nor 3.11 is on this machine"
        )
    assert problem is None
    return str(check_in_tf_serving.interpreter(check_in_tf_serving.ENVIRONMENT))


@pytest.fixture
def replay(installed, monkeypatch, capsys):
    """Runs the tool on a model and a request: its exit status, and its report."""

    def replay(model, request):
        monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "2")  # undone after the test
        monkeypatch.setattr(sys, "argv", ["tool", str(model), str(request)])
        with warnings.catch_warnings():
            status = check_in_tf_serving.main()
        output, errors = capsys.readouterr()
        assert output, errors
        return status, json.loads(output)

    return replay


def write_request(directory, examples, task=served.TASK):
    """Writes the file that ServingCheck writes next to its blessing."""
    pattern = records.write(directory / "examples.gz", examples)
    settings = served.settings_of(task, rows=len(examples), timeout_seconds=120)
    request = rows.build_request(pattern, str(directory), Sections.parse(settings))
    path = directory / "request.json"
    path.write_text(request.model_dump_json())
    return path


@pytest.mark.e2e
@pytest.mark.nightly
def test_exported_model_gives_the_same_predictions_there(replay, export, tmp_path):
    exported = export("pairs")
    served.write_predictions(exported, tmp_path)
    examples = [
        tf.train.Example.FromString(exported_lib.serialize(row))
        for row in exported_lib.rows_of(
            exported.task, exported_lib.PAIRS, [0] * len(exported_lib.PAIRS)
        )
    ]
    request = write_request(tmp_path, examples, exported.task)
    status, report = replay(exported.directory, request)
    assert status == 0, report
    assert report["rows"] == len(exported_lib.PAIRS)
    assert max(report["max_skew"].values()) <= 1e-5


CALL = """
import json, sys
import tensorflow as tf
import tensorflow_text
columns = json.loads(sys.argv[2])
outputs = tf.saved_model.load(sys.argv[1])(columns)
print(json.dumps([tf.__version__, outputs["logits"].numpy().tolist()]))
"""


@pytest.mark.e2e
@pytest.mark.nightly
def test_exported_model_is_callable_there(installed, export):
    exported = export("pairs")
    texts = map(list, zip(*exported_lib.PAIRS, strict=True))
    columns = dict(zip(exported.task.text_columns, texts, strict=True))
    arguments = [str(exported.directory), json.dumps(columns)]
    output = subprocess.run(
        [installed, "-c", CALL, *arguments], capture_output=True, text=True, check=True
    ).stdout
    version, logits = json.loads(output)
    assert version.startswith("2.12.")
    np.testing.assert_allclose(logits, exported.logits, atol=1e-5)


@pytest.mark.nightly
@pytest.mark.e2e
def test_op_that_it_lacks_prevents_loading(replay, tmp_path):
    model = served.save_toy(tmp_path / "trained", served.trim_round_robin)
    example = records.example(sentence1=[b"a b"], sentence2=[b"c"], idx=[0])
    predictions = tmp_path / "predictions" / "eval.tsv"
    predictions.parent.mkdir()
    predictions.write_text(
        "idx\tlabel\tprediction\tprobability_a\tprobability_b\n0\ta\ta\t0.25\t0.125\n"
    )
    request = write_request(tmp_path, [example])
    status, report = replay(model / "Format-Serving", request)
    assert status == 1, report
    prediction, failure = report["reasons"]
    assert "op 'TFText>RoundRobinTrim' is unknown to TensorFlow Serving" in prediction
    assert "loading the model failed" in failure
    assert "TFText>RoundRobinTrim" in failure


def test_packages_that_cannot_be_installed_are_reported_in_one_line(tmp_path):
    done = subprocess.run(
        [
            sys.executable,
            str(REPOSITORY / "tools" / "check_in_tf_serving.py"),
            *("model", "request.json", "--environment", str(tmp_path / "stack")),
        ],
        env={
            **os.environ,
            "UV_OFFLINE": "1",
            "UV_CACHE_DIR": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("cannot install tf_serving_stack.txt: ")
