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

from contracts.records.evaluation import Estimate, Evaluation
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model, served_versions
from pipeline import exit_status
from pipeline.cli.main import main
from pipeline.operations.monitoring.window_rows import ServedModel
from serving import sampling
from tests import tiny
from tests.deploy.manifests import arguments, containers, manifests
from tests.refusals import check_command

pytestmark = pytest.mark.slow

ROWS = 150
HOUR = 3600
OTHER = {"bad": "good", "good": "bad"}
USUAL, CHANGED = tiny.WORDS[:8], ["zq", "qzq", *tiny.WORDS[10:14]]


def draw_texts(seed, rows, words=USUAL):
    random = np.random.default_rng(seed)
    return [" ".join(random.choice(words, random.integers(4, 9))) for _ in range(rows)]


def predict(served, texts):
    return served.predict([(text.encode(),) for text in texts])


def write_labels(path, labels):
    """Writes a file of pairs of a text and its label; returns its path."""
    lines = (f"{text},{label}\n" for text, label in labels)
    path.write_text("sentence,label\n" + "".join(lines))
    return path


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
    task = exported_model.describe_task(exported.task)
    exported_model.write_description(str(root / "1"), task)
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

    def serve(texts, age, version=None):
        of_version = {} if version is None else {sampling.MODEL_VERSION: [version]}
        rows = [
            {
                **of_version,
                "sentence": [*row.texts],
                "prediction/class": [row.class_name.encode()],
                "prediction/probabilities": [*row.outputs],
                "prediction/time": [int(time.time()) - age],
            }
            for row in predict(served, texts)
        ]
        name = f"{age}-{version}"
        write_records(samples / sampling.FILES.replace("*", name), rows)

    def run(texts, previous=(), *arguments):
        by_version = texts if isinstance(texts, dict) else {None: texts}
        for version, served_texts in by_version.items():
            serve(served_texts, 60, version)
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
    window = served.measure(predict(served, texts))
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
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
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
    names = [row.class_name for row in predict(served, texts[:40])]
    names[:10] = map(OTHER.get, names[:10])
    labels = write_labels(tmp_path / "labels.csv", zip(texts, names, strict=False))
    gauges = tmp_path / "bert.prom"
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
    names = [row.class_name for row in predict(served, texts)]
    pairs = [*zip(texts, names, strict=True), (texts[0], OTHER[names[0]])]
    labels = write_labels(tmp_path / "labels.csv", pairs)
    gauges, page = tmp_path / "bert.prom", tmp_path / "live.html"
    arguments = ("--labels", labels, "--prometheus-file", gauges, "--report", page)
    bounds = ("--threshold", "accuracy=1", "--threshold", f"recall/{names[0]}=0")
    result = monitor(texts, (), *arguments, *bounds)
    assert result.exit_code == exit_status.ALARM, result.output
    assert "alarms: 1" in page.read_text()
    values = read_gauges(gauges)
    assert values["monitor_metric_alarm", "accuracy"] == 1
    assert values["monitor_metric_alarm", f"recall/{names[0]}"] == 0


@pytest.fixture
def pushed(directory):
    """Writes the accuracy of versions at the gate; the later ones were rolled back."""

    def write(accuracies):
        for version, accuracy in accuracies.items():
            parent = directory if version == 1 else directory / ".withdrawn"
            path = parent / str(version)
            path.mkdir(parents=True, exist_ok=True)
            interval = (accuracy - 0.02, accuracy + 0.02)
            evaluation = Evaluation(
                split="eval",
                rows=400,
                metric="accuracy",
                metrics={"accuracy": Estimate(value=accuracy, interval=interval)},
                data="data",
                data_version="0",
            )
            content = evaluation.model_dump(mode="json")
            served_versions.write_evaluation(str(path), content)

    yield write
    (directory / "1" / served_versions.EVALUATION_FILE).unlink(missing_ok=True)
    shutil.rmtree(directory / ".withdrawn", ignore_errors=True)


