"""The commit of the code that a run executes."""

import os
import shutil
import subprocess
import time

import pytest

from pipeline.runs.commit import find_commit

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A committed file."""
    # In a hook of git, they name another repository.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "repository" / "code" / "module.py"
    file.parent.mkdir(parents=True)
    file.write_text("x = 1\n")
    (tmp_path / "repository" / ".gitignore").write_text("output/\n")
    git(file, "init", "--quiet", "..")
    git(file, "add", "--all", "..")
    git(file, "commit", "--quiet", "--message", "first")
    return file


def git(file, *arguments):
    """Runs git next to a file; returns what it prints."""
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    command = ["git", "-C", str(file.parent), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_commit_is_recorded_with_whether_the_files_differ_from_it(code):
    commit = find_commit(code)
    assert commit.id == git(code, "rev-parse", "HEAD").strip()
    assert not commit.has_changes
    assert str(commit) == commit.id[:12]
    code.write_text("x = 2\n")
    changed = find_commit(code)
    assert (changed.id, changed.has_changes) == (commit.id, True)
    assert str(changed) == f"{commit.id[:12]}, with changes"


def test_new_files_are_changes_unless_they_are_ignored(code):
    root = code.parents[1]
    (root / "output").mkdir()
    (root / "output" / "run.json").write_text("{}")
    assert not find_commit(code).has_changes
    (root / "recipe.yaml").write_text("name: mine\n")
    assert find_commit(code).has_changes


def test_file_that_no_commit_has_is_of_no_commit(code, tmp_path, monkeypatch):
    """An environment may be in the folder of another project."""
    installed = code.with_name("installed.py")
    installed.write_text("")
    assert find_commit(installed) is None
    outside = tmp_path / "module.py"
    outside.write_text("")
    assert find_commit(outside) is None
    # In a hook of another repository, git has variables that name it.
    monkeypatch.setenv("GIT_DIR", str(code.parents[1] / ".git"))
    assert find_commit(outside) is None
    assert find_commit(code)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_commit(code) is None


def test_git_that_hangs_delays_a_run_by_two_seconds(code, tmp_path, monkeypatch):
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    start = time.monotonic()
    assert find_commit(code) is None
    assert time.monotonic() - start < 20


def test_names_that_are_not_utf_8_are_changes(code):
    (code.parent / os.fsdecode(b"caf\xe9")).write_text("")
    assert find_commit(code).has_changes
