"""What the server knows of a SavedModel, with its signatures as protocol buffers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow_serving.apis import get_model_metadata_pb2

from serving.model_facts import ModelFacts

SignatureDefs = Mapping[str, meta_graph_pb2.SignatureDef]


@dataclasses.dataclass(eq=False, kw_only=True)
class SavedModelFacts(ModelFacts):
    """What the server knows of a SavedModel.

    Attributes:
      signature_defs: The signatures as the metadata API of gRPC returns them.
    """

    signature_defs: SignatureDefs

    def as_dict(self) -> dict[str, Any]:
        """Returns the attributes by name."""
        fields = dataclasses.fields(SavedModelFacts)
        return {field.name: getattr(self, field.name) for field in fields}


def as_json(signature_defs: SignatureDefs) -> dict[str, Any]:
    """Returns signatures as the metadata API of REST returns them."""
    message = get_model_metadata_pb2.SignatureDefMap(signature_def=signature_defs)
    # With default values and the fields' original names. The arguments are positional
    # because protobuf 5 renamed the first one
    # (https://github.com/protocolbuffers/protobuf/commit/26995798757fbfef5cf6648610848e389db1fecf).
    described: dict[str, Any] = json_format.MessageToDict(message, True, True)
    return described
