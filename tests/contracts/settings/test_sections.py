"""The settings that a component gets, from the recipe to the component."""

import pytest

from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Reads, Sections
from contracts.task.definition import TaskConfig

READS = Reads(task=True, data_gate=True, evaluator={"split", "significance"})
RECIPE = Sections(
    task=TaskConfig(classes=["a", "b"]),
    evaluator=EvaluatorConfig(split="eval", significance=0.1),
)


def test_component_gets_what_it_reads():
    settings = Sections.parse(RECIPE.model_dump_json(include=READS))
    assert settings.task == RECIPE.task
    assert settings.data_gate == RECIPE.data_gate
    assert settings.evaluator.gate_split == "eval"
    assert settings.evaluator.significance == 0.1


@pytest.mark.parametrize("name", ["max_regression", "thresholds"])
def test_setting_that_a_component_does_not_declare_is_missing(name):
    settings = Sections.parse(RECIPE.model_dump_json(include=READS))
    with pytest.raises(AttributeError, match=name):
        getattr(settings.evaluator, name)
    with pytest.raises(AttributeError, match="serving"):
        _ = settings.serving


def test_other_settings_do_not_change_what_a_component_gets():
    other = RECIPE.model_copy(
        update={
            "evaluator": RECIPE.evaluator.model_copy(
                update={"max_regression": {"f1": 0.1}}
            ),
            "name": "other",
        }
    )
    assert other.model_dump_json(include=READS) == RECIPE.model_dump_json(include=READS)


def test_parameters_of_a_run_replace_settings():
    parameters = {"thresholds": '{"accuracy": 0.5}', "significance": 0.1}
    settings = Sections.parse("{}", evaluator=parameters)
    assert settings.evaluator.thresholds == {"accuracy": 0.5}
    assert settings.evaluator.significance == 0.1
