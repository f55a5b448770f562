"""Task definitions: GLUE and custom ones."""

import numpy as np
import pytest

from contracts import metrics
from contracts.task.definition import GLUE, TaskConfig
from pipeline.config.recipe import load_config
from tests import overrides, tiny


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
    task = load_config(recipe, overrides.parse("task=mrpc; task.metric=accuracy")).task
    assert (task.name, task.metric) == ("mrpc", "accuracy")


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


SEVERAL = "task.kind=multilabel; task.text_columns=[text]; task.classes=[rude, threat]"


@pytest.mark.parametrize(
    ("settings", "field", "part"),
    [
        ("task=snli", "allowed", "cola, sst2"),
        ("task.classes=null", "got", "the task has neither classes nor a label_range"),
        ("task={classes: [a, b], label_range: [0, 1]}", "got", "and a label_range"),
        (
            "task.label_range=[5.0, 0.0]",
            "got",
            "[5.0, 0.0], whose second score is not higher",
        ),
        ("task.classes=[a, b, c]; task.metric=auc", "allowed", "accuracy, f1"),
        ("task.text_columns=[a, a]", "got", "['a', 'a', 'label', 'idx'] must be disti"),
        ("task.classes=[1, 2, 3]", "got", "'2', so a label 1 is ambiguous"),
        ("task.classes=[1, 0]", "got", "class '0' is the index of the class '1'"),
        ("task.classes=[1, 1.0]", "got", "'1' and '1.0' are spellings of one label"),
        *(
            (f"{SEVERAL}; {settings}", field, part)
            for settings, field, part in [
                ("task.labels=index", "got", "files have a column for each label"),
                ("task.classes=[' a', b]", "got", "' a' has blanks around it"),
                ("task.classes=[rude, text]", "got", "'text' is also the name"),
                ("task.classes=[rude, text]", "advice", "set task.text_columns to"),
                ("task.classes=[rude, label]", "advice", "set task.label_column to"),
                ("task.decision={maximize: macro_f1}", "allowed", "micro_f1, a"),
                ("task.metric=hamming_loss", "allowed", "micro_f1"),
                ("task.classes=[a b, c]; task.label_separator=' '", "advice", "or ren"),
            ]
        ),
        ("task={kind: multilabel, label_range: [0, 1]}", "got", "neither a label_ran"),
        ("task={kind: multilabel, name: sst2}", "got", "nor the name of a GLUE task"),
        ("task.kind=multilabel", "got", "takes the names of the labels as classes"),
        ("task.kind=regression", "allowed", "'multilabel'"),
        ("task.label_separator=,", "got", "but a row has one label"),
    ],
)
def test_contradictory_definition_is_refused(recipe, settings, field, part):
    overrides.check_refused(recipe, settings, field, part)
