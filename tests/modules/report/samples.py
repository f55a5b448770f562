"""Reports of made-up runs, as real ones look."""

import numpy as np

from modules.config.task import TaskConfig
from modules.report.content import (
    Batch,
    CalibrationBin,
    Classification,
    Column,
    ComponentTime,
    Curve,
    Data,
    Lengths,
    LineageStep,
    Metric,
    PrecisionRecall,
    PredictedRow,
    Regression,
    Report,
    SeedTraining,
    Slice,
    Split,
    Training,
)

HOSTILE_TEXTS = (
    "<script>document.title = 'run by data'</script>",
    "</script><img src=x onerror=\"document.title = 'run by data'\">",
    "\"double\" 'single' `back` & &amp; {{ 7 * 7 }} {% raw %}",
    "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u202eright to left\u202c",
    "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \u2028 \ufeff",
    "x" * 10_000,
    "nul \x00 escape \x1b[31m bell \x07 delete \x7f half \ud83d",
    "a$b$ \\frac{1}{2} 100 %",
)
TEXTS = (
    "The fire at the Silverlode Electronics factory in Lyon came before a tour by "
    "safety inspectors.",
    "A study of 28,000 people showed that red meat raises the risk of heart disease.",
    "Wexcombe Robotics is planning to shrink the workforce at its Oslo plant by 300.",
    "In the Busan mayoral election, Jolanta Yarrow ended up 590 votes behind.",
    "Drummoch Industries has issued a recall of 1,400 camping stoves.",
    "After seven straight losses, the Perth Monarchs decided to fire their coach.",
)


def pushed(gate_rows=200, worst_rows=60):
    """A pair task of two classes whose model replaced a champion."""
    task = TaskConfig(metric="accuracy")
    champion = "/srv/output/sample/serving/sample/1795548948935"
    metrics = [
        _metric("accuracy", 0.925, champion=0.905, threshold=0.85, max_regression=0.03),
        _metric("f1", 0.9302, champion=0.912, majority=0.6667),
        _metric("precision", 0.8696, champion=0.846, majority=0.5),
        _metric("recall", 1.0, champion=0.99, majority=1.0),
        _metric("auc", 0.9407, champion=0.917, majority=0.5),
        _metric("matthews", 0.8597, champion=0.8219, majority=0.0),
        *_class_metrics(task.classes, champion=-0.01),
    ]
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
        training=_training("accuracy", seeds=3),
        classification=_classification(task.classes, gate_rows),
        slices=_slices(has_champion=True),
        worst_rows=_worst_rows(task, worst_rows),
        data=_data(task, gate_rows),
        batch=_batch(),
        components=_components(),
        lineage=_lineage(),
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
        data=Data(
            splits=[], anomalies=[], warnings=[], notes=[], card={}, max_seq_length=128
        ),
    )


def classes(count):
    """A task of single texts with several classes; names have spaces and slashes."""
    names = [f"card / payment issue {index}" for index in range(count)]
    task = TaskConfig(text_columns=["question"], classes=names, metric="accuracy")
    report = pushed()
    changes = {
        "task": task,
        "metrics": [
            _metric("accuracy", 0.84, majority=0.3, threshold=0.8),
            _metric("f1", 0.81, majority=0.1),
            *_class_metrics(names),
        ],
        "champion": None,
        "comparison": "There is no champion to compare with.",
        "training": _training("accuracy", seeds=1),
        "classification": _classification(names, 40 * count),
        "slices": _slices(has_champion=False),
        "worst_rows": _worst_rows(task, 40),
        "data": _data(task, 40 * count),
    }
    return report.model_copy(update=changes)


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
            _metric(name, 0.892 - 0.01 * index, threshold=0.8 if not index else None)
            for index, name in enumerate(names)
        ],
        "training": _training("pearson_spearman", seeds=2),
        "classification": None,
        "regression": Regression(labels=labels.tolist(), scores=scores.tolist()),
        "slices": [],
        "worst_rows": _worst_rows(task, 30),
        "data": _data(task, 400),
    }
    return report.model_copy(update=changes)


def hostile():
    """Texts, names and numbers that a page must survive."""
    names = ["a / b", "<b>bold</b>", "\u05e9\u05dc\u05d5\u05dd", "x" * 300, "$x^2$"]
    task = TaskConfig(text_columns=["<i>", 'quo"te'], classes=names)
    report = classes(5)
    data = _data(task, 200)
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
    classification = _classification(names, 200)
    classification.expected_calibration_error = nan
    classification.calibration[0].accuracy = nan
    first, second = HOSTILE_TEXTS[:2]
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
            *_class_metrics(names),
        ],
        "classification": classification,
        "slices": [
            Slice(
                feature=text,
                value=text,
                rows=index,
                metrics={"accuracy": nan},
                champion={"accuracy": nan},
            )
            for index, text in enumerate(HOSTILE_TEXTS)
        ],
        "worst_rows": rows,
        "data": data.model_copy(
            update={"warnings": list(HOSTILE_TEXTS), "card": {"license": second}}
        ),
        "settings": {"name": second, "nan": nan},
    }
    return report.model_copy(update=changes)


