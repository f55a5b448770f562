"""A recipe with a search, through the whole pipeline."""

import io

import pytest

from modules.run_metadata import MetadataReader
from pipeline.config import tfx_names
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.console import Console
from pipeline.local.run import run_locally
from report.content import JSON_FILE, PAGE_FILE, read_report
from tests import tiny

pytestmark = [pytest.mark.slow, pytest.mark.nightly]


def test_search_finds_settings_that_the_run_trains_with_and_reports(tmp_path):
    recipe = tiny.write_config(
        tmp_path / "recipe.yaml",
        evaluator={
            "split": "test",
            "thresholds": {"accuracy": 0.0},
            "linear_model": "ignore",
        },
        tuner={
            "trials": 3,
            "space": {"learning_rate": [1e-4, 1e-2, "log"], "dropout": [0.0, 0.1]},
        },
    )
    config = load_config(recipe)
    output = io.StringIO()
    run = run_locally(config, Console(file=output, width=200))
    metric = config.task.metric
    assert f"best of 3 trials: {metric} " in output.getvalue()
    # The Trainer finds the training of the best trial finished.
    assert output.getvalue().count("seed 0 has been trained") == 1

    report = read_report(str(run.directory / JSON_FILE))
    best = report.search.trials[report.search.best]
    assert report.search.metric == metric
    assert len(report.search.trials) == 3
    assert report.search.space == config.tuner.space
    for name, value in best.values.items():
        assert report.settings["trainer"][name] == value
    assert report.training.seeds[0].evaluations[metric].y[-1] == best.value
    assert '<section id="search">' in (run.directory / PAGE_FILE).read_text()

    def executed():
        reader = MetadataReader.of_file(OutputPaths.of(config).metadata)
        return {run.name for run, _ in reader.latest_run() if not run.is_cached}

    # The search is cached. A setting that is overridden is not searched.
    run_locally(config, Console(file=io.StringIO()))
    assert tfx_names.TUNER not in executed()
    overrides = {"trainer.learning_rate": 1e-3, "trainer.dropout": 0.0}
    without = load_config(recipe, overrides)
    fixed = run_locally(without, Console(file=io.StringIO()))
    assert tfx_names.TUNER not in executed()
    report = read_report(str(fixed.directory / JSON_FILE))
    assert report.search is None
    assert report.settings["trainer"]["learning_rate"] == 1e-3