def test_live_metrics_of_three_versions_are_compared_with_those_of_the_gate(
    monitor, served, pushed, tmp_path
):
    """Two versions are as good as at the gate; the third one is not."""
    gauges, page = tmp_path / "bert.prom", tmp_path / "live.html"
    history = tmp_path / "history.jsonl"
    pushed({1: 0.95, 2: 0.85, 3: 0.9})
    wrong = {1: 6, 2: 24, 3: 60}  # of 150 rows
    texts, pairs = {}, []
    for version, count in wrong.items():
        texts[version] = [f"the cat {version} {row}" for row in range(ROWS)]
        names = [row.class_name for row in predict(served, texts[version])]
        names[:count] = map(OTHER.get, names[:count])
        pairs += zip(texts[version], names, strict=True)
    labels = write_labels(tmp_path / "labels.csv", pairs)
    checks = ("classes", "scores", "lengths", "domain")
    arguments = [f"--limit={check}=1" for check in (*checks, "unknown")]
    arguments += ["--labels", labels, "--history", history]
    two = {version: texts[version] for version in (1, 2)}
    result = monitor(two, (), *arguments)
    assert result.exit_code == 0, result.output
    assert len(history.read_text().splitlines()) == 2
    assert "rank correlation" not in result.output

    arguments += ["--prometheus-file", gauges, "--report", page]
    result = monitor(texts, (), *arguments)
    assert result.exit_code == exit_status.ALARM, result.output
    (alarm,) = (line for line in result.output.splitlines() if "ALARM" in line)
    for value in ("3", "accuracy", "0.9000", "0.6000", "-0.300"):
        assert value in alarm
    shown = "ank correlation of gate and live over 3 versions: 0.50"
    assert shown in result.output
    values = read_gauges(gauges)
    assert values["monitor_gate_metric", "accuracy", "2"] == 0.85
    difference = values["monitor_gate_difference", "accuracy", "1"]
    assert difference == pytest.approx(0.96 - 0.95)
    assert [values["monitor_gate_alarm", "accuracy", v] for v in "123"] == [0, 0, 1]
    assert "All versions" in page.read_text()
    assert shown in page.read_text()
    assert "alarms: 1" in page.read_text()
    assert len(history.read_text().splitlines()) == 5


def test_version_without_an_evaluation_or_with_few_labels_is_named(
    monitor, served, tmp_path, pushed
):
    pushed({1: 0.95})
    texts = draw_texts(1, ROWS)
    names = [row.class_name for row in predict(served, texts)]
    pairs = zip(texts, names, strict=True)
    labels = write_labels(tmp_path / "labels.csv", pairs)
    result = monitor({1: texts[:20], 8: texts}, (), "--labels", labels)
    assert result.exit_code == 0, result.output
    output = " ".join(result.output.split())
    assert (
        "version 1 is not compared with the gate: 20 labelled rows; at least" in output
    )
    assert (
        "version 8 is not compared with the gate: it has no evaluation.json" in output
    )


@pytest.mark.parametrize(
    ("arguments", "name", "parts"),
    [
        ("--samples /no/directory", "E-data-not-found", ["--samples", "/no/directory"]),
        (f"--reference {__file__}", "E-rows-refused", [__file__]),
        ("--limit domain=2", "E-settings-refused", ["--limit: domain=2: "]),
        (
            "--limit min_rows=1000",
            "E-reference-too-small",
            ["--reference: ", "at least 1000", "--limit min_rows=N"],
        ),
        ("--threshold f1=0.5", "E-option-missing", ["--threshold: ", "--labels FILE"]),
        ("--history h.jsonl", "E-option-missing", ["--history: ", "--labels FILE"]),
        (
            "--labels a.csv --threshold loss=1",
            "E-settings-refused",
            ["--threshold: loss=1: ", "allowed: accuracy"],
        ),
        (
            "--labels a.csv --threshold f1=2",
            "E-settings-refused",
            ["--threshold: f1=2; allowed: 0 to 1, such as f1=1"],
        ),
        (
            "--labels a.csv --threshold f1",
            "E-settings-refused",
            ["--threshold: f1; allowed: 0 to 1"],
        ),
        ("--prometheus-file /no/a.prom", "E-no-such-directory", ["--prometheus-file"]),
        (
            "--pushgateway 127.0.0.1:1",
            "E-network-failed",
            ["--pushgateway: 127.0.0.1:1"],
        ),
        ("--pushgateway a:secret@h:1", "E-secret-visible", ["--pushgateway: "]),
    ],
)
def test_bad_usage_is_refused(monitor, arguments, name, parts):
    result = monitor(draw_texts(1, ROWS), (), *arguments.split())
    check_command(result, name, *parts)
    assert "secret@" not in result.output


