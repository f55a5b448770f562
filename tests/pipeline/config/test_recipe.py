"""Reading a recipe, and refusing a wrong one by the setting's key."""

import math
import re
import subprocess
import sys
import typing

import pydantic
import pytest

from components.model_checks import registry
from components.serving_check import text_ops
from contracts.settings.checks import CheckSettings
from contracts.settings.serving import ServingConfig
from pipeline.config import problems, typed_yaml
from pipeline.config.paths import REPOSITORY, OutputPaths
from pipeline.config.recipe import (
    Config,
    load_beam,
    load_config,
    load_data,
    load_task,
    parse_override,
)
from tests import overrides
from tests.refusals import refused

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


def test_paths_start_at_the_file_and_overrides_at_the_working_directory(
    recipe, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    config = load_config(recipe, {"data.source": "mine"})
    assert config.encoder.source == str(tmp_path / "bert")
    assert config.data.source == str(elsewhere / "mine")


HANDLE = "https://tfhub.dev/google/bert/1"


@pytest.mark.parametrize("source", ["gs://bucket/bert", "package:name/path", HANDLE])
def test_remote_sources_are_left_as_they_are(recipe, source):
    assert load_config(recipe, {"encoder.source": source}).encoder.source == source


@pytest.mark.parametrize("scheme", ["s3", "minio"])
@pytest.mark.parametrize(
    "key", ["data.source", "encoder.source", "output", "data.schema_file"]
)
def test_object_store_that_tensorflow_cannot_read_is_refused(recipe, key, scheme):
    location = f"{scheme}://bucket/folder"
    with refused("E-local-path-required", setting=key, got=location):
        load_config(recipe, {key: location})


def test_output_of_a_run_on_this_machine_is_local(recipe):
    with refused("E-local-path-required", setting="output", got="gs://bucket/output"):
        load_config(recipe, {"output": "gs://bucket/output"})


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("trainer.epochs", "2", 2),
        ("trainer.learning_rate", "3e-5", 3e-5),
        ("trainer.learning_rate", "1.5E5", 1.5e5),
        ("trainer.learning_rate", "'1e-5'", "1e-5"),
        ("trainer.shuffle_buffer_size", "1_000", 1000),
        ("trainer.loss_upper_bound", ".inf", math.inf),
        ("trainer.optimization", "{x: 1e-5}", {"x": 1e-5}),
        ("trainer.seed", "2026-01-31", "2026-01-31"),
        ("trainer.seed", "", None),
        ("evaluator.thresholds", "{f1: 0.8}", {"f1": 0.8}),
        ("data.span", "010", 10),
        ("data.span", "08", 8),
        ("nonsense.key", "1", 1),
        # The text of a string is kept.
        ("beam.flink_version", "1.19", "1.19"),
        ("beam.flink_version", "1.20", "1.20"),
        ("beam.flink_version", "'1.20'", "1.20"),
        ("vertex.beam.flink_version", "1.20", "1.20"),
        ("serving.tf_serving_version", "2.20", "2.20"),
        ("task.classes", "[no, yes]", ["no", "yes"]),
        ("task.classes", "[1.0, 010, 1e5]", ["1.0", "010", "1e5"]),
        (
            "task",
            "{label_column: 7, metric: 1e1}",
            {"label_column": "7", "metric": "1e1"},
        ),
        ("task", "{label_range: [0, 1e1]}", {"label_range": [0, 10.0]}),
        ("kubeflow.node_selector", "{gpu: a, n: 010}", {"gpu": "a", "n": "010"}),
        ("output", "null", None),
        ("output", "2026", "2026"),
        ("name", "mine", "mine"),
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
def test_override_is_yaml_or_the_text_of_a_string(key, text, expected):
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


LONG = "preprocessing.max_seq_length=2048; preprocessing.long_text.window=128"
WINDOWS = f"task.text_columns=[text]; {LONG}"
TEST = "evaluator.split=test"
SCORES = "task={label_range: [0, 5]}; evaluator.thresholds={pearson: 0.0}"
ROWS = "checks.required_rows.file=rows.csv"


@pytest.mark.parametrize("settings", [WINDOWS, TEST, SCORES, ROWS])
def test_settings_that_others_contradict_are_accepted_without_them(recipe, settings):
    assert load_config(recipe, overrides.parse(settings))


@pytest.mark.parametrize(
    ("settings", "field", "part"),
    [
        ("name=null", "allowed", "a valid string"),
        ("trainer.epochs='3'", "allowed", "a valid integer"),
        ("trainer.epochs=2026-01-99", "got", "'2026-01-99'"),
        ("trainer.epochs=0", "allowed", "greater than 0"),
        ("trainer.learning_rate='1e-5'", "allowed", "a valid number"),
        ("trainer.strategy=gpu", "allowed", "'auto', 'one_device', 'mirrored'"),
        ("trainer.xla=mirrored", "allowed", "'auto', 'on' or 'off'"),
        ("trainer.summary_interval=15", "allowed", "multiples of steps_per_loop, 10"),
        ("trainer.class_weights=balanced", "allowed", "auto and numbers above 0"),
        ("trainer.class_weights={equivalent: 0.0}", "allowed", "{CLASS: NUMBER}"),
        ("trainer.class_weights={equivalent: .inf}", "allowed", "numbers above 0"),
        ("trainer.class_weights={x: 2.0}", "allowed", "not_equivalent, equivalent"),
        ("trainer.class_weights={x: 2.0}", "got", "names 'x'"),
        (f"{SCORES}; trainer.class_weights=auto", "advice", "task.weight_column"),
        (f"{SCORES}; trainer.class_weights={{a: 2.0}}", "got", "a regression"),
        ("trainer.seed=-1; trainer.epoch=3", "allowed", "epochs, steps_per_epoch"),
        ("trainer.epoch=3", "advice", "did you mean epochs?"),
        ("trainr.epochs=3", "advice", "did you mean trainer?"),
        ("epochs=3", "advice", "did you mean trainer.epochs?"),
        ("nonsense.key=1", "allowed", "name, task,"),
        ("name.key=1", "got", "name is 'tiny', not a group"),
        ("data.source=null", "advice", "name a directory or tfds:NAME"),
        ('data.delimiter="', "got", "quote"),
        ("data.delimiter=\n", "got", "the end of a line"),
        ("data.span=3", "got", "3, but source is"),
        ("data.slice_columns=[label]", "got", "'label', a column of the task"),
        ("data.slice_columns=[label]", "advice", "leave it out"),
        ("data.slice_columns=[a, a]", "got", "'a', twice"),
        ("data.slice_columns=['']", "got", "'', without a character"),
        ("data.slice_columns=[word_overlap]", "got", "each evaluation is sliced"),
        ("task.metric=bleu", "allowed", "accuracy, precision"),
        ("task.text_columns=[a b]", "advice", "rename the column, for example to a_b"),
        ("task.classes=[a, a]", "got", "classes ['a', 'a'] must be distinct"),
        ("task.weight_column=label", "got", "'label'] must be distinct"),
        *(
            (
                f"task={{label_range: {ends}}}",
                "allowed",
                "numbers from -3.4e+38 to 3.4e",
            )
            for ends in ("[0.0, .inf]", "[-.inf, 0.0]", "[0.0, 1e39]")
        ),
        ("encoder.sha256=abc", "allowed", "pattern"),
        ("kubeflow={pipeline_root: /a}", "advice", "`kubeflow.image=VALUE`"),
        ("serving.tf_serving_version=2.15", "allowed", "'2.16', '2.17'"),
        ("preprocessing.keep=middle", "allowed", "'head', 'tail' or 'ends'"),
        (f"{WINDOWS}; preprocessing.long_text.stride=127", "allowed", "1 to 126"),
        (f"{WINDOWS}; preprocessing.long_text.pool=sum", "allowed", "'mean' or 'max'"),
        (f"{WINDOWS}; preprocessing.max_seq_length=128", "got", "a second window"),
        (f"task.text_columns=[a, b]; {LONG}", "advice", "name one column"),
        (f"task.input=tokenized; {LONG}", "got", "another tool has packed the rows"),
        ("evaluator.split=train", "allowed", "eval, eval_mismatched, test"),
        ("evaluator.split=dev", "got", "'dev'"),
        ("evaluator.thresholds={f2: 0.5}", "allowed", "accuracy, precision"),
        ("evaluator.thresholds={f1/no: 0.5}", "allowed", "matthews, precision/CLASS"),
        ("evaluator.thresholds={}", "advice", "accuracy: 0.0 lets every model"),
        ("evaluator.thresholds={f1: 85.0}", "got", "f1 is 85.0"),
        ("evaluator.max_regression={f1: -2}", "allowed", "-1 to 1"),
        (f"task.input=tokenized; {ROWS}", "got", "task.input is tokenized"),
        ("checks.required_rows.least=2", "allowed", "less than or equal to 1"),
        ("checks.required_rows.lest=1", "advice", "did you mean least?"),
        ("checks.required_row.least=1", "advice", "did you mean required_rows?"),
        ("checks.invariance=[{typo: 1}]", "advice", "did you mean typos?"),
        ("checks.invariance=[typos]", "allowed", "a mapping of settings"),
        ("checks={nonsense: {}}", "advice", "of your own is MODULE:CLASS"),
        *(
            (f"{TEST}; tuner.space={space}", field, part)
            for space, field, part in [
                ("{learning_rat: [1, 2]}", "advice", "did you mean learning_rate?"),
                ("{seeds: [1, 2]}", "allowed", "epochs, bat"),
                ("{epochs: []}", "advice", "write at least two values"),
                ("{epochs: [3]}", "advice", "a single value belongs to trainer.epochs"),
                ("{epochs: [3, 0]}", "got", "has 0: Input should be greater than 0"),
                ("{epochs: [2, '3']}", "got", "has '3': Input should be a valid int"),
                ("{epochs: [2, 2]}", "got", "[2, 2]: a value is repeated"),
                ("{epochs: [2.5, 4, linear]}", "got", "has 2.5: Input"),
                ("{learning_rate: [1e-5, 2.0, log]}", "got", "should be less than 1"),
                ("{learning_rate: [1e-4, 1e-5, log]}", "allowed", "[LOW, HIGH, log]"),
                (
                    "{dropout: [0.1, linear]}",
                    "allowed",
                    "a range [LOW, HIGH, linear]",
                ),
                ("{dropout: [0.0, 0.1, log]}", "allowed", "begins above 0"),
                ("{dropout: [null, 0.1]}", "got", "has null, which cannot be"),
                ("{decay_start: [after_warmup, later]}", "got", "has 'later': "),
            ]
        ),
        ("tuner={space: {epochs: [2, 3]}, service: v}", "got", "removed: Optuna"),
        (f"{TEST}; tuner.service=vizier", "advice", "leave it out"),
        ("tuner.space={epochs: [2, 3]}; evaluator.split=eval", "advice", "split=test`"),
        *(
            (f"{TEST}; tuner.space={{epochs: [2, 3]}}; trainer.strategy={name}", *got)
            for name in ("parameter_server", "multi_worker_mirrored")
            for got in [("got", "tuner works in one process")]
        ),
    ],
)
def test_setting_is_refused_by_its_key(recipe, settings, field, part):
    overrides.check_refused(recipe, settings, field, part)


def test_removed_setting_of_the_file_is_refused_but_in_an_earlier_run(recipe):
    with open(recipe, "a") as file:
        file.write("tuner: {space: {epochs: [2, 3]}, service: vizier}")
    test = {"evaluator.split": "test"}
    with refused("E-settings-refused", setting="tuner.service"):
        load_config(recipe, test)
    recipe.write_text(recipe.read_text().replace("vizier", "optuna"))
    config = load_config(recipe, test, is_past=True)
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


@pytest.mark.parametrize(
    ("settings", "splits", "field", "part"),
    [
        ("tuner.space={epochs: [2, 3]}", ["eval"], "advice", "evaluator.split=test"),
        ("evaluator.split=test", ["eval"], "allowed", "the data, eval, train"),
    ],
)
def test_split_that_the_data_lack_is_refused(recipe, settings, splits, field, part):
    config = load_config(recipe, overrides.parse(settings))
    assert config.with_split(["train", "eval", "test"]).evaluator.split == "test"
    part = re.compile(part)
    with refused("E-settings-refused", setting="evaluator.split", **{field: part}):
        config.with_split(["train", *splits])


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


def test_allowed_metrics_are_not_those_of_every_class(recipe):
    classes = [f"class {number}" for number in range(20)]
    with refused("E-settings-refused", setting="task.metric") as caught:
        load_config(recipe, {"task.classes": classes, "task.metric": "f1/class 20"})
    assert "f1, precision/CLASS, recall/CLASS" in caught.value.allowed
    assert len(caught.value.sentence()) < 140


@pytest.mark.parametrize(
    ("content", "got"),
    [
        ("[1", "not valid YAML"),
        (b"\xff", "not valid YAML"),
        ("just text", "not a mapping"),
        (None, "No such file"),
    ],
)
def test_file_that_is_no_recipe_is_refused(tmp_path, content, got):
    path = tmp_path / "recipe.yaml"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with refused("E-config-unreadable", setting=str(path), got=re.compile(got)):
        load_config(path)


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


def test_tensorflow_text_of_each_tensorflow_serving_is_known():
    for version in typing.get_args(
        ServingConfig.model_fields["tf_serving_version"].annotation
    ):
        assert text_ops.text_version(version)


def test_output_that_is_spelled_with_dots_is_the_same_directory(tmp_path):
    paths = OutputPaths.at(tmp_path / "a" / ".." / "output", "tiny")
    assert paths == OutputPaths.at(tmp_path / "output", "tiny")


@pytest.mark.parametrize("column", ["What they wrote", "text?", "\u00dcnit", "_text"])
def test_column_that_no_signature_can_have_is_refused_with_another_name(recipe, column):
    advice = re.compile("rename the column")
    with refused(
        "E-settings-refused", setting="task.text_columns", advice=advice
    ) as caught:
        load_config(recipe, {"task.text_columns": [column]})
    name = caught.value.advice.split()[-1]
    assert load_config(recipe, {"task.text_columns": [name]})


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


def test_only_settings_of_long_texts_that_are_set_are_in_the_keys(recipe):
    unset = {"max_seq_length": 128}
    preprocessing = load_config(recipe).preprocessing
    assert preprocessing.key() == preprocessing.key(transform=True) == unset
    preprocessing = load_config(recipe, overrides.parse(WINDOWS)).preprocessing
    assert preprocessing.key()["long_text"]["pool"] == "mean"
    # Another pool trains again, and does not tokenize again.
    windows = {"window": 128, "stride": 64}
    assert preprocessing.key(transform=True)["long_text"] == windows


def test_each_setting_of_the_file_is_refused_with_its_path(recipe):
    recipe.write_text(recipe.read_text() + "trainer: {epochs: 0, seed: -1}\n")
    with refused("E-settings-refused") as caught:
        load_config(recipe, {"trainer.epochs": -2, "trainer.batch_size": 0})
    assert caught.value.got.splitlines() == [
        "3 settings are refused:",
        "  trainer.epochs: -2; allowed: greater than 0",
        "  trainer.batch_size: 0; allowed: greater than 0",
        f"  trainer.seed: -1 (in {recipe}); allowed: greater than or equal to 0",
    ]
    load_config(recipe, {"trainer.epochs": 2, "trainer.seed": 1})
    got = f"missing (in {recipe})"
    recipe.write_text("name: tiny\n")
    with refused("E-settings-refused", setting="encoder", got=got):
        load_config(recipe)


@pytest.mark.parametrize("load", [load_config, load_task, load_data, load_beam])
def test_commands_that_read_one_section_refuse_its_keys_and_unknown_ones(recipe, load):
    for key, setting in (("trainer.epoch", "trainer.epoch"), ("tasks.name", "tasks")):
        with refused("E-settings-refused", setting=setting, got="unknown key"):
            load(recipe, {key: 3})
    wrong = {"task.label_column": 3, "data.span": 1, "beam.runner": "no"}
    with refused("E-settings-refused") as caught:
        load(recipe, wrong)
    assert any(key in str(caught.value) for key in wrong)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data.license", "cut \ud83d"),
        ("task.classes", ["no", "cut \ud83d"]),
        ("checks", {"mine:Check": {"words": ["cut \ud83d"]}}),
    ],
)
def test_lone_surrogate_in_a_setting_is_refused_by_key(recipe, key, value):
    got = re.compile(r"a lone surrogate, '.ud83d'")
    with refused("E-settings-refused", setting=re.compile(key), got=got):
        load_config(recipe, {key: value})
    recipe.write_text(recipe.read_text().replace("pairs", r'pairs, license: "\ud83d"'))
    with refused("E-settings-refused", setting="data.license", got=got):
        load_config(recipe)
    assert load_config(recipe, {"data.license": "", "output": "not UTF-8 \udcff"})


