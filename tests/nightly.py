"""Parameters that only the nightly tests have."""

import pytest


def nightly(*values):
    """Returns a set of parameters of a test that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.nightly)
