"""Where a run writes what: the one owner of every path rule."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.config.recipe import Config

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_CONFIG = REPOSITORY / "configs" / "sample.yaml"
DEFAULT_OUTPUT = Path("output")


@dataclasses.dataclass(frozen=True)
class OutputPaths:
    """The parts of an output directory.

    Attributes:
      root: The directory itself.
      name: The pipeline's name.
    """

    root: Path
    name: str

    @classmethod
    def of(cls, config: Config) -> OutputPaths:
        """Returns the paths of a configuration, `output/NAME` where it sets none."""
        root = Path(config.output) if config.output else DEFAULT_OUTPUT / config.name
        return cls(root.absolute(), config.name)

    @property
    def metadata(self) -> Path:
        """The SQLite database of ML Metadata."""
        return self.root / "metadata.sqlite"

    @property
    def artifacts(self) -> Path:
        """The pipeline root: what the components exchange."""
        return self.root / "artifacts"

    @property
    def pushed(self) -> Path:
        """What a model server watches: a directory a version below it."""
        return self.root / "serving" / self.name

    def examples(self, fingerprint: str) -> Path:
        """TFRecords that were made of text, by the text's fingerprint."""
        return self.root / "examples" / fingerprint

    def encoder(self, fingerprint: str) -> Path:
        """An encoder that was imported, by the fingerprint of its source."""
        return self.root / "encoders" / fingerprint

    def schema(self, fingerprint: str) -> Path:
        """The enforced schema; a path of its own lets the cache see an edit."""
        return self.root / "schema" / fingerprint / "schema.pbtxt"

    @property
    def training(self) -> Path:
        """Checkpoints of trainings, a directory for each thing that is trained."""
        return self.root / "training"

    @property
    def lock(self) -> Path:
        """Held by the run that writes here."""
        return self.root / "run.lock"

    def run(self, run_id: str) -> Path:
        """The record of one run: its configuration and its log."""
        return self.root / "runs" / run_id


@dataclasses.dataclass(frozen=True)
class ClusterPaths:
    """What lies below the pipeline root of a cluster, beside what components write.

    Attributes:
      root: The pipeline root, mostly `gs://BUCKET/FOLDER`.
      name: The pipeline's name.
    """

    root: str
    name: str

    @property
    def training(self) -> str:
        """Checkpoints of trainings, a directory for each thing that is trained."""
        return f"{self.root}/training"

    @property
    def pushed(self) -> str:
        """What a model server watches: a directory a version below it."""
        return f"{self.root}/serving/{self.name}"

    @property
    def temporary(self) -> str:
        """What Beam's runner leaves there while it works."""
        return f"{self.root}/temporary"

    def staged(self, kind: str, fingerprint: str) -> str:
        """What was brought there from this machine, by its content."""
        return f"{self.root}/inputs/{kind}/{fingerprint}"
