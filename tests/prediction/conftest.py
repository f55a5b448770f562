"""Toy models."""

import pytest

from tests import toy_models


@pytest.fixture(scope="session")
def served(tmp_path_factory):
    """A directory with the versions 9 and 10 of a model of pairs."""
    root = tmp_path_factory.mktemp("serving")
    for version in ("9", "10"):
        toy_models.save(toy_models.Longer(), root / version)
    (root / ".11.incomplete").mkdir()
    return root


@pytest.fixture(scope="session")
def labeller(tmp_path_factory):
    """A model of single sentences with several labels."""
    directory = tmp_path_factory.mktemp("labeller")
    return str(toy_models.save(toy_models.Letters(), directory))


@pytest.fixture(scope="session")
def scorer(tmp_path_factory):
    """A regression model of single sentences."""
    return str(toy_models.save(toy_models.Length(), tmp_path_factory.mktemp("scorer")))
