"""Reading a recipe, and refusing a wrong one by the setting's key."""

import math
import re
import typing

import pytest

from components.serving_check import text_ops
from contracts.errors import UsageError
from contracts.settings.serving import ServingConfig
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import (
    Config,
    load_beam,
    load_config,
    load_data,
    load_task,
    parse_override,
)

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
        ("trainer.learning_rate=1.5E5", ("trainer.learning_rate", 1.5e5)),
        ("trainer.learning_rate='1e-5'", ("trainer.learning_rate", "1e-5")),
        ("trainer.shuffle_buffer_size=1_000", ("trainer.shuffle_buffer_size", 1000)),
        ("trainer.loss_upper_bound=.inf", ("trainer.loss_upper_bound", math.inf)),
        ("trainer.optimization={x: 1e-5}", ("trainer.optimization", {"x": 1e-5})),
        ("trainer.seed=2026-01-31", ("trainer.seed", "2026-01-31")),
        ("trainer.seed=", ("trainer.seed", None)),
        ("data.span=010", ("data.span", 10)),
        ("data.span=08", ("data.span", 8)),
        ("output=null", ("output", None)),
        ("name=mine", ("name", "mine")),
        ("nonsense.key=1", ("nonsense.key", 1)),
        ("task.classes=[no, yes]", ("task.classes", ["no", "yes"])),
    ],
)
def test_override_values_are_yaml(override, expected):
    assert parse_override(override) == expected


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("beam.flink_version", "1.19", "1.19"),
        ("beam.flink_version", "1.20", "1.20"),
        ("beam.flink_version", "'1.20'", "1.20"),
        ("vertex.beam.flink_version", "1.20", "1.20"),
        ("serving.tf_serving_version", "2.20", "2.20"),
        ("task.classes", "[1.0, 010, 1e5]", ["1.0", "010", "1e5"]),
        ("task", "{label_column: 7, label_range: [0, 1e1]}", {}),
        ("kubeflow.node_selector", "{gpu: a, count: 010}", {}),
        ("output", "2026", "2026"),
        ("name", "2026-01-31", "2026-01-31"),
        ("name", "nan", "nan"),
        *(("data.delimiter", c, c) for c in "~#@!&*%`|>-?:,[]{}=\"' \t"),
        ("data.delimiter", "'#'", "#"),
        ("data.delimiter", '"~"', "~"),
        ("data.delimiter", "tab", "tab"),
        ("data.license", "a: #b", "a: #b"),
        ("data.group_column", " @who ", "@who"),
        ("data.group_column", "''", ""),
        ("encoder.sha256", "null", None),
    ],
)
def test_string_setting_keeps_its_text(tmp_path, key, text, expected):
    if expected == {}:
        expected = {
            "task": {"label_column": "7", "label_range": [0, 10.0]},
            "kubeflow.node_selector": {"gpu": "a", "count": "010"},
        }[key]
    assert parse_override(f"{key}={text}") == (key, expected)


def test_recipe_keeps_the_text_of_strings_and_reads_exponents_as_numbers(recipe):
    recipe.write_text(
        "name: tiny\ndata: {source: pairs}\nencoder: {source: 2026}\n"
        "task: {classes: [2.0, 1e5]}\n"
        "trainer: {learning_rate: 1e-5}\n"
        "evaluator: {thresholds: {f1: 5e-1}}\n"
        "serving: {tf_serving_version: 2.20}\nbeam: {flink_version: 1.20}\n"
        "kubeflow: {image: i, pipeline_root: gs://b, beam: {flink_version: 1.10}}\n"
    )
    config = load_config(recipe)
    assert config.encoder.source == str(recipe.parent / "2026")
    assert config.task.classes == ["2.0", "1e5"]
    assert config.trainer.learning_rate == 1e-5
    assert config.evaluator.thresholds == {"f1": 0.5}
    assert config.serving.tf_serving_version == "2.20"
    assert config.beam.flink_version == "1.20"
    assert config.kubeflow.beam.flink_version == "1.10"


def test_recipe_may_use_anchors_and_merge_keys(recipe):
    recipe.write_text(
        "name: tiny\ndata: {source: pairs}\nencoder: {source: bert}\n"
        "evaluator: {thresholds: &bounds {f1: 0.5}, max_regression: *bounds}\n"
        "beam: &beam {flink_version: 1.20}\n"
        "kubeflow: {image: i, pipeline_root: gs://b, beam: {<<: *beam, workers: 2}}\n"
    )
    config = load_config(recipe)
    assert config.evaluator.max_regression == {"f1": 0.5}
    assert config.kubeflow.beam.flink_version == "1.20"


