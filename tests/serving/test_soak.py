"""Mixed load while versions change: no response is lost or crossed, no memory grows."""

import gc

import psutil
import pytest

from serving.batching import Batcher
from serving.loaded_versions import LoadedVersions
from tests.serving import small_models, soak
from tests.serving.conftest import running
from tests.serving.processes import started
from tests.serving.soak import MAX_GROWTH_BYTES, Soak

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path):
    """A directory with version 1 of the model that returns its texts."""
    root = tmp_path / "echo"
    small_models.save_echo(root / "1", 1)
    return root


def run_soak(root, seconds, swaps):
    """Runs a load on a server in a process of its own."""
    with started(root, "--grpc-port", "0") as server:
        process = psutil.Process(server.process.pid)
        load = Soak(server.http.base_url, server.rpc, root, process)
        return load.run(seconds, swaps)


def test_no_response_is_lost_or_crossed_in_8_seconds_and_2_swaps(root):
    outcome = run_soak(root, seconds=8, swaps=2)
    assert outcome.versions == {1, 2, 3}
    assert min(outcome.predicted, outcome.refused, outcome.aborted) > 30


@pytest.mark.nightly
@pytest.mark.faults
@pytest.mark.timeout(3600)
def test_no_response_is_lost_or_crossed_in_30_minutes_and_100_swaps(root):
    outcome = run_soak(root, seconds=1800, swaps=100)
    assert outcome.versions == set(range(1, 102))


def soak_here(root, server, seconds, swaps):
    """Runs a load on a server of this process, which a test can break."""
    gc.collect()  # what earlier tests of this process left would hide a leak
    rpc = f"127.0.0.1:{server.grpc_port}"
    load = Soak(server.http.base_url, rpc, root, psutil.Process())
    return load.run(seconds, swaps)


def test_memory_of_a_version_that_is_not_freed_is_found(root, monkeypatch):
    leaked, unload = [], LoadedVersions._unload

    def leak(*arguments):
        leaked.append(bytes([1]) * 4 * MAX_GROWTH_BYTES)
        unload(*arguments)

    monkeypatch.setattr(soak, "SETTLING_SECONDS", 0.5)
    with running(root) as server:
        monkeypatch.setattr(LoadedVersions, "_unload", leak)
        with pytest.raises(AssertionError, match="memory has grown by"):
            soak_here(root, server, seconds=3, swaps=2)


def test_response_of_another_request_is_found(root, monkeypatch):
    previous, run = [], Batcher.run

    async def cross(*arguments):
        outputs = await run(*arguments)
        previous.append(outputs)
        return previous[max(0, len(previous) - 2)]

    with running(root) as server:
        monkeypatch.setattr(Batcher, "run", cross)
        with pytest.raises(AssertionError, match=r"^sent "):
            soak_here(root, server, seconds=4, swaps=0)
