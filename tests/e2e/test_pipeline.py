"""Whole pipelines with a tiny encoder on a handful of pairs."""

import dataclasses
import shutil
import subprocess
from pathlib import Path

import pytest
import tensorflow as tf
import tensorflow_text  # noqa: F401 (registers the tokenizer's ops)

from modules.training import model_run
from pipeline.config.errors import UsageError
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.local.report import MetadataReader
from pipeline.local.run import run_locally
from tests import tiny
from tests.e2e.commands import run as command_line

pytestmark = pytest.mark.e2e

DATA = [
    "ImportExampleGen",
    "ImportSchemaGen",
    "StatisticsGen",
    "ExampleValidator",
    "SchemaGen",
    "DataGate",
]
RELEASE = ["Champion", "Evaluator", "ServingCheck", "AtomicPusher"]
MODEL = ["Trainer", *RELEASE]
EVERYTHING = [*DATA, "Transform", "Hyperparameters", *MODEL]


@pytest.fixture
def recipe(tmp_path):
    """A recipe of the tiny encoder and pairs."""
    return tiny.write_config(tmp_path / "recipe.yaml")


@pytest.fixture
def run(recipe, console):
    """Runs the recipe with overrides; the report, and the components that ran."""

    def run(**overrides):
        config = load_config(
            recipe, {key.replace("__", "."): value for key, value in overrides.items()}
        )
        report = run_locally(config, console)
        return report, {c.name for c in report.components if not c.is_cached}

    return run


def values(report, kind):
    """Returns a verdict's numbers by metric."""
    return {m.metric: getattr(m, kind) for m in report.verdict.metrics}


def classify(model, first, second):
    loaded = tf.saved_model.load(str(model))
    signature = loaded.signatures["serving_default"]
    return signature(sentence1=tf.constant(first), sentence2=tf.constant(second))


def test_unchanged_pipeline_runs_once_and_every_edit_reruns_what_depends_on_it(
    run, recipe, tmp_path
):
    first, ran = run()
    assert ran == set(EVERYTHING)
    assert first.pushed is not None
    assert first.verdict.champion is None

    again, ran = run()
    assert ran == set()
    assert again.pushed == first.pushed

    second, ran = run(trainer__learning_rate=0.002)
    assert ran == {"Hyperparameters", *MODEL}
    assert second.pushed != first.pushed
    assert Path(first.pushed).is_dir()  # the previous version stays servable
    assert second.verdict.champion == first.pushed
    # Chunks run side by side: a sum may come in another order, and end in other bits.
    expected = pytest.approx(values(first, "value"), rel=1e-6, nan_ok=True)
    assert values(second, "champion") == expected

    again, ran = run(trainer__learning_rate=0.002)
    assert ran == set()
    assert again.verdict.champion == first.pushed

    weights = tiny.write_encoder(tmp_path / "other", seed=1) / "model.safetensors"
    shutil.copy(weights, tmp_path / "encoder")
    _, ran = run(trainer__learning_rate=0.002)
    assert ran == set(MODEL)

    with open(tmp_path / "data" / "train.tsv", "a") as file:
        file.write("900\t1\tThe cat.\tA cat!\n")
    _, ran = run(trainer__learning_rate=0.002)
    assert ran == set(EVERYTHING) - {"ImportSchemaGen", "Hyperparameters"}

    bounds = {"accuracy": 0.0, "f1": 0.0}
    _, ran = run(trainer__learning_rate=0.002, evaluator__thresholds=bounds)
    assert ran == {"Evaluator", "AtomicPusher"}


def test_served_model_is_always_the_last_one_that_passed(run, recipe, monkeypatch):
    first, _ = run()
    shutil.rmtree(first.pushed)
    again, ran = run()
    assert ran == {"AtomicPusher"}  # nothing is trained again
    assert Path(again.pushed, "saved_model.pb").is_file()

    second, _ = run(trainer__seed=1)
    back, ran = run()
    assert "Trainer" not in ran
    assert int(Path(back.pushed).name) > int(Path(second.pushed).name)
    expected = classify(again.pushed, ["The cat."], ["A dog."])["logits"]
    found = classify(back.pushed, ["The cat."], ["A dog."])["logits"]
    assert tf.reduce_all(expected == found)

    # A champion of another task is refused before training, or not compared.
    other_task = {"task__classes": ["equivalent", "not_equivalent"]}
    with pytest.raises(UsageError, match=r"classes .* instead of .*=ignore"):
        run(**other_task, evaluator__incompatible_champion="refuse")
    reader = MetadataReader(OutputPaths.of(load_config(recipe)).metadata)
    stopped = {component.name for component, _ in reader.latest_run()}
    assert "ChampionCheck" in stopped
    assert not stopped & {"Transform", "Trainer"}

    # Serves other than what was evaluated, which the Evaluator cannot see.
    describe = model_run._describe
    monkeypatch.setattr(
        model_run,
        "_describe",
        lambda task, label, output: describe(task, label, 1 - output),
    )
    skewed, _ = run(trainer__seed=2, **other_task)
    assert skewed.verdict.champion is None
    assert f"not compared with the champion {back.pushed}" in skewed.verdict.summary
    assert skewed.verdict.blessed
    assert any("differs" in reason for reason in skewed.serving_failures)
    assert skewed.pushed is None


