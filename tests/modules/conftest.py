"""Fixtures that several tests of the modules share."""

import pytest

from tests import tiny


@pytest.fixture(scope="session")
def vocab_file(tmp_path_factory):
    """The tiny encoder's vocabulary."""
    encoder = tiny.write_encoder(tmp_path_factory.mktemp("vocabulary") / "encoder")
    return str(encoder / "vocab.txt")
