"""A person can push a refused model once, and a killed override is completed.

`e2e` tests the push of a model that a run trained.
"""

import re
import resource

import pytest

from contracts import written_files
from contracts.storage import files
from contracts.versions import served_versions
from pipeline.config import tfx_names
from pipeline.operations import override, releases
from pipeline.operations.override import require_refused
from pipeline.operations.record import RunRecord
from pipeline.operations.releases import list_pushed, roll_back
from pipeline.operations.run import Run
from pipeline.operations.runs import RunList
from report.run_metadata import MetadataReader
from tests import refusals


def test_overridden_run_is_not_pushed_again_above_a_newer_version(past, push):
    run = past.run("refused", pushed=str(push(1)))
    push(2)
    got = f"{run.id} was overridden already: it pushed {run.pushed}"
    with refusals.refused("E-override-not-refused", setting="run", got=got):
        require_refused(Run(past.paths, run))


@pytest.fixture
def refused(past):
    """A run whose model only the gate refused."""
    record, _ = past.refuse()
    return Run(past.paths, record)


def recorded(past):
    """Returns who pushed which version, as each of the readers sees it."""
    reader = MetadataReader.of_file(past.paths.metadata)
    (run,) = RunList(past.paths)
    override = run.verdict.override
    executions = [
        execution
        for _, execution in reader.executions(run.record.tfx_run_id)
        if "by" in execution.custom_properties
    ]
    return {
        "served": served_versions.list_versions(str(past.paths.pushed)),
        "show": override and str(override.version),
        "runs": run.pushed and run.pushed.name,
        "lineage": [e.custom_properties["version"].string_value for e in executions],
        "journal": [
            (r.reason, r.confirmed) for r in releases.read_journal(past.paths.pushed)
        ],
    }


def nothing_recorded(*releases):
    return {
        "served": [],
        "show": None,
        "runs": None,
        "lineage": [],
        "journal": list(releases),
    }


def completely_recorded(version, reason):
    return {
        "served": [version],
        "show": version,
        "runs": version,
        "lineage": [version],
        "journal": [(reason, True)],
    }


class Killed(BaseException):
    """As SIGKILL: nothing handles it."""


# What an override calls, in this order, and whether a later one completes the same
# record: it does once the model is pushed.
STEPS = {
    "intent": (releases, "add_release", False),
    "push": (served_versions, "push", False),
    "metadata": (override, "_write_metadata", True),
    "verdict": (files, "write_record", True),
    "its files": (written_files, "record", True),
    "run record": (RunRecord, "write", True),
    "confirmation": (releases, "add_release", True),
}


def kill_before(step, patched):
    """Kills the next override before a step; returns the list of what it calls."""
    calls = []

    def killed(function, name):
        def call(*arguments, **options):
            # The push and `written_files.record` write these.
            ignored = ("manifest.json", written_files.RECORD)
            if not str(arguments[0]).endswith(ignored):
                calls.append(name)
                if len(calls) > [*STEPS].index(step):
                    raise Killed
            function(*arguments, **options)

        return call

    for owner, name in {(owner, name) for owner, name, _ in STEPS.values()}:
        patched.setattr(owner, name, killed(getattr(owner, name), name))
    return calls


@pytest.mark.parametrize("step", STEPS)
def test_override_that_was_killed_is_completed_by_another(
    past, refused, monkeypatch, step
):
    with monkeypatch.context() as patched:
        calls = kill_before(step, patched)
        with pytest.raises(Killed):
            override.override(refused, "a typo")
    assert calls == [name for _, name, _ in STEPS.values()][: len(calls)]
    *_, is_pushed = STEPS[step]
    if not is_pushed:
        releases = [] if step == "intent" else [("a typo", False)]
        assert recorded(past) == nothing_recorded(*releases)

    (run,) = RunList(past.paths)
    version = str(override.override(run, "again").version)
    reason = "a typo" if is_pushed else "again"
    assert recorded(past) == completely_recorded(version, reason)
    (pushed,) = list_pushed(past.paths)
    assert pushed.release.reason == reason


def test_override_that_cannot_be_recorded_changes_nothing(past, refused):
    past.paths.pushed.mkdir(parents=True)
    (past.paths.pushed / releases.JOURNAL).symlink_to("/dev/full")
    file = str(past.paths.pushed / releases.JOURNAL)
    got = re.compile("No space left")
    with refusals.refused("E-storage-failed", setting=file, got=got):
        override.override(refused, "a typo")
    assert recorded(past) == nothing_recorded()


def test_error_of_an_override_is_one_line_and_another_completes_it(past, refused):
    """The disk is full while the model is copied."""
    model = refused.artifacts[tfx_names.MODEL].uri
    files.write(f"{model}/Format-Serving/variables/variables.index", b"0" * (1 << 20))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, hard))
    try:
        got = re.compile(f"^the override of run {refused.id} failed: .*$")
        with refusals.refused("E-storage-failed", got=got) as raised:
            override.override(refused, "a typo")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(raised.value)
    assert recorded(past) == nothing_recorded(("a typo", False))
    version = str(override.override(refused, "again").version)
    assert recorded(past) == completely_recorded(version, "again")


def test_directory_that_cannot_be_created_is_named(past, refused):
    past.paths.pushed.parent.touch()
    got = re.compile("failed: .*Not a directory: .*serving/tiny")
    with refusals.refused("E-storage-failed", got=got):
        override.override(refused, "a typo")


def test_model_that_was_rolled_back_after_a_killed_override_is_not_pushed(
    past, push, refused, monkeypatch
):
    push(1)
    with monkeypatch.context() as patched:
        kill_before("metadata", patched)
        with pytest.raises(Killed):
            override.override(refused, "a typo")
    roll_back(past.paths.pushed, 1, "")
    with refusals.refused("E-rolled-back", setting="run"):
        override.override(refused, "a typo")
    assert served_versions.list_versions(str(past.paths.pushed)) == ["1"]


def test_override_of_a_served_model_is_refused_without_a_record(past, refused):
    override.override(refused, "a typo")
    refused.record.pushed = None  # as if another run had pushed the same model
    got = re.compile("which is served already$")
    with refusals.refused("E-version-unknown", setting="run", got=got):
        override.override(refused, "a typo")
    assert len(releases.read_journal(past.paths.pushed)) == 1
