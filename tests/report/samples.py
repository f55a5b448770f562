"""Reports of made-up runs, as real ones look."""

import numpy as np

from contracts.records.probabilities import LabelDecisions
from contracts.task.definition import TaskConfig
from report.content import Data, Metric, PredictedRow, Regression, Report, Slice
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
NO_DATA = Data(
    splits=[], anomalies=[], warnings=[], notes=[], card={}, max_seq_length=128
)
# Changes of a report to test something else than its figures, which take a second.
WITHOUT_FIGURES = {
    "training": None,
    "classification": None,
    "abstention": [],
    "ages": None,
    "batch": None,
    "data": NO_DATA,
}


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
    metrics[0].max_regression = 0.03
    return Report(
        pipeline="sample",
        created="2026-11-25T01:51:08+00:00",
        outcome="pushed",
        verdict="Pushed: accuracy 0.925 on 200 rows of test, above the threshold 0.85.",
        reasons=[],
        task=task,
        split="test",
        metrics=metrics,
        champion=champion,
        comparison="Compared with version 1795548948935: 4 more rows are correct; the "
        "difference may be noise (McNemar's exact test, p = 0.34).",
        training=parts.training("accuracy", seeds=3, **parts.fitted()),
        classification=parts.classification(task.classes, gate_rows),
        abstention=parts.abstention(gate_rows),
        slices=parts.slices(has_champion=True),
        slice_gaps=parts.slice_gaps(parts.slices(has_champion=True)),
        swapped_words=parts.swapped_words(["He lost his keys."]),
        text_columns=parts.text_columns(),
        ages=parts.ages(),
        worst_rows=parts.worst_rows(task, worst_rows),
        data=parts.data(task, gate_rows),
        batch=parts.batch(),
        components=parts.components(),
        lineage=parts.lineage(),
        commits=parts.commits(),
        serving_check={
            "reasons": [],
            "rows": 64,
            "max_skew": {"serving_default": 6.3e-7, "serve_examples": 5e-7},
            "latency_ms": {"p50": 12.5, "p99": 16.5},
            "rows_per_second": 164.9,
            "load_seconds": 1.22,
            "peak_memory_bytes": 948_551_680,
            "tf_serving_version": "2.16",
            "text_version": "2.12.1",
            "group_words": [],
            "not_swapped": None,
            "warnings": ["the prediction changes in 9 of 40 rows"],
            "blessed": True,
        },
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
    failures = ["0.81 is below the threshold 0.85", "0.095 below the champion"]
    worse = report.metrics[0].model_copy(
        update={"value": 0.81, "interval": (0.755, 0.86), "failures": failures}
    )
    reasons = [f"accuracy: {failure}" for failure in failures]
    changes = {
        "outcome": "refused",
        "verdict": "Refused: accuracy 0.81 on 200 rows of test is below its bounds.",
        "reasons": reasons,
        "metrics": [worse, *report.metrics[1:]],
        "comparison": "",
        "slices": parts.slices(has_champion=True, is_refused=True),
        "pushed": None,
        "serving_check": {"reasons": ["'serving_default' differs"], "blessed": False},
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
        update={"anomalies": anomalies, "warnings": ["train: 2.0 % duplicates"]}
    )
    return Report(
        pipeline=report.pipeline,
        created=report.created,
        outcome="data refused",
        verdict="The data is refused: 2 anomalies.",
        reasons=anomalies,
        task=report.task,
        split=report.split,
        data=data,
        components=report.components[:4],
        lineage=report.lineage[:2],
        settings=report.settings,
    )


def empty():
    """A report of which every optional part is missing."""
    return Report(
        pipeline="sample",
        created="2026-11-25T01:51:08+00:00",
        outcome="data refused",
        verdict="The data is refused.",
        reasons=[],
        task=TaskConfig(),
        split="test",
        data=NO_DATA,
    )


def classes(count):
    """A task of single texts with several classes; names have spaces and slashes."""
    names = [f"card / payment issue {index}" for index in range(count)]
    task = TaskConfig(text_columns=["question"], classes=names, metric="accuracy")
    report = pushed()
    changes = {
        "task": task,
        "metrics": [
            parts.metric("accuracy", 0.84, majority=0.3, threshold=0.8),
            parts.metric("f1", 0.81, majority=0.1),
            *parts.class_metrics(names),
        ],
        "champion": None,
        "comparison": "There is no champion to compare with.",
        "training": parts.training("accuracy", seeds=1),
        "classification": parts.classification(names, 40 * count),
        "slices": parts.slices(has_champion=False),
        "slice_gaps": [],
        "swapped_words": [],
        "text_columns": [],
        "ages": None,
        "worst_rows": parts.worst_rows(task, 40),
        "data": parts.data(task, 40 * count),
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
        "metrics": [
            parts.metric("micro_f1", 0.81, majority=0.3, threshold=0.7),
            parts.metric("hamming_loss", 0.04),
            *parts.class_metrics(names),
            *(parts.metric(f"auc/{name}", 0.97) for name in names),
        ],
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
        "verdict": "Pushed: pearson_spearman 0.892 on 400 rows of eval.",
        "split": "eval",
        "metrics": [
            parts.metric(
                name, 0.892 - 0.01 * index, threshold=0.8 if not index else None
            )
            for index, name in enumerate(names)
        ],
        "training": parts.training("pearson_spearman", seeds=2),
        "classification": None,
        "abstention": [],
        "regression": Regression(labels=labels.tolist(), scores=scores.tolist()),
        "slices": [],
        "slice_gaps": [],
        "swapped_words": [],
        "serving_check": {"not_swapped": "words are not swapped: no row has one"},
        "worst_rows": parts.worst_rows(task, 30),
        "data": parts.data(task, 400),
    }
    return report.model_copy(update=changes)


def hostile():
    """Texts, names and numbers that a page must survive."""
    names = ["a / b", "<b>bold</b>", "\u05e9\u05dc\u05d5\u05dd", "x" * 300, "$x^2$"]
    task = TaskConfig(text_columns=["<i>", 'quo"te'], classes=names)
    report = classes(5)
    data = parts.data(task, 200)
    data.splits[0].columns[0].top_values = [(text, 1) for text in HOSTILE_TEXTS]
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
            feature=text,
            value=text,
            rows=index,
            metrics={"accuracy": nan},
            champion={"accuracy": nan},
        )
        for index, text in enumerate(HOSTILE_TEXTS)
    ]
    changes = {
        "pipeline": first,
        "verdict": second,
        "reasons": list(HOSTILE_TEXTS),
        "outcome": "refused",
        "task": task,
        "metrics": [
            Metric(name="accuracy", value=nan, interval=(nan, nan), champion=nan),
            Metric(name="loss", value=float("inf"), majority=nan),
            Metric(name="f1", value=0.5, champion=nan, majority=nan, threshold=0.9),
            *parts.class_metrics(names),
        ],
        "classification": classification,
        "slices": slices,
        "slice_gaps": parts.slice_gaps(slices),
        "swapped_words": parts.swapped_words(HOSTILE_TEXTS),
        "worst_rows": rows,
        "data": data.model_copy(
            update={"warnings": list(HOSTILE_TEXTS), "card": {"license": second}}
        ),
        "settings": {"name": second},
    }
    return report.model_copy(update=changes)
