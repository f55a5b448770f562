"""Setup of all tests of the encoder."""

import pytest

from modules import environment


@pytest.fixture(autouse=True, scope="session")
def fast_tracing():
    environment.set_up()
