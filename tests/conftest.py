"""Fixtures that several tests share."""

import io

import pytest
from rich.console import Console


@pytest.fixture
def console():
    """A console that keeps what it is told."""
    return Console(file=io.StringIO(), width=120)
