"""Settings: what is read, and what is refused with the key's name."""

import re
import typing

import pytest

from components.serving_check import text_ops
from pipeline.config import Config, ServingConfig, load_config, parse_override
from pipeline.errors import UsageError
from pipeline.paths import REPOSITORY

RECIPES = sorted((REPOSITORY / "configs").glob("*.yaml"))


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(
        "name: tiny\ndata: {source: pairs}\nencoder: {source: bert}\n"
        "evaluator: {thresholds: {f1: 0.5}}\n"
    )
    return path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_its_header_names_its_command(path):
    config = load_config(path)
    assert config.evaluator.thresholds
    command = "make run" if path.stem == "sample" else f"--config configs/{path.name}"
    assert command in path.read_text().split("name:")[0]


def test_bert_base_trains_three_epochs_of_114_steps_at_3e_5():
    config = load_config(REPOSITORY / "configs" / "mrpc_bert_base.yaml")
    assert config.trainer.epochs == 3
    assert config.trainer.steps_per_epoch == 114
    assert config.trainer.batch_size == 32
    assert config.trainer.learning_rate == 3e-5
    assert config.encoder.source.startswith("gs://")


def test_paths_start_at_the_file_and_overrides_at_the_working_directory(
    recipe, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = load_config(recipe, {"data.source": "mine"})
    assert config.encoder.source == str(tmp_path / "bert")
    assert config.data.source == str(elsewhere / "mine")


@pytest.mark.parametrize("source", ["gs://bucket/bert", "package:name/path"])
def test_remote_sources_are_left_as_they_are(recipe, source):
    assert load_config(recipe, {"encoder.source": source}).encoder.source == source


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("trainer.epochs=2", ("trainer.epochs", 2)),
        ("trainer.learning_rate=3e-5", ("trainer.learning_rate", 3e-5)),
        ("evaluator.thresholds={f1: 0.8}", ("evaluator.thresholds", {"f1": 0.8})),
        ("task.classes=[no, yes]", ("task.classes", [False, True])),
        ("name=mine", ("name", "mine")),
    ],
)
def test_override_values_are_yaml(override, expected):
    assert parse_override(override) == expected


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("trainer.epoch", 3, r"trainer\.epoch: unknown key; allowed here: epochs,"),
        ("trainer.epochs", 0, r"trainer\.epochs: .*greater than 0 \(got 0\)"),
        ("trainer.epochs", "3", r"trainer\.epochs: .*valid integer \(got '3'\)"),
        ("trainer.learning_rate", 2.0, r"trainer\.learning_rate: .*less than 1"),
        ("trainer.strategy", "gpu", r"trainer\.strategy: .*'auto'.*'mirrored'"),
        ("task.metric", "bleu", r"task: metric 'bleu' is not one of accuracy, f1"),
        ("task.text_columns", [], r"task\.text_columns: .*at least 1 item"),
        ("task.classes", ["a", "a"], r"classes \['a', 'a'\] must be distinct"),
        ("evaluator.thresholds", {"f2": 0.5}, r"thresholds names 'f2'; this task has"),
        ("evaluator.thresholds", {}, r"a gate needs at least one; accuracy: 0\.0"),
        ("evaluator.thresholds", {"f1": 85.0}, r"f1 is 85\.0; allowed are -1 to 1"),
        ("preprocessing.max_seq_length", 4, r"max_seq_length: .*8 \(got 4\)"),
        ("encoder.sha256", "abc", r"encoder\.sha256"),
        ("nonsense.key", 1, r"nonsense: unknown key; allowed here: name, task,"),
        ("name.key", 1, r"name\.key: name is 'tiny', not a group"),
    ],
)
def test_impossible_setting_is_refused_with_its_key_and_what_is_allowed(
    recipe, key, value, message
):
    with pytest.raises(UsageError, match=message):
        load_config(recipe, {key: value})


def test_missing_setting_is_named(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("name: tiny\n")
    with pytest.raises(UsageError, match=r"encoder: required, but not set"):
        load_config(path)


def test_task_of_ones_own_needs_a_data_source(recipe):
    with pytest.raises(UsageError, match=r"data\.source: required, but not set"):
        load_config(recipe, {"data.source": None})


@pytest.mark.parametrize("text", ["[1", "just text", ""])
def test_file_that_is_no_mapping_is_refused(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(str(path))):
        load_config(path)


def test_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "absent.yaml")


def test_what_is_stored_with_a_run_reads_back_equal(recipe, tmp_path):
    config = load_config(recipe, {"trainer.learning_rate": 2e-5})
    stored = tmp_path / "stored.yaml"
    stored.write_text(config.to_yaml())
    assert load_config(stored) == config
    assert isinstance(config, Config)


@pytest.mark.parametrize(("given", "read"), [(2.2, "2.20"), (2.16, "2.16")])
def test_version_of_a_server_is_no_number(recipe, given, read):
    """YAML reads 2.20 as one."""
    config = load_config(recipe, {"serving.tf_serving_version": given})
    assert config.serving.tf_serving_version == read


def test_server_that_the_serving_check_does_not_know_is_refused(recipe):
    with pytest.raises(UsageError, match=r"tf_serving_version: .*'2\.16'.*'2\.20'"):
        load_config(recipe, {"serving.tf_serving_version": "2.15"})
    for version in typing.get_args(
        ServingConfig.model_fields["tf_serving_version"].annotation
    ):
        assert text_ops.text_version(version)
