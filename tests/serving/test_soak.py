"""Mixed load while versions change: no response is lost or crossed, no memory grows."""

import gc

import psutil
import pytest

from serving.batching import Batcher
from serving.loaded_versions import LoadedVersions
from tests.serving import soak
from tests.serving.conftest import PORTABLE, SAVED_MODELS, running
from tests.serving.processes import started
from tests.serving.soak import (
    MAX_GROWTH_BYTES,
    EchoModel,
    PortableModelOfTexts,
    Soak,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def served(request, tmp_path):
    """A kind of models, a model of it, and the directory with its version 1."""
    if getattr(request, "param", "SavedModel") == "SavedModel":
        kind, model = SAVED_MODELS, EchoModel()
    else:
        kind = PORTABLE
        model = PortableModelOfTexts(request.getfixturevalue("portable"))
    root = tmp_path / "soak"
    model.save(root / "1", 1)
    return kind, model, root


def of_each_kind(*marks):
    """Runs a test with SavedModels and, with marks, with portable models."""
    kinds = ["SavedModel", pytest.param("portable", marks=marks)]
    return pytest.mark.parametrize("served", kinds, indirect=True)


def run_soak(served, seconds, swaps):
    """Runs a load on a server in a process of its own."""
    kind, model, root = served
    arguments, program = ("--grpc-port", "0"), "pipeline"
    if kind is PORTABLE:
        arguments, program = (), "bert_runtime.cli.main"
    with started(root, *arguments, program=program) as server:
        process = psutil.Process(server.process.pid)
        load = Soak(model, server.http.base_url, server.rpc, root, process)
        return load.run(seconds, swaps)


@of_each_kind(pytest.mark.nightly)
def test_no_response_is_lost_or_crossed_in_8_seconds_and_2_swaps(served):
    outcome = run_soak(served, seconds=8, swaps=2)
    assert outcome.versions == {1, 2, 3}
    assert min(outcome.predicted, outcome.refused, outcome.aborted) > 30


@pytest.mark.nightly
@pytest.mark.faults
@pytest.mark.timeout(3600)
@of_each_kind()
def test_no_response_is_lost_or_crossed_in_30_minutes_and_100_swaps(served):
    outcome = run_soak(served, seconds=1800, swaps=100)
    assert outcome.versions == set(range(1, 102))


def soak_here(served, server, seconds, swaps):
    """Runs a load on a server of this process, which a test can break."""
    gc.collect()  # what earlier tests of this process left would hide a leak
    _, model, root = served
    rpc = f"127.0.0.1:{server.grpc_port}" if server.grpc_port else "off"
    load = Soak(model, server.http.base_url, rpc, root, psutil.Process())
    return load.run(seconds, swaps)


def test_memory_of_a_version_that_is_not_freed_is_found(served, monkeypatch):
    leaked, unload = [], LoadedVersions._unload

    def leak(*arguments):
        leaked.append(bytes([1]) * 4 * MAX_GROWTH_BYTES)
        unload(*arguments)

    monkeypatch.setattr(soak, "SETTLING_SECONDS", 0.5)
    with running(served[-1]) as server:
        monkeypatch.setattr(LoadedVersions, "_unload", leak)
        with pytest.raises(AssertionError, match="memory has grown by"):
            soak_here(served, server, seconds=3, swaps=2)


@of_each_kind()
def test_response_of_another_request_is_found(served, monkeypatch):
    previous, run = [], Batcher.run

    async def cross(*arguments):
        outputs = await run(*arguments)
        previous.append(outputs)
        return previous[max(0, len(previous) - 2)]

    with running(served[-1], kind=served[0]) as server:
        monkeypatch.setattr(Batcher, "run", cross)
        with pytest.raises(AssertionError, match=r"^sent "):
            soak_here(served, server, seconds=4, swaps=0)
