"""Fixtures for tests that run compiled jobs as on Kubeflow."""

import pytest

from tests.compiled import pod
from tests.object_store.fixtures import give_up


@pytest.fixture(scope="session")
def pods():
    """Skips where a process cannot be restricted as a pod of Kubeflow."""
    if problem := pod.find_problem():
        give_up(problem)
