"""Fixtures that several tests of the modules share."""

import pytest

from tests import exported as exported_lib
from tests import tiny


@pytest.fixture(scope="session")
def export(tmp_path_factory):
    """Exports a model of a kind of task, once in a session: it takes seconds."""
    made = {}

    def export(kind):
        if kind not in made:
            root = tmp_path_factory.mktemp("exported")
            made[kind] = exported_lib.export_tiny(root, kind)
        return made[kind]

    return export


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    """The tiny encoder's vocabulary."""
    encoder = tiny.write_encoder(tmp_path_factory.mktemp("vocabulary") / "encoder")
    return str(encoder / "vocab.txt")