def _metric(name, value, **others):
    low, high = max(value - 0.037, -1), min(value + 0.034, 1)
    others = {"majority": 0.5, **others}
    return Metric(name=name, value=value, interval=(low, high), **others)


def _class_metrics(names, champion=None):
    random = np.random.default_rng(0)
    metrics = []
    for name in names:
        for kind in ("precision", "recall", "f1"):
            value = float(random.uniform(0.55, 0.98))
            before = None if champion is None else value + champion
            metrics.append(
                _metric(f"{kind}/{name}", value, champion=before, majority=None)
            )
    return metrics


def _training(metric, seeds):
    random = np.random.default_rng(1)
    steps = np.arange(10, 153, 10)
    runs = []
    for seed in range(seeds):
        noise = random.normal(0, 0.015, len(steps))
        losses = 0.15 + 0.55 * np.exp(-steps / 50) + noise
        at = np.array([38, 76, 114, 152])
        scores = np.array([0.71, 0.88, 0.925, 0.92]) - 0.02 * seed
        evaluations = {
            metric: scores,
            "validation_loss": np.array([0.67, 0.35, 0.30, 0.31]) + 0.02 * seed,
            "f1": scores + 0.01,
            "matthews": scores - 0.1,
            "auc": scores + 0.03,
            "recall/equivalent": scores,
        }
        runs.append(
            SeedTraining(
                seed=seed,
                losses=_curve(steps, losses),
                evaluations={name: _curve(at, y) for name, y in evaluations.items()},
                steps=152,
                best_step=114,
                stopped="no better evaluation for 2 in a row" if seed == 1 else None,
            )
        )
    rates = np.minimum(steps / 15, (152 - steps) / 137) * 5e-5
    return Training(
        metric=metric,
        best_seed=0,
        seeds=runs,
        learning_rates=_curve(steps, np.maximum(rates, 0)),
        facts={
            "optimizer": "AdamW, weight decay 0.01",
            "precision": "bfloat16: 381 GFLOP/s, float32 176",
            "started from": "the pre-trained encoder",
        },
    )


def _curve(x, y):
    return Curve(x=np.asarray(x, float).tolist(), y=np.asarray(y, float).tolist())


def _classification(names, rows):
    random = np.random.default_rng(2)
    count = len(names)
    labels = random.integers(0, count, rows)
    wrong = (labels + random.integers(1, count, rows)) % count
    predictions = np.where(random.random(rows) < 0.85, labels, wrong)
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (labels, predictions), 1)
    confidences = random.beta(6, 1.2, rows)
    is_right = labels == predictions
    shown = names[1:] if count == 2 else names
    return Classification(
        confusion=confusion.tolist(),
        precision_recall=[
            _precision_recall(name, is_right * confidences + random.random(rows) / 2)
            for name in shown
        ],
        calibration=_calibration(confidences, is_right),
        expected_calibration_error=0.0413,
    )


def _precision_recall(name, scores):
    random = np.random.default_rng(len(name))
    is_positive = random.random(len(scores)) < scores / scores.max()
    hits = np.cumsum(is_positive[np.argsort(-scores)])
    precision = hits / np.arange(1, len(hits) + 1)
    recall = hits / hits[-1]
    return PrecisionRecall(
        class_name=name,
        curve=_curve(recall, precision),
        average_precision=float(np.mean(precision[is_positive])),
        positives=float(is_positive.mean()),
    )


def _calibration(confidences, is_right):
    bins = []
    for low in np.arange(10) / 10:
        chosen = (confidences > low) & (confidences <= low + 0.1)
        bins.append(
            CalibrationBin(
                low=float(low),
                high=float(low) + 0.1,
                rows=int(chosen.sum()),
                confidence=float(confidences[chosen].mean()) if chosen.any() else "nan",
                accuracy=float(is_right[chosen].mean()) if chosen.any() else "nan",
            )
        )
    return bins


def _slices(has_champion):
    values = {
        "pair_length": ("short", "medium", "long"),
        "word_overlap": ("low", "medium", "high"),
    }
    return [
        Slice(
            feature=feature,
            value=value,
            rows=30 + 17 * index,
            metrics={"accuracy": 0.96 - 0.03 * index, "f1": 0.95 - 0.04 * index},
            champion={"accuracy": 0.94 - 0.02 * index, "f1": 0.95 - 0.04 * index}
            if has_champion
            else {},
        )
        for feature, names in values.items()
        for index, value in enumerate(names)
    ]


def _worst_rows(task, count):
    random = np.random.default_rng(4)
    return [_worst_row(task, index, random) for index in range(count)]


