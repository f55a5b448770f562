"""Checks of a user in their process: what they can call, and what harms nobody."""

import json
import time
from pathlib import Path

import psutil
import pytest
import tensorflow as tf

from components.model_checks import registry
from components.model_checks.check import Facts
from components.model_checks.host import Host
from components.model_checks.runner import run_checks
from contracts.settings.evaluator import EvaluatorConfig
from contracts.settings.sections import Sections
from tests import records, served, warm_probe

pytestmark = pytest.mark.slow

TEXTS = [("a", "bbb"), ("ccc", "d"), ("ee", "ff"), ("caf\udce9", "")]

MODULE = """
import os, pathlib, subprocess, sys, time

import numpy as np

from components.model_checks import Check, CheckResult, CheckSettings, NotApplicable
import beside


class Passing(Check):
    title = "Predictions"

    def run(self, model, data, settings):
        rows = data.rows()
        by_text = model.outputs(rows.texts)
        assert np.allclose(by_text, model.outputs(rows), atol=1e-6)
        (first, _, _, other) = model.predict(rows.texts)
        assert (first.label, other.label) == ("b", "a"), (first, other)
        assert abs(first.probabilities["a"] - 0.25) < 1e-6
        assert data.champion is None
        assert "tensorflow" not in sys.modules
        return CheckResult(status="passed", sentence=beside.SENTENCE)


class Printing(Passing):
    def run(self, model, data, settings):
        print("to stdout", flush=True)
        os.write(1, b"not a message")
        return super().run(model, data, settings)


class Raising(Check):
    title = "Raises"

    def run(self, model, data, settings):
        raise KeyError("no such word")


class Hanging(Check):
    title = "Hangs"

    def run(self, model, data, settings):
        child = subprocess.Popen(["sleep", "600"])
        print("asleep", flush=True)
        pathlib.Path(settings.file).write_text(str(child.pid))
        print("waiting")
        time.sleep(600)


class Forking(Check):
    title = "Forks"

    def run(self, model, data, settings):
        if os.fork() == 0:
            return CheckResult(status="refused", sentence="a fork")
        os.wait()
        return CheckResult(status="passed", sentence="the parent")


class Leaving(Check):
    title = "Leaves"

    def run(self, model, data, settings):
        print("bye", flush=True)
        os._exit(3)


class Orphaning(Check):
    title = "Leaves a fork"

    def run(self, model, data, settings):
        if os.fork() == 0:
            time.sleep(600)
        os._exit(3)


class Wrong(Check):
    title = "Returns something else"

    def run(self, model, data, settings):
        return True


class Sending(Check):
    title = "Sends numbers instead of texts"

    def run(self, model, data, settings):
        model.predict([(1, 2)])


class Unknown(Check):
    title = "Sets an unknown status"

    def run(self, model, data, settings):
        assert model.predict([]) == []
        result = CheckResult(status="passed", sentence="")
        result.status = "good"
        return result


class Catching(Check):
    title = "Catches an error of the model"

    def run(self, model, data, settings):
        try:
            model.predict(data.rows().texts)
        except RuntimeError as error:
            return CheckResult(status="passed", sentence=str(error))


class Invalid(Check):
    title = "Returns an unknown status"

    def run(self, model, data, settings):
        return CheckResult(status="ok", sentence="fine")


class Inapplicable(Check):
    title = "Does not apply"

    def run(self, model, data, settings):
        raise NotApplicable("there is no weather")


class Settings(CheckSettings):
    file: str = ""


Hanging.Settings = Settings


class Counting(Check):
    title = "Counts its runs"
    Settings = Settings

    def run(self, model, data, settings):
        with open(settings.file, "a") as file:
            file.write("1")
        return CheckResult(status="passed", sentence="counted")
"""


@pytest.fixture(autouse=True)
def forked_probes(monkeypatch):
    warm_probe.install(monkeypatch)


@pytest.fixture
def directory(tmp_path):
    """A directory with checks, beside a recipe."""
    directory = tmp_path / "recipe"
    directory.mkdir()
    (directory / "own_checks.py").write_text(MODULE)
    (directory / "beside.py").write_text("SENTENCE = 'all equal'\n")
    return str(directory)


@pytest.fixture
def run(tmp_path, directory):
    """Runs checks of `MODULE` on a toy; returns the results by class."""

    def run(sections, predict=served.share, champion=None, **options):
        rows = [
            records.example(
                sentence1=[left.encode("utf-8", "surrogateescape")],
                sentence2=[right.encode()],
                idx=[index],
                label=[0],
            )
            for index, (left, right) in enumerate(TEXTS)
        ]
        pattern = records.write(tmp_path / "data.gz", rows)
        model = tmp_path / "model"
        if not model.exists():
            served.save_toy(model, predict)
        models = {"candidate": str(model / "Format-Serving")}
        if champion:
            served.save_toy(tmp_path / "champion", champion)
            models["champion"] = str(tmp_path / "champion" / "Format-Serving")
        facts = Facts(
            task=served.TASK,
            split="eval",
            significance=0.05,
            metrics={},
            slices=[],
            not_compared="",
            thresholds=dict.fromkeys(models),
            splitting=None,
        )
        checks = registry.configure(
            {f"own_checks:{name}": section for name, section in sections.items()},
            directory,
        )
        settings = Sections(task=served.TASK, evaluator=EvaluatorConfig(split="eval"))
        with Host(settings, facts, {"eval": pattern}, models) as host:
            results = run_checks(checks, host, directory=directory, **options)
        return {result.name.partition(":")[2]: result for result in results}

    return run