@pytest.mark.parametrize(
    ("key", "text", "message"),
    [
        ("name", "null", r"name: .*valid string \(got None\)"),
        ("trainer.epochs", "1e1", r"epochs: .*valid integer \(got 10\.0\)"),
        ("trainer.learning_rate", "'1e-5'", r"learning_rate: .*number \(got '1e-5'\)"),
        ("trainer.epochs", "2026-01-99", r"epochs: .*integer \(got '2026-01-99'\)"),
        ("data.source", "[1]", r"source: .*valid string \(got \[1\]\)"),
        ("data.delimiter", '"', r"delimiter: .*quote"),
        ("data.delimiter", "\n", r"delimiter: .*line"),
        ("data.delimiter", "||", r"delimiter: .*1 character \(got '\|\|'\)"),
    ],
)
def test_override_of_another_type_is_refused(recipe, key, text, message):
    with pytest.raises(UsageError, match=message):
        load_config(recipe, dict([parse_override(f"{key}={text}")]))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "trainer.epoch",
            3,
            r"trainer\.epoch: unknown key; did you mean epochs\?; allowed here:",
        ),
        ("trainer.epochs", 0, r"trainer\.epochs: .*greater than 0 \(got 0\)"),
        ("trainer.epochs", "3", r"trainer\.epochs: .*valid integer \(got '3'\)"),
        ("trainer.learning_rate", 2.0, r"trainer\.learning_rate: .*less than 1"),
        ("trainer.strategy", "gpu", r"trainer\.strategy: .*'auto'.*'mirrored'"),
        ("trainer.xla", "mirrored", r"trainer\.xla: .*'auto'.*'on'.*'off'"),
        ("trainer.summary_interval", 15, r"is 15; allowed are multiples of .*, 10"),
        ("task.metric", "bleu", r"metric 'bleu' is not one of accuracy, precision"),
        ("task.text_columns", [], r"task\.text_columns: .*at least 1 item"),
        ("task.classes", ["a", "a"], r"classes \['a', 'a'\] must be distinct"),
        ("evaluator.split", "train", r"split: allowed are eval, .*test.*\(got 'train'"),
        ("evaluator.split", "dev", r"split: allowed are eval, .*test.*\(got 'dev'\)"),
        ("evaluator.thresholds", {"f2": 0.5}, r"thresholds names 'f2'; this task has"),
        ("evaluator.thresholds", {}, r"a gate needs at least one; accuracy: 0\.0"),
        ("evaluator.thresholds", {"f1": 85.0}, r"f1 is 85\.0; allowed are 0 to 1"),
        ("evaluator.max_regression", {"f1": -2}, r"f1 is -2\.0; allowed are -1 to 1"),
        (
            "data.slice_columns",
            ["label"],
            r"data\.slice_columns names 'label', a column of the task; leave it out",
        ),
        ("data.slice_columns", ["a", "a"], r"slice_columns names 'a', twice; leave"),
        ("data.slice_columns", [""], r"slice_columns names '', without a character"),
        (
            "data.slice_columns",
            ["word_overlap"],
            r"names 'word_overlap', by which each evaluation is sliced; leave it out",
        ),
        (
            "evaluator.slice_thresholds",
            {"region": {"accuracy": 0.5}},
            r"names 'region'; data\.slice_columns has no column: add it there",
        ),
        (
            "evaluator.slice_thresholds",
            {"region": {"f2": 0.5}},
            r"evaluator\.slice_thresholds\.region names 'f2'; this task has accuracy",
        ),
        (
            "evaluator.slice_thresholds",
            {"region": {"f1": 50.0}},
            r"slice_thresholds\.region: f1 is 50\.0; allowed are 0 to 1",
        ),
        (
            "evaluator.group_words",
            {"age": [["young", "very old"]]},
            r"evaluator\.group_words: 'age' has 'very old', which is not one word",
        ),
        (
            "evaluator.max_changed_by_words",
            5,
            r"max_changed_by_words: .*less than or equal to 1 \(got 5\)",
        ),
        ("evaluator.min_slice_rows", 0, r"min_slice_rows: .*greater than 0 \(got 0\)"),
        (
            "evaluator.thresholds",
            {"f1/no": 0.5},
            r"'f1/no'; .*, matthews, precision/CL",
        ),
        ("trainer.class_weights", "balanced", r"allowed are auto and .*'balanced'\)"),
        (
            "trainer.class_weights",
            {"equivalent": 0.0},
            r"numbers above 0 as {CLASS: NU",
        ),
        (
            "trainer.class_weights",
            {"equivalent": math.inf},
            r"class_weights: .*above 0",
        ),
        ("trainer.class_weights", {"equivalent": "1"}, r"class_weights: .*above 0"),
        (
            "trainer.class_weights",
            {"equal": 2.0},
            r"class_weights names 'equal'; this task has not_equivalent, equivalent",
        ),
        ("task.weight_column", "label", r"\['sentence1', .*'label'\] must be distinct"),
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


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ({}, r"tuner\.space: .*at least 1 item"),
        ({"learning_rat": [1, 2]}, r"learning_rat cannot be .*mean learning_rate\?"),
        (
            {"seeds": [1, 2]},
            r"space\.seeds cannot be searched; allowed are epochs, bat",
        ),
        ({"epochs": []}, r"space\.epochs is \[\]; write at least two values"),
        ({"epochs": [3]}, r"epochs is \[3\]; .* belongs to trainer\.epochs"),
        ({"epochs": [3, 0]}, r"space\.epochs has 0: .*greater than 0"),
        ({"epochs": [2, "3"]}, r"space\.epochs has '3': .*valid integer"),
        ({"epochs": [2, 2]}, r"epochs is \[2, 2\]: a value is repeated"),
        ({"epochs": [2.5, 4, "linear"]}, r"epochs has 2\.5: .*valid integer"),
        ({"learning_rate": [1e-5, 2.0, "log"]}, r"_rate has 2\.0: .*less than 1"),
        ({"learning_rate": [1e-4, 1e-5, "log"]}, r"a range is \[LOW, HIGH, log\]"),
        ({"dropout": [0.1, "linear"]}, r"a range is \[LOW, HIGH, linear\]"),
        ({"dropout": [0.0, 0.1, "log"]}, r"logarithmic range begins above 0: raise 0"),
        ({"dropout": [None, 0.1]}, r"space\.dropout has null, which cannot be"),
        ({"decay_start": ["after_warmup", "later"]}, r"decay_start has 'later': "),
    ],
)
def test_space_of_a_search_that_the_trainer_does_not_allow_is_refused(
    recipe, space, message
):
    settings = {"evaluator.split": "test", "tuner": {"space": space}}
    with pytest.raises(UsageError, match=message):
        load_config(recipe, settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"tuner": {"space": {"epochs": [2, 3]}, "service": "vizier"}},
        {"tuner.service": "vizier"},
    ],
)
def test_setting_that_was_removed_is_refused_with_what_holds_now(recipe, settings):
    message = r"tuner\.service: this setting was removed: Optuna .*; leave it out"
    with pytest.raises(UsageError, match=message):
        load_config(recipe, {"evaluator.split": "test", **settings})
    with open(recipe, "a") as file:
        file.write("tuner: {space: {epochs: [2, 3]}, service: vizier}")
    with pytest.raises(UsageError, match=message):
        load_config(recipe, {"evaluator.split": "test"})


