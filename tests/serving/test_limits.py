"""Limits of memory and file descriptors."""

import asyncio
import json
import resource
import threading

import pytest

from serving.errors import Code, RequestError
from serving.limits import (
    RequestLimits,
    RequestMemory,
    clip_to_descriptors,
    limit_time,
)
from tests.serving.conftest import INSTANCES, LIMITS


def test_bytes_of_requests_in_flight_are_limited():
    memory = RequestMemory(RequestLimits(max_queued_bytes=100))
    with memory.reserve() as first, memory.reserve() as second:
        first(40)
        second(60)
        with pytest.raises(RequestError, match="holds 100 bytes") as refused:
            first(1)
    assert refused.value.code is Code.RESOURCE_EXHAUSTED
    with memory.reserve() as reserve:
        reserve(100)


def test_memory_is_reserved_for_small_requests():
    memory = RequestMemory(RequestLimits(max_queued_bytes=1 << 20))
    with memory.reserve() as large, memory.reserve() as small:
        large(700_000)
        with pytest.raises(RequestError, match="try again later"):
            small(100_000)
        small(60_000)
        with pytest.raises(RequestError, match=r"at most 0\.75 MiB") as refused:
            large(100_000)
    assert refused.value.code is Code.INVALID_ARGUMENT


def test_cancelled_request_frees_its_memory_unless_it_is_being_parsed():
    memory, go_on, runs = RequestMemory(RequestLimits()), threading.Event(), []

    def parse():
        runs.append(go_on.wait())

    async def call():
        calls = [
            asyncio.create_task(limit_time(memory.process(1_000_000, parse), 0.2))
            for _ in range(5)
        ]
        finished, running = await asyncio.wait(calls, timeout=1)
        go_on.set()
        await asyncio.wait(calls)
        return finished, running

    finished, running = asyncio.run(call())
    assert len(finished) == 3
    # The memory of a request is in use as long as a thread parses it.
    assert len(running) == len(runs) == 2
    for call in finished | running:
        assert call.exception().code is Code.DEADLINE_EXCEEDED


def test_large_requests_are_parsed_in_a_thread():
    memory = RequestMemory(RequestLimits())

    async def thread_of(size):
        return await memory.process(size, threading.get_ident)

    assert asyncio.run(thread_of(100)) == threading.get_ident()
    assert asyncio.run(thread_of(1_000_000)) != threading.get_ident()


def test_request_above_the_limit_of_bytes_is_refused(stored):
    with stored.running(limits=LIMITS) as server:
        name = server.versions.name
        rows = [INSTANCES[name]] * (45_000 // len(json.dumps(INSTANCES[name])))
        response = server.post(f"{name}:predict", instances=rows)
        assert server.predict_row().status_code == 200
    assert response.status_code == 400
    assert response.json() == {
        "error": "the request is too large; allowed: at most 0.0286102 MiB (three "
        "quarters of the server's --max-queued-mib); send its rows in several requests"
    }


def test_lowered_limit_of_connections_is_logged(caplog):
    caplog.set_level("WARNING", "serving")
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    limits = clip_to_descriptors(RequestLimits(max_connections=descriptors))
    assert limits.max_connections == descriptors // 2
    assert f"--max-connections {descriptors} is more than half of" in caplog.text
