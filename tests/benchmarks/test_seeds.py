"""The benchmark of seeds: what it refuses, and a run that fails."""

import sys

import pytest
from click.testing import CliRunner

from benchmarks import seeds
from pipeline.config.paths import DEFAULT_CONFIG


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the benchmark, whose runs of the pipeline fail at once."""
    monkeypatch.setattr(sys, "executable", "/bin/false")

    def run(*arguments):
        output = tmp_path / "output"
        command = [str(output), "--config", str(DEFAULT_CONFIG), *arguments]
        return CliRunner().invoke(seeds.main, command)

    return run


def test_task_is_that_of_the_runs(run):
    task = "task={label_range: [0, 5], metric: pearson}"
    result = run("--set", task, "--set", "evaluator={thresholds: {pearson: 0}}")
    assert result.exit_code == 2
    assert "the task must predict one class of a row" in result.output


def test_earlier_results_are_not_measured(run, tmp_path):
    (tmp_path / "output").mkdir()
    result = run()
    assert result.exit_code == 2
    assert "output exists" in result.output


def test_run_that_fails_ends_the_benchmark(run):
    result = run()
    assert result.exit_code == 1
    assert "the run of seed 0 failed with exit status 1" in result.output
