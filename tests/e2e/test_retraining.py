"""New data arrive as spans; training goes on from what is in production."""

import json
from pathlib import Path

import pytest
import yaml

from modules.training import fine_tuning_trainer
from pipeline.config.errors import UsageError
from pipeline.config.paths import OutputPaths
from pipeline.config.recipe import load_config
from pipeline.inputs import examples as examples_lib
from pipeline.local.report import MetadataReader
from pipeline.local.run import run_locally
from pipeline.orchestrators import compilation, staging
from tests import tiny
from tests.compiled import worker
from tests.compiled.runner import JobRunner

pytestmark = pytest.mark.e2e

CHAMPION = {"trainer.warm_start": "champion"}
RELEASE = ["Champion", "Evaluator", "ServingCheck", "AtomicPusher"]


@pytest.fixture
def recipe(tmp_path):
    source = f"{tmp_path}/spans/{{SPAN}}"
    tiny.write_tables(tmp_path / "spans" / "01")
    return tiny.write_config(tmp_path / "recipe.yaml", data={"source": source})


@pytest.fixture
def run(recipe, console):
    """Runs the recipe; the report, and the components that ran."""

    def run(**overrides):
        settings = {key.replace("__", "."): each for key, each in overrides.items()}
        report = run_locally(load_config(recipe, {**CHAMPION, **settings}), console)
        return report, {c.name for c in report.components if not c.is_cached}

    return run


@pytest.fixture
def paths(recipe):
    return OutputPaths.of(load_config(recipe))


def spans_in_metadata(paths):
    """The span of the Examples of the latest run, as ML Metadata has it."""
    reader = MetadataReader(paths.metadata)
    executions = {each.name: execution for each, execution in reader.latest_run()}
    examples = reader.outputs(executions["ImportExampleGen"])["examples"]
    return examples.custom_properties["span"].int_value


def start_of_latest_run(paths):
    reader = MetadataReader(paths.metadata)
    executions = {each.name: execution for each, execution in reader.latest_run()}
    directory = Path(reader.outputs(executions["Trainer"])["model_run"].uri)
    return json.loads((directory / "metrics.json").read_text())["started_from"]


def recorded_config(paths):
    newest = max(paths.run("any").parent.iterdir())
    return yaml.safe_load((newest / "config.yaml").read_text())


def test_new_span_is_trained_on_from_the_champion_and_compared_with_it(
    run, paths, tmp_path, console, monkeypatch
):
    first, ran = run()
    assert "WarmStart" in ran
    assert first.pushed is not None
    assert start_of_latest_run(paths) == "the pre-trained encoder"
    assert spans_in_metadata(paths) == 1
    assert recorded_config(paths)["data"]["span"] == 1

    again, ran = run()
    assert ran == set()  # though what was pushed since is the champion now
    assert again.pushed == first.pushed

    tiny.write_tables(tmp_path / "spans" / "2", rows=40)
    with monkeypatch.context() as patched:
        patched.setattr(fine_tuning_trainer.FineTuningTrainer, "evaluate", kill)
        with pytest.raises(RuntimeError, match="killed"):
            run()
    second, ran = run()
    assert ran == {"Trainer", *RELEASE}
    assert "resumed from step" in console.file.getvalue()
    assert len(list(paths.training.iterdir())) == 2  # one for each span
    shown = console.file.getvalue().replace("\n", " ")
    assert f"span 2 of {tmp_path}/spans/{{SPAN}}: newest of 2" in shown
    assert start_of_latest_run(paths) == f"the champion {first.pushed}"
    assert second.verdict.champion == first.pushed
    assert second.pushed != first.pushed
    assert spans_in_metadata(paths) == 2
    assert recorded_config(paths)["data"]["span"] == 2

    again, ran = run()
    assert ran == set()
    assert again.pushed == second.pushed

    # Another learning rate starts from where this data's first training did.
    second_rate, ran = run(trainer__learning_rate=0.002)
    assert "WarmStart" not in ran
    assert start_of_latest_run(paths) == f"the champion {first.pushed}"

    # The older span's model is compared with what serves now, and nothing is trained.
    older, ran = run(data__span=1)
    assert ran == {"Champion", "Evaluator", "AtomicPusher"}
    assert spans_in_metadata(paths) == 1
    assert older.verdict.champion == second_rate.pushed
    assert int(Path(older.pushed).name) > int(Path(second_rate.pushed).name)

    with pytest.raises(UsageError, match="hidden_size is 16, not 32") as caught:
        run(encoder__source=str(wider_encoder(tmp_path)))
    assert "trainer.warm_start=encoder" in str(caught.value)
    assert latest_run_lacks(paths, "Trainer")


def kill(self, num_steps):
    raise RuntimeError("killed")


def wider_encoder(tmp_path):
    """A tiny encoder of twice the hidden size."""
    before = tiny.HIDDEN, tiny.CONFIG["hidden_size"]
    tiny.HIDDEN = tiny.CONFIG["hidden_size"] = 32
    try:
        return tiny.write_encoder(tmp_path / "wider")
    finally:
        tiny.HIDDEN, tiny.CONFIG["hidden_size"] = before


def latest_run_lacks(paths, name):
    run = MetadataReader(paths.metadata).latest_run()
    return name not in [component.name for component, _ in run]


@pytest.fixture(scope="module")
def server():
    with worker.start() as server:
        yield server


# On Vertex too; one of the two backends takes three minutes.
@pytest.mark.parametrize("target", ["kubeflow"])
def test_compiled_job_starts_from_the_champion_where_its_data_are_new(
    target, server, recipe, tmp_path
):
    root = tmp_path / "root"
    cluster = {"image": "registry/bert:1", "pipeline_root": str(root)}
    config = load_config(recipe, {**CHAMPION, target: cluster})
    job = compilation.compile_job(config, target)
    staging.copy(job.staged)
    tiny.write_tables(tmp_path / "new", rows=40)
    examples_lib.prepare(str(tmp_path / "new"), str(root / "new"), config.task)

    def started_from(run):
        directory = run.tasks["Trainer"].outputs["model_run"]["uri"]
        return json.loads((Path(directory) / "metrics.json").read_text())[
            "started_from"
        ]

    with JobRunner(target, root, tmp_path / "state", server=server) as runner:
        first = runner.run(job.spec)
        again = runner.run(job.spec)
        new = runner.run(job.spec, parameters={"data": str(root / "new")})
    assert started_from(first) == "the pre-trained encoder"
    ran = {name for name, state in again.states.items() if state == "run"}
    assert ran == {"Champion", "Evaluator", "AtomicPusher"}
    assert new.states["WarmStart"] == "run"
    (pushed, _) = sorted((root / "serving" / "tiny").iterdir())
    assert started_from(new) == f"the champion {pushed}"
