"""Task definitions: GLUE and custom ones."""

import numpy as np
import pytest
from pydantic import ValidationError

from contracts import metrics
from contracts.errors import UsageError
from contracts.task.definition import GLUE, TaskConfig
from pipeline.config.recipe import load_config
from tests import tiny


@pytest.fixture
def recipe(tmp_path):
    return tiny.write_config(tmp_path / "recipe.yaml")


def test_glue_has_its_nine_tasks_with_their_deciding_metrics():
    metrics = {name: TaskConfig.model_validate({"name": name}).metric for name in GLUE}
    assert metrics == {
        "cola": "matthews",
        "sst2": "accuracy",
        "mrpc": "f1",
        "stsb": "pearson_spearman",
        "qqp": "f1",
        "mnli": "accuracy",
        "qnli": "accuracy",
        "rte": "accuracy",
        "wnli": "accuracy",
    }


@pytest.mark.parametrize("name", GLUE)
def test_columns_and_classes_are_those_of_tfds(name):
    glue = pytest.importorskip("tensorflow_datasets.text.glue")
    (upstream,) = (c for c in glue.Glue.BUILDER_CONFIGS if c.name == name)
    task = TaskConfig.model_validate({"name": name})
    assert task.text_columns == list(upstream.text_features)
    assert task.classes == upstream.label_classes


def test_task_is_named_in_the_recipe_or_on_the_command_line(recipe):
    config = load_config(
        recipe,
        {"task": "cola", "data.source": None, "evaluator.thresholds": {"matthews": 0}},
    )
    assert config.task.text_columns == ["sentence"]
    assert config.data_source == "tfds:glue/cola"


def test_setting_of_a_named_task_is_overridden(recipe):
    overrides = {"task": "mrpc", "task.metric": "accuracy"}
    task = load_config(recipe, overrides).task
    assert (task.name, task.metric) == ("mrpc", "accuracy")


def test_unknown_task_is_refused_with_the_known_ones(recipe):
    with pytest.raises(UsageError, match="'snli' is not a GLUE task; allowed are cola"):
        load_config(recipe, {"task": "snli"})


def test_range_makes_a_regression():
    task = TaskConfig.model_validate({"label_range": [1.0, 5.0]})
    assert task.classes is None
    assert (task.outputs, task.metric) == (1, "pearson_spearman")
    assert TaskConfig.model_validate(task.model_dump()) == task


def test_tokenized_examples_have_the_model_gardens_columns():
    task = TaskConfig.model_validate({"input": "tokenized"})
    assert (task.label_column, task.id_column) == ("label_ids", "example_id")


def test_name_of_the_pipeline_gives_way_to_columns_of_the_task():
    task = TaskConfig(
        text_columns=["a"],
        label_column="length",
        id_column="model_length",
        weight_column="tokens",
    )
    names = ["length", "tokens", "prediction"]
    own = ["model_model_length", "model_tokens", "prediction"]
    assert [task.own_name(name) for name in names] == own


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": None}, "either classes or a label_range"),
        ({"classes": ["a", "b"], "label_range": [0.0, 1.0]}, "not both"),
        ({"label_range": [5.0, 0.0]}, r"label_range \[5.0, 0.0\] must rise"),
        ({"classes": ["a", "b", "c"], "metric": "auc"}, "one of accuracy, f1"),
        ({"text_columns": ["a", "a"]}, "must be distinct"),
        (
            {"classes": ["1", "2", "3"]},
            "class '1' is the index of the class '2', so a label 1 is ambiguous",
        ),
        ({"classes": ["1", "0"]}, "class '0' is the index of the class '1'"),
        ({"classes": ["1", "1.0"]}, "'1' and '1.0' are spellings of one label"),
    ],
)
def test_contradictory_definition_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        TaskConfig.model_validate(settings)


@pytest.mark.parametrize("classes", [["0", "1", "2"], ["a", "10"], ["-1", "1"]])
def test_class_named_by_a_number_is_allowed_unless_another_class_has_that_index(
    classes,
):
    assert TaskConfig(classes=classes).classes == classes


@pytest.mark.parametrize("labels", ["name", "index"])
def test_classes_may_be_numbers_if_the_recipe_says_what_labels_are(labels):
    task = TaskConfig(classes=["1", "2", "3"], labels=labels)
    assert task.classes == ["1", "2", "3"]


LABELS = {"kind": "multilabel", "text_columns": ["text"], "classes": ["rude", "threat"]}


def test_row_of_several_labels_may_have_any_number_of_the_classes():
    task = TaskConfig.model_validate(LABELS)
    assert (task.outputs, task.metric) == (2, "micro_f1")
    assert metrics.shorten(task.metrics) == (
        "micro_f1, macro_f1, accuracy, precision/CLASS, recall/CLASS, f1/CLASS, "
        "auc/CLASS"
    )
    assert [task.describe_label(np.array(row)) for row in ([0, 0], [0, 1], [1, 1])] == [
        "",
        "threat",
        "rude|threat",
    ]
    assert TaskConfig.model_validate(task.model_dump()) == task


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"classes": ["a b", "c"], "label_separator": " "}, ", or set label_separator"),
        ({"classes": [" a", "b"]}, "the label ' a' has blanks around it; rename the"),
        ({"classes": ["rude", "text"]}, "the label 'text' .* set task.text_columns to"),
        ({"classes": ["rude", "label"]}, "'label' .* set task.label_column to another"),
        ({"labels": "index"}, "labels is index, but files have a column for each"),
        ({"classes": None, "label_range": [0, 1]}, "neither a label_range nor the"),
        ({"classes": ...}, "takes the names of the labels as classes"),
        ({"name": "sst2"}, "neither a label_range nor the name of a GLUE task"),
        ({"kind": None, "label_separator": ","}, "but a row has one label"),
        ({"kind": "regression"}, "Input should be 'multilabel'"),
        (
            {"decision": {"maximize": "macro_f1"}},
            "'macro_f1' is not one of micro_f1, a",
        ),
        ({"metric": "hamming_loss"}, "'hamming_loss' is not one of micro_f1"),
    ],
)
def test_settings_that_contradict_several_labels_are_refused(changes, message):
    settings = {key: v for key, v in (LABELS | changes).items() if v is not ...}
    with pytest.raises(ValidationError, match=message):
        TaskConfig.model_validate(settings)