@dataclasses.dataclass
class Story:
    """Three runs by the command line: bad data, mended data, a gate too high."""

    directory: Path
    bad: subprocess.CompletedProcess
    good: subprocess.CompletedProcess
    refused: subprocess.CompletedProcess

    @property
    def recipe(self):
        return self.directory / "recipe.yaml"

    @property
    def repository(self):
        """A copy of the code."""
        return self.directory / "repository"

    @property
    def pushed(self):
        return Path(self.good.stdout.splitlines()[-1].removeprefix("pushed "))


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    directory = tmp_path_factory.mktemp("story")
    recipe = tiny.write_config(directory / "recipe.yaml")
    copy = directory / "repository"
    for package in ("pipeline", "components", "modules", "configs"):
        shutil.copytree(REPOSITORY / package, copy / package)
    table = directory / "data" / "eval.tsv"
    good = table.read_text()
    table.write_text(good + "904\t-3\tThe cat.\tA cat.\n")
    bad = command_line("run", "--config", recipe, cwd=copy)
    table.write_text(good)
    pushed = command_line("run", "--config", recipe, cwd=copy)
    bound = "evaluator.thresholds={accuracy: 0.999}"
    refused = command_line("run", "--config", recipe, "--set", bound, cwd=copy)
    return Story(directory, bad, pushed, refused)


def test_bad_data_exit_2_with_what_is_wrong(story):
    assert story.bad.returncode == 2
    assert "eval: label: Out-of-range values" in story.bad.stderr


def test_pushed_model_exits_0_and_its_last_line_names_the_directory(story):
    assert story.good.returncode == 0, story.good.stdout
    assert (story.pushed / "saved_model.pb").is_file()


def test_run_shows_components_and_steps_and_keeps_the_noise_in_its_record(story):
    assert story.good.stderr == ""
    for name in EVERYTHING:
        assert f"✓ {name}" in story.good.stdout
    assert "step 3/3 loss" in story.good.stdout
    records = sorted((story.directory / "output" / "runs").iterdir())
    assert len(records) == 3
    assert load_config(records[1] / "config.yaml") == load_config(story.recipe)
    assert (records[1] / "run.log").stat().st_size > 0


def test_refused_model_exits_3_with_its_metric_and_leaves_the_served_one(story):
    assert story.refused.returncode == 3, story.refused.stdout
    last = story.refused.stdout.splitlines()[-1]
    assert last.startswith("refused: accuracy is 0.")
    assert last.endswith("the threshold is 0.9990")
    assert list(story.pushed.parent.iterdir()) == [story.pushed]


def test_pushed_model_answers_pairs_and_files_by_the_command_line(story):
    shown = command_line(
        "predict", "--model", story.pushed, "--pair", "A cat.", "The cat!"
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stderr == ""
    assert "equivalent" in shown.stdout
    output = story.directory / "predictions.jsonl"
    table = story.directory / "data" / "test.tsv"
    served = story.pushed.parent
    written = command_line(
        "predict", "--model", served, "--input", table, "--output", output
    )
    assert written.returncode == 0, written.stderr
    assert len(output.read_text().splitlines()) == 48


def test_edit_in_modules_reruns_what_imports_it(story):
    """The last of the story, for it pushes another model."""
    with open(story.repository / "modules" / "export.py", "a") as file:
        file.write("# an edit\n")
    finished = command_line("run", "--config", story.recipe, cwd=story.repository)
    assert finished.returncode == 0, finished.stdout
    states = {
        line.split("│")[1].strip(): line.split("│")[3].strip()
        for line in finished.stdout.splitlines()
        if line.endswith("│") and ("cached" in line or " run " in line)
    }
    assert states["Transform"] == "cached"
    assert {states[name] for name in MODEL} == {"run"}
    assert states["Hyperparameters"] == "cached"


BAD_ROWS = {
    "label out of its domain": (
        "901\t7\tThe cat.\tA cat.\n",
        ["train: label: Out-of-range values", "idx 901: [7]"],
    ),
    "empty text": (
        "902\t1\t \tA cat.\n903\t1\t\tA cat.\n",
        ["train: sentence1: Empty text: in 2 examples (rows 902, 903)"],
    ),
}


@pytest.mark.parametrize(("row", "expected"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_data_stop_the_pipeline_before_transform(
    run, recipe, tmp_path, row, expected
):
    with open(tmp_path / "data" / "train.tsv", "a") as file:
        file.write(row)
    with pytest.raises(UsageError) as caught:
        run()
    for text in expected:
        assert text in str(caught.value)
    assert not (tmp_path / "output" / "artifacts" / "Transform").exists()