def test_checks_call_the_model_and_harm_nobody(run, tmp_path, capfd, caplog):
    file = tmp_path / "pid"
    results = run(
        {
            "Raising": {"action": "warn"},
            "Hanging": {"timeout": 1, "file": str(file)},
            "Leaving": {},
            "Orphaning": {},
            "Wrong": {},
            "Sending": {"action": "warn"},
            "Unknown": {"action": "warn"},
            "Invalid": {},
            "Forking": {},
            "Inapplicable": {},
            "Printing": {},
            "Passing": {},
        }
    )
    assert {name: result.status for name, result in results.items()} == {
        "Raising": "warning",
        "Hanging": "refused",
        "Leaving": "refused",
        "Orphaning": "refused",
        "Wrong": "refused",
        "Sending": "warning",
        "Unknown": "warning",
        "Invalid": "refused",
        "Forking": "passed",
        "Inapplicable": "not applicable",
        "Printing": "passed",
        "Passing": "passed",
    }
    assert "raised KeyError: 'no such word'" in results["Raising"].message
    assert (
        "did not end within the 1 s of checks.own_checks:Hanging.timeout"
        in results["Hanging"].message
    )
    assert "Hanging.timeout; its output:\nasleep\nwaiting\n" in f"{caplog.text}\n"
    assert "ended its process: bye" in results["Leaving"].message
    assert "ended its process: it wrote nothing" in results["Orphaning"].message
    assert "returned bool instead of CheckResult" in results["Wrong"].message
    assert "'int' object has no attribute 'encode'" in results["Sending"].message
    assert "cannot be read" in results["Unknown"].message
    assert "ValidationError: 1 validation error for" in results["Invalid"].message
    assert results["Forking"].sentence == "the parent"
    assert results["Inapplicable"].message == "there is no weather"
    assert results["Passing"].message == "all equal"
    assert results["Passing"].title == "Predictions"
    assert results["Passing"].seconds > 0
    assert "to stdout" not in capfd.readouterr().out
    deadline = time.monotonic() + 10
    while psutil.pid_exists(int(file.read_text())):  # what it has started is ended
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_predictions_that_two_checks_need_are_made_once(run, monkeypatch):
    sent = []
    predict = Host._predict
    monkeypatch.setattr(
        Host,
        "_predict",
        lambda self, name, signature, inputs: (
            sent.append((signature, len(next(iter(inputs.values())))))
            or predict(self, name, signature, inputs)
        ),
    )
    results = run({"Passing": {}, "Printing": {}})
    assert {result.status for result in results.values()} == {"passed"}
    texts = [rows for signature, rows in sent if signature == "serving_default"]
    assert sum(texts) == len(TEXTS)


def test_changed_check_reruns_alone(run, tmp_path):
    files = [tmp_path / "first", tmp_path / "second"]
    cache = str(tmp_path / "cache")
    section = {"Counting": {"file": str(files[0])}}
    name = "own_checks:Counting"
    for key in ("a", "a", "b"):
        results = run(section, cache=cache, keys={name: key})
        assert results["Counting"].sentence == "counted"
    assert files[0].read_text() == "11"
    # A check that failed is not kept.
    for _ in range(2):
        run({"Raising": {}}, cache=cache, keys={"own_checks:Raising": "a"})
    assert len(list(Path(cache).iterdir())) == 2


def test_modules_of_the_working_directory_are_not_imported(run, tmp_path, monkeypatch):
    for name in ("contracts.py", "difflib.py"):
        (tmp_path / name).write_text("raise ImportError('another module')")
    monkeypatch.chdir(tmp_path)
    assert run({"Printing": {}})["Printing"].status == "passed"


def not_finite(left, right):
    is_long = tf.expand_dims(tf.strings.length(left) == 3, 1)
    return tf.where(is_long, float("nan"), served.share(left, right))


def test_output_that_is_not_finite_is_refused_whatever_a_check_does(run):
    results = run({"Passing": {"action": "warn"}}, not_finite)
    assert results["Passing"].status == "refused"
    assert "is not finite in 1 of 4 rows" in results["Passing"].message
    assert results["Passing"].message.endswith("[E-serving-output]")


def abort(left, right):
    with tf.control_dependencies([tf.raw_ops.Abort(error_msg="no more")]):
        return served.share(left, right)


def test_model_that_crashes_fails_its_check_and_no_other(run):
    results = run({"Passing": {"action": "warn"}, "Forking": {}}, abort)
    assert results["Passing"].status == "warning"
    assert "died of SIGABRT" in results["Passing"].message
    assert results["Forking"].status == "passed"


def test_result_of_a_check_whose_model_failed_is_not_kept(run, tmp_path):
    cache, name = tmp_path / "cache", "own_checks:Catching"
    results = run({"Catching": {}}, abort, cache=str(cache), keys={name: "a"})
    assert "died of SIGABRT" in results["Catching"].sentence
    assert not cache.exists()


def test_result_is_equal_after_it_was_written_as_json(run):
    result = run({"Inapplicable": {}})["Inapplicable"]
    assert type(result).model_validate(json.loads(result.model_dump_json())) == result
