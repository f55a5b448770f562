"""Deletes what lost attempts of a Beam job left beside its outputs."""

from __future__ import annotations

import logging
import re

from apache_beam import Pipeline
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.iobase import Write
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor

_LOGGER = logging.getLogger(__name__)


def find_outputs(pipeline: Pipeline) -> list[str]:
    """Returns the prefixes of the files that a pipeline writes."""
    visitor = _SinkVisitor()
    pipeline.visit(visitor)
    return [sink.file_path_prefix.get() for sink in visitor.sinks]


def delete_unfinished(outputs: list[str]) -> None:
    """Deletes the folders of incomplete shards that lost attempts of a job left.

    They are beside the outputs. Source of the names: `FileBasedSink._create_temp_dir`.
    What cannot be deleted stays, with a warning: the job has its result already, and
    readers skip these folders.

    Args:
      outputs: Prefixes of files, as of `find_outputs`.
    """
    import tensorflow as tf  # Beam's own file systems see no empty folder

    for prefix in outputs:
        try:
            _delete_unfinished(prefix)
        except (tf.errors.OpError, OSError) as error:
            _LOGGER.warning("%s: unfinished files were not deleted: %s", prefix, error)


def _delete_unfinished(prefix: str) -> None:
    from tensorflow.io import gfile

    directory, name = FileSystems.split(prefix)
    unfinished = re.compile(rf"beam-temp-{re.escape(name)}-[0-9a-f]{{32}}/?")
    for folder in gfile.listdir(directory) if gfile.isdir(directory) else []:
        if unfinished.fullmatch(folder):
            gfile.rmtree(FileSystems.join(directory, folder))


class _SinkVisitor(PipelineVisitor):
    def __init__(self) -> None:
        self.sinks: list[FileBasedSink] = []

    def enter_composite_transform(self, node: AppliedPTransform) -> None:
        sink = getattr(node.transform, "sink", None)
        if isinstance(node.transform, Write) and isinstance(sink, FileBasedSink):
            self.sinks.append(sink)
