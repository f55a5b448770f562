"""The model that a candidate is compared with."""

import json
import os
import re
from pathlib import Path

import pytest
import tensorflow as tf
from tfx import v1 as tfx
from tfx.orchestration.portable import data_types

from components.champion.component import (
    Champion_Executor,
    ChampionCheck_Executor,
    Driver,
)
from contracts.task.definition import TaskConfig
from contracts.versions import exported_model, served_versions
from tests import tiny
from tests.refusals import refused

TASK = {"classes": ["bad", "good"]}
OTHER_TASK = {"classes": ["no", "yes"]}
DIFFERENCE = "classes ['bad', 'good'] instead of ['no', 'yes']"


def write_model(directory, identity):
    os.makedirs(directory)
    (directory / "saved_model.pb").write_bytes(tiny.GRAPH)
    (directory / "fingerprint.pb").write_bytes(identity.encode())
    exported_model.write_description(str(directory), TASK)


def model(directory):
    artifact = tfx.types.standard_artifacts.Model()
    artifact.uri = str(directory)
    return artifact


def model_run(directory):
    artifact = tfx.types.standard_artifacts.ModelRun()
    artifact.uri = str(directory)
    return artifact


def parameters(directory, expected, incompatible):
    return {
        "directory": str(directory),
        "expected": json.dumps(expected),
        "incompatible": incompatible,
    }


@pytest.fixture
def served(tmp_path):
    """Returns a directory with three versions of two models."""
    directory = tmp_path / "serving"
    for version, identity in {"100": "a", "200": "b", "300": "a"}.items():
        write_model(directory / version, identity)
    return directory


@pytest.fixture
def find(tmp_path):
    """Runs Champion for a candidate; returns its output artifact."""

    def find(
        candidate,
        directory,
        with_driver,
        expected=TASK,
        incompatible="ignore",
        root=tmp_path,
    ):
        write_model(tmp_path / "model", candidate)
        exported_model.write_digest(str(tmp_path / "model"), f"{root}/candidate")
        inputs = {"candidate": [model_run(f"{root}/candidate")]}
        properties = parameters(directory, expected, incompatible)
        if with_driver:
            info = data_types.ExecutionInfo(
                input_dict=inputs, exec_properties=properties, output_dict={}
            )
            version = Driver(None).run(info).exec_properties["version"].string_value
            properties["version"] = version
        champion = model(f"{root}/champion")
        Champion_Executor().Do(inputs, {"model": [champion]}, properties)
        return champion

    return find


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
@pytest.mark.parametrize(
    ("candidate", "version"),
    [("c", "300"), ("b", "300"), ("a", "200")],
    ids=["new", "rolled back", "in production itself"],
)
def test_champion_is_the_newest_version_other_than_the_candidate(
    find, served, candidate, version, with_driver
):
    champion = find(candidate, served, with_driver)
    copied = Path(champion.uri) / "Format-Serving"
    expected = served / version
    assert (copied / "fingerprint.pb").read_bytes() == (
        expected / "fingerprint.pb"
    ).read_bytes()
    destination = champion.get_string_custom_property("pushed_destination")
    assert destination == str(expected)


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
def test_first_run_has_no_champion(find, tmp_path, with_driver):
    champion = find("a", tmp_path / "nothing", with_driver)
    assert not Path(champion.uri).exists()
    assert not champion.has_custom_property("pushed_destination")


def test_version_that_appears_after_the_driver_ran_is_not_used(tmp_path, served):
    properties = {**parameters(served, TASK, "ignore"), "version": ""}
    champion = model(tmp_path / "champion")
    inputs = {"candidate": [model_run(tmp_path / "candidate")]}
    Champion_Executor().Do(inputs, {"model": [champion]}, properties)
    assert not Path(champion.uri).exists()


def test_names_that_are_not_numbers_are_ignored(find, tmp_path):
    for name in (".400.incomplete", "latest"):
        write_model(tmp_path / "serving" / name, "b")
    assert not Path(find("a", tmp_path / "serving", False).uri).exists()


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
def test_champion_of_another_task_is_not_compared_and_the_reason_is_kept(
    find, served, with_driver
):
    champion = find("c", served, with_driver, expected=OTHER_TASK)
    assert not Path(champion.uri).exists()
    assert champion.get_string_custom_property("not_compared") == (
        f"not compared with the champion {served / '300'}: {DIFFERENCE}"
    )


def test_champion_of_one_label_is_not_compared_with_a_model_of_several(find, served):
    several = exported_model.describe_task(
        TaskConfig(kind="multilabel", classes=TASK["classes"], label_separator="|")
    )
    champion = find("c", served, True, expected={**TASK, "kind": several["kind"]})
    assert champion.get_string_custom_property("not_compared").endswith(
        ": kind None instead of multilabel"
    )


def refused_by(served):
    return refused(
        "E-runs-not-comparable",
        setting="evaluator.incompatible_champion",
        got=f"refuse, and the champion {served / '300'} has another task: {DIFFERENCE}",
        advice=re.compile("set evaluator.incompatible_champion to ignore"),
    )


def test_champion_of_another_task_is_refused_if_a_comparison_is_required(find, served):
    with refused_by(served):
        find("c", served, True, expected=OTHER_TASK, incompatible="refuse")


@pytest.mark.parametrize(
    ("expected", "is_refused"),
    [(TASK, False), (OTHER_TASK, True)],
    ids=["same", "other"],
)
def test_newest_version_is_checked_before_training(served, expected, is_refused):
    properties = parameters(served, expected, "refuse")
    info = data_types.ExecutionInfo(
        input_dict={}, exec_properties=properties, output_dict={}
    )
    output = Driver(None).run(info)
    assert output.exec_properties["version"].string_value == "300"
    check = ChampionCheck_Executor()
    if is_refused:
        with refused_by(served):
            check.Do({}, {}, properties)
    else:
        check.Do({}, {}, properties)


def test_check_before_the_first_push_passes(tmp_path):
    properties = parameters(tmp_path / "nothing", TASK, "refuse")
    ChampionCheck_Executor().Do({}, {}, properties)


def test_champion_in_a_bucket_is_complete_and_neither_the_candidate_nor_withdrawn(
    find, tmp_path, bucket, object_store
):
    serving = f"{bucket}/serving"
    for version, identity in {"100": "b", "200": "d", "300": "a", "400": "c"}.items():
        write_model(tmp_path / identity, identity)
        served_versions.push(str(tmp_path / identity), serving, version)
    tf.io.gfile.rename(f"{serving}/300", f"{serving}/{served_versions.WITHDRAWN}/300")
    object_store.delete(f"{serving}/200/saved_model.pb")  # it is incomplete
    champion = find("c", serving, False, root=f"{bucket}/run")
    destination = champion.get_string_custom_property("pushed_destination")
    assert destination == f"{serving}/100"
    copied = f"{champion.uri}/Format-Serving"
    assert object_store.read(f"{copied}/fingerprint.pb") == b"b"
    assert object_store.read(f"{copied}/saved_model.pb") == tiny.GRAPH


@pytest.mark.parametrize("with_driver", [True, False], ids=["local", "cluster"])
def test_first_run_in_a_bucket_has_no_champion(find, bucket, object_store, with_driver):
    champion = find("a", f"{bucket}/serving", with_driver, root=f"{bucket}/run")
    assert object_store.keys(f"{bucket}/run/champion") == []
    assert not champion.has_custom_property("pushed_destination")