def test_search_of_an_earlier_run_is_read(recipe):
    with open(recipe, "a") as file:
        file.write("tuner: {space: {epochs: [2, 3]}, service: optuna}")
    config = load_config(recipe, {"evaluator.split": "test"}, is_past=True)
    assert config.tuner.space == {"epochs": [2, 3]}


def test_setting_that_is_overridden_is_not_searched(recipe):
    with open(recipe, "a") as file:
        file.write("tuner: {space: {learning_rate: [1e-5, 1e-4, log], epochs: [2, 3]}}")
    test = {"evaluator.split": "test"}
    assert set(load_config(recipe, test).tuner.space) == {"learning_rate", "epochs"}
    config = load_config(recipe, test | {"trainer.epochs": 7})
    assert set(config.tuner.space) == {"learning_rate"}
    assert config.trainer.epochs == 7
    both = {"trainer.epochs": 7, "trainer.learning_rate": 1e-5}
    assert load_config(recipe, both).tuner is None


def test_search_on_the_rows_that_decide_about_the_push_is_refused(recipe):
    space = {"tuner": {"space": {"epochs": [2, 3]}}}
    message = r"evaluator\.split is eval, too: .*as test"
    with pytest.raises(UsageError, match=message):
        load_config(recipe, space | {"evaluator.split": "eval"})
    assert load_config(recipe, space).with_split(["train", "eval", "test"])
    with pytest.raises(UsageError, match=message):
        load_config(recipe, space).with_split(["train", "eval"])
    several = {"evaluator.split": "test", "trainer.strategy": "parameter_server"}
    with pytest.raises(UsageError, match=r"tuner works in one process"):
        load_config(recipe, space | several)


