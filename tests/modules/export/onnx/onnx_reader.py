"""Reads ONNX files by protobuf's own parser."""

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
