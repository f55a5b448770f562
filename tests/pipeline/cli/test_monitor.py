"""The comparison of what is served with the data of the model."""

import contextlib
import http.server
import shutil
import threading
import time

import numpy as np
import prometheus_client.parser
import pytest
import tensorflow as tf
from click.testing import CliRunner

from modules.export import description
from pipeline import exit_status
from pipeline.cli.main import main
from pipeline.monitoring.window_rows import ServedModel
from serving import sampling
from tests import tiny
from tests.deploy.manifests import arguments, containers, manifests

pytestmark = pytest.mark.slow

ROWS = 150
HOUR = 3600
USUAL, CHANGED = tiny.WORDS[:8], ["zq", "qzq", *tiny.WORDS[10:14]]


def draw_texts(seed, rows, words=USUAL):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, random.integers(4, 9))) for _ in range(rows)]


def write_records(path, rows, compression=""):
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for row in rows:
            example = tf.train.Example()
            for name, values in row.items():
                kind = {bytes: "bytes_list", int: "int64_list", float: "float_list"}
                field = getattr(example.features.feature[name], kind[type(values[0])])
                field.value.extend(values)
            writer.write(example.SerializeToString())


@pytest.fixture(scope="module")
def directory(export, tmp_path_factory):
    """A directory with a version of a tiny model of single sentences."""
    exported = export("sentences")
    root = tmp_path_factory.mktemp("monitored") / "sentences"
    shutil.copytree(exported.directory, root / "1")
    task = description.describe_task(exported.task)
    description.write_description(str(root / "1"), task)
    return root


@pytest.fixture(scope="module")
def served(directory):
    return ServedModel(str(directory / "1"))


@pytest.fixture
def monitor(directory, served, tmp_path):
    """Runs the command on texts that were served in this hour and in the last one."""
    reference = tmp_path / "data.tfrecord.gz"
    texts = draw_texts(0, 400)
    write_records(reference, [{"sentence": [t.encode()]} for t in texts], "GZIP")
    samples = tmp_path / "samples"
    samples.mkdir()

    def serve(texts, age):
        rows = [
            {
                "sentence": [*row.texts],
                "prediction/class": [row.class_name.encode()],
                "prediction/probabilities": [*row.outputs],
                "prediction/time": [int(time.time()) - age],
            }
            for row in served.predict([(text.encode(),) for text in texts])
        ]
        write_records(samples / sampling.FILES.replace("*", str(age)), rows)

    def run(texts, previous=(), *arguments):
        serve(texts, 60)
        if previous:
            serve(previous, HOUR + 60)
        options = {"--model": directory, "--samples": samples, "--reference": reference}
        pairs = [text for pair in options.items() for text in map(str, pair)]
        command = ["monitor", *pairs, "--hours", "1", *map(str, arguments)]
        return CliRunner().invoke(main, command, env={"COLUMNS": "100"})

    return run


def read_gauges(path):
    families = prometheus_client.parser.text_string_to_metric_families(path.read_text())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_rows_are_measured_by_the_tokenizer_of_the_model(served):
    texts = ["the cat", "zq the zq zq", "the dog " * 40]
    window = served.measure(served.predict([(text.encode(),) for text in texts]))
    assert window.lengths.tolist() == [4, 6, 82]  # before truncation, with [CLS], [SEP]
    assert window.unknown.tolist() == [0, 0.5, 0]
    assert window.embeddings.shape == (3, tiny.HIDDEN)
    words = tiny.hugging_face_tensors()["embeddings.word_embeddings.weight"]
    ids = [tiny.VOCAB.index(word) for word in ("[CLS]", "the", "cat", "[SEP]")]
    mean = words[ids].mean(axis=0)
    np.testing.assert_allclose(window.embeddings[0], mean, atol=1e-5)


def test_windows_without_drift_are_no_alarm(monitor):
    result = monitor(draw_texts(1, ROWS), draw_texts(2, ROWS))
    assert result.exit_code == 0, result.output
    for check in ("classes", "scores", "lengths", "unknown", "domain"):
        assert result.output.count(check) == 2  # the reference, the previous window


def test_drift_in_half_of_a_window_is_an_alarm(monitor, tmp_path, monkeypatch):
    gauges = tmp_path / "bert.prom"
    half = ROWS // 2
    texts = draw_texts(1, half) + draw_texts(3, half, CHANGED)
    page = tmp_path / "live.html"
    monkeypatch.chdir(tmp_path)
    arguments = ("--prometheus-file", gauges, "--report", page.name)
    result = monitor(texts, draw_texts(2, ROWS), *arguments)
    assert result.exit_code == exit_status.ALARM, result.output
    assert "ALARM" in result.output
    assert "Compared with the previous" in page.read_text()
    assert "<td>alarm</td>" in page.read_text()
    values = read_gauges(gauges)
    for reference in ("reference", "previous"):
        assert values["monitor_alarm", "unknown", reference] == 1
        assert values["monitor_alarm", "domain", reference] == 1
        assert values["monitor_alarm", "lengths", reference] == 0
    assert values["monitor_rows", "window"] == ROWS


