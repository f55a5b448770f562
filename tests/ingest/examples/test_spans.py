"""Finding the span that a run uses."""

import re
import shutil
from pathlib import Path

import pytest
from tfx import v1 as tfx
from tfx.components.example_gen import utils

from contracts.settings.data import DataConfig
from contracts.task.definition import TaskConfig
from ingest import examples as examples_lib
from ingest.examples import spans
from ingest.rows.readers import DEFAULTS
from pipeline.config.paths import OrchestratorPaths, OutputPaths
from pipeline.config.recipe import load_config
from pipeline.orchestrators.staging import plan_examples
from tests import records, tiny
from tests.refusals import refused

TASK = TaskConfig()
NOT_FOUND = "E-data-not-found"


@pytest.fixture
def paths(tmp_path):
    return OutputPaths(tmp_path / "output", "tiny")


@pytest.fixture
def resolve(paths):
    """Returns a function that resolves the Examples of a source."""

    def resolve(source, report=lambda line: None, **settings):
        settings = DataConfig(source="{SPAN}", **settings) if settings else DEFAULTS
        return examples_lib.resolve_examples(
            source, TASK, paths.examples, report, settings=settings
        )

    return resolve


@pytest.fixture
def source(tmp_path):
    """Three spans of text, the newest of which is not the last in the alphabet."""
    for rows, name in enumerate(("day-2", "day-9", "day-10"), start=4):
        tiny.write_tables(tmp_path / "spans" / name, rows)
    return f"{tmp_path}/spans/day-{{SPAN}}"


def count(examples):
    (path,) = examples_lib.list_examples(examples, "train")
    return len(records.read(path))


def number_that_example_gen_finds(examples):
    """Returns the span that ExampleGen's driver finds, and the files that it reads."""
    splits = [
        tfx.proto.Input.Split(name=name, pattern=pattern)
        for name, pattern in examples.input_patterns.items()
    ]
    number = examples.span.number
    static = tfx.proto.StaticRange(start_span_number=number, end_span_number=number)
    _, span, _ = utils.calculate_splits_fingerprint_span_and_version(
        examples.input_base, splits, tfx.proto.RangeConfig(static_range=static)
    )
    files = [
        sorted(str(path) for path in Path(examples.input_base).glob(split.pattern))
        for split in splits
    ]
    return span, files


def test_newest_span_is_the_largest_number_and_is_reported(source, resolve):
    lines = []
    examples = resolve(source, lines.append)
    assert lines[0] == f"span 10 of {source}: newest of 3"
    assert examples.span.number == 10
    assert count(examples) == 6


def test_older_span_is_used_if_set(source, resolve):
    lines = []
    examples = resolve(source, lines.append, span=2)
    assert lines[0] == f"span 2 of {source}: the newest is 10"
    assert count(examples) == 4


def test_example_gen_finds_the_span_of_text_and_of_tfrecords(source, resolve, tmp_path):
    text = resolve(source)
    shutil.copytree(text.directory, tmp_path / "records" / "0012" / "all")
    records = f"{tmp_path}/records/{{SPAN}}/all"
    for examples, number in ((text, 10), (resolve(records), 12)):
        span, files = number_that_example_gen_finds(examples)
        assert span == number
        assert files == [
            examples_lib.list_examples(examples, split) for split in examples.patterns
        ]
        assert all(files)


def test_same_text_in_another_span_is_prepared_again(source, resolve, tmp_path):
    first = resolve(source)
    shutil.copytree(tmp_path / "spans" / "day-10", tmp_path / "spans" / "day-11")
    second = resolve(source)
    assert second.directory != first.directory
    plain = resolve(f"{tmp_path}/spans/day-10")
    assert plain.directory not in (first.directory, second.directory)
    assert plain.span is None


