"""Checks judge slices and texts of data before training."""

import numpy as np

from components.model_checks import data_judgment
from components.model_checks.check import Check
from components.model_checks.registry import ConfiguredCheck
from contracts.settings.checks import CheckSettings
from contracts.task.definition import TaskConfig
from modules.data.judgment import Finding
from modules.data.row_facts import RowFacts, hash_texts

TASK = TaskConfig()


class Recorder(Check):
    """Finds what it gets."""

    title = "Recorder"

    def run(self, model, data, settings):
        raise NotImplementedError

    def texts_to_find(self, settings):
        return [("A cat", "a dog"), ("not", "there"), ("a  CAT ", "A dog")]

    def judge_data(self, settings, task, split, slices, in_train):
        yield Finding("recorded", split, repr((sorted(slices), in_train)))


class Silent(Recorder):
    texts_to_find = Check.texts_to_find


def facts(*texts):
    empty = RowFacts.concatenate([])
    columns = {name: np.zeros(len(texts)) for name in vars(empty)}
    columns["texts"] = [hash_texts(text) for text in texts]
    return RowFacts(**columns)


def judge(check, rows, slices):
    configured = ConfiguredCheck("mine", check, CheckSettings(), "module")
    found = data_judgment.judge([configured], TASK, "test", rows, slices)
    return [(finding.split, finding.message) for finding in found]


def test_check_gets_its_texts_that_are_in_train_and_the_slices():
    rows = {
        "train": facts(("a cat", "A DOG"), ("x", "y")),
        "test": facts(("not", "there")),
    }
    slices = {"region": {"north": {0: 5}}}
    expected = (["region"], [("A cat", "a dog"), ("a  CAT ", "A dog")])
    assert judge(Recorder(), rows, slices) == [("test", repr(expected))]


def test_check_without_texts_or_training_rows_finds_none():
    assert judge(Silent(), {"train": facts(("a", "b"))}, {}) == [("test", "([], [])")]
    assert judge(Recorder(), {"test": facts(("a", "b"))}, {}) == [("test", "([], [])")]
