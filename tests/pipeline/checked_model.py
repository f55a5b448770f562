"""A tiny exported model as a pushed version, and a recipe to check it with."""

import dataclasses
import json
import shutil
from pathlib import Path

import pandas as pd
import yaml

from components.model_checks import registry
from tests.exported import PAIRS

TEXTS = [first for first, _ in PAIRS if first]
OTHER = {"bad": "good", "good": "bad"}
OFF = {name: {"action": "ignore"} for name in registry.find_checks()}
# Beside the recipe; it calls the model and the data in a process of its own.
MODULE = """
from components.model_checks import Check, CheckResult


class Facts(Check):
    title = "Facts"

    def run(self, model, data, settings):
        rows, recorded = data.rows(), model.recorded(data.split)
        right = (recorded.predicted == rows.labels).mean()
        assert data.champion is None
        assert abs(right - data.facts.metrics["accuracy"]) < 1e-9
        return CheckResult(
            status="passed",
            sentence=f"{len(rows)} rows of {data.split}",
            figures={part.name: part.metrics["accuracy"] for part in data.facts.slices},
        )
"""


@dataclasses.dataclass(frozen=True)
class CheckedModel:
    """A pushed version, and a recipe of its task.

    Attributes:
      folder: The folder of the recipe, the data and the versions.
      labels: The class that the model predicts for each of `TEXTS`.
    """

    folder: Path
    labels: list[str]

    @classmethod
    def make(cls, folder, exported):
        """Copies a model of `bad` and `good` sentences; writes recipe and splits."""
        count = len(TEXTS)
        labels = [
            exported.task.classes[index]
            for index in exported.probabilities[:count].argmax(axis=1)
        ]
        shutil.copytree(exported.directory, folder / "versions" / "2")
        (folder / "data").mkdir()
        for split in ("train", "eval", "test"):
            rows = {"sentence": TEXTS, "label": labels, "region": ["n", "n", "s"]}
            pd.DataFrame(rows).to_csv(folder / "data" / f"{split}.csv", index=False)
        (folder / "facts_of_a_test.py").write_text(MODULE)
        checked = cls(folder, labels)
        checked.require(labels)
        checked.write_recipe()
        return checked

    @property
    def version(self):
        return self.folder / "versions" / "2"

    @property
    def recipe(self):
        return self.folder / "recipe.yaml"

    def require(self, labels):
        """Writes the file of required rows, one for each of `TEXTS`."""
        rows = {"sentence": TEXTS, "label": labels}
        pd.DataFrame(rows).to_csv(self.folder / "must_pass.csv", index=False)

    def write_recipe(self, **checks):
        """Writes the recipe; checks that are not named are off."""
        content = {
            "name": "tiny",
            "task": {"text_columns": ["sentence"], "classes": ["bad", "good"]},
            "data": {"source": "data", "slice_columns": ["region"]},
            "encoder": {"source": "unused"},
            "evaluator": {"thresholds": {"accuracy": 0.5}},
            "output": "output",
            "checks": {**OFF, "required_rows": {"file": "must_pass.csv"}, **checks},
        }
        self.recipe.write_text(yaml.safe_dump(content))

    def damage(self):
        """Writes a manifest that the version's graph does not fit."""
        files = {"saved_model.pb": {"size": 1, "sha256": ""}}
        (self.version / "manifest.json").write_text(json.dumps({"files": files}))