@pytest.mark.parametrize(
    "label_range", [[0.0, math.inf], [-math.inf, 0.0], [0.0, 1e39]]
)
def test_range_that_float32_does_not_hold_is_refused(recipe, label_range):
    settings = {"task": {"label_range": label_range}}
    with pytest.raises(UsageError, match=r"label_range is \[.*; allowed are numbers"):
        load_config(recipe, settings)


@pytest.mark.parametrize("weights", ["auto", {"low": 2.0}])
def test_class_weights_of_a_regression_are_refused(recipe, weights):
    settings = {"task": {"label_range": [0, 5]}, "trainer.class_weights": weights}
    thresholds = {"evaluator.thresholds": {"pearson": 0.0}}
    with pytest.raises(UsageError, match=r"is a regression; .*task\.weight_column"):
        load_config(recipe, settings | thresholds)


def test_classes_whose_names_yaml_reads_as_other_types_are_weighed(recipe):
    with open(recipe, "a") as file:
        file.write("task: {classes: [no, 007]}\n")
        file.write("trainer: {class_weights: {no: 2, 007: 0.5}}\n")
    config = load_config(recipe)
    assert config.trainer.class_weights == {"no": 2.0, "007": 0.5}
    override = parse_override("trainer.class_weights={no: 3}")
    assert override == ("trainer.class_weights", {"no": 3})
    assert load_config(recipe, {"trainer.class_weights": "auto"}).trainer.class_weights


def test_bounds_and_deciding_metric_may_be_those_of_a_class(recipe):
    bounds = {"recall/equivalent": 0.5, "f1/not_equivalent": 0.1}
    settings = {"evaluator.thresholds": bounds, "task.metric": "recall/equivalent"}
    assert load_config(recipe, settings).evaluator.thresholds == bounds


def test_thresholds_of_slices_belong_to_columns_of_the_data(recipe):
    with open(recipe, "a") as file:
        file.write("task: {text_columns: [text], id_column: row}\n")
    thresholds = {"region": {"accuracy": 0.7, "recall/equivalent": 0.5}}
    settings = {
        "data.slice_columns": ["region", "word_overlap"],
        "evaluator.slice_thresholds": thresholds,
    }
    config = load_config(recipe, settings)
    assert config.evaluator.slice_thresholds == thresholds


def test_message_of_an_unknown_metric_does_not_list_every_class(recipe):
    classes = [f"class {number}" for number in range(20)]
    with pytest.raises(UsageError, match="f1, precision/CLASS, recall/CLASS") as caught:
        load_config(recipe, {"task.classes": classes, "task.metric": "f1/class 20"})
    first_line = str(caught.value).partition("(got")[0]
    assert len(first_line.partition("refused:")[2]) < 120


def test_missing_setting_is_named(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("name: tiny\n")
    with pytest.raises(UsageError, match=r"encoder: required, but not set"):
        load_config(path)


def test_custom_task_needs_a_data_source(recipe):
    with pytest.raises(UsageError, match=r"data\.source: required, but not set"):
        load_config(recipe, {"data.source": None})


@pytest.mark.parametrize("text", ["[1", "just text", ""])
def test_file_without_a_mapping_is_refused(tmp_path, text):
    path = tmp_path / "recipe.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(str(path))):
        load_config(path)


def test_file_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "absent.yaml")


