"""Fixtures for tests on an object store.

def test_push(bucket, object_store):
    push(f"{bucket}/serving")
    assert object_store.keys(bucket) == ["serving/1/saved_model.pb"]
"""

import os

import pytest

from tests.object_store import client

MUST_NOT_SKIP = "OBJECT_STORE_MUST_NOT_SKIP"  # a variable that .ci/run sets


@pytest.fixture(scope="session")
def object_store():
    """The object store, as `client.ObjectStore`; skips if it cannot run."""
    try:
        with client.start() as store:
            yield store
    except client.UnavailableError as error:
        give_up(str(error))


@pytest.fixture
def bucket(object_store, monkeypatch):
    """The gs:// URL of a new bucket, which TensorFlow, Beam and Python reach."""
    for name, value in object_store.environment.items():
        monkeypatch.setenv(name, value)
    yield object_store.new_bucket()
    object_store.accept_all()


def give_up(reason):
    """Skips, but fails in `.ci/run`: there, nothing may be missing."""
    if os.environ.get(MUST_NOT_SKIP):
        pytest.fail(f"{reason}; in CI this test must not skip")
    pytest.skip(reason)
