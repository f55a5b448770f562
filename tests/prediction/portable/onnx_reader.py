"""Reads ONNX files by protobuf's own parser, and runs them in NumPy."""

import math

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# Fields of https://github.com/onnx/onnx/blob/v1.12.0/onnx/onnx.proto: number, type (a
# message if it is capitalized) and whether it is repeated.
_FIELDS = {
    "Model": {
        "ir_version": (1, "int64"),
        "producer_name": (2, "string"),
        "graph": (7, "Graph"),
        "opset_import": (8, "Opset", True),
    },
    "Opset": {"domain": (1, "string"), "version": (2, "int64")},
    "Graph": {
        "node": (1, "Node", True),
        "name": (2, "string"),
        "initializer": (5, "Tensor", True),
        "input": (11, "Value", True),
        "output": (12, "Value", True),
    },
    "Node": {
        "input": (1, "string", True),
        "output": (2, "string", True),
        "name": (3, "string"),
        "op_type": (4, "string"),
        "attribute": (5, "Attribute", True),
    },
    "Attribute": {
        "name": (1, "string"),
        "f": (2, "float"),
        "i": (3, "int64"),
        "ints": (8, "int64", True),
        "type": (20, "int32"),
    },
    "Tensor": {
        "dims": (1, "int64", True),
        "data_type": (2, "int32"),
        "name": (8, "string"),
        "raw_data": (9, "bytes"),
    },
    "Value": {"name": (1, "string"), "type": (2, "Type")},
    "Type": {"tensor_type": (1, "TensorType")},
    "TensorType": {"elem_type": (1, "int32"), "shape": (2, "Shape")},
    "Shape": {"dim": (1, "Dimension", True)},
    "Dimension": {"dim_value": (1, "int64"), "dim_param": (2, "string")},
}
_TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64}
_ATTRIBUTES = {1: "f", 2: "i", 7: "ints"}


def read(path):
    """Returns the model, whose messages have the fields above and no other."""
    file = descriptor_pb2.FileDescriptorProto(name="onnx.proto", package="onnx")
    field_type = descriptor_pb2.FieldDescriptorProto
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field, (number, kind, *repeated) in fields.items():
            label = "LABEL_REPEATED" if repeated else "LABEL_OPTIONAL"
            entry = message.field.add(name=field, number=number)
            entry.label = getattr(field_type, label)
            if kind in _FIELDS:
                entry.type = field_type.TYPE_MESSAGE
                entry.type_name = f".onnx.{kind}"
            else:
                entry.type = getattr(field_type, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("onnx.Model")
    model = message_factory.GetMessageClass(descriptor).FromString(path.read_bytes())
    assert model.SerializeToString() == path.read_bytes()  # no unknown fields
    return model


def run(model, feeds):
    """Returns the outputs for the inputs by name, both as arrays."""
    graph = model.graph
    values = dict(feeds) | {
        tensor.name: np.frombuffer(tensor.raw_data, _TYPES[tensor.data_type]).reshape(
            tensor.dims
        )
        for tensor in graph.initializer
    }
    for node in graph.node:
        attributes = {a.name: getattr(a, _ATTRIBUTES[a.type]) for a in node.attribute}
        outputs = _run(node.op_type, [values[name] for name in node.input], attributes)
        outputs = outputs if isinstance(outputs, list) else [outputs]
        values |= dict(zip(node.output, outputs, strict=True))
    return {output.name: values[output.name] for output in graph.output}


def _run(name, inputs, attributes):
    """Runs an operator as https://onnx.ai/onnx/operators defines it."""
    first, *others = inputs
    match name:
        case "Identity":
            return first
        case "Add" | "Sub" | "Mul" | "Div":
            function = {"Sub": np.subtract, "Div": np.divide, "Mul": np.multiply}
            return function.get(name, np.add)(first, others[0])
        case "Cast":
            return first.astype(_TYPES[attributes["to"]])
        case "Unsqueeze":
            return np.expand_dims(first, tuple(others[0]))
        case "Squeeze":
            return np.squeeze(first, tuple(others[0]))
        case "Shape":
            return np.array(first.shape[attributes["start"] :], np.int64)
        case "Slice":
            starts, ends, *axes = others
            (axis,) = axes[0] if axes else [0]
            index = [slice(None)] * axis + [slice(starts[0], ends[0])]
            return first[tuple(index)]
        case "Gather":
            return first[others[0]]
        case "Reshape":
            kept = [n or first.shape[i] for i, n in enumerate(others[0])]
            return first.reshape(kept)
        case "Transpose":
            return first.transpose(attributes["perm"])
        case "MatMul":
            return first @ others[0]
        case "Softmax":
            exponentials = np.exp(first - first.max(-1, keepdims=True))
            return exponentials / exponentials.sum(-1, keepdims=True)
        case "LayerNormalization":
            centered = first - first.mean(-1, keepdims=True)
            variance = (centered**2).mean(-1, keepdims=True)
            normal = centered / np.sqrt(variance + attributes["epsilon"])
            return normal * others[0] + others[1]
        case "Erf":
            return np.vectorize(math.erf, otypes=[np.float32])(first)
        case "Tanh":
            return np.tanh(first)
        case "Relu":
            return np.maximum(first, 0)
        case "DynamicQuantizeLinear":
            low, high = min(first.min(), 0), max(first.max(), 0)
            scale = np.float32((high - low) / 255)
            zero = np.rint(-low / scale)
            quantized = np.clip(np.rint(first / scale) + zero, 0, 255)
            return [quantized.astype(np.uint8), scale, np.uint8(zero)]
        case "MatMulInteger":
            weights, zero = others
            return (first.astype(np.int32) - np.int32(zero)) @ weights.astype(np.int32)
    raise NotImplementedError(name)
