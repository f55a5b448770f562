"""Equal constants of a SavedModel's functions, stored once."""

from __future__ import annotations

import collections

from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2

from contracts.storage import files, uris

_FILE = "saved_model.pb"
_LARGE = 100_000  # bytes; a call is not worth it below


def share_constants(directory: str) -> None:
    """Replaces equal large constants by calls of a function that returns one.

    Transform's graph and the signature `tokenize`, which also locates the tokens, have
    the same tables of the tokenizer. A graph that was loaded and one that is traced
    share nothing when they are saved. `fingerprint.pb` keeps the hashes of the graph as
    it was before, which differ between two exports.

    Args:
      directory: Directory of the SavedModel.
    """
    path = uris.join(directory, _FILE)
    model = saved_model_pb2.SavedModel.FromString(files.read(path))
    library = model.meta_graphs[0].graph_def.library
    nodes: dict[bytes, list[node_def_pb2.NodeDef]] = collections.defaultdict(list)
    for function in library.function:
        for node in function.node_def:
            if node.op == "Const" and node.ByteSize() > _LARGE:
                nodes[node.attr["value"].SerializeToString()].append(node)
    for index, equal in enumerate(nodes.values()):
        if len(equal) == 1:
            continue
        function = library.function.add()
        # TensorFlow renames functions of this form when it loads a model.
        function.signature.name = f"__inference_constant_{index}"
        value = function.node_def.add(name="value")
        value.op, data_type = "Const", equal[0].attr["dtype"].type
        for name in ("dtype", "value"):
            value.attr[name].CopyFrom(equal[0].attr[name])
        function.signature.output_arg.add(name="output", type=data_type)
        function.ret["output"] = "value:output:0"
        for node in equal:
            node.op = "PartitionedCall"
            node.ClearField("attr")
            node.attr["Tin"].list.SetInParent()
            node.attr["Tout"].list.type.append(data_type)
            node.attr["f"].func.name = function.signature.name
    files.write(path, model.SerializeToString())
