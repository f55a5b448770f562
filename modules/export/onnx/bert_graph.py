"""BERT's classifier as a graph of ONNX operators, in float32 or int8."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from modules.export.onnx.onnx_file import Graph
from modules.export.pushed_model import PushedModel
from portable.folder import INPUTS, LOGITS

_LARGEST_INT8 = 127


def write(model: PushedModel, path: Path, *, is_int8: bool = False) -> None:
    """Writes a model from token ids to logits.

    Its inputs are `INPUTS`, each int64[batch, seq_len], its output is `logits`
    float32[batch, outputs]. As in the served model, the last layer computes only
    `[CLS]`.

    Args:
      model: The model.
      path: The file.
      is_int8: Whether the weights of matrix products and the word embeddings are int8.
        The operators are those of ONNX Runtime's `quantize_dynamic`: it quantizes the
        inputs of matrix products when the model runs. Each output of a matrix product
        has its own scale, and each word embedding.
    """
    builder = _Builder(model, is_int8)
    shape: list[str | int] = ["batch", len(model.labels)]
    outputs = {LOGITS: (builder.build(), shape)}
    inputs = {name: ["batch", "seq_len"] for name in INPUTS}
    builder.graph.write(path, "bert", inputs, outputs)


class _Builder:
    def __init__(self, model: PushedModel, is_int8: bool) -> None:
        self.graph = Graph()
        self._model = model
        self._is_int8 = is_int8
        self._quantized: dict[str, list[str]] = {}  # by the float value

    def build(self) -> str:
        """Adds all nodes; returns the name of the logits."""
        graph, config = self.graph, self._model.config
        hidden = self._embed()
        mask = graph.add("Cast", "attention_mask", to=1)
        mask = graph.add("Unsqueeze", mask, self._ints("axes_heads", 1, 2))
        mask = graph.add("Sub", self._number("one", 1.0), mask)
        lowest = float(np.finfo(np.float32).min)
        mask = graph.add("Mul", mask, self._number("lowest", lowest))
        layers = config["num_hidden_layers"]
        for index in range(layers):
            name = f"bert.encoder.layer.{index}"
            target = hidden
            if index == layers - 1:  # the head reads [CLS] only
                target = graph.add(
                    "Slice",
                    hidden,
                    *(self._ints(f"int_{number}", number) for number in (0, 1, 1)),
                )
            context = self._attend(f"{name}.attention.self", hidden, target, mask)
            attended = self._dense(f"{name}.attention.output.dense", context)
            hidden = self._normalize(
                f"{name}.attention.output.LayerNorm", graph.add("Add", attended, target)
            )
            inner = self._activate(self._dense(f"{name}.intermediate.dense", hidden))
            inner = self._dense(f"{name}.output.dense", inner)
            hidden = self._normalize(
                f"{name}.output.LayerNorm", graph.add("Add", inner, hidden)
            )
        first = graph.add("Squeeze", hidden, self._ints("int_1", 1))
        pooled = graph.add("Tanh", self._dense("bert.pooler.dense", first))
        return self._dense("classifier", pooled)

    def _embed(self) -> str:
        graph, name = self.graph, "bert.embeddings.{}.weight".format
        shape = graph.add("Shape", INPUTS[0], start=1)
        positions = graph.add(
            "Slice",
            self._weight(name("position_embeddings")),
            self._ints("int_0", 0),
            shape,
        )
        types = graph.add(
            "Gather", self._weight(name("token_type_embeddings")), "token_type_ids"
        )
        words = self._gather(name("word_embeddings"))
        embedded = graph.add("Add", graph.add("Add", words, types), positions)
        return self._normalize("bert.embeddings.LayerNorm", embedded)

    def _gather(self, name: str) -> str:
        """Looks the rows of `input_ids` up."""
        if not self._is_int8:
            return self.graph.add("Gather", self._weight(name), INPUTS[0])
        table, scales = _quantize(self._model.tensors[name])
        rows, row_scales = (
            self.graph.add("Gather", self.graph.constant(part, values), INPUTS[0])
            for part, values in ((f"{name}.int8", table), (f"{name}.scale", scales))
        )
        return self.graph.add("Mul", self.graph.add("Cast", rows, to=1), row_scales)

    def _attend(self, name: str, hidden: str, target: str, mask: str) -> str:
        graph, config = self.graph, self._model.config
        heads = config["num_attention_heads"]
        size = config["hidden_size"] // heads
        by_head = self._ints("by_head", 0, 0, heads, size)

        def split(part: str, states: str, order: list[int]) -> str:
            rows = graph.add("Reshape", self._dense(f"{name}.{part}", states), by_head)
            return graph.add("Transpose", rows, perm=order)

        query = split("query", target, [0, 2, 1, 3])
        key = split("key", hidden, [0, 2, 3, 1])
        value = split("value", hidden, [0, 2, 1, 3])
        scores = graph.add("MatMul", query, key)
        scores = graph.add("Div", scores, self._number("root", math.sqrt(size)))
        probabilities = graph.add("Softmax", graph.add("Add", scores, mask), axis=-1)
        context = graph.add("MatMul", probabilities, value)
        context = graph.add("Transpose", context, perm=[0, 2, 1, 3])
        joined = self._ints("joined", 0, 0, config["hidden_size"])
        return graph.add("Reshape", context, joined)

    def _dense(self, name: str, rows: str) -> str:
        """Multiplies by a kernel and adds a bias."""
        graph, kernel = self.graph, self._model.tensors[f"{name}.weight"]
        bias = self._weight(f"{name}.bias")
        if not self._is_int8:
            # PyTorch's Linear stores [out, in].
            product = graph.add("MatMul", rows, graph.constant(f"{name}.T", kernel.T))
            return graph.add("Add", product, bias)
        if rows not in self._quantized:
            self._quantized[rows] = graph.add_node(
                "DynamicQuantizeLinear", [rows], 3, {}
            )
        quantized, scale, zero_point = self._quantized[rows]
        weights, scales = _quantize(kernel)
        product = graph.add(
            "MatMulInteger",
            quantized,
            graph.constant(f"{name}.int8", weights.T),
            zero_point,
        )
        scale = graph.add("Mul", scale, graph.constant(f"{name}.scale", scales[:, 0]))
        product = graph.add("Mul", graph.add("Cast", product, to=1), scale)
        return graph.add("Add", product, bias)

    def _activate(self, rows: str) -> str:
        graph, name = self.graph, self._model.config["hidden_act"]
        if name == "relu":
            return graph.add("Relu", rows)
        if name == "gelu":
            scaled = graph.add("Div", rows, self._number("root_2", math.sqrt(2)))
            weight = graph.add("Erf", scaled)
        else:  # the approximation
            cube = graph.add("Mul", graph.add("Mul", rows, rows), rows)
            cube = graph.add("Mul", cube, self._number("cubic", 0.044715))
            root = self._number("root_2_over_pi", math.sqrt(2 / math.pi))
            weight = graph.add(
                "Tanh", graph.add("Mul", graph.add("Add", rows, cube), root)
            )
        weight = graph.add("Add", weight, self._number("one", 1.0))
        product = graph.add("Mul", rows, weight)
        return graph.add("Mul", product, self._number("half", 0.5))

    def _normalize(self, name: str, rows: str) -> str:
        scale, bias = (self._weight(f"{name}.{part}") for part in ("weight", "bias"))
        epsilon = float(self._model.config["layer_norm_eps"])
        return self.graph.add(
            "LayerNormalization", rows, scale, bias, axis=-1, epsilon=epsilon
        )

    def _weight(self, name: str) -> str:
        return self.graph.constant(name, self._model.tensors[name])

    def _number(self, name: str, value: float) -> str:
        return self.graph.constant(name, np.array(value, np.float32))

    def _ints(self, name: str, *values: int) -> str:
        return self.graph.constant(name, np.array(values, np.int64))


def _quantize(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantizes each row of float32[rows, columns] with its own scale.

    Returns:
      int8[rows, columns] and the scales, float32[rows, 1].
    """
    scales = np.abs(rows).max(axis=1, keepdims=True) / _LARGEST_INT8
    scales = np.where(scales == 0, 1, scales).astype(np.float32)
    return np.rint(rows / scales).astype(np.int8), scales
