"""What all tests of the encoder share."""

import pytest

from modules import environment


@pytest.fixture(autouse=True, scope="session")
def fast_tracing():
    environment.keep_autograph_out_of_keras()
