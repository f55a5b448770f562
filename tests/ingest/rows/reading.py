"""Reading the rows of a file whose name has its format."""

from contracts.settings.data import DataConfig
from ingest.rows import readers
from ingest.rows.row_file import RowFile


def read(path, **settings):
    """Returns the number and the content of each row, or its error."""
    file_format, _ = readers.find_files(str(path))
    rows = RowFile(str(path), file_format, DataConfig(**settings)).read()
    return [(location.row, row) for location, row in rows]