def test_stored_recipe_reads_back_equal(recipe, tmp_path):
    strings = {"schedule": "1e-5", "step": "08", "day": "2026-01-31", "flag": "yes"}
    config = load_config(
        recipe,
        {
            "trainer.learning_rate": 2e-5,
            "trainer.optimization": strings,
            "task.classes": ["no", "1e5", "08", "2026-01-31"],
        },
    )
    stored = tmp_path / "stored.yaml"
    stored.write_text(config.to_yaml())
    assert load_config(stored) == config
    assert isinstance(config, Config)


@pytest.mark.parametrize(("number", "text"), [(2.2, "2.20"), (2.16, "2.16")])
def test_version_of_tensorflow_serving_keeps_two_digits(recipe, number, text):
    config = load_config(recipe, {"serving.tf_serving_version": number})
    assert config.serving.tf_serving_version == text


def test_unknown_version_of_tensorflow_serving_is_refused(recipe):
    with pytest.raises(UsageError, match=r"tf_serving_version: .*'2\.16'.*'2\.20'"):
        load_config(recipe, {"serving.tf_serving_version": "2.15"})
    for version in typing.get_args(
        ServingConfig.model_fields["tf_serving_version"].annotation
    ):
        assert text_ops.text_version(version)


def test_output_that_is_spelled_with_dots_is_the_same_directory(tmp_path):
    paths = OutputPaths.at(tmp_path / "a" / ".." / "output", "tiny")
    assert paths == OutputPaths.at(tmp_path / "output", "tiny")


@pytest.mark.parametrize("column", ["What they wrote", "text?", "\u00dcnit", "_text"])
def test_column_that_no_signature_can_have_is_refused_with_another_name(column):
    settings = {"task.text_columns": [column], "task.classes": ["no", "yes"]}
    with pytest.raises(UsageError, match=r"Rename the column, for example (\w+)") as e:
        load_config(REPOSITORY / "configs" / "sample.yaml", settings)
    name = e.value.message.split()[-1].rstrip(".")
    assert load_config(
        REPOSITORY / "configs" / "sample.yaml",
        {**settings, "task.text_columns": [name]},
    )


def test_paths_of_a_recipe_in_a_linked_directory_are_below_the_link(recipe, tmp_path):
    """A link is the way to use a directory whose name TFX reads as a pattern."""
    (tmp_path / "project[1]").mkdir()
    recipe.rename(tmp_path / "project[1]" / "recipe.yaml")
    (tmp_path / "link").symlink_to(tmp_path / "project[1]")
    config = load_config(tmp_path / "link" / "recipe.yaml")
    assert config.data.source == str(tmp_path / "link" / "pairs")


def test_path_with_dots_is_the_directory_that_it_names(recipe, tmp_path):
    (tmp_path / "configs").mkdir()
    recipe = recipe.rename(tmp_path / "configs" / "recipe.yaml")
    recipe.write_text(recipe.read_text().replace("pairs", "../pairs"))
    assert load_config(recipe).data.source == str(tmp_path / "pairs")
    # Above a link, `..` is in the directory that the link leads to.
    (tmp_path / "elsewhere" / "below").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "below")
    recipe.write_text(recipe.read_text().replace("../pairs", "../link/../pairs"))
    expected = str((tmp_path / "elsewhere" / "pairs").resolve())
    assert load_config(recipe).data.source == expected


@pytest.mark.parametrize(
    "change", [{"task.input": "tokenized"}, {"evaluator.group_words": {}}]
)
def test_refusal_by_words_that_are_not_swapped_is_refused(recipe, change):
    refuse = {"evaluator.changed_by_words": "refuse"}
    assert load_config(recipe, refuse).evaluator.changed_by_words == "refuse"
    with pytest.raises(UsageError, match="changed_by_words is refuse, but no words"):
        load_config(recipe, {**refuse, **change})


LONG = {
    "task.text_columns": ["sentence1"],
    "preprocessing.max_seq_length": 2048,
    "preprocessing.long_text.window": 128,
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"preprocessing.long_text.stride": 127},
            r"stride is 127: windows of 128 .* have 126 of the .* allowed are 1 to 126",
        ),
        (
            {"preprocessing.max_seq_length": 128},
            r"no text would have a second window; raise max_seq_length",
        ),
        ({"preprocessing.long_text.window": 4}, r"window: .*8 \(got 4\)"),
        ({"preprocessing.long_text.pool": "sum"}, r"pool: .*'mean' or 'max'"),
        ({"preprocessing.keep": "middle"}, r"keep: .*'head', 'tail' or 'ends'"),
        (
            {"task.text_columns": ["sentence1", "sentence2"]},
            r"one text in windows, but .* \['sentence1', 'sentence2'\].*name one colum",
        ),
        ({"task.input": "tokenized"}, r"task\.input is tokenized: another tool has pa"),
    ],
)
def test_windows_that_cannot_be_read_are_refused(recipe, change, message):
    load_config(recipe, LONG)
    with pytest.raises(UsageError, match=message):
        load_config(recipe, {**LONG, **change})


