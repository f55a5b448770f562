"""File systems that are too small or read-only, for root too."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Skips a test where `mount` is not permitted, as in most containers."""
    directory = tmp_path_factory.mktemp("mount")
    try:
        with small_disk(directory, room=0):
            pass
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"file systems cannot be mounted here: {error}")


@contextlib.contextmanager
def small_disk(directory: Path, room: int) -> Iterator[Callable[[], None]]:
    """Replaces a directory by a file system with a few bytes of room.

    Args:
      directory: The directory, whose content stays visible. What is written meanwhile
        is gone at the end.
      room: Free space in bytes.

    Yields:
      A function that makes the file system large.
    """
    directory.mkdir(parents=True, exist_ok=True)
    content = directory.with_name(f"{directory.name} content")
    shutil.copytree(directory, content)
    try:
        with _mounted("-t", "tmpfs", "-o", "size=1g", "tmpfs", directory):
            shutil.copytree(content, directory, dirs_exist_ok=True)
            shutil.rmtree(content)
            status = os.statvfs(directory)
            used = (status.f_blocks - status.f_bfree) * status.f_frsize
            _mount("-o", f"remount,size={used + room}", directory)
            yield lambda: _mount("-o", "remount,size=1g", directory)
    finally:
        shutil.rmtree(content, ignore_errors=True)


@contextlib.contextmanager
def read_only(path: Path) -> Iterator[None]:
    """Makes a file read-only for those who open it from now on."""
    with _mounted("--bind", path, path):
        _mount("-o", "remount,bind,ro", path)
        yield


@contextlib.contextmanager
def _mounted(*arguments: str | Path) -> Iterator[None]:
    """Mounts something on the last argument as long as the context is open."""
    _mount(*arguments)
    try:
        yield
    finally:
        # A process may still have files open there.
        subprocess.run(["umount", "--lazy", arguments[-1]], check=True)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)
