"""A portable model: texts in, the outputs of the exported graph out."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
from onnxruntime.capi import onnxruntime_pybind11_state as onnx_errors

from contracts.errors import UsageError
from contracts.packing import Packing
from contracts.versions import exported_model
from portable import folder, packing
from portable.folder import INPUTS, LOGITS, ONNX_FILE
from portable.packing import Packed
from portable.tokenizer import SPECIAL_TOKENS, Text, Tokens

# Rows of similar length are computed together: less padding, and less memory.
ROWS_AT_A_TIME = 8
_NOWHERE = -1  # the column and position of special tokens and padding

# They have no base class of their own.
_ERRORS: tuple[type[Exception], ...] = (
    RuntimeError,
    *(
        kind
        for kind in vars(onnx_errors).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ),
)

Outputs = dict[str, np.ndarray]


class PortableModel:
    """A model in ONNX Runtime, with its tokenizer.

    It may be used by several threads at a time.

    Args:
      directory: A portable folder.
      file: The ONNX file.
      threads: Threads of an operator; None takes one a core.

    Attributes:
      description: What the model predicts, and how.

    Raises:
      UsageError: The folder is incomplete or damaged, of another format, or needs a
        later ONNX Runtime.
    """

    def __init__(
        self,
        directory: str,
        *,
        file: str = ONNX_FILE,
        threads: int | None = None,
    ) -> None:
        self.description = folder.read_description(directory)
        path = folder.check_weights(directory, file)
        self._tokenizer = folder.read_tokenizer(directory, self.description)
        self._kind = self.description.label_kind
        self._names = np.array([name.encode() for name in self._kind.names], object)
        self._session = _open(path, threads, self.description.opset)
        self._path = path
        self._check_session()

    def predict(self, texts: Sequence[Sequence[Text]]) -> Outputs:
        """Predicts rows, as the signature `serving_default` of the pushed model does.

        Args:
          texts: A row for each text column, in the order of the task.

        Returns:
          `logits` and `probabilities` float32[rows, classes], `class_id` int64[rows]
          and `class` object[rows] of bytes, or `labels` int64[rows, classes] of several
          labels; of a regression only `score` float32[rows].
        """
        return self._to_outputs(self.compute_logits(texts))

    def predict_packed(self, rows: Sequence[Packed]) -> Outputs:
        """Predicts rows that are packed; see `predict`. Windows are not pooled."""
        return self._to_outputs(self._run(rows))

    def compute_logits(self, texts: Sequence[Sequence[Text]]) -> np.ndarray:
        """Returns the logits of rows, float32[rows, outputs]; see `predict`."""
        rows = self._pack(texts, self.description.packing)
        windows = [window for row in rows for window in row]
        logits = self._run(windows)
        if self.description.packing.long_text is None:
            return logits
        is_mean = self.description.packing.long_text.pool == "mean"
        pool: Callable[..., Any] = np.mean if is_mean else np.max
        ends = np.cumsum([len(row) for row in rows])
        parts = np.split(logits, ends[:-1]) if rows else []
        pooled = [pool(part, axis=0) for part in parts]
        return np.array(pooled, np.float32).reshape(len(rows), self._kind.outputs)

    def find_tokens(self, texts: Sequence[Sequence[Text]]) -> Outputs:
        """Tokenizes and packs rows, and locates the tokens.

        Args:
          texts: As for `predict`. A text that the model reads in windows is packed as a
            whole.

        Returns:
          The outputs of `modules.export.serving_model.find_tokens`.
        """
        columns = [self._tokenizer.tokenize_with_offsets(column) for column in texts]
        special = [_Token(name.encode()) for name in SPECIAL_TOKENS]
        rows: list[list[_Token]] = []
        cut = []
        for row in zip(*columns, strict=True):
            # The tokens are packed by their positions, special ones from the end.
            counts = [len(text.ids) for text in row]
            positions = iter(range(sum(counts)))
            (packed,) = packing.pack(
                [list(itertools.islice(positions, count)) for count in counts],
                self.description.packing.whole,
                special_token_ids=(-2, -1),
                type_vocab_size=2,
            )
            kept = [0] * len(row)
            rows.append([])
            for position in packed.ids:
                if position < 0:
                    rows[-1].append(special[position])
                    continue
                column = int(position >= counts[0])
                rows[-1].append(
                    self._describe(row[column], position - column * counts[0], column)
                )
                kept[column] += 1
            cut.append([count - left for count, left in zip(counts, kept, strict=True)])
        longest = max(map(len, rows), default=0)
        padded = [row + [_Token(b"")] * (longest - len(row)) for row in rows]
        shape = len(rows), longest
        return {
            exported_model.TOKEN: np.array(
                [token.token for row in padded for token in row], object
            ).reshape(shape),
            **{
                name: np.array(
                    [getattr(token, name) for row in padded for token in row], np.int64
                ).reshape(shape)
                for name in (
                    exported_model.COLUMN,
                    exported_model.START,
                    exported_model.END,
                )
            },
            exported_model.CUT: np.array(cut, np.int64).reshape(len(rows), len(texts)),
        }

    def _describe(self, text: Tokens, index: int, column: int) -> _Token:
        token = self._tokenizer.token_of(text.ids[index]).encode()
        return _Token(token, column, text.starts[index], text.ends[index])

    def _to_outputs(self, logits: np.ndarray) -> Outputs:
        if not self._kind.names:
            return {exported_model.SCORE: logits[:, 0]}
        probabilities = self._kind.from_logits(logits, self.description.temperature)
        probabilities = probabilities.astype(np.float32)
        outputs = {
            exported_model.LOGITS: logits,
            exported_model.PROBABILITIES: probabilities,
        }
        threshold = self.description.threshold
        if self._kind.has_flags:
            predicted = self._kind.predict(probabilities, threshold)
            return {**outputs, exported_model.LABELS: predicted}
        ids = (
            # As the graph: rounding may make two probabilities equal.
            np.argmax(logits, axis=1)
            if threshold is None
            else self._kind.predict(probabilities, threshold).astype(np.int64)
        )
        return {
            **outputs,
            exported_model.CLASS_ID: ids,
            exported_model.CLASS: self._names[ids],
        }

    def _pack(
        self, texts: Sequence[Sequence[Text]], settings: Packing
    ) -> list[list[Packed]]:
        columns = [self._tokenizer.tokenize(column) for column in texts]
        return [
            packing.pack(
                row,
                settings,
                special_token_ids=self._tokenizer.special_token_ids,
                type_vocab_size=self.description.type_vocab_size,
            )
            for row in zip(*columns, strict=True)
        ]

    def _run(self, rows: Sequence[Packed]) -> np.ndarray:
        """Returns the logits of packed rows, float32[rows, outputs]."""
        logits = np.empty((len(rows), self._kind.outputs), np.float32)
        order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
        for start in range(0, len(order), ROWS_AT_A_TIME):
            chunk = order[start : start + ROWS_AT_A_TIME]
            inputs = packing.pad([rows[index] for index in chunk])
            feeds = dict(zip(INPUTS, inputs, strict=True))
            logits[chunk] = self._run_session(feeds)
        return logits

    def _run_session(self, feeds: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the logits of rows of one length.

        Raises:
          UsageError: The file has fewer tokens or positions than the folder says, or
            returns another shape than it says.
        """
        expected = len(feeds[INPUTS[0]]), self._kind.outputs
        problem = ""
        try:
            (logits,) = self._session.run([LOGITS], feeds)
        except _ERRORS as error:
            problem = str(error).splitlines()[0]
        else:
            if logits.shape == expected:
                return logits
            problem = f"the logits have the shape {logits.shape} instead of {expected}"
        raise UsageError(
            "model",
            f"{self._path} cannot be run: {problem}",
            advice="export the model again",
            name="E-model-damaged",
        )

    def _check_session(self) -> None:
        """Refuses an ONNX file of another kind of model."""
        inputs = {node.name: node.type for node in self._session.get_inputs()}
        nodes = self._session.get_outputs()
        outputs = {node.name: node.shape[1:] for node in nodes}
        if (
            inputs != dict.fromkeys(INPUTS, "tensor(int64)")
            or outputs != {LOGITS: [self._kind.outputs]}
            or nodes[0].type != "tensor(float)"
        ):
            raise UsageError(
                "model",
                f"{self._path} has the inputs {list(inputs)} and the outputs {outputs}",
                f"the inputs {', '.join(INPUTS)} and {LOGITS} of "
                f"{self._kind.outputs} values, as {exported_model.PORTABLE_FILE} says",
                "export the model again",
                name="E-model-damaged",
            )


class _Token(NamedTuple):
    """A packed token; its fields have the names of the outputs."""

    token: bytes
    column: int = _NOWHERE
    start: int = _NOWHERE
    end: int = _NOWHERE


def _open(path: str, threads: int | None, opset: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    if threads is None and hasattr(os, "sched_getaffinity"):  # on Linux
        threads = len(os.sched_getaffinity(0))
    options.intra_op_num_threads = threads or 0  # 0: ONNX Runtime chooses
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # of fatal errors: others are raised
    try:
        return onnxruntime.InferenceSession(
            path, options, providers=["CPUExecutionProvider"]
        )
    except _ERRORS as error:
        raise UsageError(
            "model",
            f"ONNX Runtime {onnxruntime.__version__} cannot load {path}, whose "
            f"operators have version {opset}: {str(error).splitlines()[0]}",
            advice="install a later onnxruntime, or export the model again",
            name="E-model-damaged",
        ) from error
