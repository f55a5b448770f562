"""Each argument of Python allows what the option of the command allows, and no more."""

import dataclasses
import inspect as python_inspect
import math
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import pipeline
from pipeline import Recipe, UsageError
from pipeline.api import server
from pipeline.cli.main import main
from tests.refusals import refused

NUMBERS = [-1, 0, 0.2, 0.5, 1, 3, 80, 70000, math.nan, math.inf]
MISSING = "missing"  # a path that does not exist
NAMES = ["", "a", "multi-label", "classes", "kubeflow", "latest", "é"]
OVERRIDES = [
    ("trainer.epochs", 2),
    ("trainer.epochs", 0),
    ("trainer.epochs", True),
    ("trainer.epoch", 2),
    ("epochs", 2),
    ("trainer", 2),
    ("trainer.epochs.x", 2),
    ("data.test_size", 20),
    ("data.test_size", math.nan),
    ("data.test_size", 0.3),
    ("task.text_columns", ["a"]),
    ("task.text_columns", "a"),
    ("data.encoding", "klingon"),
    ("name", "No Name"),
]


@dataclasses.dataclass(frozen=True)
class Both:
    """An argument in both interfaces.

    Attributes:
      python: Calls the function with a value.
      command: The command, with `{}` in place of the text of the value.
      values: The values.
      later: Names of the errors of what is missing, once the argument is accepted.
    """

    python: Callable[[Any], Any]
    command: str
    values: list[Any]
    later: tuple[str, ...] = ()


def of_data(name, values):
    """Returns the arguments of `from_data` and `inspect`, on rows without a label."""
    option = f"--{name.replace('_', '-')}"
    return {
        f"Recipe.from_data.{name}": Both(
            lambda value: Recipe.from_data("rows.csv", "project", **{name: value}),
            f"init project --data rows.csv {option} {{}}",
            values,
        ),
        f"inspect.{name}": Both(
            lambda value: pipeline.inspect("rows.csv", **{name: value}),
            f"inspect-data rows.csv {option} {{}}",
            values,
        ),
    }


def of_runs(function, command, *before):
    return {
        f"{function}.output": Both(
            lambda value: getattr(pipeline, function)(*before, output=value),
            " ".join([command, *before, "--output {}"]),
            [MISSING, "output", "rows.csv"],
        )
    }


def sample():
    return Recipe("recipe.yaml")