def write_description(directory, **task):
    """Writes a model that has nothing but the description of its task."""
    (directory / "model" / "1").mkdir(parents=True)
    (directory / "model" / "1" / "saved_model.pb").write_bytes(tiny.GRAPH)
    described = exported_model.describe_task(TaskConfig(text_columns=["text"], **task))
    exported_model.write_description(str(directory / "model" / "1"), described)
    return directory / "model"


@pytest.mark.parametrize(
    ("classes", "arguments", "name", "part"),
    [
        ("ab", ("--label-separator", ""), "E-settings-refused", "label_separator"),
        ("ab", ("--label-column", "a"), "E-options-conflict", "--label-column: "),
        # No reason to refuse the task, so that the file is read.
        (["a|b", "c"], (), "E-rows-refused", "a|b, c"),
        (["label", "idx"], (), "E-rows-refused", "idx, label"),
    ],
)
def test_labels_that_contradict_a_model_of_several_are_refused(
    tmp_path, classes, arguments, name, part
):
    model = write_description(
        tmp_path, kind="multilabel", classes=[*classes], label_separator=";"
    )
    (tmp_path / "labels.csv").write_text("text\none\n")
    options = ("--samples", tmp_path, "--reference", "none", "--model", model)
    labels = ("--labels", tmp_path / "labels.csv", *arguments)
    result = CliRunner().invoke(main, ["monitor", *map(str, (*options, *labels))])
    check_command(result, name, part)


@pytest.mark.nightly
def test_several_labels_are_compared_and_measured(export, tmp_path):
    exported = export("labels")
    root = tmp_path / "labels"
    shutil.copytree(exported.directory, root / "1")
    described = exported_model.describe_task(exported.task)
    exported_model.write_description(str(root / "1"), described)
    model = ServedModel(str(root / "1"))
    assert model.labels == ["no", "maybe", "yes"]
    reference, texts = draw_texts(0, 400), draw_texts(1, ROWS)
    write_records(
        tmp_path / "data.tfrecord.gz",
        [{"sentence": [text.encode()]} for text in reference],
        "GZIP",
    )
    (tmp_path / "samples").mkdir()
    served = predict(model, texts)
    rows = [
        {
            "sentence": [*row.texts],
            "prediction/labels": [1, 0, row.labels[2]],
            "prediction/probabilities": [*row.outputs],
            "prediction/time": [int(time.time()) - 60],
        }
        for row in served
    ]
    # A version of another kind is left out.
    other = {"prediction/class": [b"no"], "prediction/probabilities": [0.9, 0.05, 0.05]}
    rows.append({**rows[0], **other, "prediction/labels": [1]})
    write_records(tmp_path / "samples" / sampling.FILES.replace("*", "1"), rows)
    pairs = ((text, "no|maybe") for text in texts)
    labels = write_labels(tmp_path / "labels.csv", pairs)
    options = {
        "--model": root,
        "--samples": tmp_path / "samples",
        "--reference": tmp_path / "data.tfrecord.gz",
        "--labels": labels,
        "--label-separator": "|",
        "--threshold": "recall/maybe=0.5",
    }
    pairs = [text for pair in options.items() for text in map(str, pair)]
    result = CliRunner().invoke(main, ["monitor", *pairs], env={"COLUMNS": "100"})
    assert result.exit_code == exit_status.ALARM, result.output
    assert f"{ROWS} of {ROWS} rows of the window have a label" in result.output
    changed = [line for line in result.output.splitlines() if "classes (" in line]
    usual = np.mean([row.labels for row in predict(model, reference)], axis=0)
    drifted = model.labels[int(np.argmax(np.abs(usual - [1, 0, usual[2]])))]
    assert f"classes ({drifted})" in changed[0]
    (recall,) = (line for line in result.output.splitlines() if "recall/maybe" in line)
    assert "0.0000" in recall
    assert "ALARM" in recall