def test_only_settings_of_long_texts_that_are_set_are_in_the_keys(recipe):
    unset = {"max_seq_length": 128}
    preprocessing = load_config(recipe).preprocessing
    assert preprocessing.key() == preprocessing.key(transform=True) == unset
    preprocessing = load_config(recipe, LONG).preprocessing
    assert preprocessing.key()["long_text"]["pool"] == "mean"
    # Another pool trains again, and does not tokenize again.
    windows = {"window": 128, "stride": 64}
    assert preprocessing.key(transform=True)["long_text"] == windows


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"trainer.epoch": 3}, "trainer.epoch: unknown key; did you mean epochs?"),
        ({"trainr.epochs": 3}, "trainr: unknown key; did you mean trainer?"),
        ({"epochs": 3}, "epochs: unknown key; did you mean trainer.epochs?"),
        ({"trainer": {"epoch": 3}}, "trainer.epoch: unknown key; did you mean"),
        ({"data.test_size": 20}, "data.test_size: Input should be less than 1"),
        ({"data.span": 3}, "data: span is 3, but source is"),
        ({"task.metric": "bleu"}, "task: metric 'bleu' is not one of"),
        ({"kubeflow.cache": False}, "kubeflow.image: required, but not set; add"),
        ({"evaluator.thresholds": {}}, "evaluator.thresholds: a gate needs at least"),
    ],
)
def test_override_is_blamed_instead_of_the_file(recipe, overrides, message):
    with pytest.raises(UsageError) as refused:
        load_config(recipe, {"trainer.seed": 1, **overrides})
    lines = str(refused.value).splitlines()
    assert lines[0].startswith("overrides are refused (--set and other options, ")
    assert lines[1].startswith(f"  {message}")
    assert str(recipe) not in str(refused.value)


def test_file_and_overrides_are_blamed_each_for_their_settings(recipe):
    recipe.write_text(recipe.read_text() + "trainer: {epochs: 0, seed: -1}\n")
    with pytest.raises(UsageError) as refused:
        load_config(recipe, {"trainer.epochs": -2, "trainer.batch_size": 0})
    of_overrides, of_file = str(refused.value).split(f"config {recipe} is refused:\n")
    assert of_file.startswith("  trainer.seed: ")
    assert "trainer.epochs: " in of_overrides
    assert "trainer.batch_size: " in of_overrides
    load_config(recipe, {"trainer.epochs": 2, "trainer.seed": 1})


@pytest.mark.parametrize("load", [load_config, load_task, load_data, load_beam])
def test_unknown_override_is_refused_by_commands_that_read_one_section(recipe, load):
    for key, unknown in (("trainer.epoch", "trainer.epoch"), ("tasks.name", "tasks")):
        with pytest.raises(UsageError, match=f"  {unknown}: unknown key; did you"):
            load(recipe, {key: 3})
    with pytest.raises(UsageError, match=r"  (task\.label_column|data|beam\.runner): "):
        load(
            recipe,
            {"task.label_column": 3, "data.span": 1, "beam.runner": "no"},
        )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.license", "cut \ud83d"),
        ("task.classes", ["no", "cut \ud83d"]),
        ("evaluator.group_words", {"age": [["young", "cut \ud83d"]]}),
    ],
)
def test_lone_surrogate_in_a_setting_is_refused_by_key(recipe, key, value):
    with pytest.raises(UsageError, match=rf"^{key}\S* has a lone surrogate, '.ud83d'"):
        load_config(recipe, {key: value})
    recipe.write_text(recipe.read_text().replace("pairs", r'pairs, license: "\ud83d"'))
    with pytest.raises(UsageError, match=r"^data\.license has a lone surrogate"):
        load_config(recipe)
    assert load_config(recipe, {"data.license": "", "output": "not UTF-8 \udcff"})
