"""Temporary files are private, and gone after a run; `test_caching.py` stops one."""

import os
import tempfile
from pathlib import Path

import pytest

from tests.e2e import temporary_files
from tests.e2e.commands import run as command_line

pytestmark = pytest.mark.e2e


def test_watch_finds_what_is_public_and_what_is_lost(monkeypatch, tmp_path):
    with temporary_files.watched(monkeypatch, tmp_path) as watch:
        tempfile.mkdtemp(prefix="private")
        public = Path(tempfile.gettempdir()) / "public"
        public.touch()
        os.chmod(public, 0o644)
    assert watch.public == ["public"]
    assert [name[:7] for name in watch.lost] == ["private", "public"]


def test_temporary_files_of_a_run_are_private_and_gone(finished):
    assert finished.temporary.modes
    assert finished.temporary.public == []
    assert finished.temporary.lost == []


@pytest.mark.nightly
def test_command_leaves_no_temporary_file(finished, monkeypatch, tmp_path):
    retrained = ("--config", finished.recipe, "--set", "trainer.seed=9")
    with temporary_files.watched(monkeypatch, tmp_path) as watch:
        ended = command_line("run", *retrained)
    assert ended.returncode == 0, ended.stderr
    assert watch.modes
    assert watch.public == []
    assert watch.left == []
