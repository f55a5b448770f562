"""The classify and regress APIs: Examples in, classes or values out.

Rules and error messages are those of TensorFlow Serving's `classifier.cc`,
`regressor.cc` and `json_tensor.cc`, with its check of a signature's method name off, as
it is there unless asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from tensorflow.core.example import example_pb2, feature_pb2
from tensorflow_serving.apis import classification_pb2, input_pb2, regression_pb2

from serving import json_values
from serving.errors import check_rows, invalid
from serving.json_tensors import to_json
from serving.limits import MAX_REQUEST_BYTES
from serving.models import SERVING_DEFAULT, Model
from serving.signatures import Signature, Tensors

INPUTS = "inputs"
_CLASSES = "classes"
_SCORES = "scores"
_OUTPUTS = "outputs"
_RESULTS = "results"
_CONTEXT = "context"
_EXAMPLES = "examples"


def classification_signature(model: Model, name: str) -> Signature:
    """Returns a signature that gives classes, scores or both.

    Args:
      model: The model.
      name: The signature; empty for the default one.

    Raises:
      RequestError: There is none of that name, or it is of another kind.
    """
    signature = _find(model, name)
    if len(signature.outputs) not in (1, 2):
        raise invalid(
            f"Expected one or two output Tensors, found {len(signature.outputs)}"
        )
    if INPUTS not in signature.inputs:
        raise invalid(
            f"No classification inputs found in SignatureDef: {signature.name}"
        )
    if not {_CLASSES, _SCORES} & signature.outputs.keys():
        raise invalid(
            "Expected classification signature outputs to contain at least one of "
            f'"{_CLASSES}" or "{_SCORES}". Signature was: {signature.name}'
        )
    return signature


def regression_signature(model: Model, name: str) -> Signature:
    """Returns a signature that gives one value a row.

    Args:
      model: The model.
      name: The signature; empty for the default one.

    Raises:
      RequestError: There is none of that name, or it is of another kind.
    """
    signature = _find(model, name)
    if len(signature.outputs) != 1:
        raise invalid("Expected one output Tensor.")
    if INPUTS not in signature.inputs:
        raise invalid(f"No regression inputs found in SignatureDef: {signature.name}")
    if _OUTPUTS not in signature.outputs:
        raise invalid(f"No regression outputs found in SignatureDef: {signature.name}")
    return signature


def count(request: input_pb2.Input) -> int:
    """Returns the number of Examples of a request."""
    return len(_list(request).examples)


def serialize(request: input_pb2.Input) -> np.ndarray:
    """Returns the Examples of a request, each with the context, string[rows].

    Raises:
      RequestError: There are none, or the context is too large for their number.
    """
    listed, context = _list(request), b""
    if request.WhichOneof("kind") == "example_list_with_context":
        context = listed.context.SerializeToString()
    if not listed.examples:
        raise invalid("Input is empty")
    if len(context) * len(listed.examples) > MAX_REQUEST_BYTES:
        raise invalid(
            f"A context of {len(context)} bytes, copied to {len(listed.examples)} "
            f"examples, is larger than {MAX_REQUEST_BYTES} bytes. Send the examples in "
            "several requests"
        )
    rows = np.empty(len(listed.examples), object)
    # Messages that are joined are merged: what an Example has itself comes last.
    rows[:] = [context + example.SerializeToString() for example in listed.examples]
    return rows


def read_input(document: dict[str, Any], max_rows: int) -> input_pb2.Input:
    """Reads the Examples of a request in JSON.

    Args:
      document: With `examples`, and maybe `context`, which all of them share.
      max_rows: Examples allowed.

    Raises:
      RequestError: They are not there, too many, or not in form.
    """
    examples = document.get(_EXAMPLES)
    if _EXAMPLES not in document:
        raise json_values.malformed(
            document,
            f"When method is classify, key '{_EXAMPLES}' is expected and was not found",
        )
    if not isinstance(examples, list):
        raise json_values.malformed(
            document, f"Expecting '{_EXAMPLES}' value to be an list/array"
        )
    if not examples:
        raise json_values.malformed(document, f"'{_EXAMPLES}' value is an empty array")
    check_rows(len(examples), max_rows)
    read = [_read_example(example) for example in examples]
    request = input_pb2.Input()
    if _CONTEXT in document:
        listed = request.example_list_with_context
        listed.context.CopyFrom(_read_example(document[_CONTEXT]))
        listed.examples.extend(read)
    else:
        request.example_list.examples.extend(read)
    return request


def read_classes(
    outputs: Tensors, rows: int
) -> classification_pb2.ClassificationResult:
    """Returns labels and scores of each row.

    Args:
      outputs: `classes` string[rows, classes], `scores` float32[rows, classes] or both.
      rows: Number of Examples.

    Raises:
      RequestError: They have another type or shape.
    """
    labels, scores = outputs.get(_CLASSES), outputs.get(_SCORES)
    for name, dtype, kind in ((_CLASSES, object, "STRING"), (_SCORES, "f4", "FLOAT")):
        if name in outputs:
            _check_classes(name, outputs[name], rows, np.dtype(dtype), kind)
    if labels is not None and scores is not None and labels.shape != scores.shape:
        raise invalid(
            "Tensors class and score should match in dim_size(1). Got "
            f"{labels.shape[1]} vs. {scores.shape[1]}"
        )
    result = classification_pb2.ClassificationResult()
    columns = next(outputs[name] for name in (_CLASSES, _SCORES) if name in outputs)
    for row in range(rows):
        classes = result.classifications.add().classes
        for column in range(columns.shape[1]):
            found = classes.add()
            if labels is not None:
                found.label = _decode(labels[row, column])
            if scores is not None:
                found.score = scores[row, column]
    return result


def _decode(label: bytes) -> str:
    try:
        return label.decode()
    except UnicodeDecodeError as error:
        raise invalid(f"Output {_CLASSES} is not UTF-8") from error


def _check_classes(
    name: str, tensor: np.ndarray, rows: int, dtype: np.dtype, kind: str
) -> None:
    if tensor.ndim != 2:
        raise invalid(
            "Expected Tensor shape: [batch_size num_classes] but got "
            f"{list(tensor.shape)}"
        )
    if tensor.dtype != dtype:
        raise invalid(f"Expected {name} Tensor of DT_{kind}. Got: {tensor.dtype}")
    if len(tensor) != rows:
        raise invalid(
            f"Expected {name} output batch size of {rows}. Got: {len(tensor)}"
        )


def read_values(outputs: Tensors, rows: int) -> regression_pb2.RegressionResult:
    """Returns the value of each row.

    Args:
      outputs: `outputs` float32[rows] or float32[rows, 1].
      rows: Number of Examples.

    Raises:
      RequestError: It has another type or shape.
    """
    values = outputs[_OUTPUTS]
    if values.ndim not in (1, 2) or values.shape[1:] not in ((), (1,)):
        raise invalid(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] "
            f"but got {list(values.shape)}"
        )
    if len(values) != rows:
        raise invalid(
            f"Input batch size did not match output batch size: {rows} vs. "
            f"{len(values)}"
        )
    if values.dtype != np.float32:
        raise invalid(f"Expected output Tensor of DT_FLOAT.  Got: {values.dtype}")
    result = regression_pb2.RegressionResult()
    for value in values.ravel():
        result.regressions.add().value = value
    return result


def write_classes(result: classification_pb2.ClassificationResult) -> dict[str, Any]:
    """Returns classes as JSON."""
    rows = []
    for row in result.classifications:
        scores = np.array([each.score for each in row.classes], np.float32)
        labels = [each.label for each in row.classes]
        rows.append(list(map(list, zip(labels, to_json(_SCORES, scores), strict=True))))
    return {_RESULTS: rows}


def write_values(result: regression_pb2.RegressionResult) -> dict[str, Any]:
    """Returns values as JSON."""
    values = np.array([each.value for each in result.regressions], np.float32)
    return {_RESULTS: to_json(_OUTPUTS, values)}


def _list(request: input_pb2.Input) -> Any:
    if request.WhichOneof("kind") == "example_list_with_context":
        return request.example_list_with_context
    return request.example_list


def _find(model: Model, name: str) -> Signature:
    name = name or SERVING_DEFAULT
    if name not in model.signatures:
        raise invalid(f"No signature was found with the name: {name}")
    signature = model.signatures[name]
    if len(signature.inputs) != 1:
        raise invalid("Expected one input Tensor.")
    return signature


def _read_example(value: Any) -> example_pb2.Example:
    if not isinstance(value, dict):
        raise invalid(
            f"Example must be JSON object but got JSON {json_values.type_name(value)}"
        )
    example = example_pb2.Example()
    for name, content in value.items():
        feature = example.features.feature[json_values.encode_text(name).decode()]
        for each in content if isinstance(content, list) else [content]:
            _add_value(feature, name, each)
    return example


def _add_value(feature: feature_pb2.Feature, name: str, value: Any) -> None:
    if isinstance(value, str):
        kind, value = "bytes_list", json_values.encode_text(value)
    elif json_values.is_base64(value):
        kind, value = "bytes_list", json_values.decode_base64(value)
    elif isinstance(value, float):
        largest = np.finfo(np.float32)
        json_values.check_lossless(value, "float", float(largest.max), 24)
        kind = "float_list"
    elif isinstance(value, int):
        kind, value = "int64_list", int(value)
        limits = np.iinfo(np.int64)
        if not limits.min <= value <= limits.max:
            raise invalid(
                f"Feature: {name} has uint64 element. Only int64 is supported."
            )
    else:
        raise invalid(
            f"Feature: {name} has element with unexpected JSON type: "
            f"{json_values.type_name(value)}"
        )
    used = feature.WhichOneof("kind")
    if used not in (None, kind):
        raise invalid(
            f"Unexpected element type in feature: {name} expecting type: "
            f"{used.removesuffix('_list')}"
        )
    getattr(feature, kind).value.append(value)
