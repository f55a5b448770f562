"""An error of storage is one line, whichever library raised it; others are not."""

import errno
import os
import socket
import sys
import threading

import pytest
import tensorflow as tf
from apache_beam.io.filesystem import BeamIOError
from click.testing import CliRunner
from google.api_core.exceptions import ServiceUnavailable
from google.resumable_media import InvalidResponse
from ml_metadata import errors as metadata_errors

from contracts.storage import reachability
from pipeline.cli.main import main
from pipeline.cli.storage_errors import find
from tests import tiny
from tests.refusals import check, check_command

FULL = os.strerror(errno.ENOSPC)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, FULL, "/data/a"), FULL),
        (OSError(errno.EIO, "Input/output error"), "Input/output error"),
        (
            tf.errors.ResourceExhaustedError(None, None, f"/data/a; {FULL}"),
            f"/data/a; {FULL}",
        ),
        (
            tf.errors.AbortedError(
                None,
                None,
                "All 10 retry attempts failed. The last failure: Error executing an "
                "HTTP request: HTTP response code 503\n\t when reading gs://b/a",
            ),
            "All 10 retry attempts failed. The last failure: Error executing an HTTP "
            "request: HTTP response code 503 when reading gs://b/a",
        ),
        (
            BeamIOError("Match operation failed", {"gs://b/a/": "503"}),
            "BeamIOError: Match operation failed with exceptions {'gs://b/a/': '503'}",
        ),
        (
            # Beam adds the step to the first argument, and passes it as the response.
            InvalidResponse("Request failed [while running 'W']", 503, "Expected 200"),
            "InvalidResponse: (503, 'Expected 200')",
        ),
        (
            ServiceUnavailable("GET https://storage/b/a: [while running 'W']"),
            "ServiceUnavailable: 503 GET https://storage/b/a:",
        ),
        (
            metadata_errors.InternalError(
                "Error when executing query: database or disk is full query:  UPDATE"
            ),
            "ML Metadata: database or disk is full",
        ),
        (
            metadata_errors.InternalError(
                'Cannot create node for type_id: 10 properties { key: "a" } Error when '
                "executing query: attempt to write a readonly database query:  INSERT"
            ),
            "ML Metadata: attempt to write a readonly database",
        ),
        (
            metadata_errors.AbortedError(
                "Concurrent writes aborted after max number of retries."
            ),
            "ML Metadata: Concurrent writes aborted",
        ),
        (
            RuntimeError(
                "Error when executing query: database disk image is malformed query:  "
                "CREATE TABLE IF NOT EXISTS `Type` (\n `id` INTEGER PRIMARY KEY"
            ),
            "ML Metadata: database disk image is malformed",
        ),
        (
            OSError(f"the checkpoint /data/ckpt-5 was not written: /data/a; {FULL}"),
            f"the checkpoint /data/ckpt-5 was not written: /data/a; {FULL}",
        ),
        (
            RuntimeError(f"[Errno 28] {FULL}: '/data/a' [while running 'Read/Do']"),
            f"[Errno 28] {FULL}: '/data/a'",
        ),
        (
            Exception(
                f"in finalize_write:\n[OSError(28, '{FULL}')] [while running 'W']"
            ),
            f"in finalize_write: [OSError(28, '{FULL}')]",
        ),
    ],
)
def test_error_of_storage_names_file_and_reason(error, reason):
    found = find(error)
    path = getattr(error, "filename", None)
    check(found, name="E-storage-failed", setting=path, got=reason)
    assert found.advice == "correct the cause and run the command again"


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/data/a"),
        tf.errors.InvalidArgumentError(None, None, "shapes differ"),
        RuntimeError(f"a message about {FULL}"),
        RuntimeError("Error when executing query: UNIQUE constraint failed query: x"),
        ValueError("a value"),
    ],
)
def test_other_error_keeps_its_traceback(error):
    assert find(error) is None


LOCATION = "gs://bucket/folder"
JOB = ("--set", "kubeflow.image=i:1", "--set", f"kubeflow.pipeline_root={LOCATION}")
COMPILE = ("compile", "--orchestrator", "kubeflow", "-o", "a.yaml")
FILES = ("--input", "in.csv", "--output")


@pytest.mark.parametrize(
    "command",
    [
        ("submit", "--orchestrator", "kubeflow", "--host", "http://localhost:1", *JOB),
        (*COMPILE, *JOB, "--set", f"data.source={LOCATION}"),
        (*COMPILE, *JOB, "--set", f"encoder.source={LOCATION}"),
        ("import-encoder", LOCATION, "new"),
        ("show-batch", "--data", LOCATION),
        ("predict", "--model", LOCATION, "--text", "a"),
        ("predict", "--model", "model", "--input", LOCATION, "--output", "new"),
        ("predict", "--model", "model", *FILES, LOCATION),
    ],
)
def test_bucket_that_does_not_respond_ends_a_command(command, tmp_path, monkeypatch):
    monkeypatch.setattr(reachability, "_PAUSE_SECONDS", 0.0)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bert-pipeline"])
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    (tmp_path / "in.csv").write_text("text\na\n")
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    if command[0] != "import-encoder":
        command = (*command, "--config", str(recipe))
    earlier = set(threading.enumerate())
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        proxy = f"http://user:secret@127.0.0.1:{bound.getsockname()[1]}"
        monkeypatch.setenv("https_proxy", proxy)
        result = CliRunner().invoke(main, command)
    address = proxy.rpartition("@")[2]
    check_command(result, "E-network-failed", LOCATION, f"the proxy {address}: ")
    (line,) = [row for row in result.stderr.splitlines() if row.startswith("error")]
    assert line.endswith("[E-network-failed]")
    assert "secret" not in line
    assert not {"output", "new"} & set(os.listdir(tmp_path))
    started = set(threading.enumerate()) - earlier
    assert all(thread.daemon for thread in started)  # others keep a process alive