@contextlib.contextmanager
def pushgateway():
    """Accepts gauges; yields the address, and the path and the text of each push."""
    pushed = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            pushed.append((self.path, body.decode()))
            self.send_response(200)
            self.end_headers()

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", pushed
        finally:
            server.shutdown()
            thread.join()


def test_job_of_the_manifest_pushes_its_gauges_and_fails_at_an_alarm(monitor):
    (container,) = containers(manifests("monitoring")["CronJob"]).values()
    options = arguments(container)
    for volume in ("model", "samples", "reference"):
        del options[volume]
    texts = draw_texts(3, ROWS, CHANGED)
    with pushgateway() as (options["pushgateway"], pushed):
        result = monitor(texts, (), *(f"--{n}={v}" for n, v in options.items()))
    assert result.exit_code == exit_status.ALARM, result.output
    ((path, text),) = pushed
    assert path == "/metrics/job/monitor-sentences"
    assert 'monitor_alarm{check="unknown",reference="reference"} 1.0' in text


def test_small_window_is_not_compared_and_is_no_alarm(monitor):
    result = monitor(draw_texts(1, 20, CHANGED))
    assert result.exit_code == 0, result.output
    assert "window: 20 rows; fewer than 100 are not compared" in result.output


def test_delayed_labels_give_the_metrics_of_what_is_live(monitor, served, tmp_path):
    texts = draw_texts(1, ROWS)
    predicted = served.predict([(text.encode(),) for text in texts])
    labels, gauges = tmp_path / "labels.csv", tmp_path / "bert.prom"
    other = {"bad": "good", "good": "bad"}
    lines = [
        f"{text},{other[row.class_name] if index < 10 else row.class_name}"
        for index, (text, row) in enumerate(zip(texts, predicted, strict=True))
    ]
    labels.write_text("\n".join(["sentence,label", *lines[:40]]) + "\n")
    arguments = ("--labels", labels, "--prometheus-file", gauges)
    result = monitor(texts, (), *arguments, "--threshold", "accuracy=1")
    assert result.exit_code == 0, result.output
    assert "fewer than 100 are not compared with thresholds" in result.output
    # A label counts for every row with its text.
    count = sum(text in texts[:40] for text in texts)
    wrong = sum(text in texts[:10] for text in texts)
    assert f"{count} of {ROWS} rows of the window have a label" in result.output
    accuracy = read_gauges(gauges)["monitor_metric", "accuracy"]
    assert accuracy == pytest.approx(1 - wrong / count)


def test_live_metric_below_a_threshold_is_an_alarm(monitor, served, tmp_path):
    texts = draw_texts(1, ROWS)
    predicted = served.predict([(text.encode(),) for text in texts])
    labels, gauges = tmp_path / "labels.csv", tmp_path / "bert.prom"
    page = tmp_path / "live.html"
    names = [row.class_name for row in predicted]
    lines = [f"{text},{name}" for text, name in zip(texts, names, strict=True)]
    wrong = {"bad": "good", "good": "bad"}[names[0]]
    lines.append(f"{texts[0]},{wrong}")
    labels.write_text("\n".join(["sentence,label", *lines]) + "\n")
    arguments = ("--labels", labels, "--prometheus-file", gauges, "--report", page)
    bounds = ("--threshold", "accuracy=1", "--threshold", f"recall/{names[0]}=0")
    result = monitor(texts, (), *arguments, *bounds)
    assert result.exit_code == exit_status.ALARM, result.output
    assert "alarms: 1" in page.read_text()
    values = read_gauges(gauges)
    assert values["monitor_metric_alarm", "accuracy"] == 1
    assert values["monitor_metric_alarm", f"recall/{names[0]}"] == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--samples", "/no/directory"), "--samples /no/directory has no file sample-"),
        (("--reference", __file__), f"{__file__} cannot be read: "),
        (("--limit", "domain=2"), "--limit domain=2: "),
        (("--limit", "min_rows=1000"), "--reference "),
        (("--threshold", "f1=0.5"), "--threshold needs labels: add --labels FILE"),
        (("--labels", "a.csv", "--threshold", "loss=1"), "no such metric; it has acc"),
        (("--labels", "a.csv", "--threshold", "f1=2"), "allowed are 0 to 1"),
        (("--labels", "a.csv", "--threshold", "f1"), "allowed are 0 to 1"),
        (("--prometheus-file", "/no/directory/a.prom"), "there is no directory"),
        (("--pushgateway", "127.0.0.1:1"), "--pushgateway 127.0.0.1:1 cannot be"),
        (("--pushgateway", "a:secret@127.0.0.1:1"), "--pushgateway has a password"),
    ],
)
def test_bad_usage_is_refused(monitor, arguments, problem):
    result = monitor(draw_texts(1, ROWS), (), *arguments)
    assert result.exit_code == exit_status.USAGE, result.output
    assert problem in result.output