def _worst_row(task, index, random):
    texts = [
        TEXTS[(index + column) % len(TEXTS)] for column in range(len(task.text_columns))
    ]
    if task.is_regression:
        label, prediction, probabilities = "4.2", f"{1 + index / 20:.3f}", {}
        loss = (4.2 - float(prediction)) ** 2
    else:
        names = task.classes
        shares = random.dirichlet(np.ones(len(names)) / 2)
        right = int(np.argsort(shares)[-2])
        label, prediction = names[right], names[int(shares.argmax())]
        probabilities = dict(zip(names, shares.tolist(), strict=True))
        loss = float(-np.log(shares[right]))
    words = [word for text in texts for word in [*text.lower().split(), "[SEP]"]]
    return PredictedRow(
        id=1400 + index,
        texts=texts,
        label=label,
        prediction=prediction,
        probabilities=probabilities,
        loss=loss,
        tokens=["[CLS]", *words],
        cut=index % 7 if index % 3 == 0 else 0,
    )


def _data(task, gate_rows):
    rows = {"train": 1200, "eval": 200, "test": gate_rows}
    splits = [_split(task, name, count) for name, count in rows.items()]
    return Data(
        splits=splits,
        anomalies=[],
        warnings=["train: 14 of 1,200 rows (1.2 %) repeat another row"],
        notes=["test: no value of `idx` is in train"],
        card={
            "source": "/srv/sample_data",
            "fingerprint": "ca15aaedf65e69d8d9c4b337476d0eb89333fe8af8454f91f391ba2b41",
            "license": "CC0-1.0",
            "files": ["train.tsv, eval.tsv, test.tsv: tsv: tab, no quoting"],
            "splits": {name: {"rows": count} for name, count in rows.items()},
        },
        max_seq_length=64,
    )


def _split(task, name, rows):
    random = np.random.default_rng(rows)
    if task.is_regression:
        labels = {"5%": 0.2, "50%": 2.6, "95%": 4.8}
    else:
        shares = random.dirichlet(np.full(len(task.classes), 20))
        labels = dict(zip(task.classes, np.round(shares * rows).tolist(), strict=True))
    counts, edges = np.histogram(random.normal(48, 9, rows), 24, (16, 88))
    columns = [
        _column(column, rows, "STRING", 101.3, 27, 214) for column in task.text_columns
    ]
    columns.append(_column(task.label_column, rows, "INT", 0.5, 0, 1))
    return Split(
        name=name,
        rows=rows,
        labels=labels,
        columns=columns,
        lengths=Lengths(
            edges=edges.tolist(),
            counts=counts.tolist(),
            cut_rows=int(counts[16:].sum()),
            cut_tokens=int(counts[16:].sum()) * 5,
        ),
    )


def _column(name, rows, kind, mean, minimum, maximum):
    tops = [(text, 3) for text in TEXTS[:3]] if kind == "STRING" else [("1", rows // 2)]
    return Column(
        name=name,
        kind=kind,
        missing=0,
        distinct=rows - 14 if kind == "STRING" else 2,
        mean=mean,
        minimum=minimum,
        maximum=maximum,
        top_values=tops,
    )


def _batch():
    random = np.random.default_rng(5)
    lengths = random.integers(30, 57, 32)
    position = np.arange(64)[None, :]
    mask = position < lengths[:, None]
    ids = np.where(mask, random.integers(1000, 30000, mask.shape), 0)
    segments = mask & (position >= lengths[:, None] // 2)
    return Batch(
        input_word_ids=ids.tolist(),
        input_mask=mask.astype(int).tolist(),
        input_type_ids=segments.astype(int).tolist(),
    )


def _components():
    seconds = {
        "ImportExampleGen": (2.1, True),
        "StatisticsGen": (6.4, True),
        "DataGate": (1.9, True),
        "Transform": (31.2, True),
        "Champion": (0.2, False),
        "Trainer": (92.7, False),
        "Evaluator": (21.4, False),
        "ServingCheck": (14.9, False),
        "AtomicPusher": (0.6, False),
    }
    return [
        ComponentTime(name=name, seconds=time, is_cached=is_cached)
        for name, (time, is_cached) in seconds.items()
    ]


def _lineage():
    def hash_of(digit):
        return (f"{digit}b726d42b956b286" * 4)[:64]

    libraries = {
        "tensorflow": "2.16.2",
        "tensorflow-text": "2.16.1",
        "tf-keras": "2.16.0",
        "tf-models-official": "2.16.0",
    }
    return [
        LineageStep(
            kind="data",
            name="sample_data",
            version=hash_of(1),
            uri="/srv/sample_data",
            details={"license": "CC0-1.0", "rows": "1,600"},
        ),
        LineageStep(kind="code", name="modules.training", version=hash_of(2)),
        LineageStep(kind="settings", name="sample", version=hash_of(3)),
        LineageStep(
            kind="encoder",
            name="all-MiniLM-L6-v2",
            version=hash_of(4),
            uri="package:embeddings/sentence-transformers__all-MiniLM-L6-v2",
            details={"layers": "6", "hidden size": "384"},
        ),
        LineageStep(
            kind="libraries", name="Python 3.11.7", version="3.11.7", details=libraries
        ),
        LineageStep(
            kind="model",
            name="1795571468258",
            version=hash_of(5),
            uri="/srv/output/sample/serving/sample/1795571468258",
            details={"checkpoint key": "870fdcb7003ea641", "best step": "114"},
        ),
    ]
