"""Remote sources. Importing it registers Beam as the reader of remote rows."""

import modules as modules  # registers the reader of other remote files
from ingest.remote.beam_rows import BeamRows
from ingest.rows import remote_rows

remote_rows.register(BeamRows())