SOURCES = [MISSING, "tfds:glue", "gs://a/b", "rows.csv"]
NOT_FOUND = ("E-data-not-found", "E-encoder-not-found")
OF_SERVER = ("E-started", "E-model-not-found", "E-storage-failed")
ARGUMENTS = {
    **of_data("kind", [*NAMES, "score", "multilabel", "regression"]),
    **of_data("test_size", NUMBERS),
    **of_data("text", NAMES),
    **of_data("label", NAMES),
    **of_data("group", NAMES),
    **of_data("columns", ["id,b", "id", "", ","]),
    **of_data("encoder", [MISSING, "package:no/thing", "rows.csv"]),
    "Recipe.from_data.data": Both(
        lambda value: Recipe.from_data(value, "project"),
        "init project --data {}",
        SOURCES,
    ),
    "inspect.data": Both(pipeline.inspect, "inspect-data {}", SOURCES),
    "Recipe.from_data.folder": Both(
        lambda value: Recipe.from_data("rows.csv", value),
        "init {} --data rows.csv",
        ["project", "output", "rows.csv", "a[b]", "no/parent"],
    ),
    "Recipe.from_data.settings": Both(
        lambda value: Recipe.from_data("rows.csv", "project", settings=dict([value])),
        "init project --data rows.csv --set {}",
        OVERRIDES,
    ),
    "inspect.settings": Both(
        lambda value: pipeline.inspect("rows.csv", settings=dict([value])),
        "inspect-data rows.csv --set {}",
        OVERRIDES,
    ),
    "Recipe.path": Both(
        Recipe,
        "inspect-data --config {}",
        [MISSING, "recipe.yaml", "rows.csv", "output"],
        later=NOT_FOUND,
    ),
    "Recipe.settings": Both(
        lambda value: Recipe("recipe.yaml", settings=dict([value])),
        "inspect-data --config recipe.yaml --set {}",
        OVERRIDES,
        later=NOT_FOUND,
    ),
    "Recipe.with_settings.settings": Both(
        lambda value: sample().with_settings(dict([value])),
        "inspect-data --config recipe.yaml --set {}",
        OVERRIDES,
        later=NOT_FOUND,
    ),
    "run.recipe": Both(
        pipeline.run, "run --config {}", [MISSING, "rows.csv", "output"]
    ),
    **of_runs("list_runs", "runs"),
    **of_runs("load_run", "show", "latest"),
    **of_runs("lineage", "lineage", MISSING),
    **of_runs("clean", "clean"),
    **of_runs("compare", "compare", "latest", "a"),
    "load_run.name": Both(
        lambda value: pipeline.load_run(value, "output"),
        "show {} --output output",
        NAMES,
    ),
    "lineage.model": Both(
        lambda value: pipeline.lineage(value, "output"),
        "lineage {} --output output",
        [MISSING, "3", "output"],
    ),
    "clean.keep": Both(
        lambda value: pipeline.clean("output", keep=value),
        "clean --output output --keep {}",
        NUMBERS,
    ),
    "forget.output": Both(
        lambda value: pipeline.forget(value, column="a", value="b"),
        "forget --column a=b --output {}",
        [MISSING, "output", "rows.csv"],
    ),
    "forget.data": Both(
        lambda value: pipeline.forget("output", column="a", value="b", data=value),
        "forget --column a=b --output output --data {}",
        SOURCES,
    ),
    "forget.samples": Both(
        lambda value: pipeline.forget("output", column="a", value="b", samples=[value]),
        "forget --column a=b --output output --samples {}",
        [MISSING, "rows.csv", "output"],
    ),
    "compare.compared": Both(
        lambda value: pipeline.compare(*value, output="output"),
        "compare {} --output output",
        [["a"] * count for count in (0, 1, 2, 26, 27)],
    ),
    "compare.split": Both(
        lambda value: pipeline.compare("a", "b", output="output", split=value),
        "compare a b --output output --split {}",
        NAMES,
    ),
    "predict.model": Both(
        lambda value: pipeline.predict(value, ["a"]),
        "predict --text a --model {}",
        [MISSING, "rows.csv", "output", "a[b]"],
    ),
    "predict.min_probability": Both(
        lambda value: pipeline.predict(MISSING, ["a"], min_probability=value),
        f"predict --text a --model {MISSING} --min-probability {{}}",
        NUMBERS,
    ),
    "predict_files.min_probability": Both(
        lambda value: pipeline.predict_files(
            MISSING, "rows.csv", "predicted", min_probability=value
        ),
        "predict --input rows.csv --output predicted "
        f"--model {MISSING} --min-probability {{}}",
        NUMBERS,
    ),
    "predict_files.model": Both(
        lambda value: pipeline.predict_files(value, "rows.csv", "predicted"),
        "predict --input rows.csv --output predicted --model {}",
        [MISSING, "rows.csv", "output"],
    ),
    "predict_files.source": Both(
        lambda value: pipeline.predict_files(MISSING, value, "predicted"),
        f"predict --output predicted --model {MISSING} --input {{}}",
        [MISSING, "rows.csv", "output", "*.csv"],
    ),
    "predict_files.destination": Both(
        lambda value: pipeline.predict_files(MISSING, "rows.csv", value),
        f"predict --input rows.csv --model {MISSING} --output {{}}",
        ["predicted", "full", "a.txt", "a.xlsx", "a.json", "a.json.gz"],
    ),
    "check.model": Both(
        lambda value: pipeline.check(value, sample()),
        "check --config recipe.yaml --model {}",
        [MISSING, "rows.csv", "output", "a[b]"],
    ),
    "check.recipe": Both(
        lambda value: pipeline.check("output", value),
        "check --model output --config {}",
        [MISSING, "recipe.yaml", "rows.csv"],
    ),
    "serve.model": Both(
        lambda value: pipeline.serve(value).__enter__(),
        "serve --model {}",
        [MISSING, "a[b]", "gs://a/b"],
        later=OF_SERVER,
    ),
    "serve.port": Both(
        lambda value: pipeline.serve(MISSING, port=value).__enter__(),
        f"serve --model {MISSING} --port {{}}",
        NUMBERS,
        later=OF_SERVER,
    ),
    "list_versions.recipe": Both(
        lambda value: pipeline.list_versions(Recipe(value)),
        "versions --config {}",
        [MISSING, "recipe.yaml"],
    ),
    "roll_back.recipe": Both(
        lambda value: pipeline.roll_back(Recipe(value)),
        "rollback --config {}",
        [MISSING, "recipe.yaml"],
    ),
    "roll_back.version": Both(
        lambda value: pipeline.roll_back(
            sample().with_settings({"output": "output"}), value
        ),
        "rollback --config recipe.yaml --output output -- {}",
        NUMBERS,
    ),
    "compile_job.orchestrator": Both(
        lambda value: pipeline.compile_job(sample(), value, "job.yaml"),
        "compile --config recipe.yaml --output job.yaml --orchestrator {}",
        [*NAMES, "vertex"],
    ),
    "compile_job.package": Both(
        lambda value: pipeline.compile_job(sample(), "kubeflow", value),
        "compile --config recipe.yaml --orchestrator kubeflow --output {}",
        ["job.txt", "job", "job.yaml", "folder.yaml"],
    ),
    "compile_job.recipe": Both(
        lambda value: pipeline.compile_job(Recipe(value), "kubeflow", "job.yaml"),
        "compile --orchestrator kubeflow --output job.yaml --config {}",
        [MISSING, "recipe.yaml", "rows.csv"],
    ),
}
# A flag, or what no option of a command sets.
WITHOUT_TEXT = {
    *("run.verbose", "clean.delete", "predict_files.strict", "compare.with_texts"),
    *("compile_job.report", "serve.timeout_seconds", "predict_files.recipe"),
    # Their values are compared in tests/e2e/finished_run/.
    *("override.run", "override.reason", "roll_back.reason"),
    # Texts: tests/pipeline/api/test_predictions.py.
    *("predict.texts", "Server.predict.instances"),
    # Texts: tests/pipeline/operations/test_forgetting.py.
    *("forget.column", "forget.value", "forget.delete"),
}
FUNCTIONS = {
    "Recipe": Recipe.__init__,
    "Recipe.from_data": Recipe.from_data,
    "Recipe.with_settings": Recipe.with_settings,
    "Server.predict": pipeline.Server.predict,
    **{
        name: getattr(pipeline, name)
        for name in pipeline.__all__
        if python_inspect.isfunction(getattr(pipeline, name))
    },
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A working directory with rows without a label, a recipe and an output."""
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{i},some words of the text number {i}\n" for i in range(9))
    (tmp_path / "rows.csv").write_text(f"id,a\n{rows}")
    (tmp_path / "recipe.yaml").write_text(
        "name: tiny\ndata: {source: missing}\nencoder: {source: bert}\n"
        "evaluator: {thresholds: {f1: 0.5}}\noutput: none\n"
    )
    (tmp_path / "output").mkdir()
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()

    def refuse(*args, **kwargs):
        raise UsageError(got="a process would start", name="E-started")

    monkeypatch.setattr(
        server, "subprocess", types.SimpleNamespace(Popen=refuse, DEVNULL=None)
    )


def refusal_in_python(call, value):
    """Returns the name of the error that a call raises; None if it raises none."""
    try:
        call(value)
    except UsageError as error:
        return error.name
    return None


def refusal_of_command(command, texts):
    before, after = (part.split() for part in command.split("{}"))
    arguments = [*before, *texts, *after]
    result = CliRunner().invoke(main, arguments)
    if result.exception is None:
        return None
    assert isinstance(result.exception, SystemExit), (arguments, result.exception)
    (name,) = re.findall(r"\[(E-[a-z0-9-]+)\]\s*$", result.output)
    return name


@pytest.mark.parametrize("name", ARGUMENTS)
def test_value_is_refused_by_both_interfaces_or_by_none(name):
    both = ARGUMENTS[name]
    outcomes = {}
    for value in both.values:
        text = f"{value[0]}={value[1]}" if isinstance(value, tuple) else str(value)
        found = (
            refusal_in_python(both.python, value),
            refusal_of_command(
                both.command, value if isinstance(value, list) else [text]
            ),
        )
        outcomes[text] = tuple(None if f in both.later else f for f in found)
    different = {text: pair for text, pair in outcomes.items() if len(set(pair)) > 1}
    assert not different


def test_every_argument_is_compared():
    expected = {
        f"{name}.{parameter}"
        for name, function in FUNCTIONS.items()
        for parameter in python_inspect.signature(function).parameters
        if parameter != "self"
    }
    assert expected == ARGUMENTS.keys() | WITHOUT_TEXT


@pytest.mark.parametrize(
    "value", [object(), b"a", 1.5, {1}], ids=lambda value: type(value).__name__
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_value_of_another_type_is_refused_by_name(name, value):
    allowed = {
        "path": "recipe.yaml",
        "data": "rows.csv",
        "folder": "project",
        "recipe": sample(),
        "orchestrator": "kubeflow",
        "package": "job.yaml",
        "model": MISSING,
        "texts": ["a"],
        "source": "rows.csv",
        "settings": {},
        "destination": "predicted",
        "run": None,
        "reason": "a",
        "column": "a",
        "value": "b",
        "instances": ["a"],
    }
    call = {
        "Recipe": Recipe,
        "Recipe.with_settings": sample().with_settings,
        "Server.predict": pipeline.Server("http://127.0.0.1:9", "a").predict,
    }.get(name, FUNCTIONS[name])
    parameters = python_inspect.signature(call).parameters.items()
    required = [
        key
        for key, parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    for key, parameter in parameters:
        if (key, value) in [("timeout_seconds", 1.5), ("instances", {1})]:
            continue  # allowed, or refused by the server
        arguments = {name: allowed[name] for name in required} | {key: value}
        positional = []
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional = [arguments.pop(key)] * 2
        with pytest.raises(UsageError) as error:
            call(*positional, **arguments)
        assert error.value.name in (
            *("E-settings-refused", "E-frame-refused", "E-text-refused"),
            *("E-model-not-found",) * (key == "texts"),  # the model is loaded first
        ), key


@pytest.mark.parametrize(
    ("call", "setting", "got", "allowed"),
    [
        (
            lambda: pipeline.clean("output", keep=0),
            "keep",
            "0",
            "greater than or equal to 1",
        ),
        (
            lambda: Recipe(b"a"),
            "path",
            "b'a'",
            "a valid string or an instance of Path",
        ),
        (
            lambda: pipeline.inspect("rows.csv", text=["a", 1]),
            "text",
            "1",
            "a valid string",
        ),
    ],
)
def test_value_is_refused_with_what_is_allowed(call, setting, got, allowed):
    with refused("E-settings-refused", setting=setting, got=got, allowed=allowed):
        call()


def test_values_of_numpy_tuples_and_paths_are_read():
    settings = {
        "trainer.epochs": np.int64(2),
        "trainer.learning_rate": np.float64(0.5),
        "task.text_columns": ("a", np.str_("b")),
        "data.source": Path("rows.csv"),
        "evaluator.thresholds": {"f1": np.float32(0.5)},
    }
    config = Recipe("recipe.yaml", settings=settings).settings
    assert (config.trainer.epochs, config.trainer.learning_rate) == (2, 0.5)
    assert config.task.text_columns == ["a", "b"]
    assert config.data.source == str(Path("rows.csv").absolute())
    assert config.evaluator.thresholds == {"f1": 0.5}
    choices = {"kind": np.str_("score"), "text": ("a",), "test_size": np.float32(0.3)}
    with refused("E-column-unclear"):
        pipeline.inspect("rows.csv", **choices, settings={"trainer.seed": np.int8(1)})
