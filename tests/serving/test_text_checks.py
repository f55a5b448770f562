"""The faults and unknown tokens of texts in requests, which the server counts."""

import base64
import logging
import threading
import time

import numpy as np
import pytest

from serving.monitoring import Metrics
from serving.signatures import Signature, TensorSpec
from serving.text_checks import TextChecks
from tests import exported as exported_lib
from tests.serving import small_models
from tests.serving.conftest import PORTABLE, wait_until
from tests.serving.processes import started

TEXT = TensorSpec(np.dtype(object), (None,))
SIGNATURE = Signature("serving_default", {"text": TEXT}, {"class": TEXT})


class Model:
    """A version that tokenizes as a test wants it to."""

    version = 7
    is_alive = True
    text_columns = ("text",)
    signatures = ("serving_default", "tokenize")

    def __init__(self, run):
        self.run = run


def offer(checks, model, *texts):
    column = np.array([text.encode() for text in texts], object)
    checks.offer(model, SIGNATURE, {"text": column}, {})


def count(source, name, **labels):
    """Returns a counter of metrics or of a server."""
    metrics = getattr(source, "metrics", source)
    return metrics.registry.get_sample_value(f"serving_{name}_total", labels)


@pytest.mark.slow
def test_empty_cut_and_unreadable_texts_and_unknown_tokens_are_counted(
    exported, stored_pairs
):
    rows = [
        {"question": "the cat", "answer": "zzqx sees the zzqx"},
        {"question": " \u200b\ufffd", "answer": ""},
        {"question": "a dog", "answer": "the cat " * 40},
    ]
    example = exported_lib.rows_of(exported.task, [("the cat", "a dog")])[0]
    inputs = {
        # Of Examples, and of the page's tokens, nothing is counted.
        "serve_examples": {"examples": exported_lib.serialize(example)},
        "tokenize": {"question": b"the cat", "answer": b"a dog"},
        "serving_default": {"question": b"the \xff cat", "answer": b"\xff"},
    }
    if stored_pairs.kind is PORTABLE:
        del inputs["serve_examples"]
    with stored_pairs.running(name="pairs", check_rate=1.0) as server:
        server.post("pairs:predict", instances=rows)
        for signature, values in inputs.items():
            row = {
                name: {"b64": base64.b64encode(value).decode()}
                for name, value in values.items()
            }
            response = server.post(
                "pairs:predict", signature_name=signature, instances=[row]
            )
            assert response.status_code == 200
        wait_until(lambda: count(server, "checked_texts", column="answer") == 4)
        text = server.http.get("/metrics").text
    for line in (
        'checked_texts_total{column="question"} 4',
        'text_faults_total{column="question",fault="empty"} 1',
        'text_faults_total{column="answer",fault="empty"} 2',
        'text_faults_total{column="question",fault="cut"} 0',
        'text_faults_total{column="answer",fault="cut"} 1',
        'text_faults_total{column="question",fault="unreadable"} 1',
        'text_faults_total{column="answer",fault="unreadable"} 1',
        'checked_tokens_total{column="question"} 6',
        'unknown_tokens_total{column="question"} 0',
        'unknown_tokens_total{column="answer"} 2',
    ):
        assert f"serving_{line}.0\n" in text, line


@pytest.mark.slow
def test_no_prediction_waits_for_a_check(tmp_path):
    """Nor does a change of version, after which it is not a failure, nor the end."""
    go = tmp_path / "go"
    model = small_models.save_slow_tokens(tmp_path / "slow" / "1", go)
    second = small_models.save_slow_tokens(tmp_path / "second", go)
    options = ("--no-grpc", "--inference-threads", "1", "--check-rate", "1")
    with started(model.parent, *options) as server:

        def has_counted(line):
            return f"serving_{line}.0" in server.http.get("/metrics").text

        def predict(text):
            status, row = server.predict(text, "slow")
            assert (status, row["echo"]) == (200, text)

        for text in "abcd":
            predict(text)
        unchecked = "unchecked_texts_total"
        assert "serving_checked_texts_total{" not in server.http.get("/metrics").text
        go.touch()
        wait_until(lambda: has_counted('checked_texts_total{column="text"} 4'))
        go.unlink()
        predict("e")
        second.rename(model.with_name("2"))
        wait_until(lambda: has_counted(f'{unchecked}{{reason="unloaded"}} 1'))
        assert has_counted(f'{unchecked}{{reason="failed"}} 0')
        predict("f")
        start = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - start < 8  # about 1; no check is waited for
        assert "texts are not checked" not in server.read()


def test_model_that_cannot_tokenize_fails_no_request_and_is_logged_once_a_version(
    caplog,
):
    def fail(signature, texts):
        raise ValueError("secret")

    metrics = Metrics()
    checks = TextChecks(1.0, metrics)
    with caplog.at_level(logging.WARNING):
        for texts, version in enumerate((7, 7, 8), 1):
            model = Model(fail)
            model.version = version
            offer(checks, model, "secret")
            wait_until(
                lambda texts=texts: (
                    count(metrics, "unchecked_texts", reason="failed") == texts
                )
            )
    checks.close()
    for version, message in zip((7, 8), caplog.messages, strict=True):
        reason = "texts are not checked, because tokenize raises ValueError"
        assert f"version {version}: {reason}" in message
        assert "secret" not in message


@pytest.mark.parametrize(
    ("rate", "signatures"), [(0.0, Model.signatures), (1.0, ("serving_default",))]
)
def test_model_is_not_called_at_rate_0_or_without_the_signature(rate, signatures):
    model, calls = Model(lambda *call: calls.append(call)), []
    model.signatures = signatures
    checks = TextChecks(rate, Metrics())
    offer(checks, model, "a")
    checks.close()
    assert not calls


def test_texts_beyond_the_queue_are_counted_and_wait_for_nothing():
    release = threading.Event()
    checks = TextChecks(1.0, metrics := Metrics())
    model = Model(lambda signature, texts: release.wait(60))
    for _ in range(3):  # a third one does not fit into 16 MiB
        offer(checks, model, "x" * (6 << 20))
    assert count(metrics, "unchecked_texts", reason="queue_full") == 1
    release.set()
    checks.close()


def test_check_that_runs_at_the_end_is_the_last():
    calls, began, release = [], threading.Event(), threading.Event()

    def tokenize(signature, texts):
        calls.append(len(texts["text"]))
        began.set()
        release.wait(60)

    checks = TextChecks(1.0, Metrics())
    offer(checks, Model(tokenize), *["a"] * 200)
    assert began.wait(60)
    checks.close()
    release.set()
    checks._thread.join(60)
    assert calls == [64]


@pytest.mark.parametrize(
    ("texts", "pieces"),
    [
        (["a"] * 200, [64, 64, 64, 8]),
        (["a" * (400 << 10)] * 5, [2, 2, 1]),
        (["a", "b" * (3 << 20), "c"], [1, 1, 1]),
    ],
)
def test_many_rows_and_long_texts_are_tokenized_in_pieces(texts, pieces):
    calls = []

    def tokenize(signature, texts):
        rows = len(texts["text"])
        calls.append(rows)
        return {
            "token": np.full([rows, 2], b"[UNK]", object),
            "column": np.zeros([rows, 2], np.int64),
            "cut": np.zeros([rows, 1], np.int64),
        }

    checks = TextChecks(1.0, metrics := Metrics())
    offer(checks, Model(tokenize), *texts)
    rows = len(texts)
    wait_until(lambda: count(metrics, "checked_texts", column="text") == rows)
    checks.close()
    assert calls == pieces
    assert count(metrics, "unknown_tokens", column="text") == 2 * rows
