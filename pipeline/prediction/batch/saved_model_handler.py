"""The model on a Beam worker."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from apache_beam.ml.inference import base

from modules import environment, fingerprint
from pipeline.config.errors import UsageError
from pipeline.prediction import predictor
from pipeline.prediction.batch.rows import RowError
from pipeline.prediction.batch.tf_examples import Feature

_TEXT = "serving_default"
_EXAMPLES = "serve_examples"


@dataclasses.dataclass(frozen=True)
class Description:
    """What a SavedModel says of itself, without being loaded.

    Attributes:
      directory: The SavedModel.
      columns: Its text columns, in the alphabet's order.
      features: What `serve_examples` reads of Examples, by name.
      is_score: Whether it predicts a score, and not a class.
    """

    directory: str
    columns: tuple[str, ...]
    features: Mapping[str, Feature]
    is_score: bool


def describe(directory: str) -> Description:
    """Reads what a SavedModel takes and gives.

    Args:
      directory: A SavedModel, local or remote.

    Raises:
      UsageError: It has no signature that takes text.
    """
    from tensorflow.core.protobuf import saved_model_pb2

    with fingerprint.open_file(f"{directory}/saved_model.pb") as file:
        saved = saved_model_pb2.SavedModel.FromString(file.read())
    graph = saved.meta_graphs[0]
    if _TEXT not in graph.signature_def:
        raise UsageError(
            f"--model {directory} has no signature {_TEXT}; give a model that this "
            "pipeline pushed"
        )
    signature = graph.signature_def[_TEXT]
    features: dict[str, Feature] = {}
    if _EXAMPLES in graph.signature_def:
        for function in graph.graph_def.library.function:
            features |= _parsed_features(function)
    return Description(
        directory,
        columns=tuple(sorted(signature.inputs)),
        features=features,
        is_score="score" in signature.outputs,
    )


def _parsed_features(function: Any) -> dict[str, Feature]:
    """Returns the features that a function of a graph parses of Examples."""
    import tensorflow as tf

    nodes = {node.name: node for node in function.node_def}
    found: dict[str, Feature] = {}
    for node in function.node_def:
        if node.op != "ParseExampleV2":
            continue
        # Its inputs: serialized, names, sparse_keys, dense_keys, ragged_keys, defaults.
        sparse, dense = (
            tf.make_ndarray(nodes[name.split(":")[0]].attr["value"].tensor).tolist()
            for name in node.input[2:4]
        )
        sparse_types = node.attr["sparse_types"].list.type
        for key, dtype in zip(sparse, sparse_types, strict=True):
            found[key.decode()] = Feature(tf.as_dtype(dtype).name)
        shapes = node.attr["dense_shapes"].list.shape
        for key, dtype, shape in zip(
            dense, node.attr["Tdense"].list.type, shapes, strict=True
        ):
            size = tf.TensorShape(shape).num_elements()
            found[key.decode()] = Feature(tf.as_dtype(dtype).name, size)
    return found


class SavedModelHandler(base.ModelHandler):
    """Loads a SavedModel once a process, and asks it by the batch.

    An example is the texts of a row in the order of `columns`, or a serialized
    `tf.Example`. Its inference is the columns of its prediction, or a `RowError`.
    """

    def __init__(self, model: Description, *, batch_rows: int, takes_examples: bool):
        """Keeps what a worker needs to load the model.

        Args:
          model: The model.
          batch_rows: Rows that are predicted at a time.
          takes_examples: Whether examples are serialized, and not texts.
        """
        super().__init__(min_batch_size=batch_rows, max_batch_size=batch_rows)
        self._model = model
        self._takes_examples = takes_examples

    def load_model(self) -> predictor.Predictor:
        """Loads the model; Beam keeps it for all threads of the process."""
        environment.set_up(quiet=True)
        return predictor.Predictor(self._model.directory)

    def run_inference(
        self,
        batch: Sequence[Any],
        model: predictor.Predictor,
        inference_args: dict[str, Any] | None = None,
    ) -> Iterable[dict[str, Any] | RowError]:
        """Predicts a batch; a row that the model fails at loses no other.

        Args:
          batch: Texts, or serialized Examples.
          model: What `load_model` gave.
          inference_args: Nothing of ours.
        """
        import tensorflow as tf

        try:
            found = self._predict(batch, model)
        except tf.errors.InvalidArgumentError as error:
            if len(batch) == 1:
                return [RowError(f"the model fails: {str(error)[:200]}")]
            half = len(batch) // 2
            return [
                *self.run_inference(batch[:half], model),
                *self.run_inference(batch[half:], model),
            ]
        return [predictor.as_columns(each) for each in found]

    def _predict(
        self, batch: Sequence[Any], model: predictor.Predictor
    ) -> list[predictor.Prediction]:
        if self._takes_examples:
            return model.predict_examples(batch)
        order = [self._model.columns.index(column) for column in model.columns]
        return model.predict_batch([tuple(row[i] for i in order) for row in batch])
