"""The memory limit of a container, beyond which the kernel kills a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/sys/fs/cgroup/memory")  # of control groups of version 1


@pytest.fixture
def memory_limit() -> Iterator[Callable[[int, int], None]]:
    """Limits the memory, in bytes, that a process may use in addition."""
    group = _MEMORY / f"bert-pipeline-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"memory cannot be limited here: {error}")

    def limit(process: int, size: int) -> None:
        (group / "memory.limit_in_bytes").write_text(str(size))
        (group / "cgroup.procs").write_text(str(process))

    yield limit
    group.rmdir()
