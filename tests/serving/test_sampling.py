"""The sample of requests that the server keeps."""

import logging
import os
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from serving import sampling
from serving.monitoring import Metrics
from serving.sampling import Sampler
from serving.settings import SamplingSettings
from serving.signatures import Signature, TensorSpec
from tests.serving.conftest import wait_until

TEXT = TensorSpec(np.dtype(object), (None,))
SIGNATURE = Signature("serving_default", {"text": TEXT}, {"class": TEXT})


class Model:
    """The version and the columns of a model, which a sampler reads."""

    version = 7
    text_columns = ("text",)


def read(directory):
    """Returns the kept rows by feature, in the order of the files."""
    paths = sorted(map(str, directory.glob(sampling.FILES)))
    rows = []
    for record in tf.data.TFRecordDataset(paths).as_numpy_iterator():
        features = tf.train.Example.FromString(record).features.feature
        rows.append(
            {
                name: list(getattr(value, value.WhichOneof("kind")).value)
                for name, value in features.items()
            }
        )
    return rows


def offer(sampler, *texts):
    column = np.array([text.encode() for text in texts], object)
    sampler.offer(Model(), SIGNATURE, {"text": column}, {"class": column})


def sampler_of(directory, metrics, **settings):
    settings = {"rate": 1.0, "max_bytes": 1 << 20, **settings}
    return Sampler(SamplingSettings(directory, **settings), metrics)


def count(metrics, result):
    labels = {"result": result}
    return metrics.registry.get_sample_value("serving_samples_total", labels)


def test_several_labels_are_kept(tmp_path):
    sampler = sampler_of(tmp_path, Metrics())
    texts = np.array([b"one", b"none"], object)
    outputs = {
        "labels": np.array([[1, 0], [0, 0]]),
        "probabilities": np.array([[0.75, 0.25], [0.125, 0.0]], np.float32),
        "logits": np.zeros([2, 2], np.float32),
    }
    sampler.offer(Model(), SIGNATURE, {"text": texts}, outputs)
    sampler.close()
    first, second = read(tmp_path)
    assert first["prediction/labels"] == [1, 0]
    assert second["prediction/labels"] == [0, 0]
    assert first["prediction/probabilities"] == [0.75, 0.25]
    assert "prediction/logits" not in first


@pytest.mark.slow
def test_texts_and_predictions_are_kept(stored_pairs, tmp_path):
    settings = SamplingSettings(tmp_path, rate=1.0, max_bytes=1 << 20)
    row = {"question": "the cat", "answer": "a dog"}
    with stored_pairs.running(name="pairs", sampling=settings) as server:
        (rest,) = server.post("pairs:predict", instances=[row]).json()["predictions"]
        server.post("pairs:predict", signature_name="tokenize", instances=[row])
        # The class that the model predicts is kept.
        server.post("pairs:predict", instances=[row], min_probability=1)
        (version,) = server.versions.describe("pairs")
    kept = read(tmp_path)
    assert len(kept) == 2
    for features in kept:
        assert features["question"] == [b"the cat"]
        assert features["answer"] == [b"a dog"]
        assert features["prediction/class"] == [rest["class"].encode()]
        assert features["prediction/probabilities"] == pytest.approx(
            rest["probabilities"], abs=1e-5
        )
        assert features["prediction/model_version"] == [version.number]
        assert abs(features["prediction/time"][0] - time.time()) < 600
        assert len(features) == 6
    (file,) = tmp_path.iterdir()  # nothing incomplete
    assert file.stat().st_mode & 0o777 == 0o600


def test_hook_changes_or_drops_rows_and_its_errors_fail_no_request(tmp_path, caplog):
    def redact(row):
        if row["text"] == "secret":
            return None
        if row["text"] == "fails":
            raise ValueError(row["text"])
        if row["text"] == "exits":
            raise SystemExit(1)
        if row["text"] == "no feature":
            return {"text": object()}
        return {**row, "text": row["text"].upper()}

    metrics = Metrics()
    sampler = sampler_of(tmp_path, metrics, redact=redact)
    with caplog.at_level(logging.WARNING):
        offer(sampler, "a", "secret", "fails", "fails", "exits", "no feature", "b")
        sampler.close()
    assert [row["text"] for row in read(tmp_path)] == [[b"A"], [b"B"]]
    results = ("written", "redacted", "redaction_failed")
    assert [count(metrics, result) for result in results] == [2, 1, 4]
    (message,) = caplog.messages
    assert "--redact raises ValueError" in message
    assert "fails" not in message  # no text in the log


def test_missing_directory_fails_no_request_and_is_logged_once(tmp_path, caplog):
    directory = tmp_path / "kept"
    metrics = Metrics()
    sampler = sampler_of(directory, metrics, file_seconds=0)
    with caplog.at_level(logging.WARNING):
        for rows in (1, 2):
            offer(sampler, "a")
            wait_until(lambda rows=rows: count(metrics, "write_failed") == rows)
    assert len(caplog.messages) == 1
    assert str(directory) in caplog.text
    directory.mkdir()
    offer(sampler, "b")
    wait_until(lambda: count(metrics, "written") == 1)
    sampler.close()
    assert [row["text"] for row in read(directory)] == [[b"b"]]


def test_oldest_files_are_deleted_at_the_bound(tmp_path):
    bound, metrics = 8_000, Metrics()
    sampler = sampler_of(tmp_path, metrics, max_bytes=bound)
    texts = [f"{i} {'x' * 100}" for i in range(200)]
    for text in texts:
        offer(sampler, text)
    offer(sampler, "x" * (bound + 1))
    sampler.close()
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= bound
    kept = [row["text"][0].decode() for row in read(tmp_path)]
    assert kept == texts[-len(kept) :]
    assert len(kept) > 20
    assert count(metrics, "written") == 200
    assert count(metrics, "write_failed") == 1


def test_rows_beyond_the_queue_are_counted(tmp_path):
    metrics, release = Metrics(), threading.Event()

    def redact(row):
        release.wait(60)
        return row

    sampler = sampler_of(tmp_path, metrics, redact=redact, max_bytes=1 << 30)
    large = "x" * (6 << 20)
    for _ in range(3):  # a third one does not fit into 16 MiB
        offer(sampler, large)
    assert count(metrics, "queue_full") == 1
    for _ in range(6_000):  # nor do many rows of small texts
        offer(sampler, "a")
    assert 3_000 < count(metrics, "queue_full") < 5_000
    release.set()
    sampler.close()
    assert count(metrics, "written") + count(metrics, "queue_full") == 6_003


def test_rate_chooses_a_share_of_the_rows(tmp_path):
    metrics = Metrics()
    sampler = sampler_of(tmp_path, metrics, rate=0.25)
    offer(sampler, *map(str, range(4_000)))
    sampler.close()
    assert 800 < count(metrics, "written") < 1_200  # 7 standard deviations


def test_incomplete_files_of_a_killed_server_are_deleted_and_never_read(tmp_path):
    old, new = tmp_path / ".incomplete-old", tmp_path / ".incomplete-new"
    for path in (old, new):
        path.write_bytes(b"torn")
    past = time.time() - 7200
    os.utime(old, (past, past))
    sampler = sampler_of(tmp_path, Metrics())
    offer(sampler, "a")
    sampler.close()
    assert not old.exists()
    assert new.exists()  # another server may be writing it
    assert [row["text"] for row in read(tmp_path)] == [[b"a"]]
