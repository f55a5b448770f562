"""Reports of made-up runs, as real ones look."""

import contextlib

import numpy as np
import pytest
from markupsafe import Markup

from contracts.commits import Commit, Commits
from contracts.packing import Packing
from contracts.records.checks import CheckResult, ChecksReport, Table
from contracts.records.data import DataVerdict
from contracts.records.evaluation import Estimate, MetricVerdict, Slice
from contracts.records.probabilities import LabelDecisions
from contracts.task.definition import TaskConfig
from report import curves, plots, search_plots
from report.content import PredictedRow, Regression, Report
from tests.report import sample_parts as parts

HOSTILE_TEXTS = (
    "<script>document.title = 'run by data'</script>",
    "</script><img src=x onerror=\"document.title = 'run by data'\">",
    "\"double\" 'single' `back` & &amp; {{ 7 * 7 }} {% raw %}",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u202eright to left\u202c",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2028 \ufeff",
    "x" * 10_000,
    "nul \x00 escape \x1b[31m bell \x07 delete \x7f",
    "a$b$ \\frac{1}{2} 100 %",
)
NO_DATA = DataVerdict(card={})
COMMIT = Commit(id="0123456789abcdef" * 2, changes=["modules/a.py"])


@contextlib.contextmanager
def without_figures():
    """Leaves the figures of pages empty, which take seconds to draw."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (curves, plots, search_plots):
            patch.setattr(
                module, "draw", lambda name, *_, **__: Markup(f"<i id={name}>")
            )
        yield


def pushed(gate_rows=200, worst_rows=60):
    """A pair task of two classes whose model replaced a champion."""
    task = TaskConfig(metric="accuracy")
    champion = "/srv/output/sample/serving/sample/1795548948935"
    metrics = [
        parts.metric(
            "accuracy", 0.925, champion=0.905, threshold=0.85, max_regression=0.03
        ),
        parts.metric("f1", 0.9302, champion=0.912, majority=0.6667),
        parts.metric("precision", 0.8696, champion=0.846, majority=0.5),
        parts.metric("recall", 1.0, champion=0.99, majority=1.0),
        parts.metric("auc", 0.9407, champion=0.917, majority=0.5),
        parts.metric("matthews", 0.8597, champion=0.8219, majority=0.0),
        *parts.class_metrics(task.classes, champion=-0.01),
    ]
    return Report(
        pipeline="sample",
        created="2026-11-25T01:51:08+00:00",
        outcome="pushed",
        reasons=[],
        task=task,
        split="test",
        **parts.evaluated(
            metrics,
            champion=champion,
            paired=parts.paired(0.905, 0.925, p_value=0.34),
            **parts.sliced(has_champion=True),
        ),
        training=parts.training("accuracy", seeds=3, **parts.fitted()),
        classification=parts.classification(task.classes, gate_rows),
        abstention=parts.abstention(gate_rows),
        checks=parts.checks(),
        worst_rows=parts.worst_rows(task, worst_rows),
        **parts.data(task, gate_rows),
        batch=parts.batch(),
        components=parts.COMPONENTS,
        lineage=parts.lineage(),
        commits=Commits(code=COMMIT, recipe=COMMIT, recipe_file="sample.yaml"),
        serving_check=parts.serving_check(),
        pushed="/srv/output/sample/serving/sample/1795571468258",
        settings={
            "name": "sample",
            "task": task.model_dump(),
            "trainer": {"epochs": 4, "batch_size": 32, "learning_rate": 5e-5},
        },
    )


def refused():
    """The same, but the model is worse than the bounds allow."""
    report = pushed()
    accuracy, *others = report.verdict.metrics
    accuracy = accuracy.model_copy(update={"value": 0.81})
    verdict = report.verdict.model_copy(
        update={"metrics": [accuracy, *others], "blessed": False}
    )
    checks = parts.checks("refused")
    changes = {
        "outcome": "refused",
        "reasons": [*verdict.failures, *ChecksReport(results=checks).refusals],
        "checks": checks,
        "verdict": verdict,
        "intervals": {**report.intervals, "accuracy": (0.755, 0.86)},
        "pushed": None,
        "serving_check": report.serving_check.model_copy(
            update={"reasons": ["'serving_default' differs"]}
        ),
    }
    return report.model_copy(update=changes)


def data_refused():
    """A run that ended before the training."""
    report = pushed()
    anomalies = [
        "train: 3 rows of `label` are neither 0 nor 1 (rows 4, 17 and 255)",
        "eval: 12 of 200 rows are in train, too; at most 0 % may be",
    ]
    data = report.data.model_copy(
        update={"problems": anomalies, "warnings": ["train: 2.0 % duplicates"]}
    )
    return Report(
        pipeline=report.pipeline,
        created=report.created,
        outcome="data refused",
        reasons=anomalies,
        task=report.task,
        split=report.split,
        data=data,
        splits=report.splits,
        packing=report.packing,
        components=dict([*report.components.items()][:4]),
        lineage=report.lineage[:2],
        settings=report.settings,
    )


def empty():
    """A report of which every optional part is missing."""
    return Report(
        pipeline="sample",
        created="2026-11-25T01:51:08+00:00",
        outcome="data refused",
        reasons=[],
        task=TaskConfig(),
        split="test",
        data=NO_DATA,
        packing=Packing(),
    )


def classes(count):
    """A task of single texts with several classes; names have spaces and slashes."""
    names = [f"card / payment issue {index}" for index in range(count)]
    task = TaskConfig(text_columns=["question"], classes=names, metric="accuracy")
    report = pushed()
    changes = {
        "task": task,
        **parts.evaluated(
            [
                parts.metric("accuracy", 0.84, majority=0.3, threshold=0.8),
                parts.metric("f1", 0.81, majority=0.1),
                *parts.class_metrics(names),
            ],
            **parts.sliced(has_champion=False),
        ),
        "training": parts.training("accuracy", seeds=1),
        "classification": parts.classification(names, 40 * count),
        "serving_check": parts.serving_check(),
        "checks": [],
        "worst_rows": parts.worst_rows(task, 40),
        **parts.data(task, 40 * count),
    }
    return report.model_copy(update=changes)


def labels():
    """A task of single texts with several labels, each with its own threshold."""
    names = ["toxic", "rude", "a / b"]
    task = TaskConfig(text_columns=["comment"], classes=names, kind="multilabel")
    decision = parts.fitted()["decision"].model_copy(update={"curve": []})
    classification = parts.classification(names, 300)
    classification.confusion, classification.label_rows = [], [120, 31, 7]
    row = parts.worst_rows(classes(3).task, 1)[0]
    row.label, row.prediction = "toxic|a / b", "toxic"
    row.probabilities = {"toxic": 0.8, "rude": 0.3, "a / b": 0.2}
    changes = {
        "task": task,
        **parts.evaluated(
            [
                parts.metric("micro_f1", 0.81, majority=0.3, threshold=0.7),
                parts.metric("hamming_loss", 0.04),
                *parts.class_metrics(names),
                *(parts.metric(f"auc/{name}", 0.97) for name in names),
            ],
            **parts.sliced(has_champion=False),
        ),
        "training": parts.training(
            "micro_f1",
            seeds=1,
            label_decisions=LabelDecisions(
                by="the highest f1",
                split="eval",
                threshold=[0.371] * 3,
                labels=dict.fromkeys(names, decision),
                notes=["labels with few rows share a threshold: rude, a / b_c"],
            ),
        ),
        "classification": classification,
        "abstention": [],
        "worst_rows": [row],
        "data": NO_DATA,
        "splits": [],
        "batch": None,
    }
    return classes(3).model_copy(update=changes)


def regression():
    """A pair task with scores from 0 to 5."""
    task = TaskConfig(name="stsb")
    random = np.random.default_rng(3)
    labels = np.round(random.uniform(0, 5, 400) * 5) / 5
    scores = np.clip(labels + random.normal(0, 0.5, 400), 0, 5)
    report = pushed()
    names = ("pearson_spearman", "pearson", "spearman")
    changes = {
        "task": task,
        "split": "eval",
        **parts.evaluated(
            [
                parts.metric(
                    name, 0.892 - 0.01 * index, threshold=0.8 if not index else None
                )
                for index, name in enumerate(names)
            ]
        ),
        "training": parts.training("pearson_spearman", seeds=2),
        "classification": None,
        "abstention": [],
        "regression": Regression(labels=labels.tolist(), scores=scores.tolist()),
        "worst_rows": parts.worst_rows(task, 30),
        **parts.data(task, 400),
    }
    return report.model_copy(update=changes)


def hostile():
    """Texts, names and numbers that a page must survive."""
    names = ["a / b", "<b>bold</b>", "\u05e9\u05dc\u05d5\u05dd", "x" * 300, "$x^2$"]
    task = TaskConfig(text_columns=["<i>", 'quo"te'], classes=names)
    report = classes(5)
    data = parts.data(task, 200)
    data["splits"][0].columns[0].top_values = [(text, 1) for text in HOSTILE_TEXTS]
    rows = [
        PredictedRow(
            id=index,
            texts=[text, text[::-1]],
            label=names[index % 5],
            prediction=names[(index + 1) % 5],
            probabilities=dict.fromkeys(names, float("nan")),
            loss=(float("nan"), float("inf"), 2.5)[index % 3],
            tokens=[text[:50], "[SEP]"],
            cut=None,
        )
        for index, text in enumerate(HOSTILE_TEXTS)
    ]
    nan = float("nan")
    classification = parts.classification(names, 200)
    classification.expected_calibration_error = nan
    classification.calibration[0].accuracy = nan
    first, second = HOSTILE_TEXTS[:2]
    slices = [
        Slice(
            feature=HOSTILE_TEXTS[index // 2],
            value=text,
            rows=index + 1,
            metrics={"accuracy": nan},
            champion={"accuracy": nan},
        )
        for index, text in enumerate(HOSTILE_TEXTS)
    ]
    changes = {
        "pipeline": first,
        "reasons": list(HOSTILE_TEXTS),
        "outcome": "refused",
        "pushed": None,
        "task": task,
        **parts.evaluated(
            [
                (MetricVerdict(metric="accuracy", value=nan, champion=nan), None),
                (MetricVerdict(metric="loss", value=float("inf")), nan),
                parts.metric("f1", 0.5, nan, champion=nan, threshold=0.9),
                *parts.class_metrics(names),
            ],
            not_compared=second,
            slices=slices,
        ),
        "classification": classification,
        "checks": hostile_checks(),
        "worst_rows": rows,
        **data,
        "data": data["data"].model_copy(
            update={"warnings": list(HOSTILE_TEXTS), "card": {"license": second}}
        ),
        "settings": {"name": second},
    }
    return report.model_copy(update=changes)


def hostile_checks():
    """Results with texts and numbers that everything that shows them must survive."""
    nan = Estimate(value="nan")
    first, *_ = HOSTILE_TEXTS
    table = Table(
        columns=[*HOSTILE_TEXTS[:3], "value"],
        rows=[[text, nan, None, "x" * 300] for text in HOSTILE_TEXTS],
    )
    changed = parts.checks(texts=HOSTILE_TEXTS)[1]
    return [
        CheckResult(
            name=text,
            title=text,
            status="refused",
            sentence=text,
            advice=text,
            figures={first: text, "value": nan, "rows": None},
            table=table if text is first else None,
        )
        for text in HOSTILE_TEXTS
    ] + [changed, changed.model_copy(update={"status": "not applicable"})]
