"""What all tests of the encoder share."""

import pytest

from modules import environment


@pytest.fixture(autouse=True, scope="session")
def fast_tracing():
    environment.set_up()
