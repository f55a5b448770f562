"""Portable models behind the server: versions, damage, threads and processes."""

import contextlib
import json
import logging
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from bert_runtime import served_model
from bert_runtime.cli.main import main
from contracts.versions import served_versions
from modules.export.onnx import portable_folder
from modules.export.pushed_model import read_pushed
from tests.exported import PAIRS
from tests.serving.conftest import PATIENCE_SECONDS, PORTABLE, running, wait_until
from tests.serving.processes import started

pytestmark = pytest.mark.slow

PROGRAM = "bert_runtime.cli.main"
ROW = {"question": "the cat", "answer": "a dog"}
NAMES = ["question", "answer"]


@pytest.fixture(scope="module")
def folder(export, tmp_path_factory):
    """The portable folder of a tiny model of pairs."""
    directory = tmp_path_factory.mktemp("portable") / "pairs"
    directory.mkdir()
    portable_folder.write(read_pushed(str(export("pairs").directory)), directory)
    return directory


@pytest.fixture
def root(folder, tmp_path):
    """A directory with version 1."""
    shutil.copytree(folder, tmp_path / "pairs" / "1")
    return tmp_path / "pairs"


def push(root, version, damage=None):
    """Pushes a copy of version 1, whose classes end with the version.

    Args:
      root: The directory of the versions.
      version: The number.
      damage: Changes the directory; its manifest lists the changed files.
    """
    hidden = root / f".{version}.incomplete"
    shutil.copytree(root / "1", hidden)
    path = hidden / "model.json"
    described = json.loads(path.read_text())
    described["classes"] = [f"{name} {version}" for name in ("no", "maybe", "yes")]
    path.write_text(json.dumps(described))
    if damage:
        damage(hidden)
    (hidden / "manifest.json").unlink()
    served_versions.write_manifest(str(hidden))
    hidden.rename(root / str(version))


def truncate(name, size):
    def damage(directory):
        path = directory / name
        path.write_bytes(path.read_bytes()[:size])

    return damage


def change(**values):
    def damage(directory):
        path = directory / "model.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))

    return damage


def columns_of(rows):
    columns = zip(*rows, strict=True)
    encoded = ([text.encode() for text in column] for column in columns)
    return {
        name: np.array(column, object)
        for name, column in zip(NAMES, encoded, strict=True)
    }


def test_eight_threads_get_the_results_of_one(folder):
    model = served_model.load(folder, 1)
    words = ["cat", "dog", "bird", "fish", "the", "a", "sees"]
    requests = [
        [*PAIRS, (f"{words[i % 7]} {words[i // 7 % 7]} " * (i % 9), words[-i % 7])]
        for i in range(64)
    ]
    calls = [
        (name, columns_of(rows))
        for rows in requests
        for name in ("serving_default", "tokenize")
    ]
    expected = [model.run(*call) for call in calls]
    barrier = threading.Barrier(8)

    def run(call):
        return model.run(*call)

    with ThreadPoolExecutor(8, initializer=barrier.wait) as pool:
        outputs = list(pool.map(run, calls))
    for actual, values in zip(outputs, expected, strict=True):
        assert actual.keys() == values.keys()
        for name, value in values.items():
            if value.dtype == np.float32:
                np.testing.assert_allclose(actual[name], value, rtol=0, atol=1e-6)
            else:
                np.testing.assert_array_equal(actual[name], value)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (truncate("model.onnx", 1000), "model.onnx"),
        (truncate("model.onnx", 0), "model.onnx: missing or empty"),
        (truncate("tokenizer.json", 100), "tokenizer.json: "),
        (truncate("model.json", 40), "model.json"),
        (change(format=1_000_000), "model.json"),
        (change(classes=["a", "b"]), "the outputs {'logits': [3]}"),
        (change(vocab_size=1), "tokenizer.json: it has 31 tokens, and the model 1"),
        (lambda directory: (directory / "characters.json").unlink(), "missing"),
    ],
)
def test_version_that_cannot_be_loaded_is_one_line_and_the_older_one_serves(
    root, caplog, damage, reason
):
    with (
        caplog.at_level(logging.WARNING),
        running(root, kind=PORTABLE) as server,
    ):
        push(root, 2, damage)
        wait_until(lambda: server.sample("serving_loads_total", result="error") == 1)
        response = server.post("pairs:predict", instances=[ROW])
        assert response.json()["predictions"][0]["class"] in ("no", "maybe", "yes")
        assert server.http.get("/readyz").status_code == 200
    (message,) = caplog.messages
    assert message.startswith(f"cannot load {root}/2: ")
    assert "\n" not in message
    assert reason in message


