"""Remote files of rows through Beam, which importing this module does not import."""

from __future__ import annotations

from typing import IO

from contracts.storage import files as storage


class BeamRows:
    """The file systems of Beam, as `ingest.rows.remote_rows.RemoteRows`."""

    # ruff: noqa: D102 (the docstrings are those of RemoteRows)

    def match(self, source: str) -> tuple[list[str], bool]:
        from apache_beam.io.filesystems import FileSystems

        storage.check_remote(source)
        files = FileSystems.match([source.rstrip("/")])[0].metadata_list
        is_directory = not files
        if is_directory:
            files = FileSystems.match([FileSystems.join(source, "*")])[0].metadata_list
        return sorted(file.path for file in files), is_directory

    def open_file(self, path: str) -> IO[bytes]:
        from apache_beam.io.filesystem import CompressionTypes
        from apache_beam.io.filesystems import FileSystems

        return FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
