"""The command that checks a pushed model."""

import json
import shutil

import pytest
from click.testing import CliRunner

from contracts.redaction import REDACTED
from pipeline import exit_status
from pipeline.cli.main import main
from pipeline.config.recipe import load_config
from pipeline.operations.record import SETTINGS_FILE
from tests import warm_probe
from tests.pipeline.checked_model import OTHER, TEXTS, CheckedModel
from tests.pipeline.past_runs import PastRuns

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def forked_probes(monkeypatch):
    warm_probe.install(monkeypatch)


@pytest.fixture
def checked(tmp_path, export):
    return CheckedModel.make(tmp_path / "project", export("sentences"))


def invoke(*arguments):
    """Runs the command; returns its exit status, stdout and stderr."""
    result = CliRunner().invoke(main, ["check", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, " ".join(result.stderr.split())


def test_model_passes_with_its_newest_version_and_slices_are_measured(checked):
    checked.write_recipe(**{"facts_of_a_test:Facts": {}})
    status, printed, _ = invoke(
        *("--model", checked.version.parent, "--config", checked.recipe, "--json")
    )
    assert status == exit_status.SUCCESS
    required, facts = json.loads(printed)
    assert required["sentence"] == "3 of 3 required rows are predicted right"
    assert facts["sentence"] == "3 rows of test"
    assert (
        facts["figures"].items()
        >= {
            "region n (2 rows)": 1.0,
            "region s (1 row)": 1.0,
        }.items()
    )
    assert (facts["title"], facts["status"]) == ("Facts", "passed")


def test_required_row_that_is_missed_exits_with_3_and_is_shown(checked):
    expected = OTHER[checked.labels[0]]
    checked.require([expected, *checked.labels[1:]])
    status, printed, _ = invoke("--model", checked.version, "--config", checked.recipe)
    assert status == exit_status.REFUSED
    lines = printed.splitlines()
    assert lines[0] == f"model {checked.version}"
    assert lines[1].startswith(
        "✕ refused Required rows: 2 of 3 required rows are predicted right, and least "
        "is 1;"
    )
    row = f"  {TEXTS[0]} (label {expected}, prediction {checked.labels[0]}, P(bad) 0."
    assert lines[2].startswith(row)
    assert len(lines) == 3
    arguments = ("--model", checked.version, "--config", checked.recipe)
    status, printed, _ = invoke(*arguments, "--set", "checks.required_rows.action=warn")
    assert (status, printed.count(TEXTS[0])) == (exit_status.SUCCESS, 1)


def test_missed_rows_are_redacted(checked):
    checked.require([OTHER[checked.labels[0]], *checked.labels[1:]])
    module = checked.recipe.parent / "hide_of_a_check.py"
    module.write_text("def hide(row):\n    return None\n")
    arguments = ("--model", checked.version, "--config", checked.recipe)
    redact = ("--set", "redact=hide_of_a_check:hide")
    status, printed, _ = invoke(*arguments, *redact)
    assert status == exit_status.REFUSED
    assert printed.splitlines()[2].startswith(f"  {REDACTED} (label ")
    assert TEXTS[0] not in printed
    assert TEXTS[0] not in invoke(*arguments, *redact, "--json")[1]


def test_other_versions_of_the_directory_are_the_older_ones(checked, export):
    versions = checked.version.parent
    shutil.copytree(checked.version, versions / "3")  # a copy of the model
    shutil.copytree(export("pairs").directory, versions / "1")
    checked.write_recipe(older_versions={})
    status, printed, _ = invoke(
        "--model", checked.version, "--config", checked.recipe, "--json"
    )
    assert status == exit_status.SUCCESS
    (older,) = (row for row in json.loads(printed) if row["name"] == "older_versions")
    ((name, *_, problem),) = older["table"]["rows"]
    assert name == "1"
    assert problem.startswith("another task: text_columns ")


def test_recipe_is_that_of_the_run_that_pushed_the_version(checked):
    past = PastRuns(checked.folder / "output")
    record = past.run()
    version = past.paths.pushed / "7"
    shutil.copytree(checked.version, version)
    (artifact,) = past.execute("AtomicPusher", ["pushed_model: PushedModel"])
    past.set_property(artifact, "pushed_destination", str(version))
    settings = past.paths.run(record.id) / SETTINGS_FILE
    settings.write_text(load_config(checked.recipe).to_yaml())
    assert invoke("--model", version)[0] == exit_status.SUCCESS
    checked.write_recipe(**{"facts_of_a_test:Facts": {}})
    settings.write_text(load_config(checked.recipe).to_yaml())
    status, _, error = invoke("--model", version)
    assert status == exit_status.USAGE
    assert error.endswith(
        "error: --config: missing: the file of facts_of_a_test:Facts may be beside the "
        "recipe; name the recipe with --config FILE [E-option-missing]"
    )


def test_version_of_an_unknown_run_needs_a_recipe(checked):
    status, _, error = invoke("--model", checked.version)
    assert status == exit_status.USAGE
    assert error.endswith(
        f"error: --config: missing: the run that pushed {checked.version} is unknown; "
        "name the recipe with --config FILE [E-option-missing]"
    )


def test_damaged_version_and_model_of_another_task_are_refused(checked, export):
    status, _, error = invoke(
        "--model", export("pairs").directory, "--config", checked.recipe
    )
    assert status == exit_status.USAGE
    assert (
        "has a different one: text_columns ['question', 'answer'] instead of" in error
    )
    checked.damage()
    status, _, error = invoke("--model", checked.version, "--config", checked.recipe)
    assert status == exit_status.USAGE
    assert "saved_model.pb has" in error
    assert error.endswith("[E-model-damaged]")