def test_file_that_changed_after_the_push_is_named(root, caplog):
    push(root, 2)
    weights = root / "2" / "model.onnx"
    content = weights.read_bytes()
    weights.write_bytes(bytes([content[0] ^ 1]) + content[1:])  # of the same size
    with running(root, kind=PORTABLE) as server:
        assert server.post("pairs/versions/1:predict", instances=[ROW]).is_success
        assert not server.post("pairs/versions/2:predict", instances=[ROW]).is_success
    assert "model.onnx differs from the file that was pushed" in caplog.text


def test_versions_change_under_load_and_a_signal_drains(root, foreground):
    with (
        started(root, program=PROGRAM) as server,
        ThreadPoolExecutor(4) as clients,
        contextlib.ExitStack() as end,
    ):
        assert server.rpc == "off"
        predicted, stop = [], threading.Event()
        end.callback(stop.set)

        def hammer():
            while not stop.is_set():
                status, row = server.predict(ROW, "pairs")
                predicted.append((status, row["class"].partition(" ")[2]))

        hammering = [clients.submit(hammer) for _ in range(3)]
        wait_until(lambda: len(predicted) > 20)
        push(root, 2)
        wait_until(lambda: (200, "2") in predicted)
        push(root, 3, truncate("model.onnx", 1000))
        wait_until(lambda: f"cannot load {root}/3" in server.read())
        count = len(predicted)
        wait_until(lambda: len(predicted) > count + 20)
        stop.set()
        for client in hammering:
            client.result()
        assert [*dict.fromkeys(predicted)] == [(200, ""), (200, "2")]
        many = clients.submit(post_many, server)
        wait_until(lambda: server.metric("serving_requests_in_flight") == 1)
        server.process.send_signal(signal.SIGINT)
        assert many.result().status_code == 200
        assert server.process.wait(PATIENCE_SECONDS) == 0
        assert "draining: 1 requests in flight" in server.read()


def post_many(server):
    """Posts rows that take seconds; returns the response."""
    rows = [{"question": "the cat sees " * 400, "answer": "a dog"}] * 3000
    return server.http.post("/v1/models/pairs:predict", json={"instances": rows})


@pytest.mark.parametrize("is_ignored", [False, True])
def test_closed_terminal_ends_the_server_unless_it_was_ignored(
    root, foreground, is_ignored
):
    if is_ignored:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    with started(root, program=PROGRAM) as server:
        server.process.send_signal(signal.SIGHUP)
        if is_ignored:
            assert server.predict(ROW, "pairs")[0] == 200
            assert server.stop() == 0
        assert server.process.wait(PATIENCE_SECONDS) == 0
        assert "draining: 0 requests in flight" in server.read()


def test_requests_that_are_not_finished_in_time_are_exit_status_1(root):
    options = ("--drain-seconds", "0.05", "--threads", "1")
    with (
        started(root, *options, program=PROGRAM) as server,
        ThreadPoolExecutor(1) as clients,
    ):
        many = clients.submit(post_many, server)
        wait_until(lambda: server.metric("serving_requests_in_flight") == 1)
        assert server.stop() == 1
        assert "1 requests were not finished in 0.05 s" in server.read()
        with contextlib.suppress(httpx.TransportError):
            assert many.result().status_code == 500


def test_weights_in_int8_are_loaded_or_refused_before_the_port_opens(root, monkeypatch):
    monkeypatch.setattr("serving.launch.listen", None)
    arguments = ["serve", "--model", str(root), "--int8"]
    push(root, 2)
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 2
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"error: --int8: {root}/2 has no model.int8.onnx; export ")
    loaded = []
    monkeypatch.setattr(
        "serving.launch.serve",
        lambda settings, start, main_file: loaded.append(start().load(root / "3", 3)),
    )

    def rename(directory):
        (directory / "model.onnx").rename(directory / "model.int8.onnx")

    push(root, 3, rename)
    CliRunner().invoke(main, [*arguments, "--threads", "1"], catch_exceptions=False)
    assert loaded[0].run("serving_default", columns_of(PAIRS))["class"].size == 4


def test_help_has_no_option_of_grpc():
    shown = CliRunner().invoke(main, ["serve", "--help"]).output
    assert "--port" in shown
    assert "--int8" in shown
    assert "grpc" not in shown.lower()
