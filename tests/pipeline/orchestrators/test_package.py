"""What is wrong with a compiled pipeline or its parameters is found beforehand."""

import json

import pytest
import yaml
from kfp import compiler, dsl

from pipeline.config.errors import UsageError
from pipeline.orchestrators.package import read_package

VALUES = {
    "text": "a",
    "count": 1,
    "rate": 0.5,
    "flag": True,
    "several": [1],
    "mapping": {"a": 1},
}


@dsl.component
def take(text: str, count: int, rate: float, flag: bool, several: list, mapping: dict):
    pass


@dsl.pipeline(name="inner")
def inner(text: str, count: int, rate: float, flag: bool, several: list, mapping: dict):
    take(text=text, count=count, rate=rate, flag=flag, several=several, mapping=mapping)


@dsl.pipeline(name="all-types")
def all_types(
    text: str,
    count: int,
    rate: float,
    flag: bool,
    several: list,
    mapping: dict,
    optional: str = "as it is",
):
    inner(
        text=text, count=count, rate=rate, flag=flag, several=several, mapping=mapping
    )


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    file = tmp_path_factory.mktemp("kfp") / "all_types.yaml"
    compiler.Compiler().compile(all_types, str(file))
    return file


def test_values_of_every_type_are_accepted(package):
    read_package(package).check_parameters(VALUES)
    read_package(package).check_parameters({**VALUES, "rate": 1, "optional": "b"})


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("text", 1, "a string"),
        ("count", "1", "an integer"),
        ("count", 1.0, "an integer"),
        ("count", True, "an integer"),
        ("rate", "fast", "a number"),
        ("rate", False, "a number"),
        ("flag", 1, "true or false"),
        ("several", {"a": 1}, "a list"),
        ("mapping", [1], "a mapping"),
    ],
)
def test_value_of_another_type_is_refused(package, name, value, wanted):
    with pytest.raises(UsageError, match=f"parameter {name} is .* wants {wanted}"):
        read_package(package).check_parameters({**VALUES, name: value})


def test_unknown_parameter_is_refused_with_those_there_are(package):
    with pytest.raises(
        UsageError, match="no parameter epochs; it has count, flag, mapping, optional,"
    ):
        read_package(package).check_parameters({**VALUES, "epochs": 3})


def test_parameter_without_a_default_must_be_given(package):
    given = {name: VALUES[name] for name in ("text", "flag", "several", "mapping")}
    with pytest.raises(UsageError, match="no default for count, rate: give a value"):
        read_package(package).check_parameters(given)


def test_values_in_a_job_are_defaults(job_file, tmp_path):
    job = json.loads(job_file.read_text())
    job["runtimeConfig"]["parameterValues"] = {"data-version": "a", "train-steps": 1}
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job))
    with pytest.raises(UsageError, match="no default for learning-rate: give"):
        read_package(file).check_parameters({})


@pytest.mark.parametrize("enabled", [True, False])
def test_caching_is_set_for_all_tasks_of_a_copy(package, enabled):
    before = package.read_bytes()
    with read_package(package).with_caching(enabled) as file:
        spec = yaml.safe_load(file.read_text())
    components = [spec["root"], *spec["components"].values()]
    options = [
        task["cachingOptions"]["enableCache"]
        for component in components
        for task in component.get("dag", {}).get("tasks", {}).values()
    ]
    assert options == [enabled, enabled]  # of the pipeline and of the one within
    assert package.read_bytes() == before
    assert not file.exists()


def test_caching_as_compiled_leaves_the_file_alone(package):
    with read_package(package).with_caching(None) as file:
        assert file == package


def test_missing_file_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"absent\.yaml is not a file; compile"):
        read_package(tmp_path / "absent.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "is no YAML and no JSON"),
        ("", "is no compiled pipeline"),
        ("- a", "is no compiled pipeline"),
        ("pipelineSpec: a", "is no compiled pipeline"),
        ("apiVersion: argoproj.io/v1alpha1", "is no compiled pipeline"),
        (
            "{pipelineInfo: {}, root: {}, schemaVersion: 2.0.0}",
            r"has schemaVersion 2\.0\.0; 2\.1\.0 is accepted",
        ),
    ],
)
def test_file_that_is_no_pipeline_spec_is_refused(tmp_path, text, message):
    file = tmp_path / "pipeline.yaml"
    file.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_package(file)
