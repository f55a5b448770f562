"""What checks can call: rows, predictions and models, in the component's process."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from components.examples import (
    read_column,
    read_id,
    read_labels,
    read_records,
    read_values,
    sample_records,
)
from components.model_checks.check import (
    Facts,
    NotApplicable,
    OlderVersion,
    Rows,
    Texts,
)
from components.serving_check.model_process import (
    CANDIDATE,
    ModelError,
    ModelProcess,
    take_process,
)
from components.serving_check.rows import encode
from contracts.metrics import Threshold
from contracts.records.evaluation import Evaluation
from contracts.settings.sections import Sections
from contracts.storage import uris
from contracts.task.definition import TOKENIZED_FEATURES, TRAIN_SPLIT
from contracts.versions import exported_model, served_versions
from modules.data import slice_columns, slicing
from modules.evaluation import prediction_files
from modules.evaluation.prediction_files import RecordedPredictions

CHAMPION = "champion"
_BATCH = 256  # rows of a request


class Host:
    """The data and the models of a run.

    Use it as a context manager.

    Args:
      settings: The task, the split that decides, and the limits of the process.
      facts: What checks know before they run.
      patterns: The files of each split, TFRecords of Examples.
      models: Directories of SavedModels by name: the candidate and the champion.
      model_run: Directory of the `ModelRun`; None without one.
      pushed: Directory of the pushed versions; None without one.
      identity: `exported_model.identity` of the candidate, whose copies are no older
        versions.
      unserved: Why the candidate cannot be called; empty if it can.

    Attributes:
      facts: See above.
      problem: The first output of the candidate that cannot be used; empty without one.
      has_failed: Whether a model has failed, which may depend on the machine.
    """

    def __init__(
        self,
        settings: Sections,
        facts: Facts,
        patterns: Mapping[str, str],
        models: Mapping[str, str],
        *,
        model_run: str | None = None,
        pushed: str | None = None,
        identity: str = "",
        unserved: str = "",
    ) -> None:
        self.facts = facts
        self.problem = ""
        self.has_failed = False
        self._settings = settings
        self._patterns = patterns
        self._paths = dict(models)
        self._model_run = model_run
        self._pushed = pushed
        self._identity = identity
        self._unserved = unserved
        self._stack = contextlib.ExitStack()
        self._process: ModelProcess | None = None
        self._seconds, self._setting, self._start = 0.0, "", 0.0
        self._records: dict[tuple[str, int | None], list[bytes]] = {}
        self._recorded: dict[str, RecordedPredictions] = {}
        self._predicted: dict[tuple[str, Texts], Any] = {}

    def __enter__(self) -> Host:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def limit(self, seconds: float, setting: str) -> None:
        """Sets how long all following calls may take together; see `ModelProcess`."""
        self._seconds, self._setting = seconds, setting
        self._start = time.monotonic()

    def call(self, method: str, *arguments: Any) -> Any:
        """Calls a method for a check.

        Raises:
          NotApplicable: The candidate cannot be called.
          RuntimeError: A model fails, or an output is not finite.
        """
        methods: dict[str, Callable[..., Any]] = {
            "rows": self.rows,
            "recorded": self.recorded,
            "outputs": self.outputs,
            "outputs_of_rows": self.outputs_of_rows,
            "tokens": self.tokens,
            "time_in_turn": self.time_in_turn,
            "older_versions": self.older_versions,
        }
        try:
            return methods[method](*arguments)
        except ModelError as error:
            self._stack.close()  # a process that was killed
            self._process = None
            self.has_failed = True
            raise RuntimeError(str(error)) from error

    # --- Data. ---

    def rows(self, split: str, most: int | None) -> Rows:
        """Returns rows of a split; see `Data.rows`."""
        task = self._settings.task
        records = self._read(split, most)
        parsed = list(map(tf.train.Example.FromString, records))
        slices = {} if split == TRAIN_SPLIT else dict(self._slice(parsed))
        return Rows(
            split=split,
            most=most,
            ids=np.array([read_id(row, task.id_column) for row in parsed], np.int64),
            labels=read_labels(records, task),
            texts=[self._texts(row) for row in parsed],
            slices=slices,
            weights=read_column(records, task.weight_column)
            if task.weight_column
            else None,
        )

    def recorded(self, split: str) -> RecordedPredictions:
        """Returns the candidate's predictions of a split."""
        if split not in self._recorded:
            self._recorded[split] = self._predict_split(split)
        return self._recorded[split]

    def _predict_split(self, split: str) -> RecordedPredictions:
        task = self._settings.task
        if self._model_run is not None:
            return prediction_files.read_predictions(self._model_run, task, split)
        rows = self.rows(split, None)
        outputs = self.outputs_of_rows(CANDIDATE, split, None)
        threshold = self.facts.thresholds[CANDIDATE]
        predicted = task.label_kind.predict(outputs, threshold).astype(float)
        return RecordedPredictions(rows.ids, rows.labels, outputs, predicted)

    def _read(self, split: str, most: int | None) -> list[bytes]:
        key = (split, most)
        if key not in self._records:
            if split not in self._patterns:
                raise RuntimeError(
                    f"the data have no split {split!r}: {', '.join(self._patterns)}"
                )
            pattern = self._patterns[split]
            self._records[key] = (
                list(read_records(pattern))
                if most is None
                else sample_records(pattern, most)
            )
        return self._records[key]

    def _texts(self, row: tf.train.Example) -> Texts:
        task = self._settings.task
        if not task.is_tokenized:
            return tuple(
                b"".join(read_values(row, name)).decode("utf-8", "surrogateescape")
                for name in task.text_columns
            )
        columns = (read_values(row, name) for name in TOKENIZED_FEATURES)
        tokens = [(i, s) for i, mask, s in zip(*columns, strict=True) if mask]
        return tuple(
            " ".join(str(token) for token, segment in tokens if segment == index)
            for index in range(len(task.text_columns))
        )

    def _slice(
        self, rows: Sequence[tf.train.Example]
    ) -> Iterator[tuple[str, list[str]]]:
        """Yields each feature that an evaluation is sliced by, with its values."""
        task = self._settings.task
        if task.is_tokenized:
            _, mask, _ = TOKENIZED_FEATURES
            lengths = [sum(read_values(row, mask)) for row in rows]
            features = slicing.slice_tokens(
                tf.RaggedTensor.from_row_lengths(tf.zeros(sum(lengths)), lengths)
            )
        else:
            features = slicing.slice_texts(
                *(
                    tf.constant([b"".join(read_values(row, name)) for row in rows])
                    for name in task.text_columns
                )
            )
        for name, values in features.items():
            yield task.own_name(name), [value.decode() for value in values.numpy()]
        for column in self._settings.data.slice_columns:
            yield column, [slice_columns.read_value(row, column) for row in rows]

    # --- Models. ---

    def outputs(self, name: str, texts: Sequence[Texts]) -> np.ndarray:
        """Returns the outputs of texts; each is predicted once."""
        columns = self._settings.task.text_columns
        for row in texts:
            if len(row) != len(columns):
                raise RuntimeError(
                    f"a row has {len(row)} texts, but the model reads "
                    f"{', '.join(columns)}"
                )
        missing = [
            row for row in dict.fromkeys(texts) if (name, row) not in self._predicted
        ]
        signature, inputs = exported_model.SERVING_DEFAULT, self._inputs(missing)
        outputs = self._predict(name, signature, inputs)
        self._predicted.update(
            ((name, row), output) for row, output in zip(missing, outputs, strict=True)
        )
        return np.array([self._predicted[name, row] for row in texts], float)

    def outputs_of_rows(self, name: str, split: str, most: int | None) -> np.ndarray:
        """Returns the outputs of rows of a split, which are sent as Examples."""
        inputs = {exported_model.EXAMPLES: [*map(encode, self._read(split, most))]}
        outputs = self._predict(name, exported_model.SERVE_EXAMPLES, inputs)
        return np.array(outputs, float)

    def tokens(
        self, name: str, texts: Sequence[Texts]
    ) -> tuple[list[list[int]], list[list[int]]]:
        """Returns how many tokens of each text a model reads, and how many are cut."""
        columns, signature = self._settings.task.text_columns, exported_model.TOKENIZE
        outputs = [exported_model.COLUMN, exported_model.CUT]
        read, cut = [], []
        for values in self._call(name, signature, self._inputs(texts), outputs):
            cut += values[exported_model.CUT]
            read += [
                [row.count(index) for index in range(len(columns))]
                for row in values[exported_model.COLUMN]
            ]
        return read, cut

    def time_in_turn(
        self, runs: Mapping[str, tuple[str, Sequence[Texts]]]
    ) -> dict[str, list[float]]:
        """Times requests with one row of several models or rows, in turn."""
        sent = {
            key: {
                "model": name,
                "signature": exported_model.SERVING_DEFAULT,
                "inputs": self._inputs(rows),
                "outputs": [self._settings.task.label_kind.output],
            }
            for key, (name, rows) in runs.items()
        }
        processes = [self._load(name) for name, _ in runs.values()]
        calls = processes[0].call("timing requests", "call_in_turn", runs=sent)
        return {key: [call["seconds"] for call in calls[key]] for key in calls}

    def older_versions(self, most: int) -> list[tuple[OlderVersion, Threshold]]:
        """Returns the newest pushed versions that are not the candidate."""
        if self._pushed is None:
            return []
        others = served_versions.list_others(self._pushed, self._identity)
        described: list[tuple[OlderVersion, Threshold]] = []
        for version in itertools.islice(others, most):
            path = uris.join(self._pushed, version)
            self._paths[version] = path
            pushed = served_versions.numbered_time(version)
            if pushed is None and uris.is_local(path):
                pushed = served_versions.push_time(path)
            evaluation, problem, threshold = None, "", None
            try:
                if recorded := served_versions.read_evaluation(path):
                    evaluation = Evaluation.model_validate(recorded)
                served_versions.verify(path)
                expected = exported_model.describe_task(self._settings.task)
                difference = exported_model.find_task_difference(path, expected)
                problem = difference and f"another task: {difference}"
                threshold = read_threshold(path)
            except served_versions.VersionError as error:
                problem = error.sentence()
            except (OSError, ValueError, tf.errors.OpError) as error:
                problem = f"{type(error).__name__}: {error}"
            older = OlderVersion(version, pushed, evaluation, problem, None)
            described.append((older, threshold))
        return described

    def start(self) -> ModelProcess:
        """Starts the process of the models, if it does not run."""
        if self._process is None:
            model = self._paths.get(CANDIDATE, "")
            limits = self._settings.serving
            self._process = take_process(model, limits, self._stack)
        return self._process

    def _load(self, name: str) -> ModelProcess:
        """Returns the process, with a model loaded."""
        if name == CANDIDATE and self._unserved:
            raise NotApplicable(self._unserved)
        process = self.start()
        process.limit(self._seconds, self._setting, self._start)
        if name not in process.loaded:
            # The memory of the process is limited.
            for other in {*process.loaded} - {CANDIDATE, CHAMPION}:
                process.unload(other)
            process.load(name, self._paths[name])
        return process

    def _inputs(self, texts: Sequence[Texts]) -> dict[str, list[Any]]:
        """Returns texts by column as `probe` reads them."""
        return {
            column: [_encode_text(row[index]) for row in texts]
            for index, column in enumerate(self._settings.task.text_columns)
        }

    def _call(
        self,
        name: str,
        signature: str,
        inputs: Mapping[str, list[Any]],
        outputs: Sequence[str],
    ) -> Iterator[dict[str, Any]]:
        """Yields the outputs of each batch."""
        count = len(next(iter(inputs.values())))
        for start in range(0, count, _BATCH):
            rows = slice(start, start + _BATCH)
            returned = self._load(name).call(
                f"calling {signature} of the {name}",
                model=name,
                signature=signature,
                inputs={column: values[rows] for column, values in inputs.items()},
                outputs=list(outputs),
            )
            yield returned["values"]

    def _predict(
        self, name: str, signature: str, inputs: Mapping[str, list[Any]]
    ) -> list[Any]:
        """Returns the output that is evaluated, of each row."""
        output = self._settings.task.label_kind.output
        calls = self._call(name, signature, inputs, [output])
        outputs = [row for values in calls for row in values[output]]
        if bad := sum(not np.isfinite(row).all() for row in outputs):
            problem = (
                f"output {output!r} of the {name} is not finite in {bad} of "
                f"{len(outputs)} rows"
            )
            if name == CANDIDATE:
                self.problem = self.problem or problem
            raise RuntimeError(problem)
        return outputs


def read_threshold(model: str) -> Threshold:
    """Returns the exported threshold of a model, as in `metrics.Rows.of`."""
    description = exported_model.read_description(model) or {}
    return description.get(exported_model.THRESHOLD)


def _encode_text(text: str) -> str | dict[str, str]:
    """Returns a text as `probe` reads it; surrogates are bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return encode(text.encode("utf-8", "surrogateescape"))
    return text
