"""Tensors of gRPC messages: checks and reads inputs, writes outputs."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2

from serving.errors import check_rows, invalid
from serving.signatures import Signature, Tensors, TensorSpec

# The field with the values of a NumPy type. TensorFlow Serving fills it instead of
# `tensor_content`: a client may read `outputs["scores"].float_val`.
_FIELDS = {
    **dict.fromkeys(("int8", "uint8", "int16", "uint16", "int32"), "int_val"),
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    "float32": "float_val",
    "float64": "double_val",
    "bool": "bool_val",
    "object": "string_val",
}
# Other types are sent as `tensor_content`.
_INPUT_FIELDS = {**_FIELDS, "float16": "half_val", "bfloat16": "half_val"}

Protos = Mapping[str, tensor_pb2.TensorProto]


def check(inputs: Protos, signature: Signature, max_rows: int) -> None:
    """Refuses invalid inputs before memory is allocated for them.

    `tf.make_ndarray` expands a tensor to the size of its shape, so a request of a few
    bytes could allocate gigabytes.

    Args:
      inputs: The inputs of a request by name.
      signature: The signature that the request names.
      max_rows: Rows that are allowed.

    Raises:
      RequestError: The inputs do not fit the signature or have too many rows.
    """
    signature.check_names(inputs)
    sent = {
        name: (_dtype(tensor), tuple(dim.size for dim in tensor.tensor_shape.dim))
        for name, tensor in inputs.items()
    }
    check_rows(signature.check(sent), max_rows)
    for name, (dtype, shape) in sent.items():
        tensor, expected = inputs[name], math.prod(shape)
        if dtype.name in _INPUT_FIELDS and not tensor.tensor_content:
            values = len(getattr(tensor, _INPUT_FIELDS[dtype.name]))
        else:
            values = len(tensor.tensor_content) // dtype.itemsize
        if expected != values:
            raise invalid(
                name,
                f"the request has {values} values",
                f"{expected}, as its shape requires",
            )


def _dtype(tensor: tensor_pb2.TensorProto) -> np.dtype:
    try:
        return np.dtype(tf.as_dtype(tensor.dtype).as_numpy_dtype)
    except (TypeError, KeyError) as error:
        raise invalid("dtype", f"{tensor.dtype} is not supported") from error


def read(inputs: Protos) -> Tensors:
    """Reads checked inputs.

    Raises:
      RequestError: A tensor has no valid encoding.
    """
    try:
        return {name: tf.make_ndarray(tensor) for name, tensor in inputs.items()}
    except (TypeError, ValueError) as error:
        raise invalid("inputs", f"cannot be decoded: {error}") from error


def write(tensor: np.ndarray, spec: TensorSpec) -> tensor_pb2.TensorProto:
    """Writes an output into the field of its type."""
    field = _FIELDS.get(spec.dtype.name)
    if field is None:
        return tf.make_tensor_proto(tensor)
    proto = tensor_pb2.TensorProto(
        dtype=tf.as_dtype(spec.dtype).as_datatype_enum,
        tensor_shape=tf.TensorShape(tensor.shape).as_proto(),
    )
    getattr(proto, field).extend(tensor.ravel().tolist())
    return proto
