"""Commits of recipe and code, and a warning of what differs from the run before."""

import logging
import os
import re
import shutil
import subprocess
import time

import pytest

from contracts import fingerprint
from pipeline.config import policy
from pipeline.config.recipe import load_config
from pipeline.inputs.encoder_source import resolve_encoder
from pipeline.operations import provenance
from tests import tiny
from tests.refusals import refused

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="needs git")


@pytest.fixture
def code(tmp_path, monkeypatch):
    """A repository with a package of the code and a recipe."""
    # In a hook of git, they name another repository.
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    root = tmp_path / "repository"
    (root / "modules").mkdir(parents=True)
    (root / "modules" / "module.py").write_text("x = 1\n")
    (root / ".gitignore").write_text("output/\n__pycache__/\n")
    tiny.write_config(root / "recipe.yaml")
    git(root, "init", "--quiet", "--initial-branch", "main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "first")
    return root


@pytest.fixture
def remote(code, tmp_path):
    """A remote of the repository, with the branch `main`."""
    git(code, "init", "--quiet", "--bare", str(tmp_path / "remote"))
    git(code, "remote", "add", "origin", str(tmp_path / "remote"))
    git(code, "push", "--quiet", "origin", "main")
    return tmp_path / "remote"


@pytest.fixture
def checked(code, monkeypatch):
    """Checks a run of a recipe, by default that of the repository."""

    def checked(recipe=code / "recipe.yaml", **overrides):
        keys = {name.replace("__", "."): value for name, value in overrides.items()}
        return provenance.check_commits(load_config(recipe, keys))

    find = provenance.find_commits
    monkeypatch.setattr(
        provenance, "find_commits", lambda *args, **kw: find(*args, code=code, **kw)
    )
    return checked


def git(directory, *arguments):
    """Runs git in a directory; returns what it prints."""
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org")
    command = ["git", "-C", str(directory), *author, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def head(directory):
    return git(directory, "rev-parse", "HEAD").strip()


def require(code, text):
    (code / policy.FILE).write_text(text)


def test_run_of_committed_files_has_no_warning_without_a_remote(checked, code):
    commits = checked()
    assert commits.code == commits.recipe
    assert commits.code.id == head(code)
    assert commits.code.is_submitted is None
    assert commits.warnings == []


def test_changes_of_code_and_recipe_are_one_warning_with_their_files(checked, code):
    (code / "modules" / "module.py").write_text("x = 2\n")
    (code / "modules" / "new [1].py").write_text("")
    commits = checked()
    assert commits.code.changes == ["modules/module.py", "modules/new [1].py"]
    assert commits.recipe.changes == []
    with (code / "recipe.yaml").open("a") as file:
        file.write("# changed\n")
    short = head(code)[:12]
    assert checked().warnings == [
        f"modules/module.py, modules/new [1].py, recipe.yaml differ from commit {short}"
    ]
    assert str(checked().code) == f"{short}, with changes"


def test_files_that_the_run_does_not_use_are_no_changes(checked, code):
    for path in ("docs/a.md", "output/run.json", "modules/__pycache__/a.pyc", "b.csv"):
        (code / path).parent.mkdir(exist_ok=True)
        (code / path).write_text("")
    assert checked().warnings == []


@pytest.mark.parametrize("folder", ["new", "output"])
def test_recipe_that_was_never_committed_is_a_change(checked, code, folder):
    (code / folder).mkdir()
    recipe = tiny.write_config(code / folder / "mine.yaml")
    (warning,) = checked(recipe).warnings
    assert warning == f"{folder}/mine.yaml differs from commit {head(code)[:12]}"


def test_recipe_outside_of_a_repository_is_named(checked, tmp_path):
    recipe = tiny.write_config(tmp_path / "mine.yaml")
    assert checked(recipe).warnings == ["git has no commit of the recipe mine.yaml"]


def test_recipe_of_another_repository_has_its_own_commit(checked, code, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    recipe = tiny.write_config(project / "mine.yaml")
    git(project, "init", "--quiet")
    git(project, "add", "--all")
    git(project, "commit", "--quiet", "--message", "other")
    commits = checked(recipe)
    assert (commits.code.id, commits.recipe.id) == (head(code), head(project))
    assert commits.warnings == []


def test_project_without_git_is_one_warning(checked, code, monkeypatch):
    shutil.rmtree(code / ".git")
    once = "git has no commit of the code and the recipe recipe.yaml"
    assert checked().warnings == [once]
    monkeypatch.setenv("PATH", str(code))
    assert checked().warnings == [once]


def test_installed_code_is_not_of_the_repository_around_it(checked, code, monkeypatch):
    git(code, "rm", "--quiet", "--cached", "-r", "modules")
    git(code, "commit", "--quiet", "--message", "without the code")
    assert checked().code is None
    # In a hook of another repository, git has variables that name it.
    expected = head(code)
    monkeypatch.setenv("GIT_DIR", str(code / "missing"))
    assert checked().recipe.id == expected


def test_settings_of_the_command_line_are_in_no_commit(checked):
    commits = checked(trainer__epochs=2, output="elsewhere", data__source="pairs")
    (warning,) = commits.warnings
    assert warning == "settings of the command line are in no commit: trainer.epochs"


def test_commit_that_no_remote_has_is_a_warning(checked, code, remote):
    assert checked().code.is_submitted
    assert checked().warnings == []
    git(code, "commit", "--quiet", "--allow-empty", "--message", "second")
    expected = f"commit {head(code)[:12]} is on no branch of a remote"
    assert checked().warnings == [expected]
    git(code, "push", "--quiet", "origin", "main:review")
    assert checked().warnings == []


def test_policy_refuses_changes_until_they_are_committed(checked, code):
    require(code, "require_commit: committed\n")
    assert checked().code.id == head(code)
    (code / "modules" / "module.py").write_text("x = 2\n")
    with refused(
        "E-policy-refused",
        setting=str(code / policy.FILE),
        got=re.compile(r"is committed, but modules/module\.py .* trainer\.epochs$"),
        advice=re.compile("^commit the changes, and run"),
    ):
        checked(trainer__epochs=2)
    git(code, "commit", "--quiet", "--all", "--message", "second")
    assert checked().code.id == head(code)


def test_policy_refuses_a_commit_that_is_not_on_the_branch_of_reviews(
    checked, code, remote
):
    require(code, "require_commit: submitted\nbranch: origin/main\n")
    git(code, "commit", "--quiet", "--allow-empty", "--message", "second")
    git(code, "push", "--quiet", "origin", "main:mine")
    got = re.compile(f"commit {head(code)[:12]} is not on origin/main")
    with refused("E-policy-refused", got=got, advice=re.compile("reviewed")):
        checked()
    require(code, "require_commit: submitted\n")
    assert checked().code.is_submitted
    require(code, "require_commit: submitted\nbranch: origin/main\n")
    git(code, "push", "--quiet", "origin", "main")
    assert checked().code.is_submitted


def test_policy_refuses_what_git_does_not_know(checked, code):
    require(code, "require_commit: submitted\n")
    got = re.compile("is not on a branch of a remote")
    with refused("E-policy-refused", got=got):
        checked()  # there is no remote
    shutil.rmtree(code / ".git")
    got = re.compile("git has no commit of the code and the recipe")
    with refused("E-policy-refused", got=got):
        checked()


def test_git_that_hangs_delays_a_run_by_its_timeout(checked, tmp_path, monkeypatch):
    monkeypatch.setattr(provenance, "_TIMEOUT_SECONDS", 0.2)
    program = tmp_path / "git"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    start = time.monotonic()
    assert checked().code is None
    assert time.monotonic() - start < 20


def test_names_that_are_not_utf_8_are_changes(checked, code):
    (code / "modules" / os.fsdecode(b"caf\xe9.py")).write_text("")
    assert checked().code.changes == ["modules/caf\ufffd.py"]


@pytest.fixture
def config(tmp_path):
    return load_config(tiny.write_config(tmp_path / "recipe" / "recipe.yaml"))


@pytest.fixture
def warnings(past, config, caplog):
    """Returns the warnings of a new run, after runs with these changes.

    A run whose changes are None ended before its dependencies were known.
    """
    caplog.set_level(logging.WARNING)

    def warn(*earlier, **fields):
        for changes in earlier:
            found = provenance.find_dependencies(resolve_encoder(config))
            known = {} if changes is None else {**found, **changes}
            past.run(dependencies=known, **fields)
        found = provenance.find_dependencies(resolve_encoder(config))
        record = past.run("running", dependencies=found)
        caplog.clear()
        provenance.warn_of_changed_dependencies(record, past.paths)
        return [message for message in caplog.messages if "it was" in message]

    return warn


def test_changed_library_is_a_warning(warnings):
    (warning,) = warnings({}, {"tensorflow": "2.15.0"})
    version = fingerprint.library_versions(["tensorflow"])["tensorflow"]
    assert warning.startswith(f"tensorflow is {version}; it was 2.15.0 in run 2026")


def test_changed_encoder_is_a_warning_though_its_path_is_the_same(
    warnings, config, tmp_path
):
    before = provenance.find_dependencies(resolve_encoder(config))
    encoder = tmp_path / "recipe" / "encoder"
    (encoder / "model.safetensors").unlink()
    tiny.write_encoder(tmp_path / "other", seed=1)
    (tmp_path / "other" / "model.safetensors").rename(encoder / "model.safetensors")
    (warning,) = warnings(before)
    now = resolve_encoder(config).fingerprint[:12]
    assert warning.startswith(f"encoder is {now}; it was {before['encoder']} in run ")


def test_equal_dependencies_and_those_of_another_recipe_are_no_warning(warnings):
    assert not warnings({"tensorflow": "2.15.0"}, {})
    assert not warnings({"tensorflow": "2.15.0"}, recipe="other")


def test_run_that_ended_before_its_encoder_was_known_is_skipped(warnings):
    assert len(warnings({"tensorflow": "2.15.0"}, None)) == 1
