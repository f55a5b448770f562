"""Deletes what lost attempts of a Beam job left beside its outputs."""

from __future__ import annotations

from apache_beam import Pipeline
from apache_beam.io.filebasedsink import FileBasedSink
from apache_beam.io.filesystems import FileSystems
from apache_beam.io.iobase import Write
from apache_beam.pipeline import AppliedPTransform, PipelineVisitor


def find_outputs(pipeline: Pipeline) -> list[str]:
    """Returns the prefixes of the files that a pipeline writes."""
    visitor = _SinkVisitor()
    pipeline.visit(visitor)
    return [sink.file_path_prefix.get() for sink in visitor.sinks]


def delete_unfinished(outputs: list[str]) -> None:
    """Deletes the folders of incomplete shards, once no attempt writes to them.

    They are in the directory of the outputs, whose readers take all its files. Source
    of the names: `FileBasedSink._create_temp_dir`.

    Args:
      outputs: Prefixes of files, as of `find_outputs`.
    """
    from tensorflow.io import gfile  # Beam's own file systems see no empty folder

    for prefix in outputs:
        directory, name = FileSystems.split(prefix)
        folders = gfile.listdir(directory) if gfile.isdir(directory) else []
        for folder in folders:
            if folder.startswith(f"beam-temp-{name}-"):
                gfile.rmtree(FileSystems.join(directory, folder))


class _SinkVisitor(PipelineVisitor):
    def __init__(self) -> None:
        self.sinks: list[FileBasedSink] = []

    def enter_composite_transform(self, node: AppliedPTransform) -> None:
        sink = getattr(node.transform, "sink", None)
        if isinstance(node.transform, Write) and isinstance(sink, FileBasedSink):
            self.sinks.append(sink)
