"""Rows and models in memory, on which a test runs a check without its process."""

import dataclasses

import numpy as np

from components.model_checks.check import Data, Facts, Model, Rows
from contracts.task.definition import TaskConfig
from modules.evaluation.prediction_files import RecordedPredictions

TASK = TaskConfig(text_columns=["text"], classes=["bad", "good"])


@dataclasses.dataclass
class Toy:
    """A task, its rows and its models.

    Attributes:
      rows: By split, (texts, label) or (texts, label, slices) of each row; the id is
        the row's index. Texts are a string, or a tuple of a pair.
      models: By name, a function from a list of tuples of texts to an array of outputs.
      thresholds: Of models.
      versions: (OlderVersion, threshold), as `Data.older_versions` has them.
      facts: Other `Facts`.
      calls: The calls of the component, as (method, arguments).
    """

    task: TaskConfig = TASK
    rows: dict = dataclasses.field(default_factory=dict)
    models: dict = dataclasses.field(default_factory=dict)
    thresholds: dict = dataclasses.field(default_factory=dict)
    versions: list = dataclasses.field(default_factory=list)
    facts: dict = dataclasses.field(default_factory=dict)
    calls: list = dataclasses.field(default_factory=list)

    def run(self, check, **settings):
        """Runs a check; returns its result."""
        thresholds = {name: self.thresholds.get(name) for name in self.models}
        thresholds.setdefault("candidate", None)
        defaults = {
            "split": "eval",
            "significance": 0.05,
            "metrics": {},
            "slices": [],
            "not_compared": "",
            "splitting": None,
        }
        facts = Facts(
            task=self.task, thresholds=thresholds, **{**defaults, **self.facts}
        )
        model = Model("candidate", self.task, thresholds["candidate"], self.call)
        section = check.Settings.model_validate(settings)
        return check.run(model, Data(facts, self.call), section)

    def call(self, method, *arguments):
        self.calls.append((method, arguments))
        return getattr(self, f"_{method}")(*arguments)

    def _rows(self, split, most):
        chosen = [(*row, {})[:3] for row in self.rows[split]][:most]
        features = {name for *_, slices in chosen for name in slices}
        return Rows(
            split,
            most,
            np.arange(len(chosen)),
            np.array([label for _, label, _ in chosen]),
            [_texts(texts) for texts, *_ in chosen],
            {name: [slices[name] for *_, slices in chosen] for name in features},
        )

    def _outputs(self, name, texts):
        return np.asarray(self.models[name](texts), float)

    def _outputs_of_rows(self, name, split, most):
        return self._outputs(name, self._rows(split, most).texts)

    def _recorded(self, split):
        rows = self._rows(split, None)
        outputs = self._outputs("candidate", rows.texts)
        threshold = self.thresholds.get("candidate")
        predicted = self.task.label_kind.predict(outputs, threshold).astype(float)
        return RecordedPredictions(rows.ids, rows.labels, outputs, predicted)

    def _tokens(self, name, texts):
        """A token is a word; a row is cut to four words of each text."""
        counts = np.array([[len(text.split()) for text in row] for row in texts])
        return np.minimum(counts, 4), np.maximum(counts - 4, 0)

    def _time_in_turn(self, runs):
        """A request takes a millisecond for each character, twice for the champion."""
        return {
            key: [
                (2 if name == "champion" else 1) * len("".join(texts)) / 1000
                for texts in rows
            ]
            for key, (name, rows) in runs.items()
        }

    def _older_versions(self, most):
        return self.versions[:most]


def _texts(texts):
    return (texts,) if isinstance(texts, str) else tuple(texts)


def by_word(word, *, column=0):
    """Returns a model that predicts the second of two classes if a word is there."""

    def predict(texts):
        has = np.array([word in row[column].lower().split() for row in texts])
        second = np.where(has, 0.9, 0.2)
        return np.stack([1 - second, second], axis=1)

    return predict