OWN = "my_checks:MyCheck"


@pytest.mark.parametrize("key", problems.RENAMED)
def test_setting_of_a_check_is_refused_with_its_new_name(recipe, key):
    expected = {
        "setting": key,
        "got": re.compile("renamed"),
        "advice": f"set {problems.RENAMED[key]}",
    }
    with refused("E-settings-refused", **expected):
        load_config(recipe, {key: 1})
    section, _, name = key.partition(".")
    with open(recipe, "a") as file:
        file.write(f"serving: {{{name}: 1}}\n" if section == "serving" else "")
    if section == "evaluator":
        text = recipe.read_text().replace("{thresholds:", f"{{{name}: 1, thresholds:")
        recipe.write_text(text)
    with refused("E-settings-refused", **expected):
        load_config(recipe)


def test_each_check_of_the_package_has_a_section(recipe):
    config = load_config(recipe, {"checks.required_rows.action": "warn"})
    sections = dict(config.checks.sections())
    assert sections.keys() == {
        name
        for name, check in registry.find_checks().items()
        if check.Settings().action != "ignore"
    }
    assert sections["required_rows"].action == "warn"
    ignored = load_config(recipe, {"checks.required_rows.action": "ignore"})
    assert "required_rows" not in dict(ignored.checks.sections())


