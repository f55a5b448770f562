"""What is fuzzed: for each reader and parser, a function of bytes and its first inputs.

A function returns if the bytes are read or refused. Any other exception is a defect.
"""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from contracts.errors import UsageError
from contracts.settings.data import FileFormat
from ingest.rows.formats import ARROW, CSV, JSONL, PARQUET, TFRECORD, TSV
from ingest.rows.row_errors import RowError
from ingest.rows.row_file import RowFile
from serving import json_requests
from serving.errors import RequestError
from serving.signatures import Signature, TensorSpec

Target = Callable[[bytes], None]

_SIGNATURE = Signature(
    "serving_default",
    inputs={
        name: TensorSpec(np.dtype(dtype), shape)
        for name, dtype, shape in (
            ("count", "int64", (None,)),
            ("flag", "bool", (None,)),
            ("numbers", "float32", (None, 2)),
            ("text", "object", (None,)),
        )
    },
    outputs={"score": TensorSpec(np.dtype("float32"), (None,))},
)
_MAX_ROWS = 64


@functools.cache
def _directory() -> Path:
    # The object is kept, because the directory is deleted with it.
    directory = tempfile.TemporaryDirectory(prefix="fuzz-")
    _kept.append(directory)
    return Path(directory.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def read_file(content: bytes, file_format: FileFormat, suffix: str = "") -> None:
    """Reads a file as training, `predict` and `inspect-data` do."""
    path = _directory() / f"in.{file_format}{suffix}"
    path.write_bytes(content)
    file = RowFile(str(path), file_format)
    for read in (lambda: _drain(file), file.describe_dialect, file.read_columns):
        with contextlib.suppress(UsageError):
            read()


def _drain(file: RowFile) -> None:
    for _, row in file.read():
        if isinstance(row, bytes):
            from ingest.examples import tf_examples  # imports TensorFlow

            with contextlib.suppress(RowError):
                tf_examples.to_row(row)


def read_json_request(content: bytes) -> None:
    """Parses the body of a request over HTTP."""
    with contextlib.suppress(RequestError):
        document = json_requests.parse(content)
        json_requests.signature_name(document)
        inputs = json_requests.read_inputs(document, _SIGNATURE.inputs, _MAX_ROWS)
        _SIGNATURE.check({n: (t.dtype, t.shape) for n, t in inputs.items()})


def read_grpc_request(content: bytes) -> None:
    """Parses a request over gRPC; protobuf itself refuses what is no message."""
    from google.protobuf.message import DecodeError
    from tensorflow_serving.apis.predict_pb2 import PredictRequest

    from serving.saved_models import tensor_protos

    with contextlib.suppress(RequestError, DecodeError):
        request = PredictRequest.FromString(content)
        tensor_protos.check(request.inputs, _SIGNATURE, _MAX_ROWS)
        tensor_protos.read(request.inputs)


def _reader(file_format: FileFormat, suffix: str = "") -> Target:
    return functools.partial(read_file, file_format=file_format, suffix=suffix)


TARGETS: dict[str, Target] = {
    **{name: _reader(name) for name in (CSV, TSV, JSONL, PARQUET, ARROW, TFRECORD)},
    "csv-gz": _reader(CSV, ".gz"),
    "http": read_json_request,
    "grpc": read_grpc_request,
}
_CSV = b'text,label\n"a, ""b""\nc",1\nd,0\n'


def seeds(name: str) -> list[bytes]:
    """Returns the first inputs of a target."""
    rows = pa.table({"text": ["a", "b"], "label": [0, 1], "more": [[1], []]})
    buffer = io.BytesIO()
    if name == PARQUET:
        parquet.write_table(rows, buffer)
    elif name == ARROW:
        with pa.ipc.new_stream(buffer, rows.schema) as writer:
            writer.write_table(rows)
    elif name == TFRECORD:
        import tensorflow as tf

        from ingest.examples import tf_examples

        path = _directory() / "seed.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for row in rows.to_pylist():
                writer.write(tf_examples.from_row(row))
        return [path.read_bytes()]
    elif name == "grpc":
        import tensorflow as tf
        from tensorflow_serving.apis.predict_pb2 import PredictRequest

        request = PredictRequest()
        request.model_spec.name = "model"
        values = {
            "count": np.array([1]),
            "flag": np.array([True]),
            "numbers": np.array([[1, 2]], np.float32),
            "text": np.array([b"a"], object),
        }
        for key, value in values.items():
            request.inputs[key].CopyFrom(tf.make_tensor_proto(value))
        return [request.SerializeToString()]
    texts = {
        CSV: [_CSV, b"\xef\xbb\xbf" + _CSV, b"sep=;\n" + _CSV.replace(b",", b";")],
        TSV: [b'"a"\tb\n"x ""y"""\t1\n', _CSV.replace(b",", b"\t")],
        "csv-gz": [gzip.compress(_CSV, mtime=0)],
        JSONL: [b'{"text": "a", "n": {"b": [1, NaN]}}\n{"text": "\\ud800"}\n'],
        "http": [
            b'{"instances": [{"count": 1, "flag": true, "numbers": [1, 2.5], '
            b'"text": {"b64": "YQ=="}}]}',
            b'{"signature_name": "a", "inputs": {"count": [1], "flag": [false], '
            b'"numbers": [[NaN, -Infinity]], "text": ["a"]}}',
        ],
    }
    return texts.get(name) or [buffer.getvalue()]
