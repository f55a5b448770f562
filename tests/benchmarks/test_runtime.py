"""What the runtime's benchmark runs, and what it prints."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from benchmarks import runtime
from benchmarks.peers import commands, onnx_runtime, runtime_model
from modules.export.onnx import portable_folder
from modules.export.pushed_model import read_pushed
from portable.folder import INT8_FILE, ONNX_FILE
from portable.model import ROWS_AT_A_TIME, PortableModel
from tests import tiny

ROWS = [list(pair) for _, *pair in tiny.pairs(40, seed=1)]
COLUMNS = ["question", "answer"]


@pytest.fixture(scope="module")
def settings(export, tmp_path_factory):
    """The settings of peers with a model of pairs."""
    directory = tmp_path_factory.mktemp("runtime")
    folder, rows = directory / "folder", directory / "rows.json"
    folder.mkdir()
    pushed = read_pushed(str(export("pairs").directory))
    portable_folder.write(pushed, folder, is_int8=True)
    rows.write_text(json.dumps(ROWS))
    return {
        "model": str(folder),
        "file": ONNX_FILE,
        "is_int8": False,
        "rows": str(rows),
        "columns": COLUMNS,
        "sizes": [1, 16],
        "threads": 1,
        "predictions": None,
    }


class _Recorder:
    """A session that keeps what it gets."""

    def __init__(self):
        self.fed = []

    def run(self, outputs, feeds):
        self.fed.append(feeds)
        return (np.zeros((len(feeds["input_ids"]), 3), np.float32),)


@pytest.mark.slow
def test_bare_session_gets_what_the_runtime_computes(settings, monkeypatch):
    model = PortableModel(settings["model"])
    model._session = ours = _Recorder()
    for start in range(0, len(ROWS), 16):
        model.predict(list(zip(*ROWS[start : start + 16], strict=True)))
    bare = _Recorder()
    monkeypatch.setattr(
        onnx_runtime.onnxruntime, "InferenceSession", lambda *_, **__: bare
    )
    chunks = {"sizes": [16], "chunk": ROWS_AT_A_TIME}
    onnx_runtime.prepare({**settings, **chunks})
    assert len(ours.fed) == 5
    for expected, actual in zip(ours.fed, bare.fed, strict=True):
        for name, values in expected.items():
            np.testing.assert_array_equal(actual[name], values)


@pytest.mark.slow
def test_batch_is_padded_as_a_whole_without_chunks(settings, monkeypatch):
    bare = _Recorder()
    monkeypatch.setattr(
        onnx_runtime.onnxruntime, "InferenceSession", lambda *_, **__: bare
    )
    onnx_runtime.prepare({**settings, "sizes": [16], "chunk": None})
    assert [len(feeds["input_ids"]) for feeds in bare.fed] == [16, 16, 8]


@pytest.mark.slow
@pytest.mark.parametrize("is_int8", [False, True])
def test_model_predicts_the_probabilities_of_its_weights(settings, tmp_path, is_int8):
    written = tmp_path / "predictions.json"
    changed = {"predictions": str(written), "is_int8": is_int8}
    run_round = runtime_model.prepare({**settings, **changed})
    assert run_round(0)["rows/s at 16"] > 0
    file = INT8_FILE if is_int8 else ONNX_FILE
    outputs = PortableModel(settings["model"], file=file).predict(
        list(zip(*ROWS, strict=True))
    )
    np.testing.assert_allclose(
        json.loads(written.read_text()), outputs["probabilities"], atol=1e-6
    )


@pytest.mark.slow
def test_commands_are_started_and_the_servers_memory_is_read(settings):
    started = {"module": runtime.RUNTIME_MODULE, "options": ["--threads", "1"]}
    requests = {"clients": 2, "seconds": 0.1}
    figures = commands.prepare({**settings, **started, **requests})(0)
    assert set(figures) == {name for name, _ in runtime.STARTS}
    assert all(value > 0 for value in figures.values())
    assert figures[commands.MEMORY] > 50


def test_memory_is_that_of_a_process_and_its_children():
    alone = commands.read_peak(os.getpid())
    with subprocess.Popen(
        [sys.executable, "-c", "m = bytearray(64 << 20); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        child.stdout.readline()
        peak = commands.read_peak(child.pid)
        assert peak > 64 << 10
        assert commands.read_peak(os.getpid()) >= alone + peak
        child.communicate(b"\n")


def figures(latency, rate):
    return {"p50 ms at 1": latency, "p99 ms at 1": 2 * latency, "rows/s at 32": rate}


def test_ratios_and_differences_are_of_the_same_round():
    def rounds_of(factor):
        return [figures(10 * factor, 100 / factor), figures(20 * factor, 50 / factor)]

    results = {
        runtime.BARE: rounds_of(1),
        runtime.BARE_PADDED: rounds_of(1.25),
        runtime.MODEL: rounds_of(1.1),
        runtime.MODEL_INT8: rounds_of(0.55),
        runtime.SAVED_MODEL: rounds_of(2),
        runtime.SERVER: [figures(12.5, 0), figures(23.5, 0)],
        runtime.PIPELINE_SERVER: rounds_of(3),
    }
    rows = runtime.row_table(results).splitlines()
    assert "| 1.10 (1.10 to 1.10) |  |" in rows[3]
    assert "| 1.50 (1.50 to 1.50) |" in rows[5]  # ms, and not 12.5 - 22 and 23.5 - 11
    assert "| 0.80 (0.80 to 0.80) |" in runtime.batch_table(results).splitlines()[3]
    metrics = {
        ONNX_FILE: {"accuracy": 0.8, "f1": 0.9},
        INT8_FILE: {"accuracy": 0.7, "f1": 0.85},
    }
    int8 = runtime.weights_table(results, metrics).splitlines()[3]
    assert int8.startswith("| int8 | 0.7000 | 0.8500 |")
    assert "| 0.50 (0.50 to 0.50) |" in int8
    assert "| 2.00 (2.00 to 2.00) |" in int8


def test_starts_of_both_command_lines_are_compared():
    ours = {name: 1.0 for name, _ in runtime.STARTS}
    theirs = {name: 4.0 for name, _ in runtime.STARTS}
    results = {runtime.COMMANDS: [ours], runtime.PIPELINE_COMMANDS: [theirs]}
    _, _, *lines = runtime.start_table(results).splitlines()
    assert len(lines) == len(runtime.STARTS)
    assert all(line.endswith("| 0.25 (0.25 to 0.25) |") for line in lines)
