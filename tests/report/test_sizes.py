"""Pages and cards of any number of classes or labels, from predictions, untrained."""

import functools
import re

import numpy as np
import pytest

from contracts import metrics
from contracts.records.data import DataVerdict
from contracts.records.probabilities import LabelDecisions
from contracts.task.definition import TaskConfig
from report import model_card, page, predictions_part
from tests.report import sample_parts as parts
from tests.report import samples
from tests.report.test_page import Parser

SIZES = (1, 2, 12, 13, 200)
ROWS = 400
MEGABYTE = 1_000_000


@functools.cache
def report_of(kind, size):
    """Returns the report of a task from random predictions, often right."""
    names = [f"{kind} / topic {index}" for index in range(size)]
    task = TaskConfig(
        text_columns=["comment"],
        classes=["no", "yes"],
        **({"kind": "multilabel"} if kind == "label" else {}),
    ).model_copy(update={"classes": names})  # one class is possible in no recipe
    random = np.random.default_rng(size)
    if kind == "label":
        labels = (random.random((ROWS, size)) < 1.5 / size).astype(int)
        labels[:, 1:2] = 0  # no row has it
        outputs = 0.8 * labels + 0.2 * random.random((ROWS, size))
        decision = parts.fitted()["decision"].model_copy(update={"curve": []})
        training = parts.training("micro_f1", seeds=1)
        training.label_decisions = LabelDecisions(
            by="the highest f1",
            split="eval",
            threshold=[0.371] * size,
            labels=dict.fromkeys(names, decision),
        )
    else:
        labels = random.integers(0, size, ROWS)
        labels[labels == 2] = 0  # no row has it
        outputs = random.dirichlet(np.ones(size), ROWS)
        outputs[np.arange(ROWS), labels] += 1
        outputs /= outputs.sum(axis=1, keepdims=True)
        training = None
    rows = metrics.Rows.of(labels, outputs)
    profile = {"train": parts.profile(task, 8 * ROWS)}
    values = metrics.compute(names, rows)
    sample = samples.classes(2) if kind == "class" else samples.labels()
    return sample.model_copy(
        update={
            "task": task,
            **parts.evaluated([parts.metric(*value) for value in values.items()]),
            "slices": [],
            "abstention": [],
            "batch": None,
            "training": training,
            "classification": predictions_part.classification(task, labels, outputs),
            "worst_rows": parts.worst_rows(task, 5) if size > 1 else [],
            "data": DataVerdict(card={}, profile=profile),
            "splits": [parts.split(task, "train", 8 * ROWS)],
        }
    )


@pytest.mark.filterwarnings("ignore:A single label was found")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["class", "label"])
def test_page_has_a_row_and_a_figure_for_any_number_of(kind, size):
    text = page.render(report_of(kind, size))
    table = re.search(rf"Metrics by {kind}.*?</table>", text, re.DOTALL)[0]
    assert table.partition("<tbody>")[2].count("<tr>") == size
    assert "figure-precision-recall" in text
    assert "figure-reliability" in text
    has_matrix = kind == "class"
    assert ("Confusion matrix" in text) == has_matrix
    assert ("figure-confusion" in text) == (has_matrix and size > page.SMALL_MATRIX)
    assert len(text) < MEGABYTE
    assert Parser(text).all("main")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["class", "label"])
def test_card_has_a_row_for_any_number_of(kind, size):
    card = model_card.render(report_of(kind, size))
    (table,) = re.findall(rf"^\| {kind} \| precision.*\n((?:\|.*\n)+)", card, re.M)
    assert table.count("\n") == 1 + size
    labels = card.partition("| split | rows | labels |")[2].splitlines()[2]
    assert ("topic 0" in labels and "more" not in labels) == (size <= 12)
    assert len(labels) < 400
    assert not re.search(r"\bundefined\b|\bNone\b", card)
