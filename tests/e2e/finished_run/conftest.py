"""One run of the tiny recipe, which the tests of this folder start from.

A run takes half a minute, and most tests need a few of its components again. So the
recipe runs once in the pytest worker that runs these tests, and once more where those
of the Flink clusters run (`pytest_xdist_make_scheduler`). Each test gets what that run
wrote, at the same path: the keys of TFX's cache contain absolute paths.
"""

import dataclasses
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from contracts.task.definition import TaskConfig
from modules.training import experiment
from pipeline.cli.main import main
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import Config, load_config
from pipeline.console import Console
from pipeline.local.run import run_locally
from pipeline.operations.run import Run
from report.run_metadata import MetadataReader
from tests import tiny, warm_probe
from tests.e2e import planted_secrets, released, temporary_files
from tests.e2e.temporary_files import Watched


@dataclasses.dataclass(frozen=True)
class FinishedRun:
    """A finished run of the tiny recipe.

    Attributes:
      recipe: Its file; `data` and `encoder` are next to it.
      settings: Those that it has besides the recipe's.
      run: The run.
      printed: What it printed, in one line.
      temporary: What it did with temporary files.
    """

    recipe: Path
    settings: dict[str, Any]
    run: Run
    printed: str
    temporary: Watched

    @classmethod
    def of(
        cls, recipe: Path, settings: dict[str, Any], temporary: Path
    ) -> "FinishedRun":
        """Runs the recipe with a directory for temporary files."""
        console = Console(file=io.StringIO(), width=120)
        with pytest.MonkeyPatch.context() as patched:
            warm_probe.install(patched)
            with temporary_files.watched(patched, temporary) as watch:
                run = run_locally(load_config(recipe, settings), console)
        printed = console.file.getvalue().replace("\n", " ")
        return cls(recipe, settings, run, printed, watch)

    @property
    def config(self) -> Config:
        return load_config(self.recipe, self.settings)

    @property
    def paths(self) -> OutputPaths:
        return OutputPaths.of(self.config)

    def latest_run(self):
        """Returns the executions of the latest run by component."""
        reader = MetadataReader.of_file(self.paths.metadata)
        return {run.name: execution for run, execution in reader.latest_run()}

    def executed(self):
        """Returns the components that the latest run did not take from the cache."""
        reader = MetadataReader.of_file(self.paths.metadata)
        return {run.name for run, _ in reader.latest_run() if not run.is_cached}

    def output(self, component, key):
        """Returns an output artifact of a component of the latest run."""
        reader = MetadataReader.of_file(self.paths.metadata)
        return reader.outputs(self.latest_run()[component])[key]


def restoring(finished: FinishedRun, directory: Path) -> Callable[[], FinishedRun]:
    """Copies a run, and returns a function that undoes everything since then."""
    tree, copy = finished.recipe.parent, directory / "copy"
    shutil.copytree(tree, copy)
    saved = entries(copy)

    def restore():
        present = entries(tree)
        for path in sorted(present, reverse=True):  # files before their directories
            if saved.get(path) != present[path]:
                remove = os.unlink if present[path] else os.rmdir
                remove(tree / path)
        for path in sorted(saved):
            if saved[path] == present.get(path):
                continue
            if saved[path]:
                shutil.copy2(copy / path, tree / path)
            else:
                (tree / path).mkdir()
                shutil.copymode(copy / path, tree / path)
        return finished

    return restore


def entries(directory):
    """Returns size and modification time of the files below; () of a directory."""
    return {
        path.relative_to(directory): ()
        if path.is_dir()
        else (path.stat().st_size, path.stat().st_mtime_ns)
        for path in directory.rglob("*")
    }


@pytest.fixture(autouse=True)
def fork_probes(monkeypatch):
    """Forks the probes of runs in this process; a command's probe is its own."""
    warm_probe.install(monkeypatch)


@pytest.fixture(scope="session")
def restore(tmp_path_factory):
    """Returns a function that undoes everything since the first run ended."""
    recipe = tiny.write_config(
        tmp_path_factory.mktemp("run") / "tiny" / "recipe.yaml",
        splits=("train", "eval"),
        private=True,
        serving={"rows": 4},
        evaluator=released.bounds_of(TaskConfig()),
        checks={
            "linear_model": {"action": "warn"},
            "swapped_words": {"lists": {"animals": [["cat", "dog"]]}},
        },
    )
    with pytest.MonkeyPatch.context() as patched:
        planted_secrets.plant(patched, tmp_path_factory.mktemp("secrets"))
        finished = FinishedRun.of(recipe, {}, tmp_path_factory.mktemp("tmp"))
    return restoring(finished, tmp_path_factory.mktemp("copy"))


@pytest.fixture(scope="session")
def restore_second(restore, tmp_path_factory):
    """Returns a function that undoes everything since a second run ended.

    It trained on the first span of new data, from the first run's model, and pushed its
    own next to it.
    """
    recipe = restore().recipe
    spans = recipe.parent / "spans"
    tiny.write_tables(spans / "01", splits=("train", "eval"))
    source = {"data.source": f"{spans}/{{SPAN}}", "trainer.warm_start": "champion"}
    second = FinishedRun.of(recipe, source, tmp_path_factory.mktemp("tmp"))
    return restoring(second, tmp_path_factory.mktemp("second"))


@pytest.fixture
def finished(restore):
    """A finished run of the tiny recipe, which the test may change."""
    return restore()


@pytest.fixture
def second(finished, restore_second):
    """A second run, on new data, which the test may change."""
    return restore_second()


@pytest.fixture
def run(finished, console):
    """Runs the recipe with overrides: `trainer__seed=1` is `trainer.seed`.

    Returns the run, and the components that were not taken from the cache.
    """

    def run(**overrides):
        settings = {key.replace("__", "."): value for key, value in overrides.items()}
        latest = run_locally(load_config(finished.recipe, settings), console)
        return latest, finished.executed()

    return run


@pytest.fixture
def run_command(finished, capfd):
    """Runs the recipe by the command line in this process: status, stdout, stderr."""

    def run_command(*arguments):
        # `CliRunner` lacks the file descriptors that the command replaces.
        with pytest.raises(SystemExit) as ended:
            main(["run", "--config", str(finished.recipe), *map(str, arguments)])
        return ended.value.code, *capfd.readouterr()

    return run_command


@pytest.fixture
def start_training(run, finished, monkeypatch):
    """Runs the recipe until the Trainer starts; returns the components that executed.

    For tests of what precedes the training: all that follows it reads the new model.
    """

    def stop(*_, **__):
        raise RuntimeError("stopped by the test")

    def start_training(**overrides):
        with monkeypatch.context() as patched:
            patched.setattr(experiment, "build_experiment", stop)
            with pytest.raises(RuntimeError, match="stopped by the test"):
                run(**overrides)
        return finished.executed()

    return start_training