def test_files_and_directories_of_other_names_are_ignored(source, resolve, tmp_path):
    for name in ("day-", "day-11.part", ".day-11", "day-x", "11"):
        (tmp_path / "spans" / name).mkdir()
    (tmp_path / "spans" / "day-11").touch()
    assert resolve(source).span.number == 10


def test_incomplete_span_is_refused_and_not_skipped(source, resolve, tmp_path):
    shutil.move(tmp_path / "spans" / "day-10" / "eval.tsv", tmp_path)
    with refused(
        "E-split-missing",
        setting=f"{tmp_path}/spans/day-10",
        got=re.compile(f"no split eval .*; it is span 10 of {re.escape(source)}"),
        advice=re.compile("`data.span=N`"),
    ):
        resolve(source)


def test_source_without_spans_is_refused_with_its_directories(source, tmp_path):
    for folder, name, allowed in (
        ("spans", "week-{SPAN}", "day-10, day-2, day-9"),
        ("nowhere", "{SPAN}", "none, as it has no directories"),
    ):
        got = f"no directory of {tmp_path}/{folder} is called {name}"
        with refused(NOT_FOUND, setting="data.source", got=got, allowed=allowed):
            spans.find_span(f"{tmp_path}/{folder}/{name}")


def test_missing_span_is_refused_with_the_spans_that_exist(source, resolve):
    with refused(NOT_FOUND, setting="data.span", allowed="2, 9, 10"):
        resolve(source, span=7)


def test_two_directories_of_one_span_are_refused(source, resolve, tmp_path):
    (tmp_path / "spans" / "day-010").mkdir()
    got = "it has day-010 and day-10, which are both span 10"
    with refused("E-split-unclear", setting=f"{tmp_path}/spans", got=got):
        resolve(source)
    assert resolve(source, span=9).span.number == 9


@pytest.mark.parametrize(
    "name", ["{SPAN}/{VERSION}", "{SPAN:2}", "{SPAN}/{SPAN}", "{YYYY}-{MM}-{DD}"]
)
def test_other_span_notations_of_tfx_are_refused(resolve, tmp_path, name):
    allowed = re.compile(r"^\{SPAN\} once")
    with refused("E-settings-refused", setting="data.source", allowed=allowed):
        resolve(f"{tmp_path}/{name}")


def test_span_of_a_source_without_spans_is_refused(tmp_path):
    recipe = tiny.write_config(tmp_path / "recipe.yaml")
    with refused("E-settings-refused", setting="data.span"):
        load_config(recipe, {"data.span": 3})


def test_remote_spans_are_found_as_local_ones(source, resolve, bucket, object_store):
    for span, number in ((9, "08"), (10, "11")):
        local = resolve(source, span=span)
        for split in local.patterns:
            (path,) = examples_lib.list_examples(local, split)
            remote = f"{bucket}/spans/{number}/{split}/{Path(path).name}"
            object_store.write(remote, Path(path).read_bytes())
    remote = f"{bucket}/spans/{{SPAN}}"
    examples = resolve(remote)
    assert (examples.directory, examples.span.number) == (f"{bucket}/spans/11", 11)
    assert resolve(remote, span=8).directory == f"{bucket}/spans/08"
    staged, copies = plan_examples(
        examples, OrchestratorPaths(f"{bucket}/root", "tiny")
    )
    assert (staged.input_base, staged.input_patterns) == (
        f"{bucket}/spans/11",
        examples.patterns,
    )
    assert copies == []
    with refused(NOT_FOUND, setting="data.source", allowed=re.compile("^none")):
        spans.find_span(f"{bucket}/nowhere/{{SPAN}}")


def test_cluster_gets_a_plain_directory_whose_path_names_the_span(source, resolve):
    examples = resolve(source)
    staged, copies = plan_examples(examples, OrchestratorPaths("gs://root", "tiny"))
    assert staged.input_base.startswith("gs://root/inputs/examples/span-10/")
    assert staged.input_patterns == examples.patterns
    assert len(copies) == 6  # the records of three splits, and their locations