def test_check_of_your_own_has_settings_of_any_type_and_reads_back_equal(
    recipe, tmp_path
):
    with open(recipe, "a") as file:
        file.write(f"checks: {{{OWN}: {{words: [a, 1.5], limit: 1}}, other.m:C: }}\n")
    keys = (
        f"checks.{OWN}.limit=2",
        f"checks.{OWN}.deep.key=no",
        "checks.other.m:C.a=b",
    )
    config = load_config(recipe, dict(map(parse_override, keys)))
    assert dict(config.checks.sections())[OWN] == {
        "words": ["a", 1.5],
        "limit": 2,
        "deep": {"key": False},
    }
    assert dict(config.checks.sections())["other.m:C"] == {"a": "b"}
    stored = tmp_path / "stored.yaml"
    stored.write_text(config.to_yaml())
    assert load_config(stored) == config
    ignored = load_config(recipe, {f"checks.{OWN}.action": "ignore"})
    assert OWN not in dict(ignored.checks.sections())
    assert dict(load_config(recipe).checks.sections())["other.m:C"] == {}


def test_file_of_a_check_starts_at_the_recipe_and_overrides_at_the_working_directory(
    recipe, tmp_path, monkeypatch
):
    with open(recipe, "a") as file:
        file.write("checks: {required_rows: {file: rows.csv}}\n")
    monkeypatch.chdir(tmp_path.parent)
    assert load_config(recipe).checks.required_rows.file == str(tmp_path / "rows.csv")
    config = load_config(recipe, dict([parse_override(ROWS)]))
    assert config.checks.required_rows.file == str(tmp_path.parent / "rows.csv")


class ListSection(CheckSettings):
    """A section that is a list."""

    items: list[str] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_list(cls, values):
        return {"items": values} if isinstance(values, list) else values


def test_section_of_a_check_may_be_a_list_and_reads_back_equal():
    kind = pydantic.create_model(
        "Recipe", __base__=CheckSettings, checks=(ListSection, ListSection())
    )
    read = kind.model_validate(typed_yaml.load("checks: [no, 1.20]", kind))
    assert read.checks.items == ["no", "1.20"]  # as in the section
    stored = typed_yaml.dump(read.model_dump())
    assert kind.model_validate(typed_yaml.load(stored, kind)) == read


def test_reading_a_recipe_imports_no_heavy_package():
    heavy = "{'tensorflow', 'tfx', 'apache_beam', 'scipy', 'sklearn', 'pandas'}"
    code = f"import pipeline.config.recipe, sys; print({heavy} & set(sys.modules))"
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert printed.stdout.strip() == "set()"
