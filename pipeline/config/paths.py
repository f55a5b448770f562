"""Where a run writes its files."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config.recipe import Config

_FINGERPRINT_DIGITS = 16  # in a path
DEFAULT_OUTPUT = Path("output")  # a directory for each recipe
REPOSITORY = Path(__file__).resolve().parents[2]
JOB_SERVERS = REPOSITORY / "build" / "job-servers"  # `make job-servers`
DEFAULT_CONFIG = REPOSITORY / "configs" / "sample.yaml"
CONFIG_VARIABLE = "BERT_PIPELINE_CONFIG"  # names another recipe for `*_runner.py`


@dataclasses.dataclass(frozen=True)
class OutputPaths:
    """Paths below the output directory of a run on this machine."""

    root: Path
    name: str

    @classmethod
    def of(cls, config: Config) -> OutputPaths:
        """Returns the paths of a configuration; `output/NAME` by default."""
        root = Path(config.output or DEFAULT_OUTPUT / config.name)
        return cls.at(root, config.name)

    @classmethod
    def at(cls, root: str | Path, name: str) -> OutputPaths:
        """Returns the paths below a directory, whose path may contain `..`."""
        return cls(Path(os.path.abspath(root)), name)

    @property
    def metadata(self) -> Path:
        """ML Metadata: the lineage of every artifact, in SQLite."""
        return self.root / "metadata.sqlite"

    @property
    def artifacts(self) -> Path:
        """The pipeline root: statistics, training records, models, evaluations."""
        return self.root / "artifacts"

    @property
    def serving(self) -> Path:
        """The directories of pushed versions, one per recipe."""
        return self.root / "serving"

    @property
    def pushed(self) -> Path:
        """Directory of versions that a model server watches."""
        return self.serving / self.name

    def examples(self, fingerprint: str) -> Path:
        """TFRecords that were made from text, by the text's fingerprint."""
        return self.root / "examples" / fingerprint[:_FINGERPRINT_DIGITS]

    def encoder(self, fingerprint: str) -> Path:
        """An imported encoder, by the fingerprint of its source."""
        return self.root / "encoders" / fingerprint[:_FINGERPRINT_DIGITS]

    def schema(self, fingerprint: str) -> Path:
        """The enforced schema, by its fingerprint: a changed one misses the cache."""
        directory = self.root / "schema" / fingerprint[:_FINGERPRINT_DIGITS]
        return directory / "schema.pbtxt"

    def labelled_rows(self, fingerprint: str) -> Path:
        """The rows of a file of labelled rows, by their fingerprint."""
        return self.root / "labelled_rows" / fingerprint[:_FINGERPRINT_DIGITS]

    @property
    def training(self) -> Path:
        """Checkpoints to resume from, and the best weights of finished trainings."""
        return self.root / "training"

    @property
    def profiles(self) -> Path:
        """Counts of the labels and lengths of each span, one file per span."""
        return self.root / "profiles"

    @property
    def directories(self) -> list[Path]:
        """The directories below `root` that a run writes to."""
        prepared = [self.examples(""), self.encoder(""), self.schema("").parent]
        prepared.append(self.labelled_rows(""))
        outputs = [self.artifacts, self.pushed, self.training, self.profiles, self.runs]
        return [*prepared, *outputs]

    @property
    def lock(self) -> Path:
        """Lock file of the run that writes here."""
        return self.root / "run.lock"

    @property
    def commits(self) -> Path:
        """The commits of the run that writes here.

        AtomicPusher gets the path, so that another commit reruns no component.
        """
        return self.root / "commits.json"

    @property
    def runs(self) -> Path:
        """The records of the runs, one directory per run."""
        return self.root / "runs"

    def run(self, run_id: str) -> Path:
        """The record of one run: its configuration and its log."""
        return self.runs / run_id


@dataclasses.dataclass(frozen=True)
class OrchestratorPaths:
    """Paths below the pipeline root of an orchestrator, besides the artifacts."""

    root: str
    name: str

    @property
    def training(self) -> str:
        """Checkpoints to resume from, one directory per checkpoint key."""
        return f"{self.root}/training"

    @property
    def pushed(self) -> str:
        """Directory of versions that a model server watches."""
        return f"{self.root}/serving/{self.name}"

    @property
    def profiles(self) -> str:
        """Profiles of the training splits of spans, one file per span."""
        return f"{self.root}/profiles/{self.name}"

    @property
    def temporary(self) -> str:
        """Temporary files of Dataflow, whose workers do not see the disk of a pod."""
        return f"{self.root}/temporary"

    def staged(self, kind: str, fingerprint: str) -> str:
        """Inputs that were copied from this machine, by their content.

        `pipeline.entrypoint` takes the root from the path of a component's file.
        """
        return f"{self.root}/inputs/{kind}/{fingerprint}"
